"""Small tasks for the proved methods, and requests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from private_graphs.tasks import SCENARIOS, GraphTask, unit_rows
from private_graphs.methods.method import Request
from private_graphs.training.streams import Streams


def _texts(
    rng: np.random.Generator, labels: np.ndarray, n_classes: int, words: int
) -> sp.csr_matrix:
    """Presence vectors: a class prefers its own words."""
    own = np.arange(words) % n_classes == labels[:, None]
    return unit_rows(sp.csr_matrix((rng.random(own.shape) < np.where(own, 0.4, 0.05)) * 1.0))


def make_problem(
    setting: str = "graph",
    seed: int = 0,
    *,
    n_train: int = 80,
    n_tuning: int = 30,
    n_test: int = 40,
    n_classes: int = 3,
    words: int = 24,
) -> GraphTask:
    """Build a task whose classes differ in words and, under ``graph``, in edges."""
    rng = np.random.default_rng(seed)
    sizes = (n_train, n_tuning, n_test)
    labels = [rng.integers(n_classes, size=size) for size in sizes]
    rows = [_texts(rng, each, n_classes, words) for each in labels]
    everyone = np.concatenate(labels)
    chance = np.where(everyone[:, None] == everyone, 0.12, 0.01)
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    edges = sp.csr_matrix((upper | upper.T) * 1.0)
    graph = setting == "graph"
    return GraphTask(
        setting=SCENARIOS[setting], n_units=n_train, n_classes=n_classes, delta=1e-5,
        train_features=rows[0], train_labels=labels[0],
        validation_features=rows[1], validation_labels=labels[1], test_features=rows[2],
        public_adjacency=edges[n_train:, n_train:] if graph else None,
        train_to_public=edges[:n_train, n_train:] if graph else None,
        train_adjacency=edges[:n_train, :n_train] if graph else None,
    )  # fmt: skip


def with_other_training(task: GraphTask, seed: int = 99) -> GraphTask:
    """Replace everything that belongs to training nodes, keeping their number."""
    other = make_problem(
        task.scenario.name, seed, n_train=task.n_train,
        n_tuning=len(task.validation_labels), n_test=task.test_features.shape[0],
        n_classes=task.n_classes, words=task.n_features,
    )  # fmt: skip
    return replace(
        task,
        train_features=other.train_features,
        train_labels=other.train_labels,
        train_to_public=other.train_to_public,
        train_adjacency=other.train_adjacency,
    )


def request(
    task: GraphTask, epsilon: float = 2.0, seed: int = 0, known: int | None = None
) -> Request:
    """Ask for one run with the first ``known`` validation labels public (all by default)."""
    count = len(task.validation_labels) if known is None else known
    streams = Streams.of({"epsilon": str(epsilon), "seed": seed, "known": count})
    return Request(epsilon, seed, np.arange(count), streams)
