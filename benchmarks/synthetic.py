"""Seeded graphs of any size for the growth page: nodes, edges and non-zeros are exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from private_graphs.datasets.graph_dataset import GraphDataset


@dataclass(frozen=True)
class Size:
    """Size of a graph."""

    nodes: int
    edges: int
    """Undirected."""
    nonzeros: int
    """Of the features."""
    features: int = 1000
    classes: int = 7


def _distinct(draw, count: int) -> np.ndarray:
    """The first ``count`` distinct keys that ``draw(number of draws)`` yields, in any order."""
    found = np.zeros(0, dtype=np.int64)
    while len(found) < count:
        found = np.concatenate([found, draw(count)])
        _, first = np.unique(found, return_index=True)
        found = found[np.sort(first)]
    return found[:count]


def citation_like(size: Size, seed: int = 0) -> GraphDataset:
    """Return a graph with skewed degrees and a Zipf-like vocabulary.

    Half of the nodes train, a quarter validates, a quarter tests. The same size and seed give the
    same graph. Features are 1 where a word occurs.
    """
    generator = np.random.default_rng(seed)
    nodes, words = size.nodes, size.features
    propensity = np.minimum((1.0 - generator.random(nodes)) ** -0.4, 30.0)
    cumulative = np.cumsum(propensity) / propensity.sum()
    zipf = np.cumsum(1.0 / (np.arange(words) + 20.0))
    vocabulary = generator.permutation(words)

    def ends(count: int) -> np.ndarray:
        drawn = np.searchsorted(cumulative, generator.random((2, count)))
        drawn = np.sort(np.minimum(drawn, nodes - 1), axis=0)
        low, high = drawn[:, drawn[0] != drawn[1]]
        return low * nodes + high

    def occurrences(count: int) -> np.ndarray:
        drawn = np.searchsorted(zipf, generator.random(count) * zipf[-1])
        word = vocabulary[np.minimum(drawn, words - 1)]
        return generator.integers(0, nodes, count) * words + word

    pairs = np.sort(_distinct(ends, size.edges))
    cells = _distinct(occurrences, size.nonzeros)
    ones = np.ones(size.nonzeros, np.float32)
    features = scipy.sparse.csr_matrix((ones, divmod(cells, words)), shape=(nodes, words))
    role = generator.permutation(np.arange(nodes) % 4)
    classes = [f"class {label}" for label in range(size.classes)]
    labels = generator.integers(0, size.classes, nodes)
    return GraphDataset.generated("growth", classes, features, np.stack(divmod(pairs, nodes)),
                                  labels, (role < 2, role == 2, role == 3))  # fmt: skip
