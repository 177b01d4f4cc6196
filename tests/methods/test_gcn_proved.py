"""The tuned GCN with splits: what it reads, what it releases, what that is priced at."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from answers import answers
from small_graphs import dense_features
from small_tasks import graph_task, many_requests

from private_graphs.mechanisms.door import ReleaseMismatch
from private_graphs.methods.gcn_epoch_sum import EPOCH_SUM
from private_graphs.methods.gcn_poisson import POISSON, Tuning, as_dataset
from private_graphs.methods.method import Context
from private_graphs.privacy.accountants import price
from private_graphs.privacy.events import FullBatch, Poisson
from private_graphs.training import engine

METHODS = {"gcn_epoch_sum": EPOCH_SUM, "gcn_poisson": POISSON}


def short(method, **changes):
    """The method with few epochs, and few parts under Poisson sampling."""
    splits = changes.get("splits")
    tuned = {"epochs": 3, "optimizer": "adam", "learning_rate": 0.1} | changes
    rule = method.rule
    return replace(
        method,
        rule=lambda n, size: Tuning(**{**tuned, "splits": splits or rule(n, size).splits}),
    )


def test_no_edge_joins_training_and_public_nodes_and_no_public_label_is_shown():
    task = graph_task(unlabelled=4)
    assert task.n_units == task.n_train + 4
    dataset = as_dataset(task)
    source, target = dataset.edge_index
    assert (dataset.train_mask[source] == dataset.train_mask[target]).all()
    found = scipy.sparse.coo_matrix(
        (np.ones(len(source)), (source, target)), (dataset.n_nodes, dataset.n_nodes)
    ).toarray()
    found += found.T
    n, units = task.n_train, task.n_units
    np.testing.assert_array_equal(found[:n, :n], task.train_adjacency.toarray())
    np.testing.assert_array_equal(found[units:, units:], task.public_adjacency.toarray())
    assert dataset.train_mask.sum() == units and not found[n:units].any()
    assert (dataset.labels[units:] == 0).all() and (dataset.labels[n:units] == -1).all()
    np.testing.assert_allclose(dense_features(dataset)[:n], task.train_features.toarray())


@pytest.mark.parametrize("name", METHODS)
def test_labels_of_public_nodes_and_edges_across_change_nothing(name):
    task = graph_task()
    other = replace(
        task,
        validation_labels=(task.validation_labels + 1) % 3,
        train_to_public=task.train_to_public * 0,
    )
    method = short(METHODS[name], splits=10)
    requests = many_requests(task, epsilons=(2.0,), known=(0, 10))
    for one, two in zip(
        answers(method, task, requests), answers(method, other, requests), strict=True
    ):
        np.testing.assert_array_equal(one.test_predictions, two.test_predictions)
        np.testing.assert_array_equal(one.validation_predictions, two.validation_predictions)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_events_are_what_was_released_and_priced_at_the_request(name, epsilon):
    task = graph_task(unlabelled=3)
    method = short(METHODS[name], splits=12)
    outcomes = answers(method, task, many_requests(task, epsilons=(epsilon,), seeds=2))
    for outcome in outcomes:
        (event,) = outcome.events
        assert 0.97 * epsilon < price(event, "node", "replace", task.delta).epsilon <= epsilon
        assert event.clipping == "gradient_global"
        if name == "gcn_epoch_sum":
            assert event.sampling == FullBatch(parts=12) and event.releases == 3
        else:
            assert event.sampling == Poisson(rate=1 / 12) and event.releases == 36
        assert outcome.test_predictions.shape == (task.test_features.shape[0],)
        assert outcome.validation_predictions.shape == task.validation_labels.shape


@pytest.mark.parametrize("change", ["noise", "epochs more", "epochs less", "clip_norm", "splits"])
def test_a_release_that_was_not_planned_stops_the_run(monkeypatch, change):
    task, method = graph_task(), short(EPOCH_SUM, splits=12)
    original = engine.train

    def changed(structure, protocol, settings, replicas, descent, **named):
        if change == "noise":
            (event,) = descent.queries
            quieter = replace(event, noise_multiplier=event.noise_multiplier / 2)
            descent = replace(descent, queries=[quieter])
        elif change == "splits":
            structure = method.structure(task, replace(method.rule(60, 1.0), splits=6), asked)
        else:
            value = {"epochs more": 4, "epochs less": 2, "clip_norm": 3.0}[change]
            settings = replace(settings, **{change.split()[0]: value})
        return original(structure, protocol, settings, replicas, descent, **named)

    asked = many_requests(task)
    monkeypatch.setattr(engine, "train", changed)
    with pytest.raises(ReleaseMismatch):
        answers(method, task, asked)


def test_every_node_is_a_part_of_its_own_and_training_edges_then_play_no_part():
    task = graph_task(unlabelled=2)
    assert EPOCH_SUM.rule(task.n_units, 50.0).splits == task.n_units
    bare = replace(task, train_adjacency=task.train_adjacency * 0)
    requests = many_requests(task, epsilons=(2.0, math.inf), seeds=2)
    for one, two in zip(
        answers(short(EPOCH_SUM), task, requests),
        answers(short(EPOCH_SUM), bare, requests),
        strict=True,
    ):
        np.testing.assert_array_equal(one.test_predictions, two.test_predictions)


def test_little_signal_takes_fewer_epochs_and_answers_stay_in_order():
    task = graph_task()
    requests = many_requests(task, epsilons=(math.inf, 0.5, 2.0), known=(0,), seeds=2)
    calls = []
    together = answers(EPOCH_SUM, task, requests, Context(lambda *done: calls.append(done)))
    assert [each.settings["epochs"] for each in together] == [20, 20, 10, 10, 10, 10]
    assert calls[-1] == (80, 80) and all(done <= 80 for done, _ in calls), "epochs of all"
    for outcome, request in zip(together, requests, strict=True):
        (alone,) = answers(EPOCH_SUM, task, [request])
        np.testing.assert_array_equal(outcome.test_predictions, alone.test_predictions)
        assert [each.releases for each in outcome.events] == ([10] if request.private else [])
    assert EPOCH_SUM.rule(18_000, 1000.0).epochs == 11 and EPOCH_SUM.rule(900, 1000.0).epochs == 20
