"""Graphs with loops, repetitions, one-way entries, lonely nodes and absent classes are counted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from odd_graphs import CLASSES, HAND, N_TEST, N_VALIDATION, archive, build_own, odd_graph, odd_parts

from private_graphs.datasets.arrays import undirected_edges
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.errors import UserError
from private_graphs.graphs.normalise import gcn_propagation

COLOURS = ("red", "blue", "green", "grey")
HAND_ENTRIES, HAND_WORDS, HAND_LABELS = HAND


@pytest.fixture
def hand(monkeypatch, tmp_path) -> GraphDataset:
    """Nodes 1, 2, 3 train, 5 validates, 0 and 4 test."""
    arrays = archive(HAND_ENTRIES, HAND_WORDS, HAND_LABELS)
    return build_own(monkeypatch, tmp_path / "raw", arrays, COLOURS, 1, 2)


def test_six_odd_nodes_become_the_graph_drawn_by_hand(hand):
    assert hand.edge_index.tolist() == [[0, 1, 3], [1, 2, 4]]
    assert np.flatnonzero(hand.train_mask).tolist() == [1, 2, 3]
    assert np.flatnonzero(hand.validation_mask).tolist() == [5]
    assert np.flatnonzero(hand.test_mask).tolist() == [0, 4]
    assert hand.features.to_scipy().toarray().tolist() == HAND_WORDS


def test_the_propagation_matrix_of_six_odd_nodes_has_the_entries_worked_out_by_hand(hand):
    half, third, sixth = 1 / 2, 1 / 3, 1 / np.sqrt(6)  # degrees with loop: 2, 3, 2, 2, 2, 1
    expected = [
        [half, sixth, 0, 0, 0, 0],
        [sixth, third, sixth, 0, 0, 0],
        [0, sixth, half, 0, 0, 0],  # the two raw loops of node 2 add nothing to its own
        [0, 0, 0, half, half, 0],
        [0, 0, 0, half, half, 0],
        [0, 0, 0, 0, 0, 1],
    ]
    found = gcn_propagation(hand.edge_index, hand.n_nodes).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_the_statistics_of_six_odd_nodes_are_those_counted_by_hand(hand):
    statistics = hand.statistics()
    assert json.loads(json.dumps(statistics)) == statistics
    expected = {
        "loops_dropped": 2, "duplicates_dropped": 1, "one_way_edges": 2, "isolated_nodes": 1,
        "components": 3, "largest_component": 3, "nodes_without_features": 2,
        "feature_nonzeros": 5, "majority_class": "red", "majority_share_on_test": 0.5,
    }  # fmt: skip
    assert {key: statistics[key] for key in expected} == expected
    assert statistics["train_class_counts"] == {"red": 2, "blue": 1, "green": 0, "grey": 0}
    assert statistics["classes_missing"] == {
        "train": ["green", "grey"], "validation": ["red", "green", "grey"],
        "test": ["blue", "grey"],
    }  # fmt: skip


def test_loops_repetitions_and_directions_change_nothing_but_the_counts(monkeypatch, tmp_path):
    odd = odd_graph(monkeypatch, tmp_path / "odd")
    _, words, labels = odd_parts()
    plain = [(i, j, 1) for i, j in [*odd.edge_index.T, *odd.edge_index[::-1].T]]
    names = odd.info.classes
    clean = build_own(
        monkeypatch, tmp_path / "clean", archive(plain, words, labels), names, N_VALIDATION, N_TEST
    )
    assert clean.fingerprint == odd.fingerprint
    keys = ("loops_dropped", "duplicates_dropped", "one_way_edges")
    assert [clean.statistics()[key] for key in keys] == [0, 0, 0]
    assert all(odd.statistics()[key] > 0 for key in keys)


def test_the_counts_of_an_odd_graph_are_those_of_a_plain_loop(monkeypatch, tmp_path):
    entries, words, labels = odd_parts()
    seen, edges, loops, duplicates = set(), set(), 0, 0
    for source, target, weight in entries:
        if weight == 0:
            continue
        if source == target:
            loops += 1
            continue
        duplicates += (source, target) in seen
        seen.add((source, target))
        edges.add(frozenset((source, target)))
    one_way = sum(tuple(edge) not in seen or tuple(edge)[::-1] not in seen for edge in edges)
    group = np.arange(len(labels))
    for _ in labels:  # the smallest id of a component spreads along its edges
        for i, j in map(tuple, edges):
            group[i] = group[j] = min(group[i], group[j])
    sizes = np.unique(group, return_counts=True)[1]
    odd = odd_graph(monkeypatch, tmp_path)
    statistics = odd.statistics()
    assert statistics["edges"] == len(edges)
    assert statistics["loops_dropped"] == loops >= 6
    assert statistics["duplicates_dropped"] == duplicates >= 5
    assert statistics["one_way_edges"] == one_way > 0
    assert statistics["isolated_nodes"] == np.sum(sizes == 1) >= 7
    assert statistics["components"] == len(sizes)
    assert statistics["largest_component"] == sizes.max() < len(labels) / 2
    assert statistics["nodes_without_features"] == np.sum(~words.any(axis=1)) >= 5
    assert statistics["classes_missing"] == {
        key: [
            f"class {label}" for label in range(CLASSES)
            if not np.any(labels[getattr(odd, f"{key}_mask")] == label)
        ]
        for key in ("train", "validation", "test")
    }  # fmt: skip
    assert statistics["classes_missing"]["train"] == ["class 3", "class 4"]
    assert {"class 1", "class 4"} <= set(statistics["classes_missing"]["test"])


@given(st.integers(1, 8), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40))
def test_every_entry_is_an_edge_or_counted_as_a_loop_or_a_duplicate(n_nodes, pairs):
    pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2) % n_nodes
    found = undirected_edges(pairs[:, 0], pairs[:, 1], n_nodes)
    matrix = sp.coo_matrix((np.ones(len(pairs)), pairs.T), shape=(n_nodes, n_nodes)).toarray()
    loops = np.trace(matrix)
    np.fill_diagonal(matrix, 0)
    once, either = matrix > 0, (matrix + matrix.T) > 0
    assert found.edge_index.tolist() == np.argwhere(np.triu(either)).T.tolist()
    assert found.loops == loops and found.duplicates == matrix.sum() - once.sum()
    assert found.one_way == np.sum(once & ~once.T)
    n_edges = found.edge_index.shape[1]
    assert len(pairs) == found.loops + found.duplicates + 2 * n_edges - found.one_way


def test_dense_features_are_counted_like_sparse_ones(hand):
    dense = replace(
        hand,
        features=hand.features.to_scipy().toarray(),
        info=hand.info.model_copy(update={"feature_kind": "dense"}),
    )
    sparse, other = hand.statistics(), dense.statistics()
    for key in ("feature_nonzeros", "nodes_without_features"):
        assert sparse[key] == other[key]


@pytest.mark.parametrize(
    ("nodes", "mask"), [([1, 2, 3], "train"), ([5], "validation"), ([0, 4], "test")]
)
def test_a_mask_without_any_label_is_an_error_that_names_it(monkeypatch, tmp_path, nodes, mask):
    labels = np.array(HAND_LABELS)
    labels[nodes] = -1
    arrays = archive(HAND_ENTRIES, HAND_WORDS, labels)
    with pytest.raises(UserError, match=f"own: {mask}_mask: no member of it has a label"):
        build_own(monkeypatch, tmp_path, arrays, COLOURS, 1, 2)


def test_a_declared_class_need_not_occur_and_no_other_may(monkeypatch, tmp_path):
    arrays = archive(HAND_ENTRIES, HAND_WORDS, [0, 3, 0, -1, 3, 3])
    dataset = build_own(monkeypatch, tmp_path, arrays, COLOURS, 1, 2)
    assert dataset.labels.tolist() == [0, 3, 0, -1, 3, 3] and dataset.n_classes == 4
    with pytest.raises(UserError, match="own.npz: labels .* 0..3 .*expected the 3 declared"):
        build_own(monkeypatch, tmp_path, arrays, COLOURS[:3], 1, 2)
