"""Finished runs: the run tables of all cells as one frame, with their privacy statements."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import ValidationError

from private_graphs.errors import UserError
from private_graphs.files import WITHOUT_DP
from private_graphs.privacy.statements import PrivacyStatement, check_row
from private_graphs.reporting.audited import audited, audits_beside

RUN_COLUMNS: tuple[str, ...] = (
    "replica_id", "statement_id", "selected", "study", "experiment", "protocol", "dataset",
    "features", "view", "method", "optimizer", "visits", "n_splits", "train_fraction", "lr",
    "epochs", "max_epochs",
    "epsilon", "noise_multiplier", "clip", "delta", "epsilon_published", "epsilon_proved", "unit",
    "relation", "inference", "seed", "test_micro_f1", "test_macro_f1", "test_accuracy",
    "validation_micro_f1", "validation_macro_f1", "validation_loss", "majority_micro_f1",
    "random_micro_f1", "seconds", "device", "dtype", "noise_source", "code_fingerprint",
    "data_fingerprint",
)  # fmt: skip
"""Columns of every ``runs.parquet``: one row per replica.

``view`` is the name of the view of the raw files (``datasets/views.py``), null where these leave no
choice.
"""

METHOD_COLUMNS: tuple[str, ...] = (
    "replica_id", "statement_id", "study", "experiment", "protocol", "dataset", "features", "view",
    "method", "setting", "fits_tuning_labels", "tuning_nodes", "tuning_labels", "configuration",
    "n_configurations", "epsilon", "delta", "epsilon_proved", "unit", "relation", "inference",
    "seed", "test_micro_f1", "test_macro_f1", "test_accuracy", "validation_micro_f1",
    "validation_macro_f1", "majority_micro_f1", "random_micro_f1", "seconds", "device",
    "noise_source", "code_fingerprint", "data_fingerprint",
)  # fmt: skip
"""Columns of the ``runs.parquet`` of a proved method: one row per draw of the noise.

``tuning_labels`` is how many of the ``tuning_nodes`` have public labels; ``epsilon`` is 0 where
nothing private is read, infinite without DP.
"""

_LATER_COLUMNS = ("view",)
"""Columns that finished cells of earlier versions lack; they are null there."""

_OPTIONAL = ("clip", "delta", "epsilon_published", "epsilon_proved", "seconds")
"""Numbers that are null where nothing applies; a column of nulls would else be of objects."""


def find_runs(
    scale_folder: Path, study: str, kind: Literal["runs", "methods"] = "runs"
) -> list[Path]:
    """Return the folders of all finished cells of ``study`` below ``results/<scale>``, sorted.

    ``kind`` is the folder that they lie in: trainings, or proved methods. A cell is finished when
    all its files are there; a job that was killed leaves fewer.
    """
    folders = [path.parent for path in (Path(scale_folder) / kind / study).rglob("runs.parquet")]
    return sorted(
        folder
        for folder in folders
        if folder.name != WITHOUT_DP and (folder / "statement.json").is_file()
    )


def columns_of(run_folder: Path) -> tuple[str, ...]:
    """Return the columns that the run table of a folder should have: of a method, or a training.

    Raises UserError for an unreadable run table.
    """
    return METHOD_COLUMNS if "setting" in _read(run_folder / "runs.parquet") else RUN_COLUMNS


def collect(
    run_folders: Iterable[Path], columns: Sequence[str] = RUN_COLUMNS
) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """Read the folders of finished cells into one frame and one dictionary of statements.

    The frame has ``columns`` (``RUN_COLUMNS`` of trainings, ``METHOD_COLUMNS`` of proved methods)
    and ``cell``, the folder that a row comes from; rows without DP may lie in a folder inside
    (``CellResult.save``). Where audits of the same claims lie beside the
    runs (``reporting/audited.py``), statements carry them; the files of the cells stay as they are.
    Raises UserError for an unreadable or incomplete folder, naming the file and what is missing,
    and for a row that is not what its statement is about.
    """
    frames: list[pd.DataFrame] = []
    statements: dict[str, dict[str, Any]] = {}
    known: dict[Path, list[dict[str, Any]]] = {}
    for folder in map(Path, run_folders):
        audits = audits_beside(folder, known)
        for place in (folder, folder / WITHOUT_DP):
            if place != folder and not place.is_dir():
                continue
            frame, found = _read_folder(place, columns)
            frames.append(frame.assign(cell=folder.as_posix()))
            statements.update(audited(frame, found, audits))
    if not frames:
        return pd.DataFrame(columns=[*columns, "cell"]), {}
    return pd.concat(frames, ignore_index=True), statements


def _read_folder(
    folder: Path, columns: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """Rows and statements of one folder, each row held against its statement."""
    found = read_statements(folder / "statement.json")
    frame = _read_runs(folder / "runs.parquet", columns)
    absent = sorted(set(frame["statement_id"]) - set(found))
    if absent:
        raise UserError(
            f"{folder / 'statement.json'}: no statement {', '.join(absent)}, which "
            f"runs.parquet refers to; delete {folder} and train the cell again"
        )
    for name, rows in frame.groupby("statement_id"):
        statement = PrivacyStatement.model_validate(found[name])
        for row in rows.to_dict("records"):
            try:
                check_row(row, statement)
            except UserError as error:
                raise UserError(f"{folder / 'runs.parquet'}: {error}") from None
    return frame, found


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: not a readable run table ({error}); delete {path.parent} and train the "
            "cell again"
        ) from error


def _read_runs(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    frame = _read(path)
    for name in set(_LATER_COLUMNS) - set(frame.columns):
        frame[name] = None
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise UserError(
            f"{path}: expected the columns of a run table, found none named "
            f"{', '.join(missing)}; delete {path.parent} and train the cell again"
        )
    optional = [name for name in _OPTIONAL if name in frame]
    frame = frame.assign(**{name: frame[name].astype("float64") for name in optional})
    view = frame["view"].astype("object")
    return frame.assign(view=view.where(view.notna(), None))


def read_statements(path: Path) -> dict[str, dict[str, Any]]:
    """Return the statements of a ``statement.json`` by identifier; UserError for a damaged one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: not a readable privacy statement ({error}); delete {path.parent} and train "
            "the cell again"
        ) from error
    if not isinstance(found, dict):
        raise UserError(
            f"{path}: expected an object from statement_id to statement; delete {path.parent} and "
            "train the cell again"
        )
    return {name: _checked(path, name, each) for name, each in found.items()}


def _checked(path: Path, name: str, value: Any) -> dict[str, Any]:
    """Return the statement if all its fields are right and its content gives its identifier."""
    try:
        statement = PrivacyStatement.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, (name, *first["loc"])))
        raise UserError(
            f"{path}: {key}: {first['msg']}; delete {path.parent} and train the cell again"
        ) from error
    if statement.statement_id != name:
        raise UserError(
            f"{path}: {name} holds the statement {statement.statement_id}; delete {path.parent} "
            "and train the cell again"
        )
    return statement.model_dump(mode="json")
