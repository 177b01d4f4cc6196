"""Small problems for the proved methods, and requests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from private_graphs.methods.problem import SETTINGS, Problem, unit_rows
from private_graphs.methods.requests import Request
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
) -> Problem:
    """Build a problem whose classes differ in words and, under ``graph``, in edges."""
    rng = np.random.default_rng(seed)
    sizes = (n_train, n_tuning, n_test)
    labels = [rng.integers(n_classes, size=size) for size in sizes]
    rows = [_texts(rng, each, n_classes, words) for each in labels]
    everyone = np.concatenate(labels)
    chance = np.where(everyone[:, None] == everyone, 0.12, 0.01)
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    edges = sp.csr_matrix((upper | upper.T) * 1.0)
    graph = setting == "graph"
    return Problem(
        setting=SETTINGS[setting], n_units=n_train, n_classes=n_classes, delta=1e-5,
        train_features=rows[0], train_labels=labels[0],
        tuning_features=rows[1], tuning_labels=labels[1], test_features=rows[2],
        public_adjacency=edges[n_train:, n_train:] if graph else None,
        train_to_public=edges[:n_train, n_train:] if graph else None,
        train_adjacency=edges[:n_train, :n_train] if graph else None,
    )  # fmt: skip


def with_other_training(problem: Problem, seed: int = 99) -> Problem:
    """Replace everything that belongs to training nodes, keeping their number."""
    other = make_problem(
        problem.setting.name, seed, n_train=problem.n_train,
        n_tuning=len(problem.tuning_labels), n_test=problem.test_features.shape[0],
        n_classes=problem.n_classes, words=problem.n_features,
    )  # fmt: skip
    return replace(
        problem,
        train_features=other.train_features,
        train_labels=other.train_labels,
        train_to_public=other.train_to_public,
        train_adjacency=other.train_adjacency,
    )


def request(
    problem: Problem, epsilon: float = 2.0, seed: int = 0, known: int | None = None
) -> Request:
    """Ask for one run with the first ``known`` tuning labels public (all by default)."""
    count = len(problem.tuning_labels) if known is None else known
    streams = Streams.of({"epsilon": str(epsilon), "seed": seed, "known": count})
    return Request(epsilon, seed, np.arange(count), streams)
