"""A small task of texts and requests for methods under test."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from private_graphs.tasks import SCENARIOS, GraphTask, unit_rows
from private_graphs.methods.method import Request
from private_graphs.training.streams import Streams


def _texts(draws: np.random.Generator, labels: np.ndarray, words: int) -> scipy.sparse.csr_matrix:
    """Presence of words; each class has its own fifth of them more often."""
    chances = np.full((len(labels), words), 0.02)
    share = words // 5
    for row, label in zip(chances, labels, strict=True):
        row[label * share : (label + 1) * share] = 0.12
    return unit_rows(scipy.sparse.csr_matrix((draws.random(chances.shape) < chances) * 1.0))


def text_problem(
    seed: int = 0, nodes: int = 400, classes: int = 3, words: int = 150, train_seed: int = 1
) -> GraphTask:
    """Return a task with ``nodes`` training, 40 validation and 60 test nodes."""
    public, private = np.random.default_rng(seed), np.random.default_rng(train_seed)
    sides = [private.integers(classes, size=nodes), public.integers(classes, size=40)]
    test_labels = public.integers(classes, size=60)
    return GraphTask(
        setting=SCENARIOS["text"],
        n_units=nodes,
        n_classes=classes,
        delta=1e-5,
        train_features=_texts(private, sides[0], words),
        train_labels=sides[0],
        validation_features=_texts(public, sides[1], words),
        validation_labels=sides[1],
        test_features=_texts(public, test_labels, words),
    )


def many_requests(
    task: GraphTask,
    epsilons: tuple[float, ...] = (1.0,),
    known: tuple[int, ...] = (40,),
    seeds: int = 1,
) -> list[Request]:
    """Return one request for each epsilon, number of known labels and seed."""
    return [
        Request(
            epsilon=epsilon,
            seed=seed,
            known=np.arange(size),
            streams=Streams.of({"epsilon": str(epsilon), "known": size, "seed": seed}),
        )
        for epsilon in epsilons
        for size in known
        for seed in range(seeds)
    ]
