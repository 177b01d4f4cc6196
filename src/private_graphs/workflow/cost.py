"""About how long jobs take: as recorded ones did, else by a rough rule.

The rule decides how the plan is cut into batches, so it looks at the plan and at what ships with
the project alone: every run cuts alike.
"""

from __future__ import annotations

import contextlib
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from private_graphs.core.errors import UserError
from private_graphs.datasets.registry import dataset_spec
from private_graphs.running.jobs import Job
from private_graphs.running.study import load_study

START_SECONDS = 1.0
"""Of every job: the dataset, the privacy statement, the files."""
_SECONDS_PER_STEP = 1e-9
"""Rough rule: of one epoch, per entry that it reads and hidden unit."""
_EPOCHS = 100
"""Rough rule: of a job whose settings name none."""
_TINY = 500
"""Rough rule: entries of the task of an audit."""


def rough_seconds(job: Job) -> float:
    """Return seconds by a rule that knows only sizes: it may be wrong by a factor of ten."""
    epochs = float(job.settings.get("epochs", _EPOCHS))
    hidden = float(job.settings.get("hidden", 32))
    runs, entries = job.n_replicas, _TINY
    if job.attack:
        runs = 2 * job.attack.runs
    else:
        with contextlib.suppress(UserError):  # a user's graph that is declared no more
            size = dataset_spec(job.dataset).size_with(job.features)
            entries = size.nonzeros + 2 * size.edges + size.nodes
    return START_SECONDS + runs * epochs * entries * hidden * _SECONDS_PER_STEP


def likeness(job: Job) -> list[tuple[Any, ...]]:
    """Return what jobs may have in common, from everything to little."""
    kind = (job.method, job.scenario, job.kind)
    settings = json.dumps(job.settings, sort_keys=True, default=str)
    key = (*kind, job.dataset, job.features)
    return [(*key, job.protocol, settings), key, kind]


class Costs:
    """Seconds of jobs, learned from recorded ones."""

    def __init__(self, recorded: Iterable[tuple[Job, float]] = ()):
        """``recorded`` are jobs with the seconds that they took on another machine."""
        ratios = defaultdict(list)
        for job, seconds in recorded:
            for kind in likeness(job):
                ratios[kind].append(seconds / rough_seconds(job))
        self._of_kind = {kind: statistics.median(values) for kind, values in ratios.items()}

    def seconds(self, job: Job) -> float:
        """Estimate the seconds of a job: the rough rule, corrected by the most alike jobs."""
        ratio = next((self._of_kind[k] for k in likeness(job) if k in self._of_kind), 1.0)
        return rough_seconds(job) * ratio

    @property
    def source(self) -> str:
        """Where estimates come from, in words."""
        return "as recorded" if self._of_kind else "by a rule that may be wrong by a factor of ten"


def recorded_times(jobs: Iterable[Job], recorded: Path, scale: str) -> Iterator[tuple[Job, float]]:
    """Yield those of ``jobs`` that are recorded, with the seconds that as many runs took.

    ``scale`` is theirs: jobs of another scale than the recorded one have the same names.
    """
    import pandas as pd

    of_study = defaultdict(list)
    for job in jobs:
        of_study[job.study].append(job)
    for study, listed in of_study.items():
        path = recorded / study / "rows.parquet"
        if not path.is_file() or load_study(study).recorded_scale != scale:
            continue
        rows = pd.read_parquet(path, columns=["group", "job", "seconds"]).dropna()
        times = rows.groupby(["group", "job"])["seconds"].agg(["mean", "sum"])
        times.index = [f"{study}/{group}/{name}" for group, name in times.index]
        for job in listed:
            if job.id in times.index and not job.attack:
                mean, total = times.loc[job.id]  # the rows of a leak share its time
                yield job, START_SECONDS + (total if job.leaks else mean * job.n_replicas)


def duration_on(seconds: Iterable[float], cores: int) -> float:
    """Return how long jobs of these seconds take together: no shorter than the longest."""
    seconds = list(seconds)
    return max([sum(seconds) / cores, *seconds], default=0.0)
