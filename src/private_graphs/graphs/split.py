"""Random choices of nodes: partitions that never look at the graph, and samples."""

from __future__ import annotations

import hashlib

import numpy as np

from private_graphs.core.errors import UserError


def keyed_split(ids: list[str], seed: int) -> np.ndarray:
    """Return 0 (train), 1 (validation) or 2 (test) for each of N >= 3 distinct ids, 80/10/10.

    Ids are ordered by BLAKE2b(id) under a key made of the seed; the first tenth (rounded, at least
    one) validates, the next tests, the others train. The split depends on the ids and the seed
    alone, not even on the order of the file.
    """
    key = f"private-graphs own split {seed}".encode()
    digests = [
        hashlib.blake2b(node_id.encode(), key=key, digest_size=16).digest() + node_id.encode()
        for node_id in ids
    ]
    order = sorted(range(len(ids)), key=digests.__getitem__)
    share = max(1, round(len(ids) / 10))
    split = np.zeros(len(ids), dtype=np.int64)
    split[order[:share]], split[order[share : 2 * share]] = 1, 2
    return split


def random_partition(nodes: np.ndarray, parts: int, generator: np.random.Generator) -> np.ndarray:
    """Assign each of ``nodes`` (M,) to one of ``parts`` parts, sizes differing by at most one.

    Returns (M,) part numbers 0..parts-1. The assignment depends on the number of nodes and on the
    generator alone, as docs/privacy.md §3 requires (no clustering). Raises UserError for more
    parts than nodes. Source: Igamberdiev & Habernal, LREC 2022, Section 4 (random graph splits).
    """
    if parts > len(nodes):
        raise UserError(
            f"splits: {parts} parts asked of {len(nodes)} training nodes; "
            f"expected at most {len(nodes)}: use fewer splits"
        )
    assignment = np.empty(len(nodes), dtype=np.int64)
    assignment[generator.permutation(len(nodes))] = np.arange(len(nodes)) % parts
    return assignment


def edges_within(edge_index: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Keep the edges whose two ends lie in the same group; ``group`` is (N,), -1 means removed.

    Returns (2, E'). With one group per part this is the union of the induced subgraphs.
    """
    ends = group[edge_index]
    return edge_index[:, (ends[0] == ends[1]) & (ends[0] >= 0)]


def stratified_sample(
    nodes: np.ndarray,
    labels: np.ndarray,
    fraction: float,
    generator: np.random.Generator | np.random.RandomState,
) -> np.ndarray:
    """Keep floor(count · fraction) random nodes of each label.

    ``nodes`` (M,) are node ids, ``labels`` (M,) their labels (-1, no label, forms a group). Returns
    the kept node ids, sorted. One relabelled node can change the fate of two others
    (docs/privacy.md §3), which the accounting must consider.
    """
    samples = []
    for label in np.unique(labels):
        members = nodes[labels == label]
        count = int(len(members) * fraction + 1e-9)  # floor, tolerant of 0.1 * 30 = 2.999…
        samples.append(generator.permutation(members)[:count])
    return np.sort(np.concatenate(samples)) if samples else nodes[:0]


def keyed_coin_sample(
    nodes: np.ndarray, fraction: float, generator: np.random.Generator
) -> np.ndarray:
    """Keep each node by an independent coin of probability ``fraction``.

    The coins depend on the position in ``nodes`` and the generator alone, never on labels or edges,
    so the sample has no privacy cost (docs/privacy.md §3). Returns sorted node ids.
    """
    return np.sort(nodes[generator.random(len(nodes)) < fraction])
