"""Randomised response of pairs: its probabilities, what is drawn, and what two looks cost."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from answers import answers
from doors import one_lane
from test_noisy_sums import graph_of, request

from private_graphs.privacy.accountants import compose_groups, price
from private_graphs.privacy.audits import Errors, two_point_epsilon
from private_graphs.studies.progap.methods import edge_rand
from private_graphs.studies.progap.methods.edge_rand import (
    METHODS,
    keeping,
    randomised,
    randomised_rows,
)
from private_graphs.tasks.method import ALONE
from private_graphs.tasks.tasks import build_task

METHOD = METHODS[0]


def plan_of(draw, n: int, epsilon: float):
    """What a run on ``n`` nodes releases by ``draw``."""
    protocol = METHOD.protocols["released" if draw is randomised_rows else "sound"]
    task = SimpleNamespace(protocol=protocol, graph=SimpleNamespace(n_nodes=n))
    return METHOD.stated(task, request("edge_rand", epsilon, hops=1), ALONE, {})["events"]


def drawn_by(draw, edges: np.ndarray, n: int, epsilon: float, generator: np.random.Generator):
    """The pairs that one run sees of a graph on ``n`` nodes."""
    plan = plan_of(draw, n, epsilon)
    door = one_lane(*plan, seed=generator)
    drawn = draw(edges, n, door, plan)
    door.close()
    return drawn


def test_probabilities_keep_the_density_and_their_ratio_is_the_budget():
    kept, made = keeping(0.9, 0.003)
    assert (kept, made) == pytest.approx((0.00734664, 0.00298692), abs=5e-9)
    for density in (1e-4, 0.1, 0.5):
        kept, made = keeping(0.9, density)
        assert kept * density + made * (1 - density) == pytest.approx(density)
        assert kept / made == pytest.approx(math.exp(0.9))
        assert (1 - made) / (1 - kept) <= math.exp(0.9) * (1 + 1e-9)


@pytest.mark.parametrize("draw", [randomised, randomised_rows])
def test_pairs_are_drawn_with_these_probabilities(draw, monkeypatch):
    monkeypatch.setattr(edge_rand, "_CHUNK", 25)  # three chunks of rows, the last one smaller
    n, generator = 60, np.random.default_rng(0)
    pairs = np.array(np.triu_indices(n, 1))
    edges = pairs[:, generator.random(pairs.shape[1]) < 0.2]
    ordered = draw is randomised_rows
    codes = edges[0] * n + edges[1]
    if ordered:
        codes = np.r_[codes, edges[1] * n + edges[0]]
    n_pairs, trials = pairs.shape[1] * (1 + ordered), 300
    stayed, appeared = [], []
    for _ in range(trials):
        drawn = drawn_by(draw, edges, n, 2.0, generator)
        assert (drawn[0] != drawn[1]).all() if ordered else (drawn[0] < drawn[1]).all()
        found = drawn[0] * n + drawn[1]
        assert len(np.unique(found)) == len(found)
        stayed.append(np.isin(found, codes).sum() / len(codes))
        appeared.append((~np.isin(found, codes)).sum() / (n_pairs - len(codes)))
    kept, made = keeping(1.8, len(codes) / n_pairs)
    assert np.mean(stayed) == pytest.approx(kept, abs=4 * np.std(stayed) / trials**0.5 + 2e-3)
    assert np.mean(appeared) == pytest.approx(made, abs=4 * np.std(appeared) / trials**0.5 + 2e-3)


@pytest.mark.parametrize(("draw", "shown"), [(randomised_rows, 1.8), (randomised, 0.9)])
def test_two_looks_at_a_pair_refute_the_budget_and_one_does_not(draw, shown):
    """An edge that is there or not, taken for there where all draws of its pair keep it."""
    n, runs, generator = 20, 3000, np.random.default_rng(1)
    pairs = np.array(np.triu_indices(n, 1))
    edges = pairs[:, np.arange(pairs.shape[1]) % 10 < 3]  # density .3; the first pair is an edge
    looks = 2 if draw is randomised_rows else 1
    kept = []
    for present in (edges[:, 1:], edges):
        drawn = (drawn_by(draw, present, n, 1.0, generator) for _ in range(runs))
        kept.append(sum((np.sort(each, 0) == edges[:, :1]).all(0).sum() == looks for each in drawn))
    bound = two_point_epsilon(Errors(int(kept[0]), runs, runs - int(kept[1]), runs), 1e-7, 0.999)
    assert (bound > 1) == (looks == 2) and bound <= shown
    assert math.log(kept[1] / kept[0]) == pytest.approx(shown, abs=0.2)


@pytest.mark.parametrize(
    ("protocol", "chunk", "proved"),
    [("sound", 500, 1.0), ("released", 500, 2.0), ("released", 60, 2 * (0.9 + 0.1 * 90 / 30))],
)
def test_what_is_proved(protocol, chunk, proved, monkeypatch):
    """Of 90 nodes; the smallest chunk's density moves most."""
    monkeypatch.setattr(edge_rand, "_CHUNK", chunk)
    task = build_task(graph_of(), "links", METHOD.protocols[protocol], 1e-7, max_edges=900)[0]
    asked = [request("edge_rand", epsilon, hops=1, epochs=3) for epsilon in (1.0, math.inf)]
    private, public = answers(METHOD, task, asked)
    priced = [price(each, each.unit, each.relation, 1e-7) for each in private.events]
    assert compose_groups([(priced, 1)], 1e-7) == pytest.approx(proved, rel=1e-3)
    assert (private.claim is None) == (protocol == "sound") and not public.events
