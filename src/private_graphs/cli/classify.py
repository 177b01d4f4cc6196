"""``private-graphs classify``: one private release of declared documents."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from private_graphs.cli.options import DATA, AsJson, DataFolder, Epsilon, checked_epsilon
from private_graphs.cli.terminal import json_text, report, say


def classify(
    name: Annotated[str, typer.Argument(help="Name of declared documents.")],
    method: Annotated[
        str | None,
        typer.Option(help="Default: word_sums for words, class_sums for texts that a model reads "
                     "and beside 200 public texts without a class.",
                     metavar="word_sums|class_sums|dp_linear"),
    ] = None,
    scenario: Annotated[
        Literal["text", "edges"],
        typer.Option(help="What is protected: documents, or the links between public ones."),
    ] = "text",
    epsilon: Epsilon = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"], typer.Option(help="Where a model reads texts.")
    ] = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be spent; use no private label, draw "
                           "nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite an earlier run in --out, or pay again where "
                           "one cannot be continued; what was spent stays spent.")
    ] = False,
    contact: Annotated[str, typer.Option(help="Whom the page of the release names.")] = "",
    data: DataFolder = DATA,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for release (model, statement, one page: may be given away) and "
                     "private (predictions of your documents: not to be given away).",
                     metavar="DIR"),
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Train one classifier with a proved guarantee; say whether private data were worth it.

    One private release of the documents that 'declare' names, within their budget. The ledger is
    written first; over the budget nothing is drawn, and the exit code is 3. Every call is a further
    release: fix the settings beforehand. Published graphs are trained on by 'train'.

    word_sums: one noisy sum of words for each class, weighed as these sums allow. class_sums: one
    noisy sum of rows for each class. dp_linear: noisy gradient steps; better where each class has
    thousands of documents of few distinct words.

    Example: private-graphs classify letters --epsilon 2 --out results
    """
    from private_graphs.documents import release

    result = release.classify(
        name, epsilon=checked_epsilon(epsilon, "give --epsilon: a number"), method=method,
        scenario=scenario, out=out, dry_run=dry_run, force=force, data=data, contact=contact,
        device=device, say=say, command="private-graphs classify",
    )  # fmt: skip
    done = f"the release in {out} is whole and paid for: there is nothing to repeat"

    def text() -> str:
        if as_json:
            return json_text(json.loads(json.dumps(dataclasses.asdict(result), default=str)))
        return "\n".join(result.lines())

    report(text, "nothing was spent" if result.plan else done)
