"""Noisy sums over neighbours: neighbours that attain the sensitivity, lists, prices, releases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from answers import answers
from doors import door_of
from small_graphs import make_graph, with_parts

from private_graphs.attacks.neighbours import neighbours
from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import small_job
from private_graphs.core.streams import Streams
from private_graphs.mechanisms.door import UNSEEN, ReleaseMismatch
from private_graphs.methods import method_named
from private_graphs.methods.noisy_sums import (
    CURVES_KEPT,
    PROTOCOLS,
    Budget,
    NoisySums,
    adjacency_of,
    owned_lists,
)
from private_graphs.privacy.accountants import compose_groups, gdp_delta, price
from private_graphs.privacy.audits import Errors, gaussian_mu, refutes_profile
from private_graphs.running.run import answer
from private_graphs.tasks.method import ALONE, Request
from private_graphs.tasks.tasks import build_task

N = 90
STREAMS = [Streams.of({"seed": 0})]


def graph_of(seed: int = 0, classes: int = 3):
    """Half of the nodes train; words tell a little, neighbours more."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=N)
    same = labels[:, None] == labels
    edges = np.argwhere(np.triu(rng.random((N, N)) < np.where(same, 0.25, 0.03), 1))
    words = rng.random((N, 12)) < np.where(np.arange(12) % classes == labels[:, None], 0.35, 0.25)
    return make_graph(
        edges, words * 1.0, labels, classes=classes,
        train=range(50), validation=range(50, 70), test=range(70, N),
    )  # fmt: skip


def request(method: str, epsilon: float, seed: int = 0, **settings) -> Request:
    known = np.arange(20)
    made = method_named(method).settings(**settings)
    return Request(epsilon, seed, known, Streams.of({"seed": seed, "e": str(epsilon)}), made)


def task_of(scenario: str, protocol: str = "sound", graph=None, delta: float = 1e-3):
    graph = graph or graph_of()
    return build_task(graph, scenario, PROTOCOLS[protocol], delta, max_edges=900)[0]


def sums_of(adjacency, noise: float = 0.0, hops: int = 1, seed: int = 0) -> NoisySums:
    """Sums of one run, of which an undirected edge is the unit; without DP for no noise."""
    query = None
    if noise:
        (query,) = Budget(hops, 0, 0, 1.0, 1, 1e-7, "edge_undirected").events(noise)
    door = door_of([Streams.of({"seed": seed})], [[query]])
    return NoisySums([sp.csr_matrix(adjacency, dtype=np.float32)], door, [query])


def summed(adjacency, rows: np.ndarray) -> np.ndarray:
    return sums_of(adjacency).release(1, rows[None].astype(np.float32))[0]


def test_sums_run_from_sender_to_receiver_without_degrees_or_loops():
    # 0 sends to 1 and 2, 1 to 2; rows of any length count as unit rows, a row of zeros as none
    sends = np.array([[0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    rows = np.array([[3, 0], [0, 5], [1, 1], [0, 0]])
    assert summed(sends.T, rows).tolist() == [[0, 0], [1, 0], [1, 1], [0, 0]]


def test_a_row_that_is_not_finite_counts_as_zero():
    graph = graph_of()
    rows = np.random.default_rng(1).standard_normal((N, 4))
    zero = np.vstack([np.zeros(4), rows[1:]])
    for value in (np.inf, -np.inf, np.nan):
        broken = np.vstack([[value, 1, 1, 1], rows[1:]])
        sums = [summed(adjacency_of(graph), each) for each in (zero, broken)]
        np.testing.assert_array_equal(*sums)


def test_an_undirected_edge_moves_the_sums_by_the_root_of_two():
    graph = graph_of()
    rows = np.random.default_rng(1).standard_normal((N, 16))
    before = summed(adjacency_of(graph), rows)
    edges = [tuple(edge) for edge in graph.edge_index.T]
    after = summed(adjacency_of(with_parts(graph, edges=edges[1:])), rows)
    assert np.linalg.norm(after - before) == pytest.approx(math.sqrt(2), abs=1e-5)


def test_a_replaced_node_moves_its_lists_by_twice_the_root_of_the_degree():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((N, 4))
    farthest = 0.0
    for trial in range(300):
        degree = 5
        lists = [rng.permutation(N - 1)[:degree] + 1 for _ in range(2)]
        if trial == 0:  # the same receivers, opposite rows: attained
            lists[1] = lists[0]
        others = owned_lists(adjacency_of(graph_of()), degree, STREAMS[0]).tolil()
        sums = []
        for receivers, row in zip(
            lists, (rows[0], -rows[0] if not trial else rows[1]), strict=True
        ):
            others[0] = 0
            others[0, receivers] = 1
            sums.append(summed(others.T, np.vstack([row, rows[1:]])))
        moved = np.linalg.norm(np.delete(sums[1] - sums[0], 0, axis=0))
        farthest = max(farthest, moved)
        assert trial or moved == pytest.approx(2 * math.sqrt(degree), abs=1e-5)
    assert farthest <= 2 * math.sqrt(degree) + 1e-5


def test_a_list_is_short_and_depends_on_its_owner_alone():
    graph = graph_of()
    whole, degree = adjacency_of(graph), 4
    lists = owned_lists(whole, degree, STREAMS[0])
    assert np.array_equal(lists.sum(1).A1, np.minimum(degree, whole.sum(1).A1)), (
        "as many as there are, at most the bound"
    )
    assert (lists.multiply(whole) != lists).nnz == 0
    # node 7 drops half of its own entries; every other node keeps its list
    changed = whole.tolil()
    changed[7, changed.rows[7][::2]] = 0
    after = owned_lists(changed.tocsr(), degree, STREAMS[0])
    others = np.arange(N) != 7
    assert (after[others] != lists[others]).nnz == 0
    assert (owned_lists(whole, degree, Streams.of({"seed": 1})) != lists).nnz


def test_a_stage_is_released_once_and_no_stage_more_or_less_than_is_priced():
    sums = sums_of(adjacency_of(graph_of()), 1.0, hops=2)
    rows = np.ones((1, N, 2), np.float32)
    first = sums.release(1, rows)
    with pytest.raises(ReleaseMismatch, match="each stage once"):
        sums.release(1, 2 * rows + np.arange(N)[:, None].astype(np.float32))
    with pytest.raises(ReleaseMismatch):
        sums.door.close()
    assert (sums.release(2, rows) != first).all(), "no noise is used twice"
    sums.door.close()
    with pytest.raises(ReleaseMismatch):
        sums.release(3, rows)


@pytest.mark.parametrize(("noise", "refuted"), [(4.6787, True), (6.6166, False)])
def test_an_edge_between_two_others_alone_refutes_the_released_noise_and_not_the_sound_one(
    noise, refuted
):
    """Many pairs of nodes, each joined or not: how well a test of one pair tells the two apart."""
    pairs, claimed = 400_000, 0.213736  # μ that epsilon 1 at delta 1e-7 implies
    first, second = np.arange(pairs), pairs + np.arange(pairs)
    ends = np.r_[first, second], np.r_[second, first]
    rows = np.ones((1, 2 * pairs, 1), np.float32)
    seen = []
    for joined, seed in ((0.0, 5), (1.0, 6)):
        matrix = sp.csr_matrix((np.full(2 * pairs, joined, np.float32), ends), (2 * pairs,) * 2)
        sums = sums_of(matrix, noise, seed=seed).release(1, rows)[0, :, 0]
        seen.append((sums[first] + sums[second]) / math.sqrt(2))  # along both rows of the pair
    apart = (seen[1].mean() - seen[0].mean()) / np.sqrt((seen[0].var() + seen[1].var()) / 2)
    assert apart == pytest.approx(math.sqrt(2) / noise, abs=0.005)
    taken = [int((each > math.sqrt(2) / 2).sum()) for each in seen]
    errors = Errors(taken[0], pairs, pairs - taken[1], pairs)
    assert (gaussian_mu(errors, 0.999) > claimed) == refuted
    assert refutes_profile(errors, lambda each: gdp_delta(claimed, each), 0.999) == refuted
    event = Budget(1, 0, 0, 1.0, 1, 1e-7, "edge_undirected").events(noise)[0]
    mu = price(event, event.unit, event.relation, 1e-7).mu
    assert mu == pytest.approx(math.sqrt(2) / noise, rel=1e-6)
    assert gaussian_mu(errors, 0.999) <= mu


def proved(events, delta: float) -> float:
    priced = [price(each, each.unit, each.relation, delta) for each in events]
    return compose_groups([(priced, 1)], delta)


@pytest.mark.parametrize("method", ["progap", "gap"])
def test_edges_cost_what_protocols_say(method):
    for protocol, low, high in (("sound", 0.999, 1.0), ("released", 1.43, 1.46)):
        task = task_of("links", protocol, delta=1e-7)
        asked = [
            request(method, 1.0, hops=2, epochs=3),
            request(method, math.inf, hops=2, epochs=3),
        ]
        private, public = answers(method_named(method), task, asked)
        assert low < proved(private.events, 1e-7) <= high
        assert (private.claim is None) == (protocol == "sound") and not public.events
        assert private.events == method_named(method).stated(task, asked[0], ALONE, {})["events"]
    assert private.claim.epsilon == 1.0


@pytest.mark.parametrize(
    ("method", "settings", "steps"),
    [("progap", {"hops": 1}, 2 * 2 * 3), ("gap", {"hops": 2}, 2 * 2 * 3), ("mlp_steps", {}, 6)],
)
def test_nodes_cost_all_steps_and_sums(method, settings, steps):
    task = task_of("lists")
    asked = request(method, 8.0, epochs=2, lot=16, degree=3, **settings)
    (answer,) = answers(method_named(method), task, [asked])
    assert 7.9 < proved(answer.events, 1e-3) <= 8
    *sums, gradients = answer.events
    assert gradients.count == steps and gradients.rate == 16 / 50
    for event in sums:
        assert event.sensitivity == 2 * math.sqrt(3) and event.count == settings["hops"]
        assert event.noise_std == gradients.noise_multiplier * math.sqrt(3)
    assert not answer.assumptions, "no validation node is read"
    released = answers(method_named(method), task_of("lists", "released"), [asked])[0]
    assert released.claim.epsilon <= 8 < proved(released.events, 1e-3)
    assert f" and {steps} steps at " in released.claim.formula, "of all stages, as theirs"
    assert released.assumptions


@pytest.mark.parametrize("protocol", ["released", "sound"])
def test_accuracies_by_epoch_are_kept_where_they_may_be_told_and_are_those_of_the_answers(protocol):
    graph, method = graph_of(), method_named("progap")
    asked = request("progap", 8.0, hops=1, epochs=3, lot=16, curves=True)
    (answer,) = answers(method, task_of("links", protocol, graph), [asked])
    told = answer.artifacts
    assert told["stages"].tolist() == [3, 3] and len(told["training_accuracy"]) == 6
    right = (answer.validation_predictions == graph.labels[50:70]).mean()
    assert max(told["validation_accuracy"][3:]) == pytest.approx(right), "the best epoch is kept"
    plain = replace(asked, settings=method.settings(hops=1, epochs=3, lot=16))
    (without,) = answers(method, task_of("links", protocol, graph), [plain])
    assert not without.artifacts
    assert np.array_equal(without.test_predictions, answer.test_predictions)
    (private,) = answers(method, task_of("lists", protocol, graph), [asked])
    assert (
        bool(private.artifacts) == (protocol == "released") == (CURVES_KEPT in private.assumptions)
    )


@pytest.mark.parametrize("name", ["label_sums", "gap", "progap", "dp_gnn"])
def test_under_lists_a_replaced_node_changes_its_own_column_of_a_sum_alone(name, monkeypatch):
    """A reader who drops one sender for another would move by more than the sender is priced."""
    read = []
    made = NoisySums.__init__

    def remember(sums, receiving, *others):
        read.append([each.toarray() for each in receiving])
        made(sums, receiving, *others)

    monkeypatch.setattr(NoisySums, "__init__", remember)
    method = method_named(name)
    job = small_job(method, "lists", "sound", changed={"degree": 2})
    task, _ = answer(job, small_dataset(method), UNSEEN)
    before = read.pop()
    for other in neighbours(task, 4, 0):
        answer(job, small_dataset(method), UNSEEN, other.task)
        for was, now in zip(before, read.pop(), strict=True):
            assert set(np.flatnonzero((was != now).any(axis=0))) <= {other.node}
            assert now.sum(axis=0).max() <= 2
