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
        neighbour = change(task, number, generator, settings)
        yield neighbour if isinstance(neighbour, Neighbour) else Neighbour(neighbour)


def far_task(task: Task, count: int, seed: int, settings: Any = None) -> Task:
    """Return the task at the end of a chain of ``count`` neighbours, drawn from ``seed``.

    What is equal to the bit for all neighbours is so for every task that such a chain reaches, and
    a threshold that one unit hardly moves is crossed. Neighbours whose answers to one unit are
    excepted (``Neighbour``) are no link of it.
    """
    generator = np.random.default_rng([seed, 1])
    for number in range(count):
        changed = _CHANGES[task.scenario.name](task, number, generator, settings)
        if not isinstance(changed, Neighbour):
            task = changed
    return task


def with_members(task: Task, mask: np.ndarray) -> Task:
    """Return the task in which labelled training records outside ``mask`` (n,) contribute nothing.

    They still count as units: sizes, divisors and noise, which are public, stay.
    """
    if isinstance(task, GraphTask):
        to_public, among = task.train_to_public, task.train_adjacency
        return replace(
            task,
            train_features=task.train_features[mask],
            train_labels=task.train_labels[mask],
            train_to_public=None if to_public is None else to_public[mask],
            train_adjacency=None if among is None else among[mask][:, mask],
        )
    if isinstance(task, ImageTask):
        labels = task.train_labels.copy()
        labels[np.flatnonzero(labels >= 0)[~mask]] = -1
        return replace(task, train_labels=labels)
    graph = task.graph
    out = np.flatnonzero(graph.train_mask & (graph.labels >= 0))[~mask]
    labels, weights = graph.labels.copy(), np.ones(graph.n_nodes, np.float32)
    labels[out], weights[out] = -1, 0
    rows = sp.diags(weights)
    if task.scenario.unit == "node_out_list":  # only a node's own answer reads its features
        lists = adjacency_of(graph) if task.lists is None else task.lists
        lists = sp.csr_matrix(rows @ lists)
        lists.eliminate_zeros()
        return replace(task, graph=replace(graph, labels=labels), lists=lists)
    features = graph.features
    features = (
        features * weights[:, None]
        if isinstance(features, np.ndarray)
        else SparseFeatures.from_scipy(rows @ features.to_scipy())
    )
    kept_edges = graph.edge_index[:, weights[graph.edge_index].all(axis=0)]
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


def _with_row(matrix: sp.csr_matrix, index: int, row: np.ndarray) -> sp.csr_matrix:
    dense = sp.lil_matrix(matrix)
    dense[index] = row
    return sp.csr_matrix(dense)


def _without(matrix: Any, index: int) -> Any:
    mask = np.arange(matrix.shape[0]) != index
    return matrix[mask]


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
    index = int(generator.integers(task.n_train))
    label = _odd_label(task.n_classes, number, generator)
    if label < 0:
        changed = replace(
            task,
            train_features=_without(task.train_features, index),
            train_labels=_without(task.train_labels, index),
        )
        if task.train_to_public is not None:
            inner = _without(_without(task.train_adjacency, index).T.tocsr(), index)
            changed = replace(
                changed, train_to_public=_without(task.train_to_public, index),
                train_adjacency=inner,
            )  # fmt: skip
        return changed
    labels = task.train_labels.copy()
    labels[index] = label
    row = _unit_row(np.abs(_odd_row(task.n_features, number, generator)))
    changed = replace(
        task, train_features=_with_row(task.train_features, index, row), train_labels=labels
    )
    if task.train_to_public is None:
        return changed
    n_public = task.train_to_public.shape[1]
    share = (0.0, 1.0, 0.2)[number % 3]
    outer = (generator.random(n_public) < share) * 1.0
    inner = sp.lil_matrix(task.train_adjacency)
    links = (generator.random(task.n_train) < share) * 1.0
    links[index] = 0
    inner[index], inner[:, index] = links, links[:, None]
    return replace(
        changed, train_to_public=_with_row(task.train_to_public, index, outer),
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
    candidates = train[train != node]
    partners = candidates[generator.random(len(candidates)) < (0.0, 1.0, 0.2)[number % 3]]
    touches = (graph.edge_index == node).any(axis=0)
    edges = graph.edge_index[:, ~touches]
    new_edges = np.stack([np.minimum(partners, node), np.maximum(partners, node)])
    return replace(task, graph=with_edges(changed, np.concatenate([edges, new_edges], axis=1)))


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
    links = (generator.random(graph.n_nodes) < (0.0, 1.0, 0.1)[number % 3]) * 1.0
    links[node] = 0
    lists[node] = links
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
    index = int(generator.integers(len(task.train_labels)))
    pixels, labels = task.train_pixels.copy(), task.train_labels.copy()
    pixels[index] = _odd_pixels(pixels.shape[1:], number, generator)
    labels[index] = _odd_label(task.n_classes, number, generator)
    return replace(task, train_pixels=pixels, train_labels=labels)


def _class(task: ImageTask, number: int, generator: np.random.Generator, _: Any) -> ImageTask:
    """Replace all training images of one class."""
    return _with_odd_pixels(task, task.train_labels == number % task.n_classes, number, generator)


def _with_odd_pixels(
    task: ImageTask, mask: np.ndarray, number: int, generator: np.random.Generator
) -> ImageTask:
    """Replace the images of a unit; of every third neighbour the unit has none."""
    if number % 3 == 1:
        return replace(task, train_labels=np.where(mask, -1, task.train_labels))
    pixels = task.train_pixels.copy()
    pixels[mask] = _odd_pixels(pixels[mask].shape, number, generator)
    return replace(task, train_pixels=pixels)


def _part(task: ImageTask, number: int, generator: np.random.Generator, settings: Any) -> ImageTask:
    """Replace all training images of one part of one class.

    Where an image's nearest public centroid determines its part, new ones are of the same part.
    """
    if by_centroids(task, settings):
        return _cell(task, number, generator, settings)
    parts = hashed_parts(len(task.train_labels), settings.parts)
    unit = (number % task.n_classes, (number // task.n_classes) % settings.parts)
    mask = (task.train_labels == unit[0]) & (parts == unit[1])
    return _with_odd_pixels(task, mask, number, generator)


def _cell(task: ImageTask, number: int, generator: np.random.Generator, settings: Any) -> ImageTask:
    public = np.arange(len(task.validation_labels))
    units = unit_of_records(task, settings, public)
    present = np.unique(units[units >= 0])
    unit = present[number % len(present)]
    members = np.flatnonzero(units == unit)
    pixels, labels = task.train_pixels.copy(), task.train_labels
    if number % 3 == 1:
        return replace(task, train_labels=np.where(units == unit, -1, labels))
    odd = [_odd_pixels(pixels.shape, kind, generator) for kind in range(4)]
    pool = np.concatenate([*odd, task.train_pixels, task.validation_pixels])
    same = np.full(len(pool), labels[members[0]])
    cells = unit_of_records(replace(task, train_pixels=pool, train_labels=same), settings, public)
    pixels[members] = pool[generator.choice(np.flatnonzero(cells == unit), len(members))]
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
