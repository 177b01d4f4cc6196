"""DPDGC: what an edge and a node move, what is read back, what is planned, and its networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_graphs import random_graph

from private_graphs.attacks.neighbours import neighbours
from private_graphs.attacks.small_data import small_graph
from private_graphs.audit import replay
from private_graphs.core.streams import Streams
from private_graphs.mechanisms.door import Door
from private_graphs.methods import method_named
from private_graphs.methods.noisy_sums import adjacency_of
from private_graphs.privacy.accountants import gdp_epsilon, price
from private_graphs.privacy.queries import GaussianQuery, PoissonSums
from private_graphs.privacy.query_losses import loss_of
from private_graphs.privacy.renyi import fixed_lots_epsilon
from private_graphs.studies.dpdgc.methods import dpdgc
from private_graphs.studies.dpdgc.methods.dpdgc import (
    PROTOCOLS,
    WIDTH,
    DpdgcReleases,
    DpdgcSettings,
    LinkxClassifier,
    fixed_head,
)
from private_graphs.studies.dpdgc.read_back import Embedding, counted, read_back
from private_graphs.tasks.method import ALONE, Request
from private_graphs.tasks.tasks import build_task
from private_graphs.training import stacks

SHORT = {"epochs": 1, "lot": 5, "degree": 3}


@pytest.fixture
def noise(monkeypatch):
    """Noise of one scale, whose calibration takes seconds: a replay tests what it is added to."""
    monkeypatch.setattr(dpdgc, "noise_scale", lambda releases, epsilon: 4.0)


def task_of(scenario: str, protocol: str, graph=None):
    return build_task(graph or small_graph(10), scenario, PROTOCOLS[protocol], 1e-3, max_edges=900)[
        0
    ]


def replayed(scenario: str, protocol: str, **more):
    """Replay one run on neighbours that lie elsewhere than at validation nodes."""
    method, task = method_named("dpdgc"), task_of(scenario, protocol)
    settings = DpdgcSettings(**SHORT, **more)

    def run(task, watch):
        streams = Streams.of({"seed": 0})
        request = Request(1.0, 0, np.arange(5), streams.public, settings)
        door = Door.of([streams], watch)
        [outcome] = method.answers(task, [request], door, ALONE)
        door.close()
        return outcome.measured["noise_multiplier"]

    other = [entry.task for entry in neighbours(task, 2, 0, settings)]
    return replay(run, task, other, relation=task.scenario.relation)


@pytest.mark.parametrize(
    ("scenario", "more"), [("links", {}), ("lists", {}), ("lists", {"neighbours": 2})]
)
def test_what_is_released_rests_on_noise_that_is_far_too_small_and_sound_on_its_own(
    noise, scenario, more
):
    found = replayed(scenario, "released", **more)
    assert found.largest_ratio > 1e6 and not found.passed
    found = replayed(scenario, "sound", **more)
    assert found.passed and 0.3 < found.largest_ratio <= 1 + 1e-9


def test_an_edge_moves_two_rows_of_the_scaled_embedding_and_two_gradients(noise):
    found = replayed("links", "paper")
    assert found.passed and found.largest_ratio == pytest.approx(1, abs=1e-9)


def test_nothing_is_proved_of_what_the_released_code_supposes():
    for scenario in ("links", "lists"):
        task = task_of(scenario, "released")
        releases = DpdgcReleases.of(task, DpdgcSettings(**SHORT), True)
        unit, relation = task.scenario.unit, task.scenario.relation
        embedding = releases.embedding(2.0)
        assert embedding.noise_std == pytest.approx(2e-8 * (1 if scenario == "links" else 6**0.5))
        assert price(embedding, unit, relation, 1e-3).epsilon is None


def test_a_unit_that_exchanges_terms_costs_what_one_that_is_replaced_costs():
    terms = {"count": 50, "noise_multiplier": 4.0, "clip_norm": 1.0, "rate": 0.1, "terms": 2,
             "unit": "edge_undirected", "reason": "two ends"}  # fmt: skip
    adds, exchanges, replaces = (
        loss_of(PoissonSums(**terms, relation=relation, exchange=exchange))
        for relation, exchange in (
            ("add_remove", False),
            ("add_remove", True),
            ("replace", False),
        )
    )
    assert exchanges == replaces and exchanges.reach > 2 * adds.reach


def test_whole_lots_cost_what_gaussian_releases_cost():
    whole = fixed_lots_epsilon(10.0, 8, 50, 50, 1, 1e-5)
    exact = gdp_epsilon(math.sqrt(9) / 10, 1e-5)
    assert exact <= whole < 1.1 * exact
    assert fixed_lots_epsilon(10.0, 8, 5, 50, 1, 1e-5) < whole


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_plans_what_its_level_releases(protocol):
    trains = protocol != "sound"
    edge = DpdgcReleases.of(task_of("links", protocol), DpdgcSettings(**SHORT), True).events(2.0)
    assert len(edge) == 1 + trains
    task = task_of("lists", protocol)
    node, alone = (DpdgcReleases.of(task, DpdgcSettings(**SHORT), reads).events(2.0)
                   for reads in (True, False))  # fmt: skip
    assert len(node) == 2 + trains and len(alone) == 1
    steps = math.ceil(10 / 5)
    assert not trains or edge[0].count == node[0].count == steps
    assert isinstance(node[-1], GaussianQuery if protocol == "released" else PoissonSums)


def test_edges_are_read_back_from_what_is_released_and_not_from_noise_of_their_size():
    graph = random_graph(nodes=120, degree=3.0)
    adjacency = adjacency_of(graph)
    draw = np.random.default_rng(0)
    weights = draw.uniform(-1, 1, (120, WIDTH)) / np.sqrt(120)
    exact, noise = adjacency @ weights, draw.standard_normal((120, WIDTH))
    released = Embedding(exact + 3e-7 * noise, weights, 3e-7)
    decoded = read_back(released)
    assert len(decoded) > 0.9 * graph.n_nodes
    for node, friends in decoded.items():
        np.testing.assert_array_equal(friends, np.sort(adjacency[[node]].indices))
    counts = counted(released, adjacency)
    assert counts["edges"] == adjacency.nnz // 2 and counts["edges_wrong"] == 0
    assert 0.9 * counts["edges"] < counts["edges_read"] <= counts["edges"]
    assert counts["read_1_2"] == counts["nodes_1_2"] > 0
    noisy = counted(Embedding(exact + 2.0 * noise, weights, 2.0), adjacency)
    assert noisy["edges_read"] == noisy["edges_wrong"] == 0


def test_the_head_is_orthogonal_and_not_trained():
    head = fixed_head(7, Streams.of({"seed": 1}).public)
    torch.testing.assert_close(head.T @ head, torch.eye(7) * 6 / WIDTH, atol=1e-6, rtol=0)


def test_minibatches_without_noise_are_plain_adam():
    """Against torch.optim.Adam on the same rows, in the same order, without normalisation."""
    graph = random_graph(nodes=50, degree=3.0)
    rows = stacks.SparseRows(graph.features.to_scipy())
    hops = torch.randn(1, 1, 50, WIDTH, generator=torch.Generator().manual_seed(0))
    inputs, labels = stacks.StackInputs(rows, hops), np.abs(graph.labels)
    network = LinkxClassifier(rows.matrix.shape[1], graph.n_classes, "none", None)
    streams = [Streams.of({"seed": 0}).public]
    stack = stacks.Stack(stacks.initial(network.shapes(), streams), {})
    parameters = {name: value[0].clone().requires_grad_()
                  for name, value in stack.parameters.items()}  # fmt: skip
    fit = stacks.Fit(inputs, labels, [0.01], 2)
    stacks.train_lots(network, stack, fit, 20, [np.random.default_rng(5)])

    def linear(name, values):
        weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
        return values @ weight.reshape(-1, weight.shape[-1]) + bias.reshape(-1)

    selu, optimizer = torch.selu, torch.optim.Adam(list(parameters.values()), 0.01)
    features, order = torch.from_numpy(rows.matrix.toarray()), np.random.default_rng(5)
    for _ in range(2):
        rows_of_epoch = order.permutation(50)
        for chosen in (rows_of_epoch[:20], rows_of_epoch[20:40]):
            texts = linear("second", selu(linear("first", features[chosen])))
            beside = hops[0, 0, chosen]
            inner = selu(linear("third", selu(torch.cat([texts, beside], 1))))
            logits = linear("head", selu(linear("fourth", inner) + texts + beside))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels[chosen])).backward()
            optimizer.step()
    for name, value in stack.parameters.items():
        torch.testing.assert_close(value[0], parameters[name].detach(), atol=2e-4, rtol=1e-3)
