"""The propagation matrix, entry by entry."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from private_graphs.graphs.normalise import gcn_propagation


def test_a_path_and_an_isolated_node_have_the_entries_worked_out_by_hand():
    found = gcn_propagation(np.array([[0, 1], [1, 2]]), 4).toarray()
    half, sixth, third = 1 / 2, 1 / np.sqrt(6), 1 / 3  # degrees with loop: 2, 3, 2, 1
    expected = [[half, sixth, 0, 0], [sixth, third, sixth, 0], [0, sixth, half, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_a_graph_without_edges_propagates_nothing():
    found = gcn_propagation(np.empty((2, 0), dtype=np.int64), 3)
    np.testing.assert_array_equal(found.toarray(), np.eye(3))


@given(st.integers(1, 15), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.2, 1.0]))
def test_any_graph_is_normalised_as_in_pytorch_geometric(n_nodes, seed, density):
    generator = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(generator.random((n_nodes, n_nodes)) < density, 1)).T
    found = gcn_propagation(edges, n_nodes)
    both = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1).copy())
    index, weight = gcn_norm(both, num_nodes=n_nodes, dtype=torch.float64)
    expected = np.zeros((n_nodes, n_nodes))
    expected[index[1], index[0]] = weight
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-12)
    assert found.has_sorted_indices and found.nnz == n_nodes + 2 * edges.shape[1]
