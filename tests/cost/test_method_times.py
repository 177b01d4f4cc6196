"""Estimates for proved methods: from jobs of this machine, else from those that ship."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from private_graphs.cells import MethodCell, MethodPlan
from private_graphs.cost import methods
from private_graphs.cost.methods import MethodJob, finished_jobs, method_seconds
from private_graphs.errors import UserError
from private_graphs.files import write_text
from private_graphs.methods.names import METHOD_NAMES


def _plan(dataset: str = "cora", draws: int = 10, method: str = "class_sums") -> MethodPlan:
    cell = MethodCell(
        study="lrec2022", experiment="frontier", dataset=dataset, method=method, setting="text"
    )
    return MethodPlan(cell=cell, seeds=range(draws), epsilons=(1, 2))


def _finish(results: Path, plan: MethodPlan, seconds: str) -> None:
    cell = f"lrec2022/{plan.cell.cell_id}"
    write_text(results / "full" / "methods" / cell / "plan.json", plan.model_dump_json())
    benchmark = results / "full" / "benchmarks" / "method" / f"{cell}.tsv"
    write_text(benchmark, f"s\th:m:s\n{seconds}\t0:00:09\n")


def test_finished_jobs_are_read_and_broken_ones_are_not(tmp_path: Path) -> None:
    _finish(tmp_path, _plan(), "23.0")
    _finish(tmp_path, _plan("citeseer"), "-")
    broken = tmp_path / "full" / "methods" / "lrec2022" / "x" / "plan.json"
    write_text(broken, "{}")
    assert finished_jobs(tmp_path) == [MethodJob("class_sums", "text", 2708, 20, 23.0)]


def test_times_grow_with_runs_and_nodes_from_the_nearest_graph(tmp_path: Path) -> None:
    _finish(tmp_path, _plan(), "23.0")
    results = str(tmp_path)
    assert method_seconds(_plan(), results) == pytest.approx(23.0)
    assert method_seconds(_plan(draws=20), results) == pytest.approx(43.0)
    nodes = 19717 / 2708
    assert method_seconds(_plan("pubmed"), results) == pytest.approx(3 + 20 * nodes)


def test_every_method_of_a_study_has_a_shipped_time(root: Path) -> None:
    shipped = json.loads((root / "src/private_graphs/cost/methods.json").read_text())
    assert {job["method"] for job in shipped} <= set(METHOD_NAMES)
    assert 3 < method_seconds(_plan(), "no such folder") < 600


def test_nothing_is_shipped_without_a_finished_job(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no finished job"):
        methods.write_reference(finished_jobs(tmp_path))
