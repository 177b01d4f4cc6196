"""Where the masks of dropout begin: at public places under fresh noise and under a replay.

With a kept seed they follow each other, as in recorded runs, and statements say that they are
published nowhere.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from small_graphs import fit, random_graph
from small_jobs import job_of, small_dataset

from private_graphs.core.streams import Streams
from private_graphs.mechanisms.replay import Recording, Replaying
from private_graphs.methods import method_named
from private_graphs.methods.gcn_protocols import SOUND, SOUND_POISSON
from private_graphs.privacy.assumptions import HIDDEN_DRAWS, HIDDEN_MASKS
from private_graphs.running.run import planned
from private_graphs.tasks.method import Context
from private_graphs.training import engine, mlp
from private_graphs.training.mlp import masks_by_record

GRAPH = random_graph(unlabelled=3)
FRESH = b"secret bytes of the system"
HOW = dict(splits=4, noise=1.0, clip_norm=0.01, dropout=0.5, epochs=2)


def moved(seed: int | bytes, public: bool) -> float:
    """How far a node that loses label and edges moves the sum of a step, in sensitivities."""
    first = Recording()
    first.public_places = public
    how = HOW | {"splits": 12, "epochs": 1, "seeds": (seed,)}
    fit(GRAPH, SOUND, watch=first, **how)
    far = []
    for node in np.flatnonzero(GRAPH.train_mask & (GRAPH.labels >= 0))[:8]:
        labels = np.where(np.arange(GRAPH.n_nodes) == node, -1, GRAPH.labels)
        edges = GRAPH.edge_index[:, (GRAPH.edge_index != node).all(axis=0)]
        info = GRAPH.info.model_copy(update={"n_edges": edges.shape[1]})
        other = replace(GRAPH, labels=labels, edge_index=edges, info=info)
        again = Replaying(first, "replace")
        fit(other, SOUND, watch=again, **how)
        far.append(again.largest)
    return max(far)


def test_a_node_moves_its_own_part_alone_where_masks_begin_at_public_places():
    assert moved(FRESH, False) <= 1 + 1e-9
    assert moved(0, True) <= 1 + 1e-9
    assert moved(0, False) > 1, "why statements of kept seeds say that masks are hidden"


@pytest.mark.parametrize("protocol", [SOUND, SOUND_POISSON], ids=lambda each: each.visits)
def test_masks_of_parts_are_the_same_on_another_device(protocol):
    how = HOW | {"seeds": (FRESH, FRESH + b"2"), "clip_norm": 1.0, "noise": 1e-6}
    ours, theirs = (fit(GRAPH, protocol, device=each, **how) for each in ("cpu", "torch-cpu"))
    np.testing.assert_allclose(ours.parameters, theirs.parameters, rtol=0, atol=1e-9)
    seeded = fit(GRAPH, protocol, seeds=(0,), **HOW).parameters
    plain = fit(GRAPH, protocol, seeds=(0,), **HOW | {"dropout": 0.0}).parameters
    assert not np.allclose(seeded, plain), "dropout does something"


def test_more_masks_than_counters_are_refused(monkeypatch):
    monkeypatch.setattr(engine, "_COUNTERS", 100)
    with pytest.raises(engine.UserError, match="splits: 4 parts, .* expected fewer than 100"):
        fit(GRAPH, SOUND, seeds=(FRESH,), **HOW)
    fit(GRAPH, SOUND, seeds=(0,), **HOW)


def test_the_mask_of_a_record_does_not_follow_from_who_else_joins():
    key = Streams.of({}, FRESH).key("dropout")
    masks = masks_by_record(key, 3)
    all_of, few = np.arange(12), np.array([2, 7])
    assert np.array_equal(masks(0, all_of, 40)[few], masks(0, few, 40))
    drawn = [masks(0, all_of, 40), masks(1, all_of, 40), masks_by_record(key, 4)(0, all_of, 40)]
    rows = np.concatenate(drawn)
    assert len(np.unique(rows, axis=0)) == len(rows), "no two masks are equal"
    turn = mlp.masks_in_turn(np.random.default_rng(0))
    assert not np.array_equal(turn(0, all_of, 40)[few], turn(0, few, 40))


HIDING = {
    ("gcn", "nodes", "sound", HIDDEN_MASKS): ({"splits": 4}, {"splits": 4, "dropout": 0.0}),
    ("gcn", "nodes", "paper", HIDDEN_MASKS): (None, {"splits": 4}),
    ("mlp_records", "records", "sound", HIDDEN_MASKS): (
        {"lot_size": 10, "dropout": 0.5},
        {"lot_size": 30, "dropout": 0.5},
    ),
    ("unit_gradients", "classes", "sound", HIDDEN_DRAWS): ({"draws": 4}, {"draws": 0}),
    ("unit_gradients", "records", "sound", HIDDEN_DRAWS): (None, {"draws": 4}),
    ("appr_gaussian", "nodes", "released", HIDDEN_MASKS): ({}, None),
    ("appr_gaussian", "nodes", "sound", HIDDEN_MASKS): (None, {}),
}
"""Settings under which masks or draws follow from others in a run with a kept seed, and those
under which they do not."""


@pytest.mark.parametrize("case", HIDING, ids=lambda each: "-".join(each[:3]))
def test_statements_say_that_masks_are_hidden_where_the_proof_needs_it(case):
    name, scenario, protocol, sentence = case
    method = method_named(name)
    for settings, hides in zip(HIDING[case], (True, False), strict=True):
        if settings is None:
            continue
        epsilons = (0.5,) if name == "mlp_records" else (2.0, math.inf)
        job = job_of(name, scenario, protocol, epsilons=epsilons, settings=settings)
        task, requests = planned(job, small_dataset(name))
        for request in requests:
            fresh = replace(request, streams=Streams.of({}, FRESH))
            told, without = (
                method.stated(task, each, Context(), {}).get("assumptions", ())
                for each in (request, fresh)
            )
            assert (sentence in told) == (hides and request.private)
            assert sentence not in without
