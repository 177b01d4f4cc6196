"""Who sees which node and edge: in training, with splits, and when a model is scored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_graphs import (
    dense_features,
    dense_logits,
    dense_loss,
    dense_propagation,
    fit,
    four_nodes,
    random_graph,
    start,
    streams,
    with_parts,
)

from private_graphs.graphs.split import random_partition
from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND, SOUND_POISSON

INDUCED = [PAPER, SOUND, SOUND_POISSON]
EVERY = [RELEASED, *INDUCED]


def named(protocol) -> str:
    return f"{protocol.name}-{protocol.visits}"


def parameters(dataset, protocol, **how) -> np.ndarray:
    return fit(dataset, protocol, **(dict(epochs=6) | how)).parameters[0]


def changed(dataset, protocol, other, **how) -> bool:
    """Whether training on ``other`` gives other parameters."""
    return not np.array_equal(
        parameters(dataset, protocol, **how), parameters(other, protocol, **how)
    )


def edited(dataset, nodes, size=5.0):
    """The same graph with other words at ``nodes``."""
    features = dense_features(dataset)
    features[list(nodes)] = size * np.random.default_rng(0).normal(size=features[nodes].shape)
    return with_parts(dataset, features=features)


def gradient_by_hand(dataset, edges, nodes) -> np.ndarray:
    theta = torch.from_numpy(start(dataset))
    propagation = dense_propagation(dataset.n_nodes, edges)
    return torch.func.grad(lambda flat: dense_loss(flat, dataset, propagation, nodes))(
        theta
    ).numpy()


@pytest.mark.parametrize(
    ("protocol", "edges"),
    [
        (RELEASED, [(0, 1), (1, 2), (1, 3), (2, 3)]),  # all nodes, all edges
        (PAPER, [(0, 1)]),  # the edge between the two training nodes
        (SOUND, [(0, 1)]),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_training_graph_of_four_nodes_is_the_one_drawn_by_hand(protocol, edges):
    dataset = four_nodes()
    taken = start(dataset) - parameters(dataset, protocol, epochs=1, lr=1.0)
    assert np.abs(taken - gradient_by_hand(dataset, edges, [0, 1])).max() <= 1e-12


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("protocol", EVERY, ids=named)
def test_only_released_training_sees_validation_and_test_nodes(protocol, splits):
    dataset = random_graph(0)
    sees = protocol is RELEASED
    for mask in (dataset.validation_mask, dataset.test_mask):
        other = edited(dataset, np.flatnonzero(mask))
        assert changed(dataset, protocol, other, splits=splits) == sees
        relabelled = replace(dataset, labels=np.where(mask, 0, dataset.labels))
        assert not changed(dataset, protocol, relabelled, splits=splits)
    train = dataset.train_mask[dataset.edge_index]
    inside = dataset.edge_index.T[train.all(axis=0)]  # without edges to the other masks
    assert changed(dataset, protocol, with_parts(dataset, edges=inside), splits=splits) == sees
    assert changed(dataset, protocol, edited(dataset, [0]), splits=splits)  # a training node


@pytest.mark.parametrize("protocol", EVERY, ids=named)
def test_only_released_training_sees_edges_between_parts(protocol):
    dataset, splits = random_graph(1), 3
    train = np.flatnonzero(dataset.train_mask)
    part = np.full(dataset.n_nodes, -1)
    part[train] = random_partition(train, splits, streams(0)[0].generator("partition"))
    edges = [tuple(pair) for pair in dataset.edge_index.T.tolist()]
    crossing = [pair for pair in edges if -1 != part[pair[0]] != part[pair[1]] != -1]
    within = [pair for pair in edges if part[pair[0]] == part[pair[1]] != -1]
    assert len(crossing) > 5 and within
    how = dict(splits=splits, epochs=5)
    kept = [pair for pair in edges if pair not in crossing]
    without = with_parts(dataset, edges=kept)
    assert changed(dataset, protocol, without, **how) == (protocol is RELEASED)
    without = with_parts(dataset, edges=[pair for pair in edges if pair != within[0]])
    assert changed(dataset, protocol, without, **how)


def still(dataset, protocol, private: bool = False):
    """Scores with the parameters of the start, whatever the training data: lr is 0."""
    graph = protocol.private_selection_graph if private else protocol.test_graph
    return fit(dataset, protocol, lr=0.0, validation_graph=graph, private=private)


@pytest.mark.parametrize("protocol", [RELEASED, PAPER, SOUND], ids=lambda each: each.name)
def test_scores_on_four_nodes_are_those_worked_out_by_hand(protocol):
    dataset = four_nodes()
    edges = [] if protocol is SOUND else [(0, 1), (1, 2), (1, 3), (2, 3)]  # 2 and 3 each alone
    theta = torch.from_numpy(start(dataset))
    propagation = dense_propagation(4, edges)
    found = still(dataset, protocol)
    loss = dense_loss(theta, dataset, propagation, [2]).item()
    assert abs(found.validation_loss[0] - loss) <= 1e-12
    logits = dense_logits(theta, dataset, propagation)
    assert found.validation_predictions[0].tolist() == [logits[2].argmax().item()]
    assert found.test_predictions[0].tolist() == [logits[3].argmax().item()]


def test_under_sound_no_training_node_or_edge_to_one_reaches_a_prediction():
    dataset = random_graph(2, nodes=200, degree=6)
    train = np.flatnonzero(dataset.train_mask)
    inside = np.zeros(dataset.n_edges, dtype=bool)
    for mask in (dataset.validation_mask, dataset.test_mask):
        inside |= mask[dataset.edge_index].all(axis=0)
    others = [edited(dataset, train, 50.0), with_parts(dataset, edges=dataset.edge_index.T[inside])]
    for protocol, private in ((SOUND, False), (SOUND, True), (PAPER, False), (PAPER, True)):
        sees_test = protocol is PAPER
        sees_validation = protocol is PAPER and not private  # DP chooses on public nodes alone
        expected = still(dataset, protocol, private)
        for other in others:
            found = still(other, protocol, private)
            same = np.array_equal(found.test_predictions, expected.test_predictions)
            assert same != sees_test
            same = found.validation_loss[0] == expected.validation_loss[0]
            assert same != sees_validation


def test_no_dropout_acts_when_a_model_is_scored():
    dataset = random_graph(5)
    for dropout in (0.0, 0.5):
        found = fit(dataset, PAPER, lr=0.0, dropout=dropout, epochs=2)
        if dropout == 0.0:
            expected = found.validation_loss
    np.testing.assert_array_equal(found.validation_loss, expected)
