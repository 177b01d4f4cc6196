"""Rows of approximate PageRank: exact, private, or without data; and bounds on their matrix.

A row mixes the outputs of a few nodes into that of its target node (Zhang 2021, Section 5.3). Its
private forms depend on clipped values and noise alone: ``gaussian_rows`` (Algorithm 7) and
``chosen_rows`` (Algorithm 8, EM-v0 and EM-v1). All of them draw noise for every coordinate,
including zeros, in float64: noise alone breaks ties. docs/privacy.md §9.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse

from private_graphs.mechanisms.door import Door
from private_graphs.privacy.queries import ExponentialChoice, GaussianQuery, LaplaceQuery


def gaussian_rows(
    p: np.ndarray, top: int, clip: float, door: Door, query: GaussianQuery | None
) -> scipy.sparse.csr_matrix:
    """Return (M, m): the ``top`` largest entries of rows p, clipped to norm ``clip``, with noise.

    Rows are non-negative, so that one node changes each by at most sqrt 2 · ``clip``.
    """
    norms = np.sqrt(np.square(p).sum(axis=1, keepdims=True))
    (noisy,) = door.gaussian((p / np.maximum(1, norms / clip))[None], [query], stream="rows")
    return _largest(noisy, noisy, top)


def chosen_rows(
    p: np.ndarray,
    top: int,
    clip: float,
    door: Door,
    choice: ExponentialChoice | None,
    values: LaplaceQuery | None,
    weighs: Literal["alike", "entries"],
) -> scipy.sparse.csr_matrix:
    """Return (M, m): the ``top`` entries of min(p, ``clip``) that the exponential mechanism picks.

    They are the largest entries plus Gumbel noise, without replacement. A chosen entry has the
    weight 1/``top``, or its value plus Laplace noise. Without DP ties are broken at random.
    """
    entries, top = np.minimum(p, clip), min(top, p.shape[1])
    (nodes,) = door.choose_top([entries], top, [choice], without=clip * 1e-9, stream="rows")
    weights = np.full(nodes.shape, 1 / top)
    if weighs == "entries":
        chosen = np.take_along_axis(entries, nodes, axis=1)
        (weights,) = door.laplace(chosen[None], [values], stream="rows")
    return _rows(nodes, weights, p.shape)


def exact_rows(p: np.ndarray, top: int) -> scipy.sparse.csr_matrix:
    """Return (M, m): the ``top`` largest entries of each row, without noise."""
    return _largest(p, p, top)


def random_rows(
    n_roots: int, n_nodes: int, top: int, generator: np.random.Generator
) -> scipy.sparse.csr_matrix:
    """Return (M, m): ``top`` distinct random nodes per target, of weight 1/top; reads no data."""
    draws = generator.random((n_roots, n_nodes))
    return _largest(draws, np.full(draws.shape, 1 / top), top)


def one_hot_rows(first: int, n_nodes: int) -> scipy.sparse.csr_matrix:
    """Return (m - first, m): one-hot rows of the nodes from ``first`` on."""
    return scipy.sparse.eye(n_nodes, format="csr")[first:]


def _largest(scores: np.ndarray, weights: np.ndarray, top: int) -> scipy.sparse.csr_matrix:
    """Return (M, m) with the ``weights`` of the ``top`` largest ``scores`` of each row."""
    top = min(top, scores.shape[1])
    nodes = np.sort(np.argpartition(-scores, top - 1, axis=1)[:, :top], axis=1)
    return _rows(nodes, np.take_along_axis(weights, nodes, axis=1), scores.shape)


def _rows(
    nodes: np.ndarray, weights: np.ndarray, shape: tuple[int, ...]
) -> scipy.sparse.csr_matrix:
    """Return (M, m) with ``weights`` (M, top) at the columns ``nodes`` (M, top) of each row."""
    starts = nodes.shape[1] * np.arange(len(nodes) + 1)
    rows = scipy.sparse.csr_matrix((weights.ravel(), nodes.ravel(), starts), shape)
    rows.eliminate_zeros()
    return rows


def columns_clipped(rows: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return ``rows`` with columns of l1 norm at most 1 (the thesis's τ)."""
    return _scaled(rows, np.maximum(1.0, abs(rows).sum(axis=0).A1))


def columns_normalised(rows: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return ``rows`` with columns of l1 norm 1, also scaled up, as in the authors' code."""
    norms = abs(rows).sum(axis=0).A1
    return _scaled(rows, np.where(norms > 0, norms, 1.0))


def _scaled(rows: scipy.sparse.csr_matrix, norms: np.ndarray) -> scipy.sparse.csr_matrix:
    return scipy.sparse.csr_matrix(rows.multiply(1 / norms))


def truncated(rows: scipy.sparse.csr_matrix, limit: int) -> scipy.sparse.csr_matrix:
    """Return ``rows`` with each node in at most ``limit`` rows other than its own.

    Row i belongs to node i. The entries of largest absolute value are kept, ties go to the first
    rows; only the matrix is read. So a replaced node changes the inputs of at most ``limit`` + 1
    targets: its own, and those that mix it.
    """
    coo = rows.tocoo()
    order = np.lexsort((coo.row, -abs(coo.data), coo.row != coo.col, coo.col))
    node, diagonal = coo.col[order], (coo.row == coo.col)[order]
    first = np.searchsorted(node, node)  # where the entries of a node begin
    holds_own = np.zeros(rows.shape[1], bool)
    holds_own[node[diagonal]] = True
    rank = np.arange(len(node)) - first - holds_own[node]
    indices = order[diagonal | (rank < limit)]
    return scipy.sparse.csr_matrix(
        (coo.data[indices], (coo.row[indices], coo.col[indices])), shape=rows.shape
    )


def most_rows(rows: scipy.sparse.csr_matrix) -> int:
    """Return R, the largest number of rows other than its own that contain a node."""
    coo = rows.tocoo()
    return int(np.bincount(coo.col[coo.row != coo.col], minlength=1).max())
