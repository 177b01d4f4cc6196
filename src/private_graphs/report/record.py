"""Recorded results: the rows, statements and predictions of a finished scale, kept small.

``record`` copies the finished jobs of ``results/<scale>`` to ``recorded/<study>/``:
``rows.parquet`` (tidy rows, audits among them; its metadata say how they were made),
``statements.json.gz``, ``predictions.safetensors`` (class of every test record, and its label),
``artifacts.safetensors`` (pictures and other arrays of jobs that no other job needs, if there are
any) and ``README.md``. What was recorded before and has not run again stays.
Equal results give equal bytes. ``read_recorded`` reads them back and holds the files against each
other.
"""

from __future__ import annotations

import json
import os
import platform
import zlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import safetensors
import safetensors.numpy

from private_graphs import __version__
from private_graphs.datasets.outline import sizes_of
from private_graphs.errors import UserError
from private_graphs.files import atomic_path, write_json, write_text
from private_graphs.jobs import JOB_FILE, finished_folders, read_job
from private_graphs.report.rows import (
    Answers,
    check_scores,
    check_statements,
    collect,
    read_rows,
    read_statements,
    read_statistics,
    readable,
    remedy,
    tidy,
)
from private_graphs.result import ARTIFACTS, CURVE, read_artifacts

ROWS, STATEMENTS, PREDICTIONS = "rows.parquet", "statements.json.gz", "predictions.safetensors"
_RECORDS, _LABELS = "test_records/", "test_labels/"
"""What the names of tensors of test records begin with; others have the name of a job."""
_MOST_CLASSES = 256
_MOST_BYTES = 2**30
_ABOUT = b"private_graphs"
"""Key of the metadata of ``rows.parquet``: how the results came about, and the datasets."""


@dataclass(frozen=True)
class Made:
    """How recorded results came about."""

    version: str
    date: str
    machine: str
    hours: float
    """Of all jobs together."""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """The recorded results of one study."""

    made: Made
    rows: pd.DataFrame
    """Tidy rows: runs, then audits (``source`` is audit), which have no statement."""
    statements: dict[str, dict[str, Any]]
    """Privacy statements by identifier."""
    statistics: list[dict[str, Any]]
    """Of the datasets."""
    predictions: dict[str, np.ndarray]
    """Of each job, ``<group>/<name>``: (R, M) uint8 classes of its R rows, in their order."""
    test_records: dict[str, np.ndarray]
    """Of each dataset (``records_of``), and seed where each draws its own: (M,) int64 numbers of
    the records that are predicted."""
    test_labels: dict[str, np.ndarray]
    """By the same names: (M,) int16 labels of these records."""
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Sizes of what runs were made with (``datasets.outline``), by ``data_fingerprint``."""
    artifacts: dict[str, np.ndarray] = field(default_factory=dict)
    """By ``<group>/<job>/<replica_id>/<name>``."""

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The rows that are no audits, with ``job`` as ``predictions`` names it."""
        rows = self.rows[self.rows["source"] != "audit"]
        return rows.assign(job=rows["group"] + "/" + rows["job"])

    @cached_property
    def _jobs(self) -> dict[str, pd.DataFrame]:
        """The runs of every job."""
        return dict(iter(self.runs.groupby("job")))

    def answers(self, job: str) -> Answers:
        """Return what the runs of ``<study>/<group>/<job>`` predict."""
        name = job.split("/", 1)[1]
        rows = self._jobs[name]
        labels = [self.test_labels.get(each) for each in dict.fromkeys(records_of(rows))]
        kept = labels[0]
        if len(labels) > 1:
            kept = np.stack([self.test_labels[each] for each in records_of(rows)])
        begin = f"{name}/"
        artifacts = {
            key.removeprefix(begin): array
            for key, array in self.artifacts.items()
            if key.startswith(begin)
        }
        return Answers(rows["replica_id"].tolist(), self.predictions[name], kept, artifacts)

    def check_scores(self, labels: Mapping[str, np.ndarray]) -> int:
        """Compute the test scores of every run from its predictions; return how many runs.

        ``labels`` are the (N,) labels of datasets by their names in ``test_records``, -1 where
        there is none; runs on other datasets are left out. Raises UserError where a row says
        otherwise.
        """
        checked = 0
        for job, rows in self._jobs.items():
            dataset = dataset_of(rows.iloc[0])
            if dataset in labels:
                records = [self.test_records[name] for name in records_of(rows)]
                truth = labels[dataset][np.stack(records)]
                try:
                    check_scores(rows, self.predictions[job], truth)
                except UserError as error:
                    raise UserError(f"{job} on {dataset}: {error}; record the job again") from None
                checked += len(rows)
        return checked

    def save(self, folder: str | Path) -> list[Path]:
        """Write the files; return their paths."""
        folder = Path(folder)
        about = {"made": asdict(self.made), "statistics": self.statistics,
                 "datasets": self.datasets}  # fmt: skip
        table = pyarrow.Table.from_pandas(self.rows, preserve_index=False)
        text = json.dumps(about, sort_keys=True, allow_nan=False)
        table = table.replace_schema_metadata({_ABOUT: text})
        with atomic_path(folder / ROWS) as temporary:
            pyarrow.parquet.write_table(table, temporary, compression="zstd", compression_level=19)
        write_json(folder / STATEMENTS, dict(sorted(self.statements.items())))
        tensors = {f"{_RECORDS}{name}": value for name, value in self.test_records.items()}
        tensors |= {f"{_LABELS}{name}": value for name, value in self.test_labels.items()}
        # one entry: the library writes several in an order that changes from run to run
        order = {"replica_ids": json.dumps(_order(self.runs), sort_keys=True)}
        with atomic_path(folder / PREDICTIONS) as temporary:
            tensors |= {name: packed(classes) for name, classes in self.predictions.items()}
            safetensors.numpy.save_file(tensors, temporary, metadata=order)
        (folder / ARTIFACTS).unlink(missing_ok=True)
        if self.artifacts:
            with atomic_path(folder / ARTIFACTS) as temporary:
                safetensors.numpy.save_file(dict(sorted(self.artifacts.items())), temporary)
        write_text(folder / "README.md", "\n".join([*_page(self), ""]))
        names = (ROWS, STATEMENTS, PREDICTIONS, "README.md", *([ARTIFACTS] * bool(self.artifacts)))
        return [folder / name for name in names]


def record(
    scale_folder: str | Path,
    target: str | Path,
    *,
    processed: str | Path = "data/processed",
    commands: Sequence[str] = (),
    day: str = "",
    machine: str = "",
) -> list[Path]:
    """Write ``target/<study>/`` of every study that has finished jobs; return the paths.

    Jobs that were recorded there before and are not among the finished ones stay.
    ``processed`` is the folder of the built datasets: where that of a row is there, its scores are
    computed from its predictions and compared. ``commands`` made the results; ``day`` and
    ``machine`` are by default today and this machine. Raises UserError where nothing is finished,
    a job lacks a file or contradicts itself, or its seeds are secret.
    """
    scale_folder, target = Path(scale_folder), Path(target)
    rows, statements = collect(scale_folder, Path(processed))
    if rows.empty:
        raise UserError(
            f"{scale_folder}: no finished job in jobs/; expected the results of a scale, such as "
            "results/full: run snakemake first"
        )
    _refuse_secret_seeds(rows)
    statistics = read_statistics(scale_folder)
    written = []
    for study, mine in rows.groupby("study", sort=True):
        mine = mine.assign(source=mine["source"].replace("own", "recorded")).reset_index(drop=True)
        hours = round(float(mine["seconds"].sum()) / 3600, 2)
        recorded = Recorded(
            Made(__version__, day or date.today().isoformat(), machine or machine_words(), hours,
                 tuple(commands)),
            mine,
            {name: statements[name] for name in sorted(set(mine["statement_id"].dropna()))},
            [each for each in statistics if each["name"] in set(mine["dataset"])],
            *_predictions(scale_folder / "jobs" / str(study), mine[mine["source"] != "audit"]),
            _datasets(statistics, Path(processed), set(mine["data_fingerprint"].dropna())),
            _artifacts(scale_folder / "jobs" / str(study), mine[mine["source"] != "audit"]),
        )  # fmt: skip
        if (target / str(study) / ROWS).is_file():
            recorded = _with_earlier(recorded, read_recorded(target / str(study)))
        written += recorded.save(target / str(study))
        read_recorded(target / str(study))
    return written


def _with_earlier(new: Recorded, earlier: Recorded) -> Recorded:
    """Return ``new`` with the jobs that ``earlier`` alone has, in one order.

    Raises UserError where the two know other test records of a dataset.
    """
    for name in set(new.test_records) & set(earlier.test_records):
        if not np.array_equal(new.test_records[name], earlier.test_records[name]):
            raise UserError(
                f"{name}: other test records than those of the jobs that were recorded before; "
                "record all jobs of it again, into an empty folder"
            )
    ran = set(new.rows["group"] + "/" + new.rows["job"])
    kept = earlier.rows[~(earlier.rows["group"] + "/" + earlier.rows["job"]).isin(ran)]
    rows = tidy([kept, new.rows])
    order = [rows["source"] == "audit", rows["group"] + "/" + rows["job"]]
    rows = rows.iloc[np.lexsort(order[::-1])].reset_index(drop=True)
    known = earlier.statements | new.statements
    used = set(rows["statement_id"].dropna())
    jobs = set(rows.loc[rows["source"] != "audit", "group"] + "/" + rows["job"])
    predictions = earlier.predictions | new.predictions
    graphs = {(each["name"], each.get("view") or ""): each
              for each in (*earlier.statistics, *new.statistics)}  # fmt: skip
    machines = dict.fromkeys((earlier.made.machine, new.made.machine))
    made = replace(
        new.made, machine="; ".join(machines),
        hours=round(float(rows["seconds"].sum()) / 3600, 2),
        commands=tuple(dict.fromkeys((*earlier.made.commands, *new.made.commands))),
    )  # fmt: skip
    return Recorded(
        made, rows,
        {name: known[name] for name in sorted(used)},
        [graphs[key] for key in sorted(graphs)],
        {name: value for name, value in sorted(predictions.items()) if name in jobs},
        earlier.test_records | new.test_records,
        earlier.test_labels | new.test_labels,
        {name: each for name, each in (earlier.datasets | new.datasets).items()
         if name in set(rows["data_fingerprint"])},
        {key: array for key, array in earlier.artifacts.items()
         if key.rsplit("/", 2)[0] not in ran} | new.artifacts,
    )  # fmt: skip


def read_recorded(folder: str | Path) -> Recorded:
    """Return what ``record`` wrote to ``recorded/<study>``.

    Raises UserError where a file is missing or damaged, a statement is not valid, a run has no
    statement, or the predictions are not those of the rows.
    """
    folder = Path(folder)
    with remedy("record again (private-graphs record results/full recorded)"):
        rows, statements = read_rows(folder / ROWS), read_statements(folder / STATEMENTS)
        with readable(folder / ROWS) as path:
            about = json.loads(pyarrow.parquet.read_metadata(path).metadata[_ABOUT])
            made = about["made"] | {"commands": tuple(about["made"]["commands"])}
        tensors, order = _tensors(folder / PREDICTIONS)
        records, labels = (
            {name.removeprefix(kind): value for name, value in tensors.items()
             if name.startswith(kind)}
            for kind in (_RECORDS, _LABELS)
        )  # fmt: skip
        with readable(folder / PREDICTIONS):
            predictions = {name: unpacked(value, len(order[name]))
                           for name, value in tensors.items() if name in order}  # fmt: skip
        recorded = Recorded(
            Made(**made), rows, statements, about["statistics"], predictions, records, labels,
            about.get("datasets", {}), read_artifacts(folder),
        )  # fmt: skip
        _check(folder, recorded, order)
    return recorded


def _check(folder: Path, recorded: Recorded, order: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError where the files of a recorded study do not belong together."""
    runs, statements = recorded.runs, recorded.statements
    alone = sorted(set(runs["statement_id"]) ^ set(statements))
    if alone:
        raise UserError(
            f"{folder / STATEMENTS}: {', '.join(alone[:3])} stand in it or in {ROWS} alone; "
            "expected one statement for every run, and no other"
        )
    check_statements(runs, statements)
    if order != _order(runs) or set(recorded.predictions) != set(order):
        raise UserError(f"{folder / PREDICTIONS}: expected the runs of {ROWS}, in their order")
    for job, group in recorded._jobs.items():
        classes = recorded.predictions[job]
        expected = (len(group), len(recorded.test_records[records_of(group.head(1))[0]]))
        if classes.shape != expected or classes.dtype != np.uint8:
            raise UserError(
                f"{folder / PREDICTIONS}: {job} is {classes.dtype} of shape {classes.shape}; "
                f"expected uint8 of shape {expected}"
            )


def dataset_of(row: Any) -> str:
    """Return the name of the labels of a row: they may differ between views of the raw files."""
    return row["dataset"] if pd.isna(row["view"]) else f"{row['dataset']}/{row['view']}"


def records_of(rows: pd.DataFrame) -> list[str]:
    """Return the names under which ``test_records`` holds those of each row of a job.

    Every seed has its own where it draws them; METIS has other ones than the dataset.
    """
    drawn, cut = (
        name in rows and rows[name].notna().any() for name in ("test_share", "metis_parts")
    )
    ending = "/seed {seed}" if drawn else "/METIS" if cut else ""
    return [
        dataset_of(row) + ending.format(seed=row["seed"])
        for row in rows[["dataset", "view", "seed"]].to_dict("records")
    ]


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


def _order(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Identifiers of the replicas of every job."""
    return {job: group["replica_id"].tolist() for job, group in runs.groupby("job")}


def _tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """Return the tensors of a file of predictions and its ``replica_ids``."""
    with readable(path), safetensors.safe_open(path, "numpy") as stored:
        order = json.loads(stored.metadata()["replica_ids"])
        return {name: stored.get_tensor(name) for name in stored.keys()}, order


def _predictions(
    folder: Path, runs: pd.DataFrame
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the predictions of all jobs, in the order of ``runs``, the records they are of, and
    the labels of these."""
    predictions, records, labels = {}, {}, {}
    for (group, job), rows in runs.groupby(["group", "job"]):
        path = folder / group / job / PREDICTIONS
        tensors, _ = _tensors(path)  # held against the rows by collect
        classes, names = tensors["predictions"], records_of(rows)
        if "test_labels" in tensors:
            whole = np.broadcast_to(tensors["test_labels"].astype(np.int16), classes.shape)
            labels |= zip(names, whole, strict=True)
        whole = np.broadcast_to(tensors["test_records"], classes.shape)
        for name, own in zip(names, whole, strict=True):
            if not np.array_equal(records.setdefault(name, own), own):
                raise UserError(
                    f"{path}: other test records than those of an earlier job on {name}; expected "
                    f"one set of them per dataset: delete {path.parent} and run the job again"
                )
        if classes.min(initial=0) < 0 or classes.max(initial=0) >= _MOST_CLASSES:
            raise UserError(
                f"{path}: classes {classes.min()} to {classes.max()}; expected 0 to "
                f"{_MOST_CLASSES - 1}, which one byte holds: such a dataset cannot be recorded"
            )
        predictions[f"{group}/{job}"] = classes.astype(np.uint8)
    return predictions, records, labels


def _artifacts(folder: Path, runs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the artifacts of jobs that no other job of the study needs, less learning curves and
    the parameters of models, which no exhibit reads."""
    plans = {name: read_job(path / JOB_FILE) for name, path in finished_folders(folder).items()}
    needed = {other for job in plans.values() if job for other in job.needs.values()}
    names = sorted(
        {f"{group}/{job}" for group, job in zip(runs["group"], runs["job"], strict=True)}
    )
    return {
        f"{name}/{key}": array
        for name in names
        if plans[name].id not in needed
        for key, array in read_artifacts(folder / name).items()
        if f"/{CURVE}" not in key and not key.endswith("/parameters")
    }


def _datasets(
    statistics: Sequence[dict[str, Any]], processed: Path, fingerprints: Set[str]
) -> dict[str, dict[str, Any]]:
    """Return the sizes of datasets, built or told in ``statistics``, by fingerprint."""
    built = [json.loads(path.read_bytes()) for path in sorted(processed.rglob("statistics.json"))]
    return {each["fingerprint"]: sizes_of(each) for each in (*statistics, *built)
            if each["fingerprint"] in fingerprints}  # fmt: skip


def _refuse_secret_seeds(rows: pd.DataFrame) -> None:
    secret = rows[rows["noise_source"].notna() & (rows["noise_source"] != "seeded")]
    if len(secret):
        raise UserError(
            f"{secret['job'].iloc[0]}: noise source {secret['noise_source'].iloc[0]}; expected "
            "seeded: nobody can repeat runs with secret seeds, and their rows without DP and their "
            "scores are private; record a scale without them"
        )


def machine_words() -> str:
    """Return processor and cores: ``Intel(R) Xeon(R) Processor, 2 cores``."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    cores = os.cpu_count() or 1
    return f"{' '.join(name.split())}, {cores} core{'' if cores == 1 else 's'}"


def _page(recorded: Recorded) -> Iterable[str]:
    """Return the lines of README.md."""
    runs, made = recorded.runs, recorded.made
    counts = runs.groupby(["dataset", "group"]).agg(jobs=("job", "nunique"), rows=("job", "size"))
    return [
        f"# Recorded results of {runs['study'].iloc[0]}",
        "",
        f"private-graphs {made.version}, {made.date}. Machine: {made.machine}. All jobs: "
        f"{made.hours:.2f} hours.",
        "",
        *(["```", *made.commands, "```", ""] if made.commands else []),
        "| dataset | run group | jobs | rows |",
        "|---|---|---:|---:|",
        *(
            f"| {name} | {group} | {row.jobs} | {row.rows} |"
            for (name, group), row in zip(counts.index, counts.itertuples(), strict=True)
        ),
        "",
        f"- `{ROWS}`: {len(runs)} runs and {len(recorded.rows) - len(runs)} audits, a row each.",
        f"- `{STATEMENTS}`: {len(recorded.statements)} privacy statements by identifier.",
        f"- `{PREDICTIONS}`: of each job the uint8 classes of its rows, in their order, as bytes "
        "of zlib; of each dataset the numbers and labels of its test records.",
        "",
        "Every run has a published seed: these files show what the code does on public data, and "
        "protect nobody. `private_graphs.report.record.read_recorded` reads them and checks that "
        "they belong together.",
    ]
