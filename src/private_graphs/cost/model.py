"""From work to seconds: a nonnegative coefficient per kind of work, fitted to finished jobs.

A few finished jobs say how fast the machine is; many say what each kind of work costs on it. So
the fit starts from the coefficients of the reference machine, times one factor for training and
one for the rest, and leaves them only where jobs pull them away.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from private_graphs.cells import CellPlan
from private_graphs.cost.finished import Finished, read_results
from private_graphs.cost.probe import probe_seconds
from private_graphs.cost.work import KINDS, OVERHEAD_KINDS, TRAINING_KINDS, count_work, task_of
from private_graphs.datasets.registry import DATASETS, dataset_spec
from private_graphs.errors import UserError
from private_graphs.files import write_json

REFERENCE_FILE = Path(__file__).with_name("reference.json")
_PULL = 0.3
"""Weight of a coefficient's distance from the start, against relative errors of jobs."""
_OUTLIER = 0.5
"""Relative error from which on a job counts less: the first one of a machine compiles, say."""
_UNLIKE = 3.0
"""Factor from the fit beyond which a time does not count towards the total."""
_ROUNDS = 8
_STOPPED = 0.98
"""Share of their epochs that the runs of a job take at most if some stopped early."""
_SHORTEST = 1e-3
"""Seconds below which a time says nothing."""


@dataclass(frozen=True)
class CostModel:
    """Seconds per unit of work of one core, and when non-private runs stop."""

    coefficients: Mapping[str, float]
    stopping_epochs: Mapping[str, float]
    """Epochs until a non-private run stops early, by ``Task.kind``; infinity: it does not."""
    source: str
    """Where the estimate comes from, to be printed with it."""

    def seconds(self, plan: CellPlan) -> float:
        """Estimate the seconds that one core takes for all runs of a plan, job start included."""
        task = task_of(plan)
        return self.seconds_of(task_of(plan, self.epochs_of(task.kind)))

    def seconds_of(self, task: Any, kinds: Sequence[str] = KINDS) -> float:
        """Seconds of the given kinds of work of a task."""
        work = count_work(task, dataset_spec(task.dataset).size_with(task.features))
        return sum(self.coefficients[kind] * work[kind] for kind in kinds)

    def epochs_of(self, kind: str) -> float:
        """Epochs after which a non-private run of this kind is expected to stop, if not before.

        Those of runs of the same kind, else the mean over protocols, else that over everything with
        the same optimizer, else infinity.
        """
        optimizer, _, extent = kind.split("/")
        known = [(each.split("/"), epochs) for each, epochs in self.stopping_epochs.items()]
        candidates = (
            [self.stopping_epochs[kind]] if kind in self.stopping_epochs else [],
            [epochs for each, epochs in known if each[0] == optimizer and each[2] == extent],
            [epochs for each, epochs in known if each[0] == optimizer],
            [math.inf],
        )
        found = next(each for each in candidates if each)
        return sum(found) / len(found)


@dataclass(frozen=True)
class Reference:
    """What ships with the project: a fitted model and the machine that it was fitted on."""

    model: CostModel
    machine: str
    probe: float
    """Seconds of ``probe_seconds`` there."""


def read_reference() -> Reference:
    """Return the shipped figures."""
    found = json.loads(REFERENCE_FILE.read_text(encoding="utf-8"))
    stopping = {kind: float(epochs or "inf") for kind, epochs in found["stopping_epochs"].items()}
    model = CostModel(found["coefficients"], stopping, "from a reference machine")
    return Reference(model, found["machine"], found["probe_seconds"])


def write_reference(model: CostModel, machine: str, probe: float) -> None:
    """Replace the shipped figures."""

    def rounded(values: Mapping[str, float]) -> dict[str, float]:
        return {name: float(f"{value:.4g}") for name, value in values.items()}

    write_json(
        REFERENCE_FILE,
        {
            "machine": machine,
            "probe_seconds": float(f"{probe:.4g}"),
            "coefficients": rounded(model.coefficients),
            "stopping_epochs": {
                kind: None if math.isinf(epochs) else round(epochs)
                for kind, epochs in sorted(model.stopping_epochs.items())
            },
        },
    )


@cache
def machine_model(results: str | Path = "results") -> CostModel:
    """Return the model of this machine: from its finished jobs, else from a probe."""
    reference = read_reference()
    jobs = [job for job in read_results(results) if _rows(job)]
    if jobs:
        number = f"{len(jobs)} finished job{'' if len(jobs) == 1 else 's'}"
        return fit(jobs, reference.model, source=f"from {number} on this machine")
    factor = probe_seconds() / reference.probe
    return CostModel(
        {kind: factor * value for kind, value in reference.model.coefficients.items()},
        reference.model.stopping_epochs,
        f"from figures of a reference machine, times {factor:.2g} by a short probe of this one",
    )


def fit(jobs: Iterable[Finished], start: CostModel, source: str = "") -> CostModel:
    """Fit coefficients and epoch shares to finished jobs, starting from those of another machine.

    Nonnegative least squares on relative errors. Training and what is around it are fitted apart
    wherever their times are known apart.
    """
    jobs = list(jobs)
    rows = [row for job in jobs for row in _rows(job)]
    if not rows:
        raise UserError("no finished job has a time; expected at least one: run a training job")
    scaled = dict(start.coefficients)
    for kinds in (TRAINING_KINDS, OVERHEAD_KINDS):
        factor = _factor(rows, kinds, start.coefficients)
        scaled |= {kind: factor * start.coefficients[kind] for kind in kinds}
    stopping = dict(start.stopping_epochs) | _stopping_epochs(jobs)
    fitted = _least_squares(rows, scaled)
    for kinds in (TRAINING_KINDS, OVERHEAD_KINDS):
        factor = _total_factor(rows, kinds, fitted)
        fitted |= {kind: factor * fitted[kind] for kind in kinds}
    return CostModel(fitted, stopping, source)


_Row = tuple[dict[str, float], float]
"""Amounts of work, and the seconds that they took together."""


def _rows(job: Finished) -> list[_Row]:
    """Times of a job with their work; none of users' own graphs, whose sizes are not known well."""
    if job.task.dataset not in DATASETS:
        return []
    size = DATASETS[job.task.dataset].size_with(job.task.features)
    work = count_work(job.task, size)
    training, whole = job.training_seconds, job.job_seconds
    parts: list[tuple[Sequence[str], float | None]] = [(KINDS, whole)]
    if training is not None:
        around = None if whole is None else whole - training
        parts = [(TRAINING_KINDS, training), (OVERHEAD_KINDS, around)]
    return [
        ({kind: work[kind] for kind in kinds}, seconds)
        for kinds, seconds in parts
        if seconds is not None and seconds > _SHORTEST
    ]


def _factor(rows: list[_Row], kinds: Sequence[str], coefficients: Mapping[str, float]) -> float:
    """Median of measured over predicted seconds where work is of these kinds alone; else all."""
    ratios = sorted(
        seconds / _predicted(work, coefficients) for work, seconds in _alone(rows, kinds) or rows
    )
    middle = len(ratios) // 2
    return ratios[middle] if len(ratios) % 2 else math.sqrt(ratios[middle - 1] * ratios[middle])


def _total_factor(
    rows: list[_Row], kinds: Sequence[str], coefficients: Mapping[str, float]
) -> float:
    """Measured over predicted seconds of all work of these kinds together, without odd jobs.

    Times have a long tail above, which relative errors and outliers that count less leave out of
    the fit; the time of many jobs has to hold it.
    """
    measured = predicted = 0.0
    for work, seconds in _alone(rows, kinds):
        expected = _predicted(work, coefficients)
        if expected / _UNLIKE < seconds < expected * _UNLIKE:
            measured += seconds
            predicted += expected
    return measured / predicted if predicted else 1.0


def _alone(rows: list[_Row], kinds: Sequence[str]) -> list[_Row]:
    return [row for row in rows if set(row[0]) == set(kinds)]


def _predicted(work: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    return sum(coefficients[kind] * amount for kind, amount in work.items())


def _least_squares(rows: list[_Row], start: Mapping[str, float]) -> dict[str, float]:
    import numpy as np
    from scipy.optimize import nnls

    design = np.array([[work.get(kind, 0.0) * start[kind] for kind in KINDS] for work, _ in rows])
    design /= np.array([seconds for _, seconds in rows])[:, None]
    pull = _PULL * np.eye(len(KINDS))
    weights = np.ones(len(rows))
    for _ in range(_ROUNDS):
        system = np.concatenate([design * weights[:, None], pull])
        times, _ = nnls(system, np.concatenate([weights, np.full(len(KINDS), _PULL)]))
        errors = np.abs(design @ times - 1)
        weights = np.sqrt(_OUTLIER / np.maximum(errors, _OUTLIER))
    return {kind: float(times[index] * start[kind]) for index, kind in enumerate(KINDS)}


def _stopping_epochs(jobs: Iterable[Finished]) -> dict[str, float]:
    """Mean epochs of runs by kind, of jobs in which some stopped; infinity where none ever did."""
    epochs, runs = defaultdict(float), defaultdict(int)
    kinds = set()
    for job in jobs:
        task = job.task
        if not task.non_private_runs:
            continue
        kinds.add(task.kind)
        if task.non_private_epochs < _STOPPED * task.non_private_runs * task.max_epochs:
            epochs[task.kind] += task.non_private_epochs
            runs[task.kind] += task.non_private_runs
    return {kind: epochs[kind] / runs[kind] if runs[kind] else math.inf for kind in kinds}


def duration_on(seconds: Iterable[float], cores: int) -> float:
    """Seconds until the last of these jobs ends, each started in turn on the next free core."""
    free = [0.0] * max(1, cores)
    for each in seconds:
        index = free.index(min(free))
        free[index] += each
    return max(free)
