"""Class sums together with the known validation labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from proved_problems import make_problem, request, with_other_training

from private_graphs.methods import class_sums
from private_graphs.methods.class_sums import CLASS_SUMS
from private_graphs.methods.class_sums_public import CLASS_SUMS_PUBLIC, WEIGHTS, chosen_weight
from private_graphs.methods.public_only import PUBLIC_ONLY


@pytest.mark.parametrize("setting", ["text", "graph"])
def test_training_nodes_are_read_through_the_sum_alone(setting, monkeypatch):
    task = make_problem(setting)
    requests = [request(task, 1.0), request(task, math.inf), request(task, 2.0, known=0)]
    monkeypatch.setattr(
        class_sums, "class_sums", lambda task, text, rank, lattice: np.zeros((rank + 1, 3))
    )
    first = CLASS_SUMS_PUBLIC.run(task, requests)
    second = CLASS_SUMS_PUBLIC.run(with_other_training(task), requests)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.test_predictions, b.test_predictions)
        assert a.configuration == b.configuration


@pytest.mark.parametrize("setting", ["text", "graph"])
def test_the_release_is_that_of_the_class_sums(setting):
    task = make_problem(setting)
    requests = [request(task, e, known=k) for e in (1.0, math.inf) for k in (12, 0)]
    alone = CLASS_SUMS.run(task, requests)
    together = CLASS_SUMS_PUBLIC.run(task, requests)
    assert [each.events for each in together] == [each.events for each in alone]
    assert [each.validation_events for each in together] == [
        each.validation_events for each in alone
    ]
    for index in (1, 3):  # no known label: the class sums alone
        np.testing.assert_array_equal(
            together[index].test_predictions, alone[index].test_predictions
        )


def test_useless_sums_leave_what_public_data_gives(monkeypatch):
    task = make_problem("graph", n_tuning=60)
    monkeypatch.setattr(
        class_sums, "class_sums", lambda task, text, rank, lattice: np.zeros((rank + 1, 3))
    )
    (together,) = CLASS_SUMS_PUBLIC.run(task, [request(task, math.inf)])
    (public,) = PUBLIC_ONLY.run(task, [request(task, 0)])
    np.testing.assert_array_equal(together.test_predictions, public.test_predictions)


def test_the_weight_has_the_most_hits_then_comes_first():
    labels = np.array([0, 1, 0])
    good, bad = np.eye(2)[labels], np.eye(2)[1 - labels]
    assert chosen_weight(good, good, labels) == WEIGHTS[0]
    assert chosen_weight(good, bad, labels) == 2.0
    assert chosen_weight(3 * bad, good, labels) == 0.25
    assert chosen_weight(5 * bad, good, labels) == 0.0
