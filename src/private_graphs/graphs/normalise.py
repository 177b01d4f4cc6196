"""Propagation matrices of graph convolutional networks."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def gcn_propagation(edge_index: np.ndarray, n_nodes: int) -> sp.csr_array:
    """Return D^(-1/2) (A + I) D^(-1/2) with D the degrees of A + I.

    ``edge_index`` is (2, E), every undirected edge once, no loops. The result is a symmetric
    (n_nodes, n_nodes) float64 CSR matrix with sorted indices; isolated nodes keep their loop of 1.
    Source: Kipf & Welling, ICLR 2017, Eq. 2 (renormalisation trick).
    """
    rows, columns = edge_index
    nodes = np.arange(n_nodes)
    row = np.concatenate([rows, columns, nodes])
    column = np.concatenate([columns, rows, nodes])
    degree = np.bincount(row, minlength=n_nodes).astype(np.float64)
    scale = 1.0 / np.sqrt(degree)
    matrix = sp.csr_array((scale[row] * scale[column], (row, column)), shape=(n_nodes, n_nodes))
    matrix.sort_indices()
    return matrix
