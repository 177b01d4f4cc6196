"""What the cells that earlier runs left mean for a run: seeds are kept, choices are followed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from private_graphs.cells import CellPlan, MethodPlan
from private_graphs.config import RunConfig, Study, TrainingExperiment
from private_graphs.grids import plans

PLAN_FILE = "plan.json"
"""Kept beside the files of every finished cell."""


Plan = TypeVar("Plan", CellPlan, MethodPlan)


def read_plan(path: Path, kind: type[Plan] = CellPlan) -> Plan | None:
    """Return the plan that a cell was trained with; None where there is none that can be read."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def widened(plan: Plan, earlier: Path) -> Plan:
    """Return ``plan`` with the seeds of ``earlier`` (a JSON file) added, if else they are alike.

    A run never takes finished seeds away; one that asks for some of them finds its cell finished.
    This is exact: a replica's draws do not depend on what trains beside it.
    """
    before = read_plan(earlier, type(plan))
    if before is None or before.model_copy(update={"seeds": plan.seeds}) != plan:
        return plan
    return before.model_copy(update={"seeds": tuple(sorted({*before.seeds, *plan.seeds}))})


def followers(
    study: Study, run: RunConfig, planned: Iterable[CellPlan], runs: Path
) -> list[CellPlan]:
    """Return plans of earlier cells whose learning rate is chosen in one that is ``planned``.

    ``planned`` are the plans of ``study`` for ``run``, ``runs`` the folder of its cells at that
    scale. Nobody asks for these cells. They take part, with the seeds that they have, because
    scores and statements would be of a choice that is no more once the cell of the choice is
    trained again; Snakemake trains them where that happens.
    """
    asked = {plan.cell for plan in planned}
    experiments = study.scales[run.scale].experiments.items()
    choosing = tuple(
        name
        for name, each in experiments
        if isinstance(each, TrainingExperiment) and each.rate_chosen_at is not None
    )
    if not asked or not choosing:
        return []
    datasets = tuple(sorted({cell.dataset for cell in asked}))
    wider = run.model_copy(update={"experiments": choosing, "datasets": datasets})
    found = []
    for plan in plans(study, wider):
        if plan.cell in asked or plan.chosen_in is None or plan.chosen_in.cell not in asked:
            continue
        before = read_plan(runs / plan.cell.cell_id / PLAN_FILE)
        if before is not None:
            found.append(plan.model_copy(update={"seeds": before.seeds}))
    return found


def outdated(runs: Path, planned: Collection[str]) -> list[CellPlan]:
    """Return plans of finished cells that are older than the cell that chose their learning rate.

    Only an interrupted run leaves such cells. ``runs`` is as for ``followers``; ``planned`` are
    the identifiers of the cells of the run, which sees to them itself.
    """
    found = []
    for path in sorted(runs.rglob(PLAN_FILE)):
        plan = read_plan(path)
        if plan is None or plan.chosen_in is None or plan.cell.cell_id in planned:
            continue
        search = runs / plan.chosen_in.cell.cell_id / "runs.parquet"
        own = path.with_name("runs.parquet")
        if search.is_file() and own.is_file() and search.stat().st_mtime > own.stat().st_mtime:
            found.append(plan)
    return found
