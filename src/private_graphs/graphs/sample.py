"""Samples of the training nodes for experiments on a fraction of the training data."""

from __future__ import annotations

import numpy as np


def stratified_sample(
    nodes: np.ndarray, labels: np.ndarray, fraction: float, generator: np.random.Generator
) -> np.ndarray:
    """Keep floor(count · fraction) random nodes of each label.

    ``nodes`` (M,) are node ids, ``labels`` (M,) their labels (-1, no label, is a group of its
    own). Returns the kept node ids, sorted. One relabelled node can change the fate of two others
    (docs/privacy.md §3), which the accounting has to know.
    """
    kept = []
    for label in np.unique(labels):
        members = nodes[labels == label]
        count = int(len(members) * fraction + 1e-9)  # floor, forgiving 0.1 * 30 = 2.999…
        kept.append(generator.permutation(members)[:count])
    return np.sort(np.concatenate(kept)) if kept else nodes[:0]


def keyed_coin_sample(
    nodes: np.ndarray, fraction: float, generator: np.random.Generator
) -> np.ndarray:
    """Keep each node by an independent coin of probability ``fraction``.

    The coins depend on the position in ``nodes`` and the generator alone, never on labels or
    edges, so the sample costs no privacy (docs/privacy.md §3). Returns sorted node ids.
    """
    return np.sort(nodes[generator.random(len(nodes)) < fraction])
