"""Blocks of replicas: removed nodes, unlabelled nodes, parts, majority, sharing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_graphs import (
    dense_features,
    fit,
    make_graph,
    random_graph,
    streams,
    structure_of,
    with_parts,
)

from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND
from private_graphs.training.blocks import sample_training_nodes, training_labels

ALL = [RELEASED, PAPER, SOUND]


def rows_of(structure, block: int, name: str = "rows2") -> list[int]:
    starts = getattr(structure.blocks, f"{name}_start")
    return getattr(structure.blocks, name)[starts[block] : starts[block + 1]].tolist()


def parts_of(structure, replica: int = 0) -> list[list[int]]:
    return [rows_of(structure, block) for block in structure.parts[replica]]


def kept_nodes(dataset, protocol, fraction, seed=0):
    return sample_training_nodes(dataset, protocol, fraction, streams(seed)[0].public)


@pytest.mark.parametrize("protocol", ALL, ids=lambda each: each.name)
def test_parts_are_balanced_disjoint_and_cover_the_training_nodes(protocol):
    dataset = random_graph(0)
    structure = structure_of(dataset, protocol, seeds=(0, 1), splits=7)
    for replica in range(2):
        parts = parts_of(structure, replica)
        assert sorted(map(len, parts)) == [4, 4, 4, 4, 4, 5, 5]
        assert sorted(sum(parts, [])) == np.flatnonzero(dataset.train_mask).tolist()
    assert parts_of(structure, 0) != parts_of(structure, 1)


def test_under_sound_the_coin_of_a_node_looks_at_no_label_or_edge():
    dataset, other = random_graph(1, nodes=200), random_graph(2, nodes=200, unlabelled=9)
    found = [kept_nodes(each, SOUND, 0.3).tolist() for each in (dataset, other)]
    assert found[0] == found[1]
    assert kept_nodes(dataset, SOUND, 0.3, seed=1).tolist() != found[0]
    stratified = [kept_nodes(each, PAPER, 0.3).tolist() for each in (dataset, other)]
    assert stratified[0] != stratified[1]


@pytest.mark.parametrize("protocol", ALL, ids=lambda each: each.name)
@pytest.mark.parametrize("splits", [1, 3])
def test_removed_training_nodes_leave_the_graph_altogether(protocol, splits):
    dataset = random_graph(3, nodes=100, degree=6)
    removed = np.setdiff1d(np.flatnonzero(dataset.train_mask), kept_nodes(dataset, protocol, 0.5))
    assert len(removed) > 10
    features = dense_features(dataset)
    features[removed] = 99.0
    touches = np.isin(dataset.edge_index, removed).any(axis=0)
    others = [
        with_parts(dataset, features=features),
        with_parts(dataset, edges=dataset.edge_index.T[~touches]),
    ]
    how = dict(splits=splits, train_fraction=0.5, epochs=3)
    expected = fit(dataset, protocol, **how)
    assert np.abs(expected.parameters[0]).max() > 0
    for other in others:
        found = fit(other, protocol, **how)
        np.testing.assert_array_equal(found.parameters, expected.parameters)
        np.testing.assert_array_equal(found.test_predictions, expected.test_predictions)
        assert found.validation_loss[0] == expected.validation_loss[0]


def test_the_part_of_a_node_does_not_depend_on_which_others_were_kept():
    dataset = random_graph(4, nodes=100)
    whole = parts_of(structure_of(dataset, SOUND, splits=5))
    some = parts_of(structure_of(dataset, SOUND, splits=5, train_fraction=0.5))
    for part, kept in zip(whole, some, strict=True):
        assert set(kept) <= set(part)
    assert 0 < len(sum(some, [])) < 50


def test_nodes_without_a_label_are_class_0_under_released_and_outside_the_loss_otherwise():
    dataset = random_graph(5, unlabelled=6)
    as_zero = replace(dataset, labels=np.where(dataset.labels < 0, 0, dataset.labels))
    assert training_labels(dataset, RELEASED).tolist() == as_zero.labels.tolist()
    how = dict(epochs=3, splits=2)
    found, expected = (fit(each, RELEASED, **how).parameters for each in (dataset, as_zero))
    np.testing.assert_array_equal(found, expected)
    assert sum(map(len, parts_of(structure_of(dataset, RELEASED, splits=2)))) == 30
    for protocol in (PAPER, SOUND):
        structure = structure_of(dataset, protocol, splits=2)
        assert sorted(sum(parts_of(structure), [])) == list(range(6, 30))
        with_zero = fit(as_zero, protocol, **how).parameters
        assert not np.array_equal(fit(dataset, protocol, **how).parameters, with_zero)


def test_nodes_without_a_label_stay_in_the_graph_and_pass_messages_on():
    dataset = make_graph(
        [(0, 1), (1, 2)], np.eye(5), [0, -1, 1, 0, 1], train=[0, 1, 2], validation=[3], test=[4]
    )
    structure = structure_of(dataset, SOUND)
    block = structure.parts[0, 0]
    assert rows_of(structure, block) == [0, 2]
    assert rows_of(structure, block, "rows1") == [0, 1, 2]
    assert rows_of(structure, block, "words") == [0, 1, 2]
    silent = with_parts(dataset, features=np.diag([1, 9, 1, 1, 1]))
    assert not np.array_equal(
        fit(dataset, SOUND, epochs=2).parameters, fit(silent, SOUND, epochs=2).parameters
    )


def test_unlabelled_validation_and_test_nodes_are_not_scored():
    dataset = random_graph(6)
    labels = dataset.labels.copy()
    labels[[35, 50, 51]] = -1
    structure = structure_of(replace(dataset, labels=labels), PAPER)
    assert structure.validation_nodes.tolist() == [n for n in range(30, 45) if n != 35]
    assert structure.test_nodes.tolist() == [n for n in range(45, 60) if n not in (50, 51)]


def test_the_majority_is_that_of_the_training_labels_the_protocol_reads():
    labels = [-1, -1, -1, 1, 1, 0, 0, 0]
    dataset = make_graph(
        [], np.eye(8), labels, train=range(5), validation=[5], test=[6, 7], classes=2
    )
    assert structure_of(dataset, RELEASED).majority.tolist() == [0]  # three unlabelled count as 0
    assert structure_of(dataset, PAPER).majority.tolist() == [1]


def test_without_anything_random_replicas_share_their_blocks():
    structure = structure_of(random_graph(7), PAPER, seeds=range(30))
    assert len(structure.blocks.graph) == 3  # training, validation, test
    assert structure.parts.shape == (30, 1) and len(np.unique(structure.parts)) == 1
    split = structure_of(random_graph(7), PAPER, seeds=range(4), splits=3)
    assert len(split.blocks.graph) == 4 * 3 + 2
    released = structure_of(random_graph(7), RELEASED, seeds=range(4), splits=3)
    assert len(released.inputs.a_pointers) == 1  # one graph for all parts
