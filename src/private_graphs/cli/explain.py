"""``private-graphs explain``: the guarantee of a finished run in words, after file checks."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from private_graphs.cli.options import AsJson
from private_graphs.cli.release import PRIVATE, RELEASE
from private_graphs.cli.terminal import print_json
from private_graphs.errors import UserError, suggest

_ANEW = "take the folder anew from who made it"


def explain(
    run: Annotated[
        Path,
        typer.Argument(help="Folder of --out (of classify also its release) or of a job of a "
                       "study, or a statement.json."),
    ],
    statement: Annotated[
        str | None,
        typer.Option(help="Identifier of one statement; default: those of the selected runs.",
                     metavar="ID"),
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Explain in plain words what a finished run guarantees, to whom, and what it does not cover.

    Examples:

    private-graphs explain results/cora

    private-graphs explain results/cora/statement.json --statement 0123456789ab --json
    """
    from private_graphs.privacy.explain import brief
    from private_graphs.privacy.explain import explain as parts_of
    from private_graphs.privacy.statements import PrivacyStatement

    answers = []
    for runs, document in statements_of(run, statement):
        told = PrivacyStatement.model_validate(document)
        heading = f"Statement {told.statement_id} ({told.status.replace('_', ' ')})"
        title = ": ".join(filter(None, [heading, runs]))
        lines = [*textwrap.wrap(title, 80, max_lines=1, placeholder=" …"), *brief(told)]
        answers.append(({"belongs_to": runs, **parts_of(told)}, "\n".join(lines)))
    if as_json:
        print_json([parts for parts, _ in answers])
    else:
        typer.echo("\n\n".join(text for _, text in answers))


def statements_of(run: Path, wanted: str | None = None) -> list[tuple[str, dict[str, Any]]]:
    """Return (runs in words, statement) for every budget, in the order of the rows.

    ``run`` is the folder of a job, a ``statement.json``, or a folder that ``classify --out`` wrote
    (or its ``release``). If rows lie beside the statements, only those of selected rows are
    returned; ``wanted`` picks one by its identifier, selected or not. Statements of a study include
    their current audits. Raises UserError for missing files or an unknown identifier, for a row
    that contradicts its statement, and for a file that differs from its entry in ``manifest.json``.
    """
    from private_graphs.files import MANIFEST, check_manifest
    from private_graphs.report.statement import runs_of
    from private_graphs.report.store import read_statements, read_store, remedy

    for part in (RELEASE, PRIVATE):  # a run without DP has no release
        if (run / part / "statement.json").is_file() and not (run / "statement.json").is_file():
            run = run / part
            break
    file = run / "statement.json" if run.is_dir() else run
    if not file.is_file():
        raise UserError(
            f"{run}: expected a folder with statement.json (train or classify --out DIR writes "
            "one) or such a file; found neither"
        )
    rows = None
    if (file.parent / "runs.parquet").is_file() and file.name == "statement.json":
        with remedy(_ANEW):
            store = read_store(file.parent)
            rows, statements = store.rows, store.statements
        names = list(dict.fromkeys(rows.loc[rows["selected"], "statement_id"]))
        statements = _with_audits(file.parent, rows, statements)
    else:
        if run.is_dir() and not (run / MANIFEST).is_file():
            raise UserError(
                f"{run}: there is no {MANIFEST}, which is written last: the run was not finished, "
                "or files were taken away; run it again"
            )
        with remedy(_ANEW):
            check_manifest(file.parent)
        statements = read_statements(file)
        names = list(statements)
    if wanted is not None and wanted not in statements:
        raise UserError(
            f"{file}: no statement {wanted!r}; it holds {', '.join(statements)}"
            f"{suggest(wanted, statements)}"
        )
    return [
        ("" if rows is None else "; ".join(runs_of(rows[rows["statement_id"] == name])),
         statements[name])
        for name in ([wanted] if wanted else names)
    ]  # fmt: skip


def _with_audits(folder: Path, rows: Any, statements: dict[str, Any]) -> dict[str, Any]:
    """Return the statements of a study's job, with the audits among the rows of its scale."""
    import pandas as pd

    from private_graphs.report.audits import audited
    from private_graphs.report.store import readable, tidy

    for parent in folder.resolve().parents:
        path = parent.parent / "rows.parquet"
        if parent.name == "jobs" and path.is_file():
            with readable(path):
                others = pd.read_parquet(path)
            return audited(tidy([rows, others[others["source"] == "audit"]]), statements)
    return statements
