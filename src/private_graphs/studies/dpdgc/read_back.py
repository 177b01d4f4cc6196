"""Edges read back from a released embedding Z = A W: which rows of A have it, given W.

The weights W leave with the model. A row of Z is the sum of the weights of a node's neighbours, so
that a row with few of them is decoded exactly where the noise is smaller than the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

_MOST_FRIENDS = 25
"""Friends of a node that are looked for at most."""
_ONE = 0.01
"""Distance from 1 within which a weight of the decoding stands for an edge."""
DEGREES = {"1_2": (1, 2), "3_4": (3, 4), "5_8": (5, 8), "9_16": (9, 16), "17_": (17, 10**9)}
"""Names of columns -> least and largest number of neighbours."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """A released embedding, without its bias, and what leaves with it."""

    rows: np.ndarray
    """(N, h)"""
    weights: np.ndarray
    """(N, h): row j is what an edge to node j adds."""
    noise_std: float


def read_back(released: Embedding) -> dict[int, np.ndarray]:
    """Return the neighbours of every node whose row of the embedding is decoded without a rest.

    Orthogonal matching pursuit, row by row: the neighbour whose weights explain most of what is
    left is added until nothing but noise is left. A row counts if all its weights are 1.
    """
    lengths = np.linalg.norm(released.weights, axis=1)
    noise = 1.5 * released.noise_std * np.sqrt(released.rows.shape[1]) + 1e-9
    decoded = {}
    for node, row in enumerate(released.rows):
        chosen: list[int] = []
        values, left = np.empty(0), row
        while np.linalg.norm(left) > noise and len(chosen) < _MOST_FRIENDS:
            explained = np.abs(released.weights @ left) / lengths
            explained[chosen] = -1
            chosen.append(int(explained.argmax()))
            values = np.linalg.lstsq(released.weights[chosen].T, row)[0]
            left = row - values @ released.weights[chosen]
        if np.linalg.norm(left) <= noise and (np.abs(values - 1) < _ONE).all():
            decoded[node] = np.sort(chosen).astype(np.int64)
    return decoded


def counted(released: Embedding, adjacency: scipy.sparse.csr_matrix) -> dict[str, int]:
    """Return numbers of edges: all, read back, claimed wrongly; and of rows by their degree.

    ``adjacency`` (N, N) is the one that was embedded. An edge counts once, whichever of its ends
    it is read at; ``nodes_1_2`` are the nodes with one or two neighbours, ``read_1_2`` those whose
    row is read back exactly.
    """
    decoded, degrees = read_back(released), np.diff(adjacency.indptr)
    true = {tuple(sorted(pair)) for pair in zip(*map(np.ndarray.tolist, adjacency.nonzero()),
                                                strict=True)}  # fmt: skip
    pairs = {tuple(sorted((node, int(friend)))) for node, friends in decoded.items()
             for friend in friends}  # fmt: skip
    exact = np.array([
        node in decoded and np.array_equal(decoded[node], np.sort(adjacency[[node]].indices))
        for node in range(len(degrees))
    ])  # fmt: skip
    counts = {"edges": len(true), "edges_read": len(pairs & true),
              "edges_wrong": len(pairs - true)}  # fmt: skip
    for name, (least, most) in DEGREES.items():
        chosen = (least <= degrees) & (degrees <= most)
        counts[f"nodes_{name}"] = int(chosen.sum())
        counts[f"read_{name}"] = int(exact[chosen].sum())
    return counts
