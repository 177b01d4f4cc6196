"""A small task of the setting ``graph`` for methods under test."""

from __future__ import annotations

import numpy as np
from small_graphs import make_graph

from private_graphs.tasks import SCENARIOS, GraphTask, build_task


def graph_problem(seed: int = 0, nodes: int = 120, unlabelled: int = 0) -> GraphTask:
    """Return half of ``nodes`` for training, a quarter each for validation and test, 3 classes.

    Words tell the classes apart, and neighbours are mostly of one class.
    """
    draws = np.random.default_rng(seed)
    labels = draws.integers(3, size=nodes)
    same = labels[:, None] == labels[None, :]
    upper = np.triu(draws.random((nodes, nodes)) < np.where(same, 8 / nodes, 1 / nodes), 1)
    words = draws.random((nodes, 30)) < np.where(np.arange(30) // 10 == labels[:, None], 0.3, 0.05)
    shown = labels.copy()
    shown[:unlabelled] = -1
    half, most = nodes // 2, 3 * nodes // 4
    dataset = make_graph(
        np.argwhere(upper), words * 1.0, shown, classes=3,
        train=range(half), validation=range(half, most), test=range(most, nodes),
    )  # fmt: skip
    return build_task(dataset, SCENARIOS["graph"], 1e-5)
