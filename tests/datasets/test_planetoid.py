"""The Planetoid reader on a graph small enough to check by hand; pickles of others are not run."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
import scipy.sparse
from made_data import Call

from private_graphs.core.errors import UserError
from private_graphs.datasets.embedded import unpack
from private_graphs.datasets.planetoid import planetoid_graph, read_planetoid


def hand_graph(**changes):
    """Nodes 0-2 known (0 labelled, 1 validation), test ids 5 and 3; node 4 is absent."""
    parts = {
        "y": np.array([[1, 0]]),
        "allx": scipy.sparse.csr_matrix([[1, 0], [0, 1], [1, 1]], dtype=np.float32),
        "ally": np.array([[1, 0], [0, 1], [0, 1]]),
        "tx": scipy.sparse.csr_matrix([[5, 0], [0, 3]], dtype=np.float32),
        "ty": np.array([[1, 0], [0, 1]]),
        # 2-2 is a loop, listed once; 0-1 is listed twice both ways; 4 has an edge but no features.
        "graph": {0: [1, 1], 1: [0, 0], 2: [2, 5], 3: [4], 4: [3], 5: [2]},
    }
    return planetoid_graph(parts | changes, np.array([5, 3]), n_validation=1)


def test_six_nodes_come_out_as_placed_by_hand():
    graph = hand_graph()
    assert graph.features.to_scipy().toarray().tolist() == [
        [1, 0], [0, 1], [1, 1], [0, 3], [0, 0], [5, 0],
    ]  # fmt: skip
    assert graph.labels.tolist() == [0, 1, 1, 1, -1, 0]
    assert graph.edge_index.tolist() == [[0, 2, 3], [1, 5, 4]]
    assert (graph.loops, graph.duplicates) == (1, 2)
    assert graph.train_mask.tolist() == [True, False, True, False, True, False]
    assert graph.validation_mask.tolist() == [False, True, False, False, False, False]
    assert graph.test_mask.tolist() == [False, False, False, True, False, True]
    assert graph.n_classes == 2


def test_an_edge_listed_from_one_side_only_is_still_an_edge():
    graph = hand_graph(graph={0: [], 5: [1], 2: [0]})
    assert graph.edge_index.tolist() == [[0, 1], [2, 5]]
    assert (graph.loops, graph.duplicates, graph.one_way) == (0, 0, 2)


@pytest.mark.parametrize("part", ["y", "tx", "ty", "allx", "ally", "graph"])
def test_no_pickle_is_run_whose_sha256_is_not_listed(tmp_path, part):
    folder = unpack("planetoid", tmp_path)[0].parent
    victim = tmp_path / "victim"
    victim.write_text("still here")
    path = folder / f"ind.synthetic.{part}"
    path.write_bytes(pickle.dumps(Call(os.remove, str(victim))))
    with pytest.raises(UserError, match=f"{path}: found sha256 [0-9a-f]*, expected one that"):
        read_planetoid(folder / "synthetic")
    assert victim.exists()
