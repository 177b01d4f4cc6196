"""Results on disk: rows, statements, predictions and artifacts of one or many jobs, as one value.

One function reads a folder of a single job or ``recorded/<study>`` and checks its files against
each other: rows against statements, the order of rows against that of predictions, and scores
against the predictions that they were computed from.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import safetensors.numpy
from pydantic import ValidationError

from private_graphs.core.bounded_files import parsed_json, read_bounded, unpacked_gzip
from private_graphs.core.errors import UserError
from private_graphs.core.files import atomic_path
from private_graphs.core.manifest import check_manifest
from private_graphs.methods import method_named
from private_graphs.privacy.statement_checks import check_row
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.running.job_files import read_artifacts
from private_graphs.running.jobs import FILES
from private_graphs.running.result import scores

ROWS, STATEMENTS, PREDICTIONS = "rows.parquet", "statements.json.gz", "predictions.safetensors"
ARTIFACTS = "artifacts.safetensors.gz"
"""Files of many jobs; a single job has ``jobs.FILES``, which other programs can read as well."""
RECORDS, LABELS = "test_records", "test_labels"
"""Tensors beside ``predictions`` in the file of a single job. The file of many jobs has
``test_records/<data>`` and ``test_labels/<data>`` (``records_of``) beside the packed predictions of
each ``<group>/<job>``."""
_MOST_BYTES = 2**30

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
"""Columns of every ``runs.parquet``, one row per replica; methods add what they measure.

``settings`` is a JSON object with sorted keys; ``epsilon`` is infinite without DP and 0 where
nothing private is read.
"""
AUDIT_COLUMNS: dict[str, str] = {
    **dict.fromkeys(("epsilon_lower", "epsilon_lower_gaussian", "one_run_epsilon_lower",
                     "confidence", "runs", "errors", "verdict_epsilon_lower",
                     "verdict_confidence", "n_classes"), NUMBER),
    **dict.fromkeys(("verdict", "design"), TEXT),
}  # fmt: skip
"""Further columns of an audit; its ``epsilon`` is the claim that it attacks."""
ROW_COLUMNS: dict[str, str] = {"source": TEXT, **RUN_COLUMNS, **AUDIT_COLUMNS}
"""Columns of tidy rows with their types. ``source``: own, recorded, published or in ``ATTACKS``."""
ATTACKS = ("audit", "leaks")
"""Sources of rows that are attacks, not runs: they have no statement and no predictions.
``report.leaks`` has the further columns of leaks."""

Labels = Callable[[Mapping[str, Any]], np.ndarray | None]
"""From a row to the (N,) labels of its dataset; None where they are not at hand."""


@dataclass(frozen=True)
class Answers:
    """Predictions of the runs of a job, and the labels of the test records."""

    replicas: Sequence[str]
    """``replica_id`` of its R runs."""
    classes: np.ndarray
    """(R, M)."""
    labels: np.ndarray | None
    """(M,), or (R, M) where every seed has its own test records; None where they were not kept."""
    artifacts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """``<replica_id>/<name>`` -> array, such as a picture."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """The results of one or many jobs of a study."""

    rows: pd.DataFrame
    """Runs, then ``ATTACKS``, which have no statement."""
    statements: dict[str, dict[str, Any]]
    """Privacy statements by identifier."""
    predictions: dict[str, np.ndarray]
    """Job (``<group>/<name>``) -> (R, M) predicted classes of its R rows, in their order."""
    test_records: dict[str, np.ndarray]
    """Dataset (``records_of``), with the seed where every seed draws its own -> (M,) int64 numbers
    of the predicted records."""
    test_labels: dict[str, np.ndarray] = field(default_factory=dict)
    """The same names -> (M,) labels of these records, where they were kept."""
    artifacts: dict[str, np.ndarray] = field(default_factory=dict)
    """``<group>/<job>/<replica_id>/<name>`` -> array."""

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The rows that are no attacks, with ``job`` as ``predictions`` names it."""
        rows = self.rows
        rows = rows[~rows["source"].isin(ATTACKS)] if "source" in rows else rows
        return rows.assign(job=rows["group"] + "/" + rows["job"])

    @cached_property
    def jobs(self) -> dict[str, pd.DataFrame]:
        """The runs of every job."""
        return dict(iter(self.runs.groupby("job")))

    @property
    def order(self) -> dict[str, list[str]]:
        """Identifiers of the replicas of every job."""
        return {job: rows["replica_id"].tolist() for job, rows in self.jobs.items()}

    def answers(self, job: str) -> Answers:
        """Return the predictions of the runs of ``<study>/<group>/<job>``."""
        name = job.split("/", 1)[1]
        rows = self.jobs[name]
        labels, begin = _of_job(rows, self.test_labels), f"{name}/"
        artifacts = {
            key.removeprefix(begin): array
            for key, array in self.artifacts.items()
            if key.startswith(begin)
        }
        return Answers(rows["replica_id"].tolist(), self.predictions[name], labels, artifacts)

    def check_scores(self, labels: Labels) -> int:
        """Compute the test scores of every run from its predictions; return how many runs.

        Runs on datasets without ``labels`` are left out. Raises UserError where a row says
        otherwise.
        """
        checked = 0
        for job, rows in self.jobs.items():
            truth = labels(rows.iloc[0].to_dict())
            if truth is not None:
                records = _of_job(rows, self.test_records)
                check_scores(rows, self.predictions[job], truth[records])
                checked += len(rows)
        return checked


def read_store(
    folder: Path,
    labels: Labels | None = None,
    needed: Collection[str] = (),
    artifacts: bool = False,
) -> Store:
    """Return the results in a folder of one job, or of a recorded study, after all checks.

    A folder without a manifest passes the check of hashes; a manifest must list the ``needed``
    files. ``artifacts`` are read on request. Raises UserError for a file that is missing or
    damaged, a statement that is not valid, a run without a statement, predictions of other runs,
    and, where ``labels`` are known, for scores that differ from those of the predictions.
    """
    check_manifest(folder, needed)
    rows, statements = (folder / name for name in _names(folder))
    store, order = read_unchecked(folder, read_statements(statements), artifacts)
    if order != store.order or set(store.predictions) != set(order):
        raise UserError(
            f"{folder / PREDICTIONS}: other runs than those of {rows}; expected these, in their "
            "order"
        )
    for job, runs in store.jobs.items():
        shape = store.predictions[job].shape
        expected = (len(runs), len(store.test_records.get(records_of(runs)[0], ())))
        if shape != expected:
            raise UserError(f"{folder / PREDICTIONS}: {job} has shape {shape}; expected {expected}")
    try:
        check_statements(store.runs, store.statements)
        if labels is not None:
            store.check_scores(labels)
    except UserError as error:
        raise UserError(f"{rows}: {error}") from None
    unused = sorted(set(store.statements) - set(store.runs["statement_id"]))
    if unused:
        raise UserError(
            f"{statements}: {', '.join(unused[:3])} belong to no run; expected one statement for "
            "every run, and no other"
        )
    return store


def _names(folder: Path) -> tuple[str, str]:
    """Return the file names of rows and statements, for a folder of many jobs or of one."""
    many_jobs = any((folder / name).is_file() for name in (ROWS, STATEMENTS))
    return (ROWS, STATEMENTS) if many_jobs else FILES[:2]


def read_unchecked(
    folder: Path, statements: dict[str, Any] | None = None, artifacts: bool = True
) -> tuple[Store, dict[str, list[str]]]:
    """Return the results in a folder, and the replicas that its file of predictions names."""
    file = _names(folder)[0]
    rows = read_rows(folder / file) if file == ROWS else read_frame(folder / file, RUN_COLUMNS)
    with readable(folder / PREDICTIONS) as path, safetensors.safe_open(path, "numpy") as stored:
        order = parsed_json(stored.metadata()["replica_ids"])
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}
        arrays: dict[str, np.ndarray] = {}
        if artifacts:
            arrays = _read_packed(folder) if file == ROWS else read_artifacts(folder)
        if file == ROWS:
            predictions = {job: unpacked(tensors[job], len(order[job])) for job in order}
            records, labels = (
                {name.removeprefix(f"{kind}/"): array for name, array in tensors.items()
                 if name.startswith(f"{kind}/")}
                for kind in (RECORDS, LABELS)
            )  # fmt: skip
        else:
            job, names = f"{rows['group'].iloc[0]}/{rows['job'].iloc[0]}", records_of(rows)
            order, predictions = {job: order}, {job: tensors["predictions"]}
            records, labels = ({} if kind not in tensors else _by_name(names, tensors[kind])
                               for kind in (RECORDS, LABELS))  # fmt: skip
            arrays = {f"{job}/{name}": array for name, array in arrays.items()}
    store = Store(
        rows=rows, statements=statements or {}, predictions=predictions, test_records=records,
        test_labels=labels, artifacts=arrays,
    )  # fmt: skip
    return store, order


def _read_packed(folder: Path) -> dict[str, np.ndarray]:
    """Return the artifacts of many jobs; none where they have none."""
    with readable(folder / ARTIFACTS) as path:
        if not path.is_file():
            return {}
        return safetensors.numpy.load(unpacked_gzip(read_bounded(path)))


def _of_job(rows: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the array for the R ``rows`` of a job, by ``records_of``: (M,), or (R, M) where every
    seed has its own; None where there is none."""
    names = records_of(rows)
    if names[0] not in arrays:
        return None
    return np.stack([arrays[name] for name in names]) if len(set(names)) > 1 else arrays[names[0]]


def _by_name(names: Sequence[str], values: np.ndarray) -> dict[str, np.ndarray]:
    """Return (M,) or (R, M) values of a job's R rows by ``records_of``."""
    return dict(zip(names, values if values.ndim == 2 else [values] * len(names), strict=True))


def dataset_of(row: Any) -> str:
    """Return the name of the labels of a row: they may differ between views of the raw files."""
    return row["dataset"] if pd.isna(row["view"]) else f"{row['dataset']}/{row['view']}"


def records_of(rows: pd.DataFrame) -> list[str]:
    """Return the names under which ``test_records`` holds those of each row of a job.

    Where every seed draws its own test records, the name has the seed; METIS's, and those of one
    draw for all seeds (``Job.mask_seed``), have a name too.
    """
    fixed, drawn, cut = (
        name in rows and rows[name].notna().any()
        for name in ("mask_seed", "test_share", "metis_parts")
    )
    named = f"/masks {rows['mask_seed'].iloc[0]:.0f}" if fixed else "/METIS" if cut else ""
    ending = "/seed {seed}" if drawn and not fixed else named
    columns = zip(rows["dataset"], rows["view"], rows["seed"], strict=True)
    return [dataset_of({"dataset": name, "view": view}) + ending.format(seed=seed)
            for name, view, seed in columns]  # fmt: skip


def packed(classes: np.ndarray) -> np.ndarray:
    """Return (R, M) uint8 classes as the bytes of ``PREDICTIONS``: few classes take few bits."""
    return np.frombuffer(zlib.compress(classes.tobytes(), 9), np.uint8)


def unpacked(data: np.ndarray, n_runs: int) -> np.ndarray:
    """Return the (n_runs, M) classes of ``packed`` bytes; ValueError for others."""
    if data.ndim != 1:
        raise ValueError("predictions that are not packed")
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(data.tobytes(), _MOST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not reader.eof:
        raise ValueError(f"predictions that end early, or of more than {_MOST_BYTES:,} bytes")
    return np.frombuffer(content, np.uint8).reshape(n_runs, -1)


def check_statements(rows: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise UserError for a row that has no statement or contradicts it."""
    known = {name: PrivacyStatement.model_validate(value) for name, value in statements.items()}
    rows = rows[[name for name in RUN_COLUMNS if name in rows]]  # statements repeat no other
    for row in rows.astype("object").where(rows.notna(), None).to_dict("records"):
        statement = known.get(row["statement_id"])
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
    """Raise UserError where the test scores in rows differ from those of the predictions.

    ``predictions`` (R, M) are classes in the order of ``rows``; ``truth`` (M,) or (R, M) labels, -1
    where there is none: such records count as class 0 where the protocol says so, else not at all.
    A run with fresh noise may withhold its scores: those of private records.
    """
    truth = np.broadcast_to(truth, predictions.shape)
    for row, predicted, target in zip(rows.to_dict("records"), predictions, truth, strict=True):
        protocol = method_named(row["method"]).protocols[row["protocol"]]
        labels = np.maximum(target, 0) if protocol.unlabelled == "class_zero" else target
        scored = labels >= 0
        for name, value in scores(labels[scored], predicted[scored].astype(np.int64)).items():
            withheld = row.get("noise_source") == "os_entropy" and np.isnan(row[f"test_{name}"])
            if not withheld and not np.isclose(row[f"test_{name}"], value, rtol=0, atol=1e-9):
                raise UserError(
                    f"{row['job']}: row {row['replica_id']} says test_{name} "
                    f"{row[f'test_{name}']:.6g}, its predictions score {value:.6g}"
                )


def read_statements(path: Path) -> dict[str, dict[str, Any]]:
    """Return the statements of a file by identifier.

    Raises UserError for one with a wrong field, or whose content does not give its identifier.
    """
    values = read_json(path)
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


def read_json(path: Path) -> Any:
    """Return the value in a JSON file, compressed or not; UserError for a damaged file."""
    with readable(path):
        data = read_bounded(path)
        return parsed_json(unpacked_gzip(data) if path.suffix == ".gz" else data)


@contextmanager
def readable(path: Path) -> Iterator[Path]:
    """Raise UserError with the name of the file for any error of a reader; OSError with it where
    the system does not let read, since such a file need not be damaged."""
    try:
        yield path
    except UserError:
        raise
    except (OSError, EOFError, ValueError, LookupError, TypeError, RecursionError,
            zlib.error, pyarrow.ArrowException, safetensors.SafetensorError) as error:  # fmt: skip
        if isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path}: not readable ({line})") from None


@contextmanager
def remedy(words: str) -> Iterator[None]:
    """Append ``words``, which say what to do, to the message of a UserError."""
    try:
        yield
    except UserError as error:
        error.args = (f"{error}; {words}",)
        raise


def tidy(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all frames with ``ROW_COLUMNS``, then what methods measure by name."""
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
    """Read what ``write_rows`` wrote; UserError for a file that is damaged or lacks columns."""
    return tidy([read_frame(path, ROW_COLUMNS)])


def recorded_rows(folder: Path) -> pd.DataFrame:
    """Return the rows of all recorded studies in ``folder``: none if it holds none."""
    return tidy([read_frame(path, ROW_COLUMNS) for path in sorted(folder.glob(f"*/{ROWS}"))])


def read_frame(path: Path, columns: Iterable[str]) -> pd.DataFrame:
    """Read rows; UserError for a file that is damaged or lacks ``columns``."""
    with readable(path):
        table = pyarrow.parquet.ParquetFile(path).read(use_threads=False)
        table.validate(full=True)  # pandas would find text that is no UTF-8 only where it is used
        rows = table.to_pandas()
    absent = [name for name in columns if name not in rows]
    if absent:
        raise UserError(f"{path}: no column {', '.join(absent)}; expected those of rows")
    return rows
