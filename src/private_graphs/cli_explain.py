"""``private-graphs explain``: what a finished run promises, after a check of its files."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from private_graphs.cli_classify import PRIVATE, RELEASE
from private_graphs.cli_options import AsJson
from private_graphs.cli_terminal import print_json
from private_graphs.errors import UserError, suggest

if TYPE_CHECKING:
    import pandas as pd

    from private_graphs.privacy.statements import PrivacyStatement


@dataclass(frozen=True)
class StatementOfRun:
    """A statement and the rows that it stands for, in words; no words where no rows are beside."""

    statement: PrivacyStatement
    belongs_to: str


def explain(
    run: Annotated[
        Path,
        typer.Argument(help="Folder of --out (of classify also its release), or a statement.json."),
    ],
    statement: Annotated[
        str | None,
        typer.Option(help="Identifier of one statement; default: those of the selected runs.",
                     metavar="ID"),
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Say in plain words what a finished run promises, to whom, and what it does not cover.

    Examples:

    private-graphs explain results/cora

    private-graphs explain results/cora/statement.json --statement 0123456789ab --json
    """
    from private_graphs.privacy.explain import explain as parts_of
    from private_graphs.privacy.explain import paragraph

    statements = statements_of(run, statement)
    if as_json:
        print_json(
            [{"belongs_to": each.belongs_to, **parts_of(each.statement)} for each in statements]
        )
        return
    for number, each in enumerate(statements):
        status = each.statement.status.replace("_", " ")
        heading = f"Statement {each.statement.statement_id} ({status})"
        typer.echo(("\n" if number else "") + ": ".join(filter(None, [heading, each.belongs_to])))
        typer.echo(textwrap.fill(paragraph(each.statement), 88))


def statements_of(run: Path, wanted: str | None = None) -> list[StatementOfRun]:
    """Return the statements of a finished run, one for each budget, in the order of its rows.

    ``run`` is the folder of a job, a ``statement.json``, or a folder that ``classify --out`` wrote
    (or its ``release``). With rows beside them, the statements of those that are selected;
    ``wanted`` asks for one by its identifier, selected or not. Raises UserError where files or the
    identifier are missing, where a row is not what its statement is about, and where a file is not
    what the ``manifest.json`` beside it says.
    """
    from private_graphs.files import check_manifest

    for part in (RELEASE, PRIVATE):  # of a run without DP nothing may be released
        if (run / part / "statement.json").is_file() and not (run / "statement.json").is_file():
            run = run / part
            break
    file = run / "statement.json" if run.is_dir() else run
    if not file.is_file():
        raise UserError(
            f"{run}: expected a folder with statement.json (train or classify --out DIR writes "
            "one) or such a file; found neither"
        )
    check_manifest(file.parent)
    statements = read_statements(file)
    rows, names = None, list(statements)
    if (file.parent / "runs.parquet").is_file() and file.name == "statement.json":
        rows = _checked_rows(file.parent / "runs.parquet", statements)
        names = list(dict.fromkeys(rows.loc[rows["selected"], "statement_id"]))
    if wanted is not None:
        if wanted not in statements:
            raise UserError(
                f"{file}: no statement {wanted!r}; it holds {', '.join(statements)}"
                f"{suggest(wanted, statements)}"
            )
        names = [wanted]
    if not names:
        raise UserError(f"{file}: holds no statement; make the run again")
    return [
        StatementOfRun(
            statements[name],
            "" if rows is None else described(rows[rows["statement_id"] == name]),
        )
        for name in names
    ]


def read_statements(path: Path) -> dict[str, PrivacyStatement]:
    """Return the statements of a ``statement.json`` by identifier; UserError for a damaged one."""
    from pydantic import ValidationError

    from private_graphs.privacy.statements import PrivacyStatement

    try:
        values = dict(json.loads(path.read_text(encoding="utf-8")))
        statements = {
            name: PrivacyStatement.model_validate(value) for name, value in values.items()
        }
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        message = ": ".join(filter(None, [str(path), key, first["msg"]]))
        raise UserError(f"{message}; make the run again") from error
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path}: not readable ({error}); expected an object from statement_id to statement: "
            "make the run again"
        ) from error
    for name, statement in statements.items():
        if statement.statement_id != name:
            raise UserError(
                f"{path}: {name} holds the statement {statement.statement_id}; make the run again"
            )
    return statements


def _checked_rows(path: Path, statements: dict[str, PrivacyStatement]) -> pd.DataFrame:
    """Return the rows of ``runs.parquet``; UserError where one is not what its statement says."""
    import pandas as pd

    from private_graphs.privacy.statements import check_row

    try:
        rows = pd.read_parquet(path)
        for row in rows.to_dict("records"):
            check_row(row, statements[row["statement_id"]])
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"{path}: expected the rows of a finished run with their statements beside them; "
            f"found otherwise ({error}): make the run again"
        ) from error
    return rows


def described(rows: pd.DataFrame) -> str:
    """Say which runs ``rows``, all of one statement, are."""
    from private_graphs.report.statement import runs_of

    return "; ".join(runs_of(rows))
