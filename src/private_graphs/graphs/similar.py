"""Similar rows of a large matrix, found in blocks: time and memory grow linearly with the rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse

_SEED = 20220
_DIMENSIONS = 64
_BLOCK = 512
_TREES, _KEPT = 6, 12
_PAIRS = 100_000


def similar_in_blocks(rows: scipy.sparse.csr_matrix, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes (N, count) with about the most similar unit rows, nearest first, and cosines.

    Rows are projected on random signs, and several random trees cut them into blocks at medians
    (random projection trees, Dasgupta & Freund 2008). Candidates are the nearest projected rows of
    a row's blocks; the cosines of the best of them are exact. Non-positive cosines are 0.
    """
    draw = np.random.default_rng(_SEED)  # fixed: rows are public wherever this is used
    n_rows, width = rows.shape
    signs = 2 * draw.integers(0, 2, (width, _DIMENSIONS)).astype(np.float32) - 1
    short = np.asarray(rows.astype(np.float32) @ signs)
    short /= np.maximum(np.linalg.norm(short, axis=1, keepdims=True), 1e-9)
    nodes = np.empty((n_rows, _TREES * _KEPT), np.int32)
    values = np.empty(nodes.shape, np.float32)
    for tree in range(_TREES):
        columns = slice(tree * _KEPT, (tree + 1) * _KEPT)
        for block in _blocks(short, draw):
            similarity = short[block] @ short[block].T
            np.fill_diagonal(similarity, -np.inf)
            nearest = np.argpartition(-similarity, _KEPT, axis=1)[:, :_KEPT]
            nodes[block, columns] = block[nearest]
            values[block, columns] = np.take_along_axis(similarity, nearest, axis=1)
    order = np.argsort(nodes, axis=1)
    nodes, values = (np.take_along_axis(array, order, axis=1) for array in (nodes, values))
    values[:, 1:][nodes[:, 1:] == nodes[:, :-1]] = -np.inf  # found by several trees
    most = min(2 * count, nodes.shape[1])
    best = np.argpartition(-values, most - 1, axis=1)[:, :most]
    nodes = np.take_along_axis(nodes, best, axis=1).astype(np.int64)
    cosines = _cosines(rows, nodes)
    cosines[np.isneginf(np.take_along_axis(values, best, axis=1))] = -1.0
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    nodes, cosines = (np.take_along_axis(array, order, axis=1) for array in (nodes, cosines))
    return nodes, np.maximum(cosines, 0)


def _blocks(short: np.ndarray, draw: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield blocks of at most ``_BLOCK`` rows, cut at medians of random directions."""
    n_rows = len(short)
    part = np.zeros(n_rows, np.int64)
    depth = int(np.ceil(np.log2(n_rows / _BLOCK)))
    for _ in range(depth):
        direction = 2 * draw.integers(0, 2, short.shape[1]).astype(np.float32) - 1
        order = np.lexsort((short @ direction, part))
        sizes = np.bincount(part)
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        upper = np.arange(n_rows) - first >= np.repeat((sizes + 1) // 2, sizes)
        part[order] = 2 * part[order] + upper
    order = np.argsort(part, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(part))[:-1])


def _cosines(rows: scipy.sparse.csr_matrix, nodes: np.ndarray) -> np.ndarray:
    """Return the inner products of each row with its ``nodes`` (N, m)."""
    n_rows, count = nodes.shape
    cosines = np.empty(nodes.shape)
    step = max(1, _PAIRS // count)
    for start in range(0, n_rows, step):
        block = np.arange(start, min(start + step, n_rows))
        left, right = rows[np.repeat(block, count)], rows[nodes[block].ravel()]
        cosines[block] = np.asarray(left.multiply(right).sum(axis=1)).reshape(-1, count)
    return cosines
