"""Approximate personalised PageRank: the exact fixed point of its l1-regularised problem.

With degrees d, teleport probability α and penalty ρ, the row p of a target node v minimises ½
pᵀD⁻¹Qp - α p_v/d_v + ρα‖p‖₁ over a lazy walk, Q = I - (1-α)(I + AD⁻¹)/2 (Fountoulakis et al. 2019;
Zhang 2021, Algorithm 6, which takes damped steps to the same point). Its gradient g satisfies p >=
0, g_i = -ρα where p_i > 0, and -ρα <= g_i <= 0 elsewhere. Coordinates are pushed one at a time
until no -g_i exceeds (1+γ)ρα, so that only nodes near v are touched.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from private_graphs.core.compiled import njit

ALPHA, RHO, GAMMA = 0.25, 1e-4, 1e-4
"""Teleport probability, penalty and tolerance of the thesis, by an unpublished grid search."""


def with_loops(edge_index: np.ndarray, n_nodes: int) -> scipy.sparse.csr_matrix:
    """Return the symmetric (N, N) 0/1 matrix of undirected edges (2, E) with all N loops."""
    first, second = edge_index
    loops = np.arange(n_nodes)
    ends = np.r_[first, second, loops], np.r_[second, first, loops]
    matrix = scipy.sparse.csr_matrix((np.ones(len(ends[0])), ends), (n_nodes, n_nodes))
    matrix.sort_indices()
    return matrix


@njit(cache=True, nogil=True)
def _row(start, neighbours, degree, root, alpha, rho, gamma, p, g, queue, queued, touched):
    """Fill ``p`` and ``g`` (N,), zero outside the ``touched`` nodes; return the number of these."""
    n = p.shape[0]
    limit = (1.0 + gamma) * rho * alpha
    g[root] = -alpha / degree[root]
    touched[0] = root
    n_touched, head, waiting = 1, 0, 0
    if -g[root] > limit:
        queue[0] = root
        queued[root] = True
        waiting = 1
    while waiting > 0:
        i = queue[head]
        head = head + 1 if head + 1 < n else 0
        waiting -= 1
        queued[i] = False
        change = -2.0 * degree[i] * (g[i] + rho * alpha) / (1.0 + alpha)
        p[i] += change
        g[i] = -rho * alpha
        share = (1.0 - alpha) * change / (2.0 * degree[i])
        for k in range(start[i], start[i + 1]):
            j = neighbours[k]
            if g[j] == 0.0:
                touched[n_touched] = j
                n_touched += 1
            g[j] -= share / degree[j]
            if -g[j] > limit and not queued[j]:
                queued[j] = True
                slot = head + waiting
                queue[slot - n if slot >= n else slot] = j
                waiting += 1
    return n_touched


@njit(cache=True, nogil=True)
def _dense(start, neighbours, degree, roots, alpha, rho, gamma, out):
    n = degree.shape[0]
    g = np.zeros(n)
    queue, touched = np.empty(n, np.int64), np.empty(n, np.int64)
    queued = np.zeros(n, np.bool_)
    for r in range(roots.shape[0]):
        count = _row(
            start, neighbours, degree, roots[r], alpha, rho, gamma, out[r], g, queue, queued,
            touched,
        )  # fmt: skip
        for k in range(count):
            g[touched[k]] = 0.0


def _parts(matrix: scipy.sparse.csr_matrix):
    """Return the CSR arrays and degrees for the kernels; every node must have its loop."""
    degree = np.asarray(matrix.sum(axis=1)).ravel()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), degree


def pagerank_rows(
    matrix: scipy.sparse.csr_matrix,
    roots: np.ndarray,
    alpha: float = ALPHA,
    rho: float = RHO,
    gamma: float = GAMMA,
) -> np.ndarray:
    """Return (M, N) float64 PageRank rows of target nodes (M,); ``matrix`` is ``with_loops``'."""
    out = np.zeros((len(roots), matrix.shape[0]))
    _dense(*_parts(matrix), np.asarray(roots, np.int64), alpha, rho, gamma, out)
    return out
