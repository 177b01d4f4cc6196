"""Times of finished jobs: read from the results of runs on this machine, or from a CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from private_graphs.cost.work import Task
from private_graphs.errors import UserError
from private_graphs.files import WITHOUT_DP, atomic_path

TIMES_FILE = "times.csv"
_COLUMNS = [
    "dataset", "optimizer", "protocol", "visits", "n_splits", "train_fraction", "epsilon",
    "epochs", "max_epochs", "seconds", "dtype", "device", "noise_source",
]  # fmt: skip
_ROUNDING = 0.02
"""Share by which a job may seem shorter than the training in it."""


@dataclass(frozen=True)
class Finished:
    """One finished job and how long it took."""

    experiment: str
    task: Task
    training_seconds: float | None
    """Of one core; None where the time itself is secret (docs/privacy.md §0.2)."""
    job_seconds: float | None
    """From the start of the job to its end; None where no benchmark file tells."""


def read_results(results: str | Path) -> list[Finished]:
    """Return the finished jobs of all scales below ``results``."""
    scales = sorted(path.parent for path in Path(results).glob("*/runs"))
    return [job for scale in scales for job in read_scale(scale)]


def read_scale(scale: str | Path) -> list[Finished]:
    """Return the jobs below ``results/<scale>`` that ran on a CPU, of all studies.

    A job whose files cannot be read counts as not finished: an estimate must not stop a run.
    """
    found, runs = [], Path(scale) / "runs"
    for path in sorted(runs.glob("*/**/runs.parquet")):
        if path.parent.name == WITHOUT_DP:
            continue
        cell = path.parent.relative_to(runs).as_posix()
        try:
            found += _read_job(path, Path(scale, "benchmarks", "train", f"{cell}.tsv"))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _read_job(runs: Path, benchmark: Path) -> list[Finished]:
    import pyarrow.parquet  # a tenth of a second, and only where jobs have finished

    rows = []
    for path in (runs, runs.parent / WITHOUT_DP / runs.name):
        if path == runs or path.is_file():
            table = pyarrow.parquet.ParquetFile(path).read(columns=_COLUMNS, use_threads=False)
            rows += table.to_pylist()
    if not rows or any(row["device"] != "cpu" for row in rows):
        return []
    plan = json.loads((runs.parent / "plan.json").read_text(encoding="utf-8"))
    private = [row["epochs"] for row in rows if math.isfinite(row["epsilon"])]
    others = [row["epochs"] for row in rows if math.isinf(row["epsilon"])]
    first = rows[0]
    task = Task(
        dataset=first["dataset"],
        optimizer=first["optimizer"],
        protocol=first["protocol"],
        visits=first["visits"],
        splits=first["n_splits"],
        train_fraction=first["train_fraction"],
        hidden=int(plan["hidden"]),
        dtype=first["dtype"],
        max_epochs=first["max_epochs"],
        private_runs=len(private),
        private_epochs=sum(private),
        non_private_runs=len(others),
        non_private_epochs=sum(others),
        features=str(plan["cell"].get("features", "raw")),
    )
    seconds = [row["seconds"] for row in rows]
    secret = any(each is None or not math.isfinite(each) for each in seconds)
    unseeded = any(row["noise_source"] == "os_entropy" for row in rows)
    training = None if secret or unseeded else sum(seconds)
    return [
        Finished(
            experiment=str(plan["cell"]["experiment"]),
            task=task,
            training_seconds=training,
            job_seconds=None if unseeded else job_seconds(benchmark, training),
        )
    ]


def job_seconds(benchmark: Path, training: float | None) -> float | None:
    """Return the wall seconds of the last line of a benchmark file of Snakemake.

    None if it makes no sense beside the seconds of ``training`` in it.
    """
    try:
        rows = list(csv.DictReader(benchmark.open(encoding="utf-8"), delimiter="\t"))
        seconds = float(rows[-1]["s"])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
    if not math.isfinite(seconds) or seconds <= 0 or seconds < (training or 0) * (1 - _ROUNDING):
        return None  # left by another, shorter job
    return seconds


# --- CSV -------------------------------------------------------------------------------------

_TASK_TYPES: dict[str, Any] = {
    "dataset": str, "optimizer": str, "protocol": str, "visits": str, "splits": int,
    "train_fraction": float, "hidden": int, "dtype": str, "max_epochs": int, "private_runs": int,
    "private_epochs": int, "non_private_runs": int, "non_private_epochs": int, "features": str,
}  # fmt: skip


def write_times(jobs: Iterable[Finished], path: str | Path) -> None:
    """Write one line per job; secret times stay empty."""
    names = ["experiment", *_TASK_TYPES, "training_seconds", "job_seconds"]
    with atomic_path(path) as temporary:
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, names, lineterminator="\n")
            writer.writeheader()
            for job in sorted(jobs, key=_order):
                row = asdict(job.task) | {"experiment": job.experiment}
                row["train_fraction"] = f"{job.task.train_fraction:g}"
                for name in ("training_seconds", "job_seconds"):
                    value = None if job.training_seconds is None else getattr(job, name)
                    row[name] = "" if value is None else f"{value:.2f}"
                writer.writerow(row)


def _order(job: Finished) -> tuple:
    task = job.task
    return (
        job.experiment, task.dataset, task.optimizer, task.protocol, task.visits, task.splits,
        task.train_fraction,
    )  # fmt: skip


def read_times(path: str | Path) -> list[Finished]:
    """Read what ``write_times`` wrote; UserError names a line that is something else."""
    found = []
    with Path(path).open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream), start=2):
            try:
                row.setdefault("features", "raw")  # what times had before there were others
                values = {name: read(row[name]) for name, read in _TASK_TYPES.items()}
                times = [
                    float(row[name]) if row[name] else None
                    for name in ("training_seconds", "job_seconds")
                ]
                found.append(Finished(row["experiment"], Task(**values), *times))
            except (KeyError, TypeError, ValueError) as error:
                raise UserError(
                    f"{path}: line {number}: expected the times of one job, found {error}; "
                    "publish the run again"
                ) from None
    return found
