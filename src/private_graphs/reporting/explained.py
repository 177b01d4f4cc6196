"""Which privacy statements a finished run has, and which of its rows they belong to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from private_graphs.errors import UserError, suggest
from private_graphs.files import check_manifest
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.reporting.method_views import method_uses
from private_graphs.reporting.runs import collect, columns_of, read_statements

RELEASE, PRIVATE = "release", "private"
"""Folders of ``classify --out``: what may be shared, and what is for the owner of the data."""


@dataclass(frozen=True)
class StatementOfRun:
    """A statement and the rows it stands for, in words; empty where no run table lies beside it."""

    statement: PrivacyStatement
    belongs_to: str


def _described(rows: pd.DataFrame) -> str:
    """Say which runs the rows are."""
    if "setting" in rows:
        return "; ".join(method_uses(rows))
    first = rows.iloc[0]
    budget = "without DP" if math.isinf(first["epsilon"]) else f"epsilon {first['epsilon']:g}"
    parts = "the full graph" if first["n_splits"] == 1 else f"{first['n_splits']} parts"
    runs = "1 run" if len(rows) == 1 else f"{len(rows)} runs"
    return (
        f"{runs} of {first['method']} ({first['optimizer']}, {parts}) on {first['dataset']}, "
        f"protocol {first['protocol']}, {budget}"
    )


def statements_of(run: Path, wanted: str | None = None) -> list[StatementOfRun]:
    """Return the statements of a finished run, one for each budget, in the order of its rows.

    ``run`` is a folder with ``runs.parquet`` and ``statement.json``, of a training or a proved
    method, a ``statement.json``, or a folder that ``classify --out`` wrote (or its ``release``).
    With a run table of a training beside them, the statements of the selected rows; ``wanted``
    asks for one by its identifier, selected or not. Statements come with the audits that they have
    by now. Raises UserError where files or the identifier are missing, where a row is not what its
    statement is about, and where a file is not what the ``manifest.json`` beside it says.
    """
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
    rows = pd.DataFrame()
    if (file.parent / "runs.parquet").is_file() and file.name == "statement.json":
        columns = columns_of(file.parent)
        rows, found = collect([file.parent], columns)
        # A proved method releases every run; of trainings one learning rate is selected.
        if not wanted and "selected" in columns:
            rows = rows[rows["selected"].astype(bool)]
    else:
        found = read_statements(file)
    names = list(found) if rows.empty else list(dict.fromkeys(rows["statement_id"]))
    if wanted is not None:
        if wanted not in found:
            raise UserError(
                f"{file}: no statement {wanted!r}; it holds {', '.join(found)}"
                f"{suggest(wanted, found)}"
            )
        names = [wanted]
    if not names:
        raise UserError(f"{file}: holds no statement; train the run again")
    return [
        StatementOfRun(
            PrivacyStatement.model_validate(found[name]),
            "" if rows.empty else _described(rows[rows["statement_id"] == name]),
        )
        for name in names
    ]
