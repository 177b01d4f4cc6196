"""Neighbouring tasks: changes of one unit, by scenario, with all public data equal; and tasks in
which many units contribute nothing.

Each neighbour differs from a task in one unit. Values are extreme on purpose: empty rows, huge
values, copies of another unit, missing labels, hubs and isolated nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from private_graphs.datasets.graph_dataset import GraphDataset, SparseFeatures
from private_graphs.methods.noisy_sums import adjacency_of
from private_graphs.methods.unit_gradients import by_centroids, hashed_parts, unit_of_records
from private_graphs.tasks.graph_task import GraphTask
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.tasks import NodeTask, Task

HUGE = 1e6
"""Largest value of an extreme feature."""


@dataclass(frozen=True)
class Neighbour:
    """One neighbour of a task."""

    task: Task
    node: int | None = None
    """The node that is the unit; its own answer is published only to itself (``lists``)."""
    validation: int | None = None
    """The validation record whose label differs: private in runs that do not know it."""


def neighbours(task: Task, count: int, seed: int, settings: Any = None) -> Iterator[Neighbour]:
    """Yield ``count`` neighbours of ``task`` under its scenario, drawn from ``seed``.

    ``settings`` of the run define the unit if the scenario leaves it open (parts of classes).
    """
    generator = np.random.default_rng(seed)
    change = _CHANGES[task.scenario.name]
    for number in range(count):
        found = change(task, number, generator, settings)
        yield found if isinstance(found, Neighbour) else Neighbour(found)


def with_members(task: Task, kept: np.ndarray) -> Task:
    """Return the task in which labelled training records outside ``kept`` (n,) contribute nothing.

    They still count as units: sizes, divisors and noise, which are public, stay.
    """
    if isinstance(task, GraphTask):
        to_public, among = task.train_to_public, task.train_adjacency
        return replace(
            task,
            train_features=task.train_features[kept],
            train_labels=task.train_labels[kept],
            train_to_public=None if to_public is None else to_public[kept],
            train_adjacency=None if among is None else among[kept][:, kept],
        )
    if isinstance(task, ImageTask):
        labels = task.train_labels.copy()
        labels[np.flatnonzero(labels >= 0)[~kept]] = -1
        return replace(task, train_labels=labels)
    graph = task.graph
    out = np.flatnonzero(graph.train_mask & (graph.labels >= 0))[~kept]
    labels, there = graph.labels.copy(), np.ones(graph.n_nodes, np.float32)
    labels[out], there[out] = -1, 0
    rows = sp.diags(there)
    if task.scenario.unit == "node_out_list":  # only a node's own answer reads its features
        lists = adjacency_of(graph) if task.lists is None else task.lists
        lists = sp.csr_matrix(rows @ lists)
        lists.eliminate_zeros()
        return replace(task, graph=replace(graph, labels=labels), lists=lists)
    features = graph.features
    features = (
        features * there[:, None]
        if isinstance(features, np.ndarray)
        else SparseFeatures.from_scipy(rows @ features.to_scipy())
    )
    kept_edges = graph.edge_index[:, there[graph.edge_index].all(axis=0)]
    left = with_edges(replace(graph, labels=labels, features=features), kept_edges)
    return replace(task, graph=left)


def _odd_row(width: int, number: int, generator: np.random.Generator) -> np.ndarray:
    """Return a feature row: zeros, one huge value, equal values, or values of mixed sizes."""
    row = np.zeros(width)
    kind = number % 4
    if kind == 1:
        row[generator.integers(width)] = HUGE
    elif kind == 2:
        row[:] = 1.0
    elif kind == 3:
        chosen = generator.random(width) < 0.3
        row[chosen] = 10.0 ** generator.uniform(-6, 6, chosen.sum())
    return row


def _odd_label(n_classes: int, number: int, generator: np.random.Generator) -> int:
    """Return a class, or -1 for a missing label: for the first neighbour, and some others."""
    return -1 if number % 5 == 0 else int(generator.integers(n_classes))


def _unit_row(row: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(row)
    return row / norm if norm else row


def _with_row(matrix: sp.csr_matrix, place: int, row: np.ndarray) -> sp.csr_matrix:
    dense = sp.lil_matrix(matrix)
    dense[place] = row
    return sp.csr_matrix(dense)


def _without(matrix: Any, place: int) -> Any:
    kept = np.arange(matrix.shape[0]) != place
    return matrix[kept]


def _text(
    task: GraphTask, number: int, generator: np.random.Generator, _: Any
) -> GraphTask | Neighbour:
    """Replace one training node: its text, its label, under ``graph`` its edges.

    Every sixth neighbour changes a private validation label instead.
    """
    if number % 6 == 5 and len(task.validation_labels):
        labels = task.validation_labels.copy()
        labels[-1] = (labels[-1] + 1) % task.n_classes
        changed = replace(task, validation_labels=labels)
        return Neighbour(changed, validation=len(labels) - 1)
    place = int(generator.integers(task.n_train))
    label = _odd_label(task.n_classes, number, generator)
    if label < 0:
        changed = replace(
            task,
            train_features=_without(task.train_features, place),
            train_labels=_without(task.train_labels, place),
        )
        if task.train_to_public is not None:
            inner = _without(_without(task.train_adjacency, place).T.tocsr(), place)
            changed = replace(
                changed, train_to_public=_without(task.train_to_public, place),
                train_adjacency=inner,
            )  # fmt: skip
        return changed
    labels = task.train_labels.copy()
    labels[place] = label
    row = _unit_row(np.abs(_odd_row(task.n_features, number, generator)))
    changed = replace(
        task, train_features=_with_row(task.train_features, place, row), train_labels=labels
    )
    if task.train_to_public is None:
        return changed
    n_public = task.train_to_public.shape[1]
    share = (0.0, 1.0, 0.2)[number % 3]
    outer = (generator.random(n_public) < share) * 1.0
    inner = sp.lil_matrix(task.train_adjacency)
    near = (generator.random(task.n_train) < share) * 1.0
    near[place] = 0
    inner[place], inner[:, place] = near, near[:, None]
    return replace(
        changed, train_to_public=_with_row(task.train_to_public, place, outer),
        train_adjacency=sp.csr_matrix(inner),
    )  # fmt: skip


def _edge_of(n: int, generator: np.random.Generator) -> tuple[int, int]:
    first, second = np.sort(generator.choice(n, 2, replace=False))
    return int(first), int(second)


def _edges(task: GraphTask, number: int, generator: np.random.Generator, _: Any) -> GraphTask:
    """Add or remove one edge, alternately one of a training node."""
    n = task.adjacency.shape[0]
    first, second = _edge_of(task.n_train if number % 2 else n, generator)
    adjacency = sp.lil_matrix(task.adjacency)
    present = adjacency[first, second]
    adjacency[first, second] = adjacency[second, first] = 1 - present
    return replace(task, adjacency=sp.csr_matrix(adjacency))


def _links(task: NodeTask, number: int, generator: np.random.Generator, _: Any) -> NodeTask:
    """Add or remove one edge."""
    graph = task.graph
    edge = np.array(_edge_of(graph.n_nodes, generator))[:, None]
    same = (graph.edge_index == edge).all(axis=0)
    edges = graph.edge_index[:, ~same]
    if not same.any():
        edges = np.concatenate([edges, edge], axis=1)
    return replace(task, graph=with_edges(graph, edges))


def with_edges(graph: GraphDataset, edges: np.ndarray) -> GraphDataset:
    """Return the graph with these undirected edges, (2, E) with i < j, in sorted order."""
    order = np.lexsort(edges[::-1])
    info = graph.info.model_copy(update={"n_edges": edges.shape[1]})
    return replace(graph, edge_index=np.ascontiguousarray(edges[:, order]), info=info)


def _with_node(graph: GraphDataset, node: int, label: int, row: np.ndarray) -> GraphDataset:
    labels = graph.labels.copy()
    labels[node] = label
    features = graph.features
    if isinstance(features, np.ndarray):
        features = features.copy()
        features[node] = row
    else:
        kind = features.values.dtype
        features = SparseFeatures.from_scipy(
            sp.csr_matrix(_with_row(features.to_scipy(), node, row).astype(kind))
        )
    return replace(graph, labels=labels, features=features)


def _node(task: NodeTask, number: int, generator: np.random.Generator, _: Any) -> NodeTask:
    """Replace one training node: features, label, and its edges to other training nodes."""
    graph = task.graph
    train = np.flatnonzero(graph.train_mask)
    node = int(generator.choice(train))
    label = _odd_label(task.n_classes, number, generator)
    row = np.abs(_odd_row(graph.n_features, number, generator))
    changed = _with_node(graph, node, label, row)
    others = train[train != node]
    near = others[generator.random(len(others)) < (0.0, 1.0, 0.2)[number % 3]]
    touches = (graph.edge_index == node).any(axis=0)
    kept = graph.edge_index[:, ~touches]
    own = np.stack([np.minimum(near, node), np.maximum(near, node)])
    return replace(task, graph=with_edges(changed, np.concatenate([kept, own], axis=1)))


def _lists(task: NodeTask, number: int, generator: np.random.Generator, _: Any) -> Neighbour:
    """Replace one node: features, label if it trains, and its own list only."""
    graph, node = task.graph, int(generator.integers(task.graph.n_nodes))
    if number % 2 or number % 5 == 0:  # a training node, whose label may be removed
        node = int(generator.choice(np.flatnonzero(graph.train_mask)))
    label = int(graph.labels[node])
    if graph.train_mask[node]:
        label = _odd_label(task.n_classes, number, generator)
    row = np.abs(_odd_row(graph.n_features, number, generator))
    lists = sp.lil_matrix(adjacency_of(graph) if task.lists is None else task.lists)
    near = (generator.random(graph.n_nodes) < (0.0, 1.0, 0.1)[number % 3]) * 1.0
    near[node] = 0
    lists[node] = near
    changed = _with_node(graph, node, label, row)
    return Neighbour(
        replace(task, graph=changed, lists=sp.csr_matrix(lists, dtype=np.float32)), node
    )


def _odd_pixels(shape: tuple[int, ...], number: int, generator: np.random.Generator) -> np.ndarray:
    kinds = (
        np.zeros(shape), np.full(shape, 255), generator.integers(0, 256, shape),
        255 * (generator.random(shape) < 0.05),
    )  # fmt: skip
    return kinds[number % 4].astype(np.uint8)


def _record(task: ImageTask, number: int, generator: np.random.Generator, _: Any) -> ImageTask:
    """Replace one training image and its label."""
    place = int(generator.integers(len(task.train_labels)))
    pixels, labels = task.train_pixels.copy(), task.train_labels.copy()
    pixels[place] = _odd_pixels(pixels.shape[1:], number, generator)
    labels[place] = _odd_label(task.n_classes, number, generator)
    return replace(task, train_pixels=pixels, train_labels=labels)


def _class(task: ImageTask, number: int, generator: np.random.Generator, _: Any) -> ImageTask:
    """Replace all training images of one class."""
    mine = task.train_labels == number % task.n_classes
    pixels = task.train_pixels.copy()
    pixels[mine] = _odd_pixels(pixels[mine].shape, number, generator)
    return replace(task, train_pixels=pixels)


def _part(task: ImageTask, number: int, generator: np.random.Generator, settings: Any) -> ImageTask:
    """Replace all training images of one part of one class.

    Where an image's nearest public centroid determines its part, new ones are of the same part; of
    every third neighbour the part is empty.
    """
    if by_centroids(task, settings):
        return _cell(task, number, generator, settings)
    parts = hashed_parts(len(task.train_labels), settings.parts)
    own = (number % task.n_classes, (number // task.n_classes) % settings.parts)
    mine = (task.train_labels == own[0]) & (parts == own[1])
    pixels = task.train_pixels.copy()
    pixels[mine] = _odd_pixels(pixels[mine].shape, number, generator)
    return replace(task, train_pixels=pixels)


def _cell(task: ImageTask, number: int, generator: np.random.Generator, settings: Any) -> ImageTask:
    public = np.arange(len(task.validation_labels))
    units = unit_of_records(task, settings, public)
    present = np.unique(units[units >= 0])
    unit = present[number % len(present)]
    mine = np.flatnonzero(units == unit)
    pixels, labels = task.train_pixels.copy(), task.train_labels.copy()
    if number % 3 == 2:
        labels[mine] = -1
        return replace(task, train_labels=labels)
    odd = [_odd_pixels(pixels.shape, kind, generator) for kind in range(4)]
    pool = np.concatenate([*odd, task.train_pixels, task.validation_pixels])
    same = np.full(len(pool), labels[mine[0]])
    found = unit_of_records(replace(task, train_pixels=pool, train_labels=same), settings, public)
    pixels[mine] = pool[generator.choice(np.flatnonzero(found == unit), len(mine))]
    return replace(task, train_pixels=pixels)


_CHANGES: dict[str, Callable[..., Any]] = {
    "text": _text,
    "graph": _text,
    "edges": _edges,
    "links": _links,
    "lists": _lists,
    "nodes": _node,
    "records": _record,
    "classes": _class,
    "subclasses": _part,
}
"""Callables by scenario: (task, number, generator, settings) → a neighbouring task."""
