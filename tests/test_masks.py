"""Masks that one seed draws for all runs of a job."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import random_graph

from private_graphs.core.files import write_json
from private_graphs.datasets.registry import build
from private_graphs.running.jobs import Job
from private_graphs.running.masks import masked
from private_graphs.running.run import execute
from private_graphs.running.study import Run, group_jobs, load_study
from private_graphs.site.record import read_recorded, record
from private_graphs.workflow.verify import finish

GRAPH = "synthetic-planetoid"
SHARES = {"test_share": 0.15, "validation_share": 0.1}


def of_seed(mask_seed: int | None) -> Job:
    return Job(study="s", group="g", name="n", dataset=GRAPH, method="class_sums", scenario="text",
               epsilons=(1.0,), mask_seed=mask_seed, **SHARES)  # fmt: skip


@pytest.mark.parametrize("n", [101, 2708])
@pytest.mark.parametrize("seed", [0, 12345])
def test_the_masks_of_a_seed_are_those_of_pytorch_geometric(n, seed):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data
    from torch_geometric.transforms import RandomNodeSplit

    torch.manual_seed(seed)
    theirs = RandomNodeSplit(num_val=0.1, num_test=0.15)(Data(y=torch.zeros(n), num_nodes=n))
    ours = masked(of_seed(seed), random_graph(nodes=n), seed=7)
    for name, mask in (("train", theirs.train_mask), ("validation", theirs.val_mask),
                       ("test", theirs.test_mask)):  # fmt: skip
        np.testing.assert_array_equal(getattr(ours, f"{name}_mask"), mask.numpy())


def test_every_draw_of_masks_is_a_job_of_its_own():
    jobs = group_jobs(load_study("lrec2022", "demo"), "newer_nodes", Run(scale="demo"))
    assert len({job.id for job in jobs}) == len(jobs) == 4
    assert {job.mask_seed for job in jobs} == {12345, 1}
    assert not any(job.masks_vary for job in jobs)
    with pytest.raises(ValueError, match="test_share"):
        Job.model_validate(of_seed(1).model_dump() | {"test_share": None})


def test_runs_of_a_draw_share_test_nodes_and_come_back_with_them(tmp_path):
    graph = build(GRAPH, tmp_path / "raw")
    graph.save(tmp_path / "processed" / GRAPH)
    write_json(tmp_path / "processed" / GRAPH / "statistics.json", graph.statistics())
    plan = group_jobs(load_study("lrec2022", "demo"), "newer_nodes", Run(scale="demo"))
    jobs = {job.mask_seed: job for job in plan if job.scenario == "text"}
    made = {seed: execute(job, graph) for seed, job in jobs.items()}
    for seed, job in jobs.items():
        made[seed].save(tmp_path / "full" / "jobs" / job.id)
        finish(tmp_path / "full" / "jobs" / job.id, job, ())
        expected = np.flatnonzero(masked(job, graph, seed=5).test_mask)
        np.testing.assert_array_equal(made[seed].test_records, expected)
    assert not np.array_equal(made[12345].test_records, made[1].test_records)
    record(tmp_path / "full", tmp_path, processed=tmp_path / "processed", commands=["x"],
           day="2026-01-02", machine="a machine")  # fmt: skip
    kept = read_recorded(tmp_path / "lrec2022")
    assert kept.check_scores(lambda row: graph.labels) == len(kept.runs)
    assert set(kept.rows["mask_seed"]) == {12345, 1}
