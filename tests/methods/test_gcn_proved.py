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

from private_graphs.methods.gcn_epoch_sum import EPOCH_SUM
from private_graphs.methods.gcn_poisson import POISSON, Tuning, as_dataset
from private_graphs.tasks.method import Context

METHODS = {"gcn_epoch_sum": EPOCH_SUM, "gcn_poisson": POISSON}


def short(method, **changes):
    """The method with few epochs, and few parts under Poisson sampling."""
    splits = changes.get("splits")
    tuned = {"epochs": 3, "optimizer": "adam", "learning_rate": 0.1} | changes
    rule = method.rule
    return replace(
        method, rule=lambda n, size: Tuning(**{**tuned, "splits": splits or rule(n, size).splits})
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
    requests = many_requests(task, epsilons=(2.0, math.inf), known=(0, 10))
    for one, two in zip(
        answers(method, task, requests), answers(method, other, requests), strict=True
    ):
        np.testing.assert_array_equal(one.test_predictions, two.test_predictions)
        np.testing.assert_array_equal(one.validation_predictions, two.validation_predictions)


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
