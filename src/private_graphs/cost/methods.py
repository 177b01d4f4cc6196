"""How long a job of a proved method takes: as long per run and node as jobs that have finished.

The graph nearest in size decides, of this machine's jobs before those of the reference machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from private_graphs.cells import MethodPlan
from private_graphs.cost.finished import job_seconds
from private_graphs.datasets.registry import dataset_spec
from private_graphs.errors import UserError
from private_graphs.files import write_json

REFERENCE_FILE = Path(__file__).with_name("methods.json")
_START = 3.0
"""Seconds that a job takes before its first run."""


@dataclass(frozen=True)
class MethodJob:
    """One finished job."""

    method: str
    setting: str
    nodes: int
    runs: int
    seconds: float
    """Of the whole job."""


def finished_jobs(results: str | Path) -> list[MethodJob]:
    """Return the finished jobs of proved methods of all scales below ``results``.

    A job whose files cannot be read counts as not finished: an estimate must not stop a run.
    """
    found = []
    paths = [
        (scale, path)
        for scale in sorted(Path(results).iterdir() if Path(results).is_dir() else [])
        for path in sorted((scale / "methods").rglob("plan.json"))
    ]
    for scale, path in paths:
        cell = path.parent.relative_to(scale / "methods")
        try:
            plan = MethodPlan.model_validate_json(path.read_bytes())
            spec = dataset_spec(plan.cell.dataset)
            nodes = spec.size_with(plan.cell.features).nodes
        except (OSError, ValidationError, UserError, KeyError):
            continue
        if spec.own is not None:
            continue  # how long private data take is nobody's estimate (docs/privacy.md §5)
        seconds = job_seconds(scale / "benchmarks" / "method" / f"{cell.as_posix()}.tsv", None)
        if seconds is not None:
            where = (plan.cell.method, plan.cell.setting, nodes)
            found.append(MethodJob(*where, plan.n_replicas, seconds))
    return found


def write_reference(jobs: Sequence[MethodJob]) -> None:
    """Replace the shipped jobs. Raises UserError where there is none."""
    if not jobs:
        raise UserError("no finished job of a proved method; expected a results folder with some")
    write_json(REFERENCE_FILE, [asdict(job) for job in jobs])


@cache
def _known(results: str) -> tuple[list[MethodJob], list[MethodJob]]:
    shipped = json.loads(REFERENCE_FILE.read_text(encoding="utf-8"))
    return finished_jobs(results), [MethodJob(**job) for job in shipped]


def method_seconds(plan: MethodPlan, results: str = "results") -> float:
    """Estimate the seconds that one core takes for all runs of a plan, job start included.

    A method that no finished job tells of is taken for the slowest of its setting.
    """
    nodes = dataset_spec(plan.cell.dataset).size_with(plan.cell.features).nodes
    place = (plan.cell.method, plan.cell.setting)
    for jobs in _known(results):
        mine = [job for job in jobs if (job.method, job.setting) == place]
        if mine:
            nearest = min(mine, key=lambda job: abs(math.log(job.nodes / nodes)))
            return _START + _per_node_and_run(nearest) * nodes * plan.n_replicas
    rates = [_per_node_and_run(job) for jobs in _known(results) for job in jobs]
    return _START + max(rates) * nodes * plan.n_replicas


def _per_node_and_run(job: MethodJob) -> float:
    return max(0.0, job.seconds - _START) / (job.nodes * job.runs)
