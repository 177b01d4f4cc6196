"""Learning curves: of seeded runs on built-in data alone, kept by the run and shown on its page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_jobs import job_of, small_dataset
from small_shelves import shelf

from private_graphs.report.curves import learning_curves
from private_graphs.running.result import CURVE
from private_graphs.running.run import execute
from private_graphs.running.store import Answers

CASES = [
    ("gcn", "nodes", {"patience": 2, "splits": 1}), ("mlp", "links", {}), ("mlp_steps", "lists", {})
]  # fmt: skip


def curves_of(method, scenario, settings, dataset="cora", **how):
    """Rows and curves, by replica, of a small job."""
    protocol = "paper" if scenario == "lists" else "sound"
    job = job_of(method, scenario, protocol, dataset=dataset, settings=settings)
    found = execute(job, small_dataset(method), **how)
    return found.rows, {
        name.split("/")[0]: array for name, array in found.artifacts.items() if CURVE in name
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_curves_are_kept_of_seeded_runs_on_built_in_data_and_of_no_others(case):
    rows, kept = curves_of(*case)
    assert kept and set(kept) <= set(rows["replica_id"])
    for row in rows[rows["replica_id"].isin(kept)].to_dict("records"):
        curve = kept[row["replica_id"]]
        assert 1 < len(curve) <= row["epochs"] and np.isfinite(curve).all()
        if case[0] == "gcn":
            assert np.isclose(curve, row["validation_loss"], rtol=1e-5).any()
        elif row["validation_labels"] == row["validation_nodes"]:
            assert row["validation_micro_f1"] == pytest.approx(curve.max(), abs=1e-6)
    assert curves_of(*case, noise_source="os_entropy")[1] == {}
    assert curves_of(*case, dataset="my_graph")[1] == {}, "a graph of a user"


def with_curves(name):
    """A shelf whose runs kept curves of different lengths."""
    made = shelf(name)
    rows = made.results.rows.assign(validation_micro_f1=0.5)
    replicas = rows["replica_id"].tolist()
    kept = {
        f"{replica}/{CURVE}validation_loss": np.linspace(2, 1, 3 + place % 2)
        for place, replica in enumerate(replicas)
    }
    answers = Answers(replicas, np.zeros((len(replicas), 1)), None, kept)
    return replace(made, results=replace(made.results, rows=rows, answers=lambda job: answers))


def test_a_line_is_of_one_budget_and_a_run_that_stopped_keeps_its_last_value():
    (chart,) = learning_curves(with_curves("full").results, "gcn")
    assert set(chart.frame["protocol"]) == {"released", "paper", "sound"}
    last = chart.frame[(chart.frame["protocol"] == "sound") & (chart.frame["epsilon"] == 2)]
    assert last["epoch"].tolist() == [1, 2, 3, 4]
    assert last["mean"].iloc[-1] == 1 and last["mean"].iloc[2] == pytest.approx((1 + 4 / 3) / 2)
    assert [*learning_curves(shelf("full").results, "gcn")] == []
