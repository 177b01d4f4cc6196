"""Samples of nodes by their ids, and induced subgraphs."""

from __future__ import annotations

import hashlib

import numpy as np

CHUNK = 1 << 22
"""Entries looked up at a time."""


def hashed_coin_sample(nodes: np.ndarray, fraction: float, key: bytes) -> np.ndarray:
    """Keep each node by a coin of probability ``fraction``, derived from its id and a public key.

    The coin compares BLAKE2b(id) under ``key`` with ``fraction`` and depends on nothing else, not
    even on the other nodes: a node that appears or changes leaves every other coin unchanged
    (docs/privacy.md §3). Returns sorted node ids.
    """
    heads = round(fraction * 2**64)
    digests = (
        hashlib.blake2b(node.to_bytes(8, "little"), key=key, digest_size=8).digest()
        for node in nodes.tolist()
    )
    mask = [int.from_bytes(digest, "little") < heads for digest in digests]
    return np.sort(nodes[np.array(mask, dtype=bool)])


def induced_subgraph(
    sources: np.ndarray, targets: np.ndarray, keep: np.ndarray, chunk: int = CHUNK
) -> np.ndarray:
    """Return the entries between kept nodes, in their order, with the kept nodes renumbered.

    The n-th kept node becomes node n. Loops and repetitions stay.

    Args:
        sources, targets: (entries,) node ids in 0..N-1, of any integer type.
        keep: (N,) bool, the nodes that stay.
        chunk: entries looked up at a time; memory beyond the result is of this order.

    Returns:
        (2, kept entries) int64.
    """
    parts = [slice(start, start + chunk) for start in range(0, len(sources), chunk)]
    # A second look-up is cheaper than storing the first.
    count = sum(np.count_nonzero(keep[sources[part]] & keep[targets[part]]) for part in parts)
    renumbered = np.cumsum(keep, dtype=np.int64) - 1
    entries = np.empty((2, count), dtype=np.int64)
    end = 0
    for part in parts:
        inside = np.flatnonzero(keep[sources[part]] & keep[targets[part]])
        begin, end = end, end + len(inside)
        entries[0, begin:end] = renumbered[sources[part][inside]]
        entries[1, begin:end] = renumbered[targets[part][inside]]
    return entries
