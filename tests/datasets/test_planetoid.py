"""The Planetoid reader on a graph small enough to check by hand, and on files that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from private_graphs.datasets.planetoid import read_planetoid
from private_graphs.datasets.planetoid_writer import (
    pickled_adjacency,
    pickled_array,
    pickled_csr,
)
from private_graphs.errors import UserError


def csr(*rows) -> bytes:
    return pickled_csr(scipy.sparse.csr_matrix(np.array(rows, dtype=np.float32)))


def one_hot(*classes) -> bytes:
    return pickled_array(np.eye(2, dtype=np.int32)[list(classes)])


def hand_files() -> dict[str, bytes]:
    """Nodes 0-2 known (0 labelled, 1 validation), test ids 5 and 3; node 4 is absent."""
    return {
        "x": csr([1, 0]),
        "y": one_hot(0),
        "allx": csr([1, 0], [0, 1], [1, 1]),
        "ally": one_hot(0, 1, 1),
        "tx": csr([5, 0], [0, 3]),
        "ty": one_hot(0, 1),
        # 2-2 is a loop, listed once; 0-1 is listed twice both ways; 4 has an edge but no features.
        "graph": pickled_adjacency({0: [1, 1], 1: [0, 0], 2: [2, 5], 3: [4], 4: [3], 5: [2]}),
        "test.index": b"5\n3\n",
    }


def read(tmp_path, n_validation=1, **changes):
    for part, content in (hand_files() | changes).items():
        (tmp_path / f"ind.hand.{part}").write_bytes(content)
    return read_planetoid(tmp_path, "hand", n_validation)


def test_six_nodes_come_out_as_placed_by_hand(tmp_path):
    graph = read(tmp_path)
    assert graph.features.to_scipy().toarray().tolist() == [
        [1, 0], [0, 1], [1, 1], [0, 3], [0, 0], [5, 0],
    ]  # fmt: skip
    assert graph.labels.tolist() == [0, 1, 1, 1, -1, 0]
    assert graph.edge_index.tolist() == [[0, 2, 3], [1, 5, 4]]
    assert (graph.loops_dropped, graph.duplicates_dropped) == (1, 2)
    assert graph.train_mask.tolist() == [True, False, True, False, True, False]
    assert graph.validation_mask.tolist() == [False, True, False, False, False, False]
    assert graph.test_mask.tolist() == [False, False, False, True, False, True]
    assert graph.n_classes == 2


def test_an_edge_listed_from_one_side_only_is_still_an_edge(tmp_path):
    graph = read(tmp_path, graph=pickled_adjacency({0: [], 5: [1], 2: [0]}))
    assert graph.edge_index.tolist() == [[0, 1], [2, 5]]
    assert (graph.loops_dropped, graph.duplicates_dropped) == (0, 0)


@pytest.mark.parametrize(
    ("part", "content", "expected"),
    [
        ("graph", pickled_adjacency({0: [6]}), "expected 0..5"),
        ("graph", pickled_array(np.zeros(2)), "expected a dict"),
        ("y", one_hot(1), "differs from the first 1 rows of ally"),
        ("y", one_hot(0, 1), "2 rows, expected 1"),
        ("ally", pickled_array(np.array([[1, 0], [1, 1], [0, 1]])), "not one-hot"),
        ("ally", pickled_array(np.array([[2, -1], [0, 1], [0, 1]])), "not one-hot"),
        ("ally", pickled_array(np.array([0, 1, 1])), "one-hot labels"),
        ("ty", pickled_array(np.eye(3)[:2]), "3 columns, expected 2"),
        ("tx", pickled_array(np.array([[np.inf, 0], [0, 1]])), "finite"),
        ("test.index", b"5\n5\n", "distinct"),
        ("test.index", b"5\n99999999999999999999\n", "one node id per line"),
        ("test.index", b"1\n3\n", "start at 3"),
        ("test.index", b"3\n4000000000\n", "few gaps"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, part, content, expected):
    with pytest.raises(UserError, match=expected) as raised:
        read(tmp_path, **{part: content})
    assert str(tmp_path / f"ind.hand.{part}") in str(raised.value)


def test_each_missing_file_is_named(tmp_path):
    for part in hand_files():
        read(tmp_path)
        (tmp_path / f"ind.hand.{part}").unlink()
        with pytest.raises(UserError) as raised:
            read_planetoid(tmp_path, "hand", 1)
        assert f"ind.hand.{part}: cannot be read" in str(raised.value)
