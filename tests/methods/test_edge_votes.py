"""Edge votes: sensitivity, a graph by hand, edges read through the release only, the limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from doors import one_lane
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import random_graph
from small_tasks import run, task_of

from private_graphs.methods import edge_votes
from private_graphs.methods.edge_votes import Voters, messages
from private_graphs.methods.lattice import LatticeGaussian
from private_graphs.methods.method import Request
from private_graphs.tasks import GraphTask
from private_graphs.training.streams import Streams

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


def request(epsilon: float, seed: int = 0, known: int = 5) -> Request:
    return Request(epsilon, seed, np.arange(known), Streams.of({"e": str(epsilon), "s": seed}))


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


def test_an_edge_between_two_voters_is_never_read():
    voters = Voters(np.array([False, False, True]), np.array([0, 1, 0]))
    beliefs = np.full((3, 2), 0.5)
    with_edge = vote_sums(adjacency_of(3, [(0, 1), (1, 2)]), voters, beliefs)
    without = vote_sums(adjacency_of(3, [(1, 2)]), voters, beliefs)
    np.testing.assert_array_equal(with_edge, without)


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


def test_message_is_the_derivative_of_the_updated_beliefs():
    rng = np.random.default_rng(0)
    q, p = rng.dirichlet(np.ones(4), 5), rng.dirichlet(np.ones(4), 5)
    step = 1e-6

    def updated(t):
        raised = q * (1 + t * p)
        return raised / raised.sum(axis=1, keepdims=True)

    numeric = (updated(step) - updated(-step)) / (2 * step)
    np.testing.assert_allclose(messages(q, p), numeric, atol=1e-9)


def test_asked_training_nodes_are_treated_as_test_nodes(task):
    voters = edge_votes.draw_voters(task, np.random.default_rng(0))
    n = task.n_train
    assert voters.asked[n:].all()
    assert voters.asked[:n].sum() == math.ceil(0.2 * n)
    assert not voters.labels[voters.asked].any()
    telling = np.flatnonzero(~voters.asked)
    np.testing.assert_array_equal(voters.labels[telling], task.train_labels[telling])


def test_edges_are_read_through_the_release_alone(task, monkeypatch):
    def constant(adjacency, voters, beliefs, lattice, door, query):
        door.gaussian(np.zeros((1, 1), np.int64), [query])
        return np.tile(np.arange(beliefs.shape[1]), (len(beliefs), 1)) / 7

    monkeypatch.setattr(edge_votes, "release", constant)
    empty = replace(task, adjacency=scipy.sparse.csr_matrix(task.adjacency.shape))
    expected = run("edge_votes", task, [request(1.0)])[0]
    found = run("edge_votes", empty, [request(1.0)])[0]
    np.testing.assert_array_equal(found.test_predictions, expected.test_predictions)
    np.testing.assert_array_equal(found.validation_predictions, expected.validation_predictions)


def test_the_noise_that_is_added_is_the_noise_that_is_priced(task):
    voters = edge_votes.draw_voters(task, np.random.default_rng(0))
    beliefs = np.full((task.adjacency.shape[0], task.n_classes), 1 / task.n_classes)
    asked = beliefs[voters.asked]
    (event,) = run("edge_votes", task, [request(2.0)])[0].events
    lattice = edge_votes.calibrated(task, 2.0, int(voters.asked.sum()))
    assert (event.noise_std, event.spacing) == (lattice.noise_std, lattice.spacing)
    draws = [
        edge_votes.release(task.adjacency, voters, asked, lattice, one_lane(event, seed=s), event)
        for s in range(60)
    ]
    exact = vote_sums(task.adjacency, voters, beliefs)[voters.asked]
    residual = np.stack(draws) - exact
    assert residual.std() == pytest.approx(lattice.noise_std, rel=0.03)
    assert abs(residual.mean()) < 0.1


def test_no_noise_is_the_limit_of_little_noise(task):
    """The same random streams with and without a budget: the limit is the run without noise."""
    streams = Streams.of({"seed": 4})
    requests = [Request(e, 4, np.arange(3), streams) for e in (math.inf, 1e5)]
    limit, nearly = run("edge_votes", task, requests)
    assert limit.events == () and limit.settings["noise_std"] == 0
    agree = (limit.test_predictions == nearly.test_predictions).mean()
    assert agree >= 0.98


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


def test_edges_help_where_texts_are_silent():
    """Two classes, edges inside classes, no word: text knows nothing, votes nearly everything."""
    graph = random_graph(5, nodes=200, train=100, classes=2)
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    task = task_of(graph, "edges")
    n_nodes, n, v = task.adjacency.shape[0], task.n_train, len(task.validation_labels)
    labels = labels[:n_nodes]
    pairs = [(i, j) for i in range(n_nodes) for j in rng.integers(n_nodes, size=8)]
    inside = [(i, j) for i, j in pairs if i != j and labels[i] == labels[j]]
    task = replace(
        task,
        adjacency=adjacency_of(n_nodes, inside),
        train_features=task.train_features * 0,
        validation_features=task.validation_features * 0,
        test_features=task.test_features * 0,
        train_labels=labels[:n],
        validation_labels=labels[n : n + v],
    )
    truth = labels[n + v :]
    (text,) = run("text_only", task, [request(0.0)])
    (votes,) = run("edge_votes", task, [request(8.0)])
    assert (text.test_predictions == truth).mean() < 0.7
    assert (votes.test_predictions == truth).mean() > 0.9
