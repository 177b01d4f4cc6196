"""Class sums together with the known validation labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_tasks import make_task, request, run

from private_graphs.methods import class_sums
from private_graphs.methods.class_sums_public import WEIGHTS, chosen_weight


@pytest.mark.parametrize("scenario", ["text", "graph"])
def test_the_release_is_that_of_the_class_sums(scenario):
    task = make_task(scenario)
    requests = [request(task, e, known=k) for e in (1.0, math.inf) for k in (12, 0)]
    alone = run("class_sums", task, requests)
    together = run("class_sums_public", task, requests)
    assert [each.events for each in together] == [each.events for each in alone]
    assert [each.validation_events for each in together] == [
        each.validation_events for each in alone
    ]
    for index in (1, 3):  # no known label: the class sums alone
        np.testing.assert_array_equal(
            together[index].test_predictions, alone[index].test_predictions
        )


def test_useless_sums_leave_what_public_data_gives(monkeypatch):
    task = make_task("graph", n_validation=60)
    monkeypatch.setattr(
        class_sums,
        "class_sums",
        lambda task, text, rank, lattice: np.zeros((rank + 1, 3), np.int64),
    )
    (together,) = run("class_sums_public", task, [request(task, math.inf)])
    (public,) = run("public_only", task, [request(task, 0)])
    np.testing.assert_array_equal(together.test_predictions, public.test_predictions)


def test_the_weight_has_the_most_hits_then_comes_first():
    labels = np.array([0, 1, 0])
    good, bad = np.eye(2)[labels], np.eye(2)[1 - labels]
    assert chosen_weight(good, good, labels) == WEIGHTS[0]
    assert chosen_weight(good, bad, labels) == 2.0
    assert chosen_weight(3 * bad, good, labels) == 0.25
    assert chosen_weight(5 * bad, good, labels) == 0.0
