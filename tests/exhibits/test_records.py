"""Exhibits that look at single records, by hand: hard cases and confusion matrices of six nodes."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from private_graphs.report.results import Results
from private_graphs.running.store import Answers
from private_graphs.studies.lrec2022.confusion import confusion, pairs, shares
from private_graphs.studies.lrec2022.figures import hard_shares

LABELS = np.array([0, 0, 1, 1, 2, -1])
"""The last node has no label: it counts nowhere."""
PREDICTED = {  # (group, train_fraction, ε, seed): classes
    ("A", 1.0, math.inf, 0): [0, 1, 1, 0, 2, 0],  # hard: nodes 1 and 3
    ("A", 1.0, math.inf, 1): [1, 0, 1, 1, 2, 1],  # hard: node 0
    ("A", 0.1, math.inf, 0): [0, 1, 0, 1, 2, 1],  # wrong: 1 and 2
    ("A", 0.1, math.inf, 1): [0, 0, 0, 0, 2, 2],  # wrong: 2 and 3
    ("B", 1.0, 2.0, 0): [1, 1, 2, 2, 0, 0],  # wrong everywhere
    ("B", 1.0, 2.0, 7): [0, 0, 1, 1, 2, 0],  # a seed without hard cases
}


def row(group, fraction, epsilon, seed, **changes):
    """A run of SGD on the full graph."""
    values = {
        "source": "own", "study": "lrec2022", "group": group, "job": f"{fraction}/{epsilon}",
        "dataset": "tiny", "features": "raw", "protocol": "paper", "optimizer": "sgd", "splits": 1,
        "train_fraction": fraction, "epsilon": epsilon, "seed": seed, "selected": True,
        "replica_id": f"{group}{fraction}{epsilon}{seed}", "statement_id": "s",
    }  # fmt: skip
    return values | changes


@pytest.fixture
def results():
    """Six runs, each a job of its own order of replicas."""
    rows = pd.DataFrame([row(*key) for key in PREDICTED])
    answers = {}
    for job, group in rows.groupby(rows["study"] + "/" + rows["group"] + "/" + rows["job"]):
        group = group.iloc[::-1]  # replicas are found by name, not by place
        keys = zip(group["group"], group["train_fraction"], group["epsilon"], group["seed"],
                   strict=True)  # fmt: skip
        classes = np.array([PREDICTED[key] for key in keys])
        answers[job] = Answers(group["replica_id"].tolist(), classes, LABELS)
    study = SimpleNamespace(id="lrec2022", published={})
    return Results(study, "demo", rows, {}, (), answers.__getitem__)


def test_hard_cases_are_of_the_same_seed_and_stand_beside_the_error_of_the_run(results):
    found = hard_shares(results, "A").set_index(["train_fraction", "seed"])
    assert found["cases"].to_dict() == {(1, 0): 2, (1, 1): 1, (0.1, 0): 2, (0.1, 1): 1}
    assert found.loc[1.0, "kept"].tolist() == [100, 100]
    assert found.loc[1.0, "error"].tolist() == [40, 20]
    assert found.loc[(0.1, 0), ["kept", "error"]].tolist() == [50, 40]
    assert found.loc[(0.1, 1), ["kept", "error"]].tolist() == [0, 40]


def test_a_run_that_is_wrong_everywhere_keeps_every_hard_case(results):
    found = hard_shares(results, "B")
    assert found["seed"].tolist() == [0], "a seed without hard cases of its own takes no part"
    assert found[["kept", "error"]].to_numpy().tolist() == [[100, 100]]


def test_a_confusion_matrix_has_a_share_of_each_true_class():
    (matrix,) = confusion(np.array([PREDICTED["A", 1.0, math.inf, 0]]), LABELS, 4)
    expected = [[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0]]
    assert matrix[:3].tolist() == expected
    assert np.isnan(matrix[3]).all(), "no test node is of class 3"


def test_shares_are_means_over_the_seeds_and_pairs_leave_out_what_is_right(results):
    rows = results.rows
    part = results.with_rows(rows[(rows["group"] == "A") & (rows["train_fraction"] == 1)])
    frame = shares(part)
    mean = frame.set_index(["true", "predicted"])["share"]
    assert mean[0, 1] == 50 and mean[1, 0] == 25 and mean[2, 2] == 100
    assert pairs(frame)[:2] == ["0 → 1: 50 %", "1 → 0: 25 %"]
