"""The GCN of the paper: how its batches train, on which graphs, and that its event is what it did.

What holds of every method is in ``tests/test_run.py``.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from small_graphs import random_graph
from small_jobs import job_of

from private_graphs.methods import gcn
from private_graphs.methods.gcn_protocols import PROTOCOLS
from private_graphs.running.run import execute
from private_graphs.training import blocks, engine

GRAPH = random_graph(0, nodes=90, classes=3)


def test_non_private_replicas_alone_stop_early_and_decay(monkeypatch):
    seen = []
    original = engine.train

    def watch(structure, protocol, settings, specs, descent, **how):
        seen.append((settings, descent.stds))
        return original(structure, protocol, settings, specs, descent, **how)

    monkeypatch.setattr(engine, "train", watch)
    execute(job_of(epsilons=(math.inf, 2.0), settings={"patience": 3, "weight_decay": 0.02}), GRAPH)
    (public, no_noise), (private, noise) = seen
    assert not public.private and public.patience == 3 and public.weight_decay == 0.02
    assert private.private and private.patience is None and private.weight_decay == 0.0
    assert set(no_noise) == {0.0} and min(noise) > 0
    assert private.clip_norm == 1.0


@pytest.mark.parametrize("name", PROTOCOLS)
def test_private_scores_that_choose_are_computed_on_the_graph_of_the_protocol(monkeypatch, name):
    graphs = []
    original = blocks.build_structure

    def watch(*arguments, **how):
        graphs.append(how["validation_graph"])
        return original(*arguments, **how)

    monkeypatch.setattr(blocks, "build_structure", watch)
    execute(job_of(protocol=name, epsilons=(math.inf, 2.0), seeds=(0,)), GRAPH)
    protocol = PROTOCOLS[name]
    assert graphs == [protocol.test_graph, protocol.private_selection_graph]


def test_progress_ends_at_the_number_of_replica_epochs():
    calls = []
    job = job_of(settings={"patience": 1, "epochs": 30}, epsilons=(math.inf, 1.0, 2.0))
    execute(job, GRAPH, progress=lambda *done: calls.append(done))
    assert calls[-1] == (6 * 30, 6 * 30)
    assert calls == sorted(calls)


def test_slices_that_fit_in_memory_change_no_result(monkeypatch):
    trained = []
    original = engine.train

    def watch(structure, protocol, settings, specs, *rest, **how):
        trained.append(len(specs))
        return original(structure, protocol, settings, specs, *rest, **how)

    monkeypatch.setattr(engine, "train", watch)
    job = job_of(seeds=(0, 1, 2))
    whole = execute(job, GRAPH)
    assert trained == [3, 3]
    each = gcn.memory_of_run(gcn.GcnSettings.model_validate(job.settings), GRAPH.size)
    monkeypatch.setattr(gcn, "ROOM", 2 * each)
    cut = execute(job, GRAPH)
    assert trained[2:] == [2, 1, 2, 1]
    assert (cut.test_predictions == whole.test_predictions).all()
    drop = ["seconds"]
    assert cut.rows.drop(columns=drop).equals(whole.rows.drop(columns=drop))


def test_protocols_are_read_by_their_fields_not_by_their_name(monkeypatch):
    """A released protocol that clips is priced; a paper that does not is not."""

    def proved(name, **fields):
        monkeypatch.setitem(PROTOCOLS, name, replace(PROTOCOLS[name], **fields))
        job = job_of(protocol=name, epsilons=(2.0,), seeds=(0,))
        return execute(job, GRAPH).rows["epsilon_proved"].item()

    assert proved("released", clipping="global_norm") > 0
    assert math.isnan(proved("paper", clipping="none"))
    assert proved("paper", clipping="global_norm", calibration="proved") <= 2


def test_the_random_partition_of_a_run_is_kept_as_it_was_trained(monkeypatch):
    trained = []
    original = engine.train

    def watch(structure, *arguments, **how):
        trained.append(structure)
        return original(structure, *arguments, **how)

    monkeypatch.setattr(engine, "train", watch)
    job = job_of(protocol="released", epsilons=(2.0,), seeds=(0, 1),
                 settings={"splits": 3, "train_fraction": 0.5})  # fmt: skip
    result = execute(job, GRAPH)
    (structure,) = trained
    lists = structure.blocks
    for number, row in result.rows.iterrows():
        kept = result.artifacts[f"{row['replica_id']}/partition"]
        for part, block in enumerate(structure.parts[number]):
            first = lists.rows2_start[block]
            nodes = lists.rows2[first : first + lists.n_loss[block]]
            assert len(nodes) and sorted(np.flatnonzero(kept == part)) == sorted(nodes)
