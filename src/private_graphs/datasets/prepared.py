"""Graph preparation of ProGAP (Sajadmanesh & Gatica-Perez, WSDM 2024, Section 5.1 and its code).

The order of steps: features; masks of 75, 10 and 15 % of all raw nodes; only classes that are large
enough; only edges between nodes of these classes, without loops; only nodes with an edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from private_graphs.datasets.arrays import UndirectedEdges, require
from private_graphs.datasets.graph_dataset import ParsedGraph, SparseFeatures
from private_graphs.datasets.npz import keyed_masks


def large_classes(labels: np.ndarray, smallest: int, where: str) -> tuple[np.ndarray, int]:
    """Return (N,) labels restricted to classes of at least ``smallest`` nodes, and their number.

    ``labels`` are (N,) integers, -1 for none. The remaining classes keep their order and are
    renumbered from 0; all other labels become -1.

    Raises:
        UserError: fewer than two classes remain.
    """
    counts = np.bincount(labels + 1)[1:]
    large = np.flatnonzero(counts >= smallest)
    require(len(large) >= 2, where, f"{len(large)} classes of {smallest:,} nodes or more (the "
            f"largest has {counts.max(initial=0):,})", "two at least")  # fmt: skip
    number = np.full(len(counts) + 1, -1, np.int64)
    number[large] = np.arange(len(large))
    return number[labels], len(large)  # the last entry is for label -1


def prepared(
    labels: np.ndarray,
    n_classes: int,
    edges: UndirectedEdges,
    features: Callable[[np.ndarray], SparseFeatures | np.ndarray],
    preprocessing: Sequence[str],
    where: str,
) -> ParsedGraph:
    """Drop nodes without an edge and renumber the others in order.

    Args:
        labels: (N,) int64 of all raw nodes. edges: the remaining edges, by raw node numbers.
        features: returns the rows of the nodes of a mask (N,) bool.
        preprocessing: how nodes were selected, in sentences for the privacy statement.
        where: file for the error message.

    Raises:
        UserError: no edge is left.
    """
    tied = np.zeros(len(labels), dtype=bool)
    tied[edges.edge_index] = True
    nothing = f"no edge between nodes of the {n_classes} classes that stay"
    require(tied.any(), where, nothing, "one at least")
    number = np.cumsum(tied) - 1
    masks = keyed_masks(len(labels), len(labels) // 10, len(labels) * 15 // 100)
    return ParsedGraph(
        **vars(edges) | {"edge_index": number[edges.edge_index]},
        features=features(tied),
        labels=labels[tied],
        **{key: mask[tied] for key, mask in masks.items()},
        n_classes=n_classes,
        preprocessing=tuple(preprocessing),
    )


def class_sentence(what: str, smallest: int) -> str:
    """Return a sentence for the privacy statement: how ``what`` became nodes."""
    return (
        f"{what} of classes with {smallest:,} members at least are nodes; who then has no edge "
        "left is dropped: which nodes there are depends on labels and edges, and neighbours are "
        "defined after that"
    )
