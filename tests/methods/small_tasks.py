"""Small tasks of each scenario, requests, and methods by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from answers import answers
from small_graphs import make_graph

from private_graphs.core.streams import Streams
from private_graphs.datasets.protocols import SOUND
from private_graphs.methods import method_named
from private_graphs.tasks.graph_task import GraphTask, unit_rows
from private_graphs.tasks.method import Context, Outcome, Request
from private_graphs.tasks.tasks import SCENARIOS, build_task


def _texts(
    rng: np.random.Generator, labels: np.ndarray, n_classes: int, words: int
) -> sp.csr_matrix:
    """Presence vectors: a class prefers its own words."""
    own = np.arange(words) % n_classes == labels[:, None]
    return unit_rows(sp.csr_matrix((rng.random(own.shape) < np.where(own, 0.4, 0.05)) * 1.0))


def make_task(
    scenario: str = "graph",
    seed: int = 0,
    *,
    n_train: int = 80,
    n_validation: int = 30,
    n_test: int = 40,
    n_classes: int = 3,
    words: int = 24,
) -> GraphTask:
    """Build a task whose classes differ in words and, under ``graph``, in edges."""
    rng = np.random.default_rng(seed)
    labels = [rng.integers(n_classes, size=size) for size in (n_train, n_validation, n_test)]
    rows = [_texts(rng, side, n_classes, words) for side in labels]
    everyone = np.concatenate(labels)
    chance = np.where(everyone[:, None] == everyone, 0.12, 0.01)
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    edges = sp.csr_matrix((upper | upper.T) * 1.0)
    graph = scenario == "graph"
    return GraphTask(
        scenario=SCENARIOS[scenario], n_units=n_train, n_classes=n_classes, delta=1e-5,
        train_features=rows[0], train_labels=labels[0],
        validation_features=rows[1], validation_labels=labels[1], test_features=rows[2],
        public_adjacency=edges[n_train:, n_train:] if graph else None,
        train_to_public=edges[:n_train, n_train:] if graph else None,
        train_adjacency=edges[:n_train, :n_train] if graph else None,
    )  # fmt: skip


def with_other_training(task: GraphTask, seed: int = 99) -> GraphTask:
    """Replace everything that belongs to training nodes, keeping their number."""
    other = make_task(
        task.scenario.name, seed, n_train=task.n_train,
        n_validation=len(task.validation_labels), n_test=task.test_features.shape[0],
        n_classes=task.n_classes, words=task.n_features,
    )  # fmt: skip
    return replace(
        task, train_features=other.train_features, train_labels=other.train_labels,
        train_to_public=other.train_to_public, train_adjacency=other.train_adjacency,
    )  # fmt: skip


def graph_task(seed: int = 0, nodes: int = 120, unlabelled: int = 0) -> GraphTask:
    """Cut a graph: half of ``nodes`` train, a quarter each validates and tests, 3 classes.

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
    return task_of(dataset, "graph")


def task_of(dataset, scenario: str) -> GraphTask:
    """Cut a dataset for a scenario, with a generous bound on the edges."""
    return build_task(dataset, scenario, SOUND, 1e-5, max_edges=900)[0]


def text_task(nodes: int = 400, train_seed: int = 1) -> GraphTask:
    """Return a task of texts alone with ``nodes`` training, 40 validation and 60 test nodes.

    Other training nodes with ``train_seed``; the public side stays.
    """
    public = make_task("text", 0, n_train=1, n_validation=40, n_test=60, words=150)
    private = make_task("text", train_seed, n_train=nodes, words=150)
    return replace(
        public, n_units=nodes, train_features=private.train_features,
        train_labels=private.train_labels,
    )  # fmt: skip


def request(
    task: GraphTask, epsilon: float = 2.0, seed: int = 0, known: int | None = None
) -> Request:
    """Ask for one run with the first ``known`` validation labels public (all by default)."""
    count = len(task.validation_labels) if known is None else known
    streams = Streams.of({"epsilon": str(epsilon), "seed": seed, "known": count})
    return Request(epsilon, seed, np.arange(count), streams)


def many_requests(
    task: GraphTask,
    epsilons: tuple[float, ...] = (1.0,),
    known: tuple[int, ...] = (0,),
    seeds: int = 1,
) -> list[Request]:
    """Return one request for each epsilon, number of known labels and seed."""
    return [
        request(task, epsilon, seed, size)
        for epsilon in epsilons
        for size in known
        for seed in range(seeds)
    ]


def run(name: str, task: GraphTask, requests: Sequence[Request], progress=None) -> list[Outcome]:
    """Answer requests by the method of this name."""
    return answers(method_named(name), task, requests, Context(progress))
