"""Finished jobs for tests: those that ship with the published results, and made-up ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from private_graphs.cost.__main__ import all_times
from private_graphs.cost.finished import Finished
from private_graphs.cost.model import CostModel


@pytest.fixture(scope="session")
def measured(root: Path) -> list[Finished]:
    """The jobs whose times were published with the results."""
    return all_times([root / "docs" / "results"])


@pytest.fixture(scope="session")
def hand_set() -> CostModel:
    """Where a fit starts that knows no job: a nanosecond per number, a second to start a job."""
    seconds = dict.fromkeys(("nonzero", "entry", "sgd", "adam", "draw"), 1e-9)
    seconds |= dict.fromkeys(("row", "word", "block"), 1e-8)
    return CostModel(seconds | {"visit": 1e-5, "job": 1.0}, {}, "by hand")


@pytest.fixture(scope="session")
def foreseen() -> Callable[[list[Finished], CostModel], float]:
    """Predicted over measured seconds of whole jobs together, early stopping foreseen as well."""

    def ratio(jobs: list[Finished], estimator: CostModel) -> float:
        known = [job for job in jobs if job.job_seconds is not None]
        predicted = 0.0
        for task in (job.task for job in known):
            each = min(task.max_epochs, estimator.epochs_of(task.kind))
            stopped = replace(task, non_private_epochs=task.non_private_runs * each)
            predicted += estimator.seconds_of(stopped)
        return predicted / sum(job.job_seconds for job in known)

    return ratio


def write_job(
    results: Path,
    name: str = "sgd/paper/s1/f1",
    *,
    epochs: dict[float, list[int]] | None = None,
    seconds: float | None = 1.0,
    wall: str | None = "9.5",
    **changes: object,
) -> Path:
    """Write what the estimate reads of one finished job; return its folder."""
    folder = results / "full/runs/study/table1" / name
    folder.mkdir(parents=True)
    row = {
        "dataset": "cora", "optimizer": "sgd", "protocol": "paper", "visits": "full_graph",
        "n_splits": 1, "train_fraction": 1.0, "max_epochs": 100, "seconds": seconds,
        "dtype": "float32", "device": "cpu", "noise_source": "seeded",
    } | changes  # fmt: skip
    runs = epochs or {2.0: [100, 100], math.inf: [40, 60]}
    rows = [
        row | {"epsilon": epsilon, "epochs": number}
        for epsilon, numbers in runs.items()
        for number in numbers
    ]
    frame = pd.DataFrame(rows)
    frame["seconds"] = frame["seconds"].astype("float64")
    frame.to_parquet(folder / "runs.parquet")
    (folder / "plan.json").write_text(
        json.dumps({"hidden": 32, "cell": {"experiment": "table1"}}), encoding="utf-8"
    )
    benchmark = results / "full/benchmarks/train/study/table1" / f"{name}.tsv"
    if wall is not None:
        benchmark.parent.mkdir(parents=True)
        benchmark.write_text(f"s\th:m:s\tmax_rss\n{wall}\t0:00:09\t300\n", encoding="utf-8")
    return folder


@pytest.fixture
def finished_job() -> Callable[..., Path]:
    """The function that writes a finished job."""
    return write_job
