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

from private_graphs.core.errors import UserError
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


def test_an_edge_moves_one_release_by_one_in_units_of_its_noise_and_the_other_by_nothing(task):
    n, size, one = task.n_train, task.adjacency.shape[0], label_counts.STEPS_OF_ONE
    beliefs = np.random.default_rng(0).dirichlet(np.full(3, 0.2), size - n)
    beliefs[:4] = np.eye(3)[[0, 1, 2, 0]]
    before, heard = label_counts.label_counts(task), label_counts.messages(task, beliefs)
    scale = np.where(np.arange(size) < n, 2, 1)[:, None]
    moved = {}
    for i in range(size):
        for j in range(i % 3, i, 3):
            other = toggled(task, i, j)
            first = np.abs((label_counts.label_counts(other) - before) / scale).sum()
            second = np.abs(label_counts.messages(other, beliefs) - heard).sum()
            moved.setdefault((i < n, j < n), set()).add((float(first), int(second)))
    assert moved[True, True] == moved[False, True] == {(1.0, 0)}
    assert {first for first, _ in moved[False, False]} == {0.0}
    assert one - 3 < max(second for _, second in moved[False, False]) == one


def test_rows_that_are_no_probabilities_are_refused(task):
    asked = task.adjacency.shape[0] - task.n_train
    with pytest.raises(ValueError, match="exceeds 1"):
        label_counts.messages(task, np.full((asked, 3), 0.4))


def test_where_texts_alone_had_the_most_hits_no_count_is_read(task):
    n, draws = task.n_train, np.random.default_rng(6)
    probabilities = draws.dirichlet(np.full(3, 5.0), task.adjacency.shape[0])
    probabilities[np.arange(n), task.train_labels] += 0.2
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    noisy = draws.laplace(0, 3, probabilities.shape)
    reading = label_counts.read(task, probabilities, noisy)
    assert reading.name == "text" and np.array_equal(reading.beliefs, probabilities[n:])
    scores = label_counts.second(reading, noisy[:n], noisy[n:])
    assert np.array_equal(scores.argmax(axis=1), probabilities[n:].argmax(axis=1))


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
