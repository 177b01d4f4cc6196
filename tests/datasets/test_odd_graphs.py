"""Graphs with loops, repetitions, one-way entries, lonely nodes and absent classes are counted."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from odd_graphs import HAND, archive, build_own

from private_graphs.core.errors import UserError
from private_graphs.datasets.arrays import undirected_edges
from private_graphs.datasets.graph_dataset import GraphDataset

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


@pytest.mark.parametrize(
    ("nodes", "mask"), [([1, 2, 3], "train"), ([5], "validation"), ([0, 4], "test")]
)
def test_a_mask_without_any_label_is_an_error_that_names_it(monkeypatch, tmp_path, nodes, mask):
    labels = np.array(HAND_LABELS)
    labels[nodes] = -1
    arrays = archive(HAND_ENTRIES, HAND_WORDS, labels)
    with pytest.raises(UserError, match=f"own: {mask}_mask: found no member with a label"):
        build_own(monkeypatch, tmp_path, arrays, COLOURS, 1, 2)


def test_a_declared_class_need_not_occur_and_no_other_may(monkeypatch, tmp_path):
    arrays = archive(HAND_ENTRIES, HAND_WORDS, [0, 3, 0, -1, 3, 3])
    dataset = build_own(monkeypatch, tmp_path, arrays, COLOURS, 1, 2)
    assert dataset.labels.tolist() == [0, 3, 0, -1, 3, 3] and dataset.n_classes == 4
    with pytest.raises(UserError, match="own.npz: labels .* numbers 0..3, expected 0..2"):
        build_own(monkeypatch, tmp_path, arrays, COLOURS[:3], 1, 2)
