"""About how long jobs take: as finished jobs did, else as recorded ones, else by a rough rule."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from private_graphs.datasets.registry import dataset_spec
from private_graphs.errors import UserError
from private_graphs.jobs import JOB_FILE, Job, read_job
from private_graphs.study import load_study

START_SECONDS = 1.0
"""Of every job: its process, the dataset, the price."""
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


def likeness(job: Job) -> list[tuple]:
    """Return what jobs may have in common, from everything to little."""
    kind = (job.method, job.scenario, job.attack is not None)
    settings = json.dumps(job.settings, sort_keys=True, default=str)
    place = (*kind, job.dataset, job.features)
    return [(*place, job.protocol, settings), place, kind]


class Costs:
    """Seconds of jobs, learned from finished ones."""

    def __init__(
        self,
        finished: Iterable[tuple[Job, float]] = (),
        recorded: Iterable[tuple[Job, float]] = (),
    ):
        """``finished`` are jobs with their seconds here, ``recorded`` with those elsewhere."""
        self._finished, here = _ratios(finished)
        self._recorded, there = _ratios(recorded)
        self._of_kind = there | here

    def seconds(self, job: Job) -> float:
        """Estimate the seconds of a job: the rough rule, corrected by the most alike jobs."""
        ratio = next((self._of_kind[k] for k in likeness(job) if k in self._of_kind), 1.0)
        return rough_seconds(job) * ratio

    @property
    def source(self) -> str:
        """Where estimates come from, in words."""
        places = {"finished job": ("on this machine", self._finished),
                  "recorded job": ("on another one", self._recorded)}  # fmt: skip
        known = [f"{counted(n, job)} {place}" for job, (place, n) in places.items() if n]
        if known:
            return f"from {' and '.join(known)}"
        return (
            "by a rough rule that knows sizes alone and may be wrong by a factor of ten, as "
            "nothing like it has finished here"
        )


def _ratios(timed: Iterable[tuple[Job, float]]) -> tuple[int, dict[tuple, float]]:
    """Return how many jobs have seconds, and by likeness the median ratio to the rough rule."""
    number, ratios = 0, defaultdict(list)
    for job, seconds in timed:
        number += 1
        for kind in likeness(job):
            ratios[kind].append(seconds / rough_seconds(job))
    return number, {kind: statistics.median(values) for kind, values in ratios.items()}


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
        means = rows.groupby(["group", "job"])["seconds"].mean()
        seconds = {f"{study}/{group}/{name}": mean for (group, name), mean in means.items()}
        for job in listed:
            if job.id in seconds and not job.attack:
                yield job, START_SECONDS + seconds[job.id] * job.n_replicas


def finished_times(results: Path) -> Iterator[tuple[Job, float]]:
    """Yield the finished jobs of all scales below ``results`` that have left their time.

    Jobs of secret randomness leave none. What cannot be read does not count: an estimate must not
    stop a run.
    """
    for path in sorted(results.glob(f"*/jobs/*/**/{JOB_FILE}")):
        scale = path.relative_to(results).parts[0]
        job = read_job(path)
        if job is None:
            continue
        try:
            lines = times_file(results / scale, job).read_text(encoding="utf-8").split()
            seconds = float(lines[-1])
        except (OSError, ValueError, IndexError):
            continue
        if 0 < seconds < float("inf"):
            yield job, seconds


def times_file(scale: Path, job: Job) -> Path:
    """Return where the seconds of a job are kept, below the folder of its scale."""
    return scale / "benchmarks" / f"{job.id}.tsv"


def duration_on(seconds: Iterable[float], cores: int) -> float:
    """Return how long jobs of these seconds take together: no shorter than the longest."""
    seconds = list(seconds)
    return max([sum(seconds) / cores, *seconds], default=0.0)


def counted(number: int, noun: str) -> str:
    """Return ``1 job``, ``2 jobs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return seconds in words: ``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
