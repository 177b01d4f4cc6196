"""``private-graphs explain``: guarantees of finished runs in words, after file checks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from private_graphs.cli.options import AsJson
from private_graphs.cli.terminal import print_json, print_text


def explain(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders of --out (of classify also its release), of a job or of "
                       "recorded/STUDY, or a statement.json."),
    ],
    statement: Annotated[
        str | None,
        typer.Option(help="Identifier of one statement; default: those of the selected runs.",
                     metavar="ID"),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="With the formula of the proof, and all that is public "
                     "or not covered.")
    ] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Explain in plain words what finished runs guarantee, to whom, and what they do not cover.

    Of several folders it also says what all of them cost somebody who is in each.

    Examples:

    private-graphs explain results

    private-graphs explain january february --full

    private-graphs explain results/cora/statement.json --statement 0123456789ab --json
    """
    from private_graphs.core.files import shipped
    from private_graphs.privacy.explain import explain as parts_of
    from private_graphs.privacy.rounding import at_most
    from private_graphs.privacy.statements import PrivacyStatement
    from private_graphs.report.explained import explained

    report = explained([shipped(run) for run in runs], full, statement)
    if as_json:
        print_json(
            [
                {"belongs_to": words, **parts_of(PrivacyStatement.model_validate(document))}
                for words, document in zip(report.belongs_to, report.statements, strict=True)
            ]
        )
        return
    texts = list(report.texts)
    if len(runs) > 1 and report.links is not None:
        epsilon, delta = report.links
        guarantee = (
            "nothing is proved" if epsilon is None else f"ε = {at_most(epsilon)} at δ = {delta:g}"
        )
        texts.append(
            "All together, for a document that is in each: nothing is proved, as releases that "
            "protect links publish functions of texts and labels without noise.\n"
            f"All together, for a link whose documents are in each: {guarantee}"
        )
    elif len(runs) > 1:
        texts.append(
            "All together: nothing is proved (one proves nothing, or units differ)"
            if report.epsilon is None
            else f"All together, for somebody who is in each: ε = {at_most(report.epsilon)} at δ = "
            f"{report.delta:g}"
        )
    print_text("\n\n".join(texts))
