"""Small graphs and images on which every method is replayed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.tasks.method import Method

if TYPE_CHECKING:
    from private_graphs.datasets.image_dataset import ImageDataset


def small_graph(train: int = 30) -> GraphDataset:
    """Return a graph of three classes, half of whose nodes train; three of these have no label."""
    nodes, draws = 2 * train, np.random.default_rng(3)
    labels = draws.integers(0, 3, nodes)
    same = labels[:, None] == labels[None, :]
    upper = np.triu(draws.random((nodes, nodes)) < np.where(same, 9 / nodes, 2 / nodes), 1)
    words = draws.random((nodes, 18)) < np.where(np.arange(18) // 6 == labels[:, None], 0.4, 0.1)
    edges = np.argwhere(upper).T
    known_labels = labels.copy()
    known_labels[:3] = -1
    side = np.arange(nodes) * 4 // nodes
    features = sp.csr_matrix(words.astype(np.float32))
    masks = side < 2, side == 2, side == 3
    return GraphDataset.generated("small", "abc", features, edges, known_labels, masks)


def small_images(side: int = 5) -> ImageDataset:
    """Return 60 square images, half of which train; three of these have no label."""
    from private_graphs.datasets.image_dataset import ImageDataset

    draws = np.random.default_rng(0)
    labels = draws.integers(3, size=60)
    labels[:3] = -1
    cut = np.arange(60) * 4 // 60
    pixels = draws.integers(256, size=(60, 1, side, side), dtype=np.uint8)
    return ImageDataset.generated("small", "abc", pixels, labels, (cut < 2, cut == 2, cut == 3))


def small_dataset(
    method: Method, settings: Mapping[str, Any] = MappingProxyType({})
) -> GraphDataset | ImageDataset:
    """Return a dataset that a method can read with ``settings``.

    A convolutional network needs larger images, and each part a training node.
    """
    if method.data == "images":
        return small_images(12 if settings.get("network") == "cnn" else 5)
    return small_graph(max(30, settings.get("splits", 1)))
