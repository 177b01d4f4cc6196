"""Tidy rows: finished jobs and audits as one frame with one schema.

Everything that is read is checked: files against the hashes of their manifest, rows against their
statements, scores against the predictions from which they were computed.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import safetensors
from pydantic import ValidationError

from private_graphs.errors import UserError
from private_graphs.files import MANIFEST, WITHOUT_DP, atomic_path, check_manifest
from private_graphs.jobs import AUDIT_FILE, FILES, JOB_FILE, Job, finished_folders
from private_graphs.methods import method_named
from private_graphs.privacy.statements import PrivacyStatement, check_row
from private_graphs.report.audits import audit_row
from private_graphs.report.words import missing
from private_graphs.result import read_artifacts
from private_graphs.training.metrics import scores

TEXT, NUMBER, COUNT, FLAG = "object", "float64", "Int64", "boolean"
RUN_COLUMNS: dict[str, str] = {
    **dict.fromkeys(("study", "group", "job", "dataset", "features", "view", "method", "scenario",
                     "protocol", "settings"), TEXT),
    **dict.fromkeys(("epsilon", "delta"), NUMBER),
    **dict.fromkeys(("seed", "validation_labels", "validation_nodes"), COUNT),
    "selected": FLAG, "n_configurations": COUNT,
    **dict.fromkeys(("noise_multiplier", "epsilon_claimed", "epsilon_proved"), NUMBER),
    **dict.fromkeys(("unit", "relation", "inference", "status", "statement_id", "replica_id",
                     "noise_source"), TEXT),
    **dict.fromkeys(("test_micro_f1", "test_macro_f1", "test_accuracy", "validation_micro_f1",
                     "validation_macro_f1", "majority_micro_f1", "random_micro_f1", "seconds"),
                    NUMBER),
    **dict.fromkeys(("device", "data_fingerprint", "code_fingerprint"), TEXT),
}  # fmt: skip
"""Columns of every ``runs.parquet``, one row per replica; methods add their measurements.

``settings`` is a JSON object with sorted keys; ``epsilon`` is infinite without DP and 0 if nothing
private is read.
"""
AUDIT_COLUMNS: dict[str, str] = {
    **dict.fromkeys(("epsilon_lower", "epsilon_lower_gaussian", "one_run_epsilon_lower",
                     "confidence", "runs", "errors", "verdict_epsilon_lower",
                     "verdict_confidence", "n_classes"), NUMBER),
    **dict.fromkeys(("verdict", "design"), TEXT),
}  # fmt: skip
"""Columns of an audit; its ``epsilon`` is the claim that it attacks."""
ROW_COLUMNS: dict[str, str] = {"source": TEXT, **RUN_COLUMNS, **AUDIT_COLUMNS}
"""Columns of tidy rows with their types. ``source``: own, recorded, published or audit."""

Labels = Callable[[Mapping[str, Any]], np.ndarray | None]
"""Callable: row → (N,) labels of its dataset, or None if the dataset is not built."""


@dataclass(frozen=True)
class Answers:
    """Predictions of a job's runs, and the labels of the test records."""

    replicas: Sequence[str]
    """``replica_id`` of its R runs."""
    classes: np.ndarray
    """(R, M) predicted classes."""
    labels: np.ndarray | None
    """(M,), or (R, M) if every seed has its own test records; None if they were not kept."""
    artifacts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Arrays by ``<replica_id>/<name>``, for example pictures."""


def answers_in(scale_folder: Path) -> Callable[[str], Answers]:
    """Return a function that reads the answers of a finished job, ``<study>/<group>/<job>``."""
    return lambda job: _read_answers(Path(scale_folder) / "jobs" / job)


def _read_answers(folder: Path) -> Answers:
    with (
        readable(folder / "predictions.safetensors") as path,
        safetensors.safe_open(path, "numpy") as stored,
    ):
        labels = stored.get_tensor("test_labels") if "test_labels" in stored.keys() else None
        order = json.loads(stored.metadata()["replica_ids"])
        return Answers(order, stored.get_tensor("predictions"), labels, read_artifacts(folder))


def tidy(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all frames: ``ROW_COLUMNS``, then methods' measurements by name."""
    frames = [frame for frame in frames if len(frame)]
    measured = sorted({name for frame in frames for name in frame} - set(ROW_COLUMNS))
    types = ROW_COLUMNS | {
        name: NUMBER
        if all(pd.api.types.is_numeric_dtype(frame[name]) for frame in frames if name in frame)
        else TEXT
        for name in measured
    }
    if not frames:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()})
    rows = pd.concat([frame.astype("object") for frame in frames], ignore_index=True)
    rows = rows.reindex(columns=list(types))
    return rows.where(rows.notna(), None).astype(types)


def write_rows(rows: pd.DataFrame, path: Path) -> None:
    """Write tidy rows as parquet; equal rows give equal bytes."""
    table = pyarrow.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    with atomic_path(path) as temporary:
        pyarrow.parquet.write_table(table, temporary, compression="zstd", compression_level=19)


def read_rows(path: Path) -> pd.DataFrame:
    """Read a file of ``write_rows``; UserError if it is damaged or lacks columns."""
    return tidy([_read_frame(path, ROW_COLUMNS)])


def _read_frame(path: Path, columns: Iterable[str]) -> pd.DataFrame:
    with readable(path):
        rows = pyarrow.parquet.ParquetFile(path).read(use_threads=False).to_pandas()
    absent = [name for name in columns if name not in rows]
    if absent:
        raise UserError(f"{path}: no column {', '.join(absent)}; expected those of rows")
    return rows


def with_settings(rows: pd.DataFrame) -> pd.DataFrame:
    """Return ``rows`` with a column for every setting.

    A setting whose name is already a column is called ``<name>_setting``: ``epochs`` is the trained
    number, ``epochs_setting`` the allowed maximum.
    """
    texts = rows["settings"].fillna("{}")
    values = {text: json.loads(text) for text in texts.unique()}
    names = sorted({name for settings in values.values() for name in settings})
    columns = {
        f"{name}_setting" if name in rows else name: pd.Series(
            [values[text].get(name) for text in texts], index=rows.index, dtype="object"
        ).infer_objects()
        for name in names
    }
    return pd.concat([rows, pd.DataFrame(columns, index=rows.index)], axis=1)


# --- finished jobs ----------------------------------------------------------------------------


def collect(
    scale_folder: Path, processed: Path | None = None, jobs: Collection[str] | None = None
) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """Read the finished jobs below a folder such as ``results/full``: tidy rows, and statements.

    ``jobs`` are the identifiers of the jobs to read, by default all. Runs (``source`` is own) come
    before audits. Statements are as written, without audits (``audits.audited``). With the folder
    of built datasets, ``data/processed``, scores are recomputed if the dataset is there.

    Raises:
        UserError: a file is damaged: which one, what is wrong, what to do.
    """
    runs, audits, statements = [], [], {}
    labels = labels_in(processed)
    for name, folder in finished_folders(Path(scale_folder) / "jobs").items():
        if jobs is not None and name not in jobs:
            continue
        with remedy(f"delete {folder} and run the job again"):
            rows, own, audit = read_job_folder(name, folder, labels)
        runs.append(rows.assign(source="own"))
        statements |= own
        audits += [audit] if audit else []
    return tidy([*runs, pd.DataFrame(audits)]), statements


def read_job_folder(
    name: str, folder: Path, labels: Labels
) -> tuple[pd.DataFrame, dict[str, dict[str, Any]], dict[str, Any] | None]:
    """Return rows, statements and audit of the finished job ``name`` after all checks.

    Raises:
        UserError: a file is damaged or belongs to another job, or rows differ from the plan.
    """
    with readable(folder / JOB_FILE) as path:
        job = Job.model_validate_json(path.read_text(encoding="utf-8"))
    if job.id != name:
        raise UserError(f"{path}: the plan of {job.id}; expected that of {name}")
    if job.attack is not None:
        check_manifest(folder, (JOB_FILE, AUDIT_FILE))
        return pd.DataFrame(), {}, audit_row(job, _read_json(folder / AUDIT_FILE))
    beside = folder / WITHOUT_DP
    parts = [read_runs(folder, labels, (JOB_FILE, *FILES))]
    if beside.is_dir():
        check_manifest(folder, (f"{WITHOUT_DP}/{MANIFEST}",))
        parts.append(read_runs(beside, labels, FILES))
    rows = pd.concat([part for part, _ in parts], ignore_index=True)
    _check_plan(folder, job, rows)
    return rows, {name: one for _, own in parts for name, one in own.items()}, None


def read_runs(
    folder: Path, labels: Labels = lambda row: None, needed: Collection[str] = ()
) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """Return rows and statements of a run's folder after all checks.

    A folder without a manifest passes the check of hashes; a manifest must list the ``needed``
    files.

    Raises:
        UserError: a file is damaged.
    """
    check_manifest(folder, needed)
    path = folder / "runs.parquet"
    rows = _read_frame(path, RUN_COLUMNS)
    statements = read_statements(folder / "statement.json")
    with readable(folder / "predictions.safetensors") as file:
        with safetensors.safe_open(file, "numpy") as stored:
            order = json.loads(stored.metadata()["replica_ids"])
            classes, records = (stored.get_tensor(name) for name in ("predictions", "test_records"))
    if order != rows["replica_id"].tolist() or classes.shape != (
        len(rows),
        records.shape[-1],
    ):
        raise UserError(f"{path}: other runs than those of {file.name}")
    try:
        check_statements(rows, statements)
        truth = labels(rows.iloc[0].to_dict())
        if truth is not None:
            check_scores(rows, classes, truth[records])
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return rows, statements


def check_statements(rows: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise UserError if a row has no statement, or contradicts it."""
    told = {name: PrivacyStatement.model_validate(value) for name, value in statements.items()}
    rows = rows[[name for name in RUN_COLUMNS if name in rows]]  # statements repeat no other column
    for row in rows.astype("object").where(rows.notna(), None).to_dict("records"):
        statement = told.get(row["statement_id"])
        if statement is None:
            raise UserError(
                f"row {row['replica_id']}: its statement {row['statement_id']} is not among those "
                "beside it"
            )
        check_row(row, statement)
        if row["status"] != statement.status:
            raise UserError(
                f"row {row['replica_id']}: status is {row['status']!r}, its statement "
                f"{statement.statement_id} says {statement.status!r}"
            )


def check_scores(rows: pd.DataFrame, predictions: np.ndarray, truth: np.ndarray) -> None:
    """Raise UserError if test scores are not those of the predictions.

    ``predictions`` (R, M) are classes in the order of ``rows``; ``truth`` (M,) or (R, M) labels, -1
    if there is none: such records count as class 0 if the protocol says so, else they are left out.
    """
    truth = np.broadcast_to(truth, predictions.shape)
    for row, predicted, own in zip(rows.to_dict("records"), predictions, truth, strict=True):
        protocol = method_named(row["method"]).protocols[row["protocol"]]
        labels = np.maximum(own, 0) if protocol.unlabelled == "class_zero" else own
        scored = labels >= 0
        for name, value in scores(labels[scored], predicted[scored].astype(np.int64)).items():
            if not np.isclose(row[f"test_{name}"], value, rtol=0, atol=1e-9):
                raise UserError(
                    f"row {row['replica_id']} says test_{name} {row[f'test_{name}']:.6g}, its "
                    f"predictions score {value:.6g}"
                )


def labels_in(processed: Path | None) -> Labels:
    """Return the labels of built datasets, only of those with which the rows were made."""

    @cache
    def read(folder: Path) -> tuple[str, np.ndarray] | None:
        for path in folder.glob("*.safetensors"):
            fingerprint = _read_json(folder / "statistics.json")["fingerprint"]
            with safetensors.safe_open(path, "numpy") as stored:
                return fingerprint, stored.get_tensor("labels")
        return None

    def labels(row: Mapping[str, Any]) -> np.ndarray | None:
        if processed is None:
            return None
        folder = Path(processed) / row["dataset"]
        if not missing(row["view"]):
            folder = folder / row["features"] / row["view"]
        fingerprint, values = read(folder) or (None, None)
        # under fresh noise a row has a keyed hash of its data, which cannot be compared
        told = row["noise_source"] == "os_entropy" or fingerprint == row["data_fingerprint"]
        return values if told else None

    return labels


def _check_plan(folder: Path, job: Job, rows: pd.DataFrame) -> None:
    plan = job.model_dump() | {"job": job.name}
    for name in ("study", "group", "job", "dataset", "method", "scenario", "protocol"):
        others = set(rows[name]) - {plan[name]}
        if others:
            raise UserError(
                f"{folder / 'runs.parquet'}: {name} is {', '.join(map(str, others))}; its "
                f"{JOB_FILE} says {plan[name]}"
            )
    if not rows["replica_id"].is_unique:
        raise UserError(f"{folder / 'runs.parquet'}: two rows of one run; expected each run once")
    if not method_named(job.method).reads_private:
        return  # public data with all labels: nothing is random, one seed
    budgets = {*job.epsilons, *(job.validation_epsilons if job.validation_labels else ())}
    made = set(zip(rows["epsilon"], rows["seed"], strict=True))
    if made - set(product(budgets, job.seeds)) or set(product(job.epsilons, job.seeds)) - made:
        raise UserError(
            f"{folder / 'runs.parquet'}: the budgets and seeds of its rows are not those of "
            f"{JOB_FILE}"
        )


def read_statements(path: Path) -> dict[str, dict[str, Any]]:
    """Return the statements of a file by identifier.

    Raises:
        UserError: a statement has a wrong field, or its content does not match its identifier.
    """
    values = _read_json(path)
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected an object from statement_id to statement")
    statements = {}
    for name, value in values.items():
        try:
            statement = PrivacyStatement.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, (name, *first["loc"])))
            raise UserError(f"{path}: {key}: {first['msg']}") from None
        if statement.statement_id != name:
            raise UserError(f"{path}: {name} holds the statement {statement.statement_id}")
        statements[name] = statement.model_dump(mode="json")
    return statements


def read_statistics(scale_folder: Path) -> list[dict[str, Any]]:
    """Return the sorted statistics of the datasets with which exhibits of a scale were made."""
    values = [_read_json(path) for path in (Path(scale_folder) / "datasets").glob("*.json")]
    return sorted(values, key=lambda value: (value["name"], value.get("view") or ""))


def _read_json(path: Path) -> Any:
    with readable(path):
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


@contextmanager
def readable(path: Path) -> Iterator[Path]:
    """Add the file's name to exceptions of readers."""
    try:
        yield path
    except UserError:
        raise
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error,
            pyarrow.ArrowException, safetensors.SafetensorError) as error:  # fmt: skip
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path}: not readable ({line})") from None


@contextmanager
def remedy(words: str) -> Iterator[None]:
    """Add a remedy to every UserError."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{error}; {words}") from None
