"""The propagation matrix, entry by entry."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from private_graphs.graphs.normalise import gcn_propagation


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
