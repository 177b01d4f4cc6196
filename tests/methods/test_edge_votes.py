"""Edge votes: sensitivity, a graph by hand, edges read through the release only, the limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import random_graph
from small_tasks import task_of

from private_graphs.methods import edge_votes
from private_graphs.methods.edge_votes import Voters, messages
from private_graphs.methods.lattice import LatticeGaussian
from private_graphs.tasks.graph_task import GraphTask

FINE = LatticeGaussian(2.0**-40, 0, 1.0, 1)


def vote_sums(adjacency, voters, beliefs) -> np.ndarray:
    """(N, K) sums of messages on the finest lattice."""
    found = np.zeros(beliefs.shape)
    sums = edge_votes.vote_sums(adjacency, voters, beliefs[voters.asked], FINE)
    found[voters.asked] = sums * FINE.spacing
    return found


@pytest.fixture(scope="module")
def task() -> GraphTask:
    return task_of(random_graph(3, nodes=120, train=60), "edges")


def adjacency_of(n_nodes: int, pairs) -> scipy.sparse.csr_matrix:
    matrix = np.zeros((n_nodes, n_nodes))
    for i, j in pairs:
        matrix[i, j] = matrix[j, i] = 1
    return scipy.sparse.csr_matrix(matrix)


def draw_case(seed: int, n_nodes: int = 7, n_classes: int = 3, sharp: float = 3.0):
    rng = np.random.default_rng(seed)
    beliefs = rng.dirichlet(np.full(n_classes, 1 / sharp), n_nodes) + 1e-9
    beliefs /= beliefs.sum(axis=1, keepdims=True)
    asked = rng.random(n_nodes) < 0.6
    labels = rng.integers(n_classes, size=n_nodes)
    every = [(i, j) for i in range(n_nodes) for j in range(i + 1, n_nodes)]
    kept = [pair for pair in every if rng.random() < 0.4]
    return Voters(asked, labels), beliefs, every, kept


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6), which=st.integers(0, 20), sharp=st.sampled_from([0.5, 3.0, 30.0])
)
def test_one_edge_moves_the_sums_by_at_most_the_sensitivity(seed, which, sharp):
    voters, beliefs, every, kept = draw_case(seed, sharp=sharp)
    changed = set(kept) ^ {every[which]}
    before = vote_sums(adjacency_of(7, kept), voters, beliefs)
    after = vote_sums(adjacency_of(7, changed), voters, beliefs)
    assert np.linalg.norm(after - before) <= 1 + 1e-11


@pytest.mark.parametrize("both_asked", [True, False])
def test_the_sensitivity_is_attained(both_asked):
    beliefs = np.array([[0.5, 0.4, 0.1], [0.2, 0.3, 0.5]])
    voters = Voters(np.array([True, both_asked]), np.array([0, 1]))
    moved = vote_sums(adjacency_of(2, [(0, 1)]), voters, beliefs)
    assert np.linalg.norm(moved) == pytest.approx(1, abs=1e-11)
    assert moved[1].any() == both_asked


def test_four_nodes_by_hand():
    """Voter 0 of class 0; 1 and 2 undecided, 3 nearly sure of class 1; edges 01, 12, 23."""
    sure = np.array([0.01, 0.99])
    beliefs = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], sure])
    voters = Voters(np.array([False, True, True, True]), np.zeros(4, np.int64))
    found = vote_sums(adjacency_of(4, [(0, 1), (1, 2), (2, 3)]), voters, beliefs)
    half = math.sqrt(0.5)
    # 0 to 1: (.5, 0) - .5·.5 = (.25, -.25), alone on its edge: norm 1 after clipping at .05.
    # 1 and 2 tell each other (.25, .25) - .5·.5 = 0. 3 to 2: .5·sure - .25 = (-.245, .245).
    # 2 to 3: sure·.5 - sure·.5 = 0, so 3 to 2 has the norm 1 as well.
    np.testing.assert_allclose(found, [[0, 0], [half, -half], [-half, half], [0, 0]], atol=1e-11)


def test_small_messages_are_not_blown_up():
    sure = np.array([[1 - 1e-4, 1e-4]] * 2)
    voters = Voters(np.array([True, True]), np.zeros(2, np.int64))
    found = vote_sums(adjacency_of(2, [(0, 1)]), voters, sure)
    np.testing.assert_allclose(found, messages(sure, sure) / edge_votes.CLIP, atol=1e-11)
    assert np.linalg.norm(found) < 0.01


def test_asked_training_nodes_are_treated_as_test_nodes(task):
    voters = edge_votes.draw_voters(task, np.random.default_rng(0))
    n = task.n_train
    assert voters.asked[n:].all()
    assert voters.asked[:n].sum() == math.ceil(0.2 * n)
    assert not voters.labels[voters.asked].any()
    telling = np.flatnonzero(~voters.asked)
    np.testing.assert_array_equal(voters.labels[telling], task.train_labels[telling])
    linkless = replace(task, adjacency=0 * task.adjacency)
    linkless.adjacency.eliminate_zeros()
    same = edge_votes.draw_voters(linkless, np.random.default_rng(0))
    assert np.array_equal(same.asked, voters.asked), "no edge decides who is asked"


def test_the_numbers_of_both_messages_of_an_edge_are_rounded(task):
    lattice = edge_votes.calibrated(task, 1.0, 50)
    added = (lattice.sensitivity - 1) / lattice.spacing
    assert added == pytest.approx(math.sqrt(2 * task.n_classes), rel=1e-4)


def test_many_nodes_are_asked(task):
    """More than a narrow integer counts: the last voter's label is not lost among them."""
    n_asked = 70_000
    labels = np.r_[np.zeros(n_asked), 1].astype(task.train_labels.dtype)
    voters = Voters(np.arange(n_asked + 1) < n_asked, labels.astype(np.int16))
    query = edge_votes.VoteQuery.of(voters, np.full((n_asked, 2), 0.5), FINE)
    total = query.zeros()
    query.add(total, (np.array([n_asked - 1]), np.array([n_asked])))
    assert not total[:-1].any()
    np.testing.assert_allclose(total[-1] * FINE.spacing, [-(0.5**0.5), 0.5**0.5], atol=1e-11)
