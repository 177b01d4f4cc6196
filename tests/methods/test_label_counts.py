"""Label counts: what one edge moves, the noise that hides it, and that it is the one priced."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from doors import one_lane
from scipy import stats
from small_graphs import random_graph
from small_tasks import request, run, task_of

from private_graphs.errors import UserError
from private_graphs.methods import label_counts
from private_graphs.privacy.accountants import price


@pytest.fixture(scope="module")
def task():
    return task_of(random_graph(3, nodes=60, unlabelled=4), "edges")


def toggled(task, i: int, j: int):
    """The neighbour in which the edge between i and j is there if it was not."""
    adjacency = task.adjacency.tolil()
    adjacency[i, j] = adjacency[j, i] = 1 - adjacency[i, j]
    return replace(task, adjacency=adjacency.tocsr())


def test_an_edge_moves_counts_by_one_in_units_of_their_noise_and_one_is_attained(task):
    n, size = task.n_train, task.adjacency.shape[0]
    before = label_counts.label_counts(task)
    scale = np.where(np.arange(size) < n, 2, 1)[:, None]
    moved = {}
    for i in range(size):
        for j in range(i):
            difference = label_counts.label_counts(toggled(task, i, j)) - before
            ends = i < n, j < n
            moved.setdefault(ends, set()).add(float(np.abs(difference / scale).sum()))
    assert moved == {(True, True): {1.0}, (False, True): {1.0}, (False, False): {0.0}}


def test_noise_is_the_discrete_laplace_of_the_price_and_of_twice_the_scale_in_training_rows(task):
    (event,) = run("label_counts", task, [request(task, 1.5)])[0].events
    assert event.sensitivity / event.scale <= 1.5
    assert 1.4999 < price(event, "edge_undirected", "add_remove", 1e-300).epsilon <= 1.5
    n_train, counts = 20_000, np.zeros((40_000, 2), np.int64)
    door = one_lane(event)
    (noisy,) = label_counts.noisy_counts(counts, n_train, door, [event])
    door.close()
    for rows, scale in ((noisy[n_train:], event.scale), (noisy[:n_train], 2 * event.scale)):
        assert stats.kstest(rows.ravel(), stats.laplace(scale=scale).cdf).pvalue > 1e-4


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 1.0, 7.3])
def test_the_scale_is_the_least_that_keeps_epsilon(epsilon):
    steps = label_counts.steps_of(epsilon)
    exact = Fraction(epsilon)
    assert Fraction(label_counts.STEPS_OF_ONE, steps) <= exact
    assert Fraction(label_counts.STEPS_OF_ONE, steps - 1) > exact


def test_an_epsilon_whose_noise_cannot_be_sampled_is_refused():
    with pytest.raises(UserError, match="epsilon is 1e-06"):
        label_counts.steps_of(1e-6)
