"""Statistics of a dataset: counts, baselines and sources."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from private_graphs.core.models import fields_of
from private_graphs.datasets.graph_dataset import GraphDataset, SparseFeatures
from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.labelled import MASKS, LabelledDataset


def of_graph(graph: GraphDataset) -> dict[str, Any]:
    """Return counts, baselines and sources as a JSON-able dict (scores in 0..1).

    ``classes_missing`` lists, per mask, the classes without a labelled node; ``components``
    counts the connected components of the whole graph, isolated nodes included; ``degrees``
    counts nodes by their numbers of neighbours.
    """
    info, labelled = graph.info, graph.labels >= 0
    masks = {key.removesuffix("_mask"): getattr(graph, key) for key in MASKS}
    ends = {key: mask[graph.edge_index] for key, mask in masks.items()}  # (2, E)
    inside = {key: int(end.all(axis=0).sum()) for key, end in ends.items()}
    present = {key: set(graph.labels[mask & labelled]) for key, mask in masks.items()}
    component_sizes = _component_sizes(graph)
    words = _features_per_node(graph)
    return _common(graph) | {
        "features_kind": info.features,
        **fields_of(info, "view", "node_sample"),
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "features": graph.n_features,
        "feature_nonzeros": int(words.sum()),
        "nodes_without_features": int(np.sum(words == 0)),
        "classes_missing": {
            key: [name for number, name in enumerate(info.classes) if number not in numbers]
            for key, numbers in present.items()
        },
        "isolated_nodes": int(np.sum(component_sizes == 1)),
        "degrees": _degrees(graph),
        "components": len(component_sizes),
        "largest_component": int(component_sizes.max()),
        **fields_of(info, "loops_dropped", "duplicates_dropped", "one_way_edges"),
        "edges_inside": inside,
        "edges_crossing": graph.n_edges - sum(inside.values()),
        "edge_entries": _edge_entries(graph),
        "counts": info.counts,
    }


def _edge_entries(graph: GraphDataset) -> int | None:
    """Return the raw edge rows among these nodes, or None without a choice of nodes."""
    info = graph.info
    if info.view is None or info.one_way_edges is None:
        return None
    return 2 * info.n_edges - info.one_way_edges + info.loops_dropped + info.duplicates_dropped


def _degrees(graph: GraphDataset) -> dict[str, int]:
    """Return the degree histogram, in bins of powers of two."""
    degrees = np.bincount(graph.edge_index.ravel(), minlength=graph.n_nodes)
    counts = np.bincount(np.frexp(degrees)[1])  # frexp's exponent: 0; 1; 2 for 2, 3; ...
    steps = [(2**step // 2, 2**step - 1) for step in range(len(counts))]
    return {
        f"{low:,}" if low == high else f"{low:,} to {high:,}": int(count)
        for (low, high), count in zip(steps, counts, strict=True)
    }


def _features_per_node(graph: GraphDataset) -> np.ndarray:
    """Return (N,) numbers of non-zero features."""
    if isinstance(graph.features, SparseFeatures):
        return np.diff(graph.features.indptr)
    return np.count_nonzero(graph.features, axis=1)


def _component_sizes(graph: GraphDataset) -> np.ndarray:
    """Return the sizes of the connected components."""
    ones = np.ones(graph.n_edges, dtype=np.int8)
    adjacency = scipy.sparse.coo_array((ones, graph.edge_index), shape=(graph.n_nodes,) * 2)
    _, component = scipy.sparse.csgraph.connected_components(adjacency, directed=False)
    return np.bincount(component)


def of_images(images: ImageDataset) -> dict[str, Any]:
    """Return counts, the majority baseline and sources as a JSON-able dict (scores in 0..1)."""
    info = images.info
    return _common(images) | {
        "units": info.units,
        "view": info.view,
        "images": info.n_images,
        "shape": [info.channels, info.height, info.width],
    }


def _common(dataset: LabelledDataset) -> dict[str, Any]:
    """Return the statistics common to all datasets as a JSON-able dict (scores in 0..1)."""
    info, labelled = dataset.info, dataset.labels >= 0
    masks = {key.removesuffix("_mask"): getattr(dataset, key) for key in MASKS}
    counts = np.bincount(dataset.labels[dataset.train_mask & labelled], minlength=dataset.n_classes)
    test_labels = dataset.labels[dataset.test_mask & labelled]
    majority = int(counts.argmax())
    return {
        **fields_of(info, "name", "title", "synthetic"),
        "classes": dataset.n_classes,
        "masks": {key: int(mask.sum()) for key, mask in masks.items()},
        "labelled": {key: int((mask & labelled).sum()) for key, mask in masks.items()},
        "train_class_counts": dict(zip(info.classes, counts.tolist(), strict=True)),
        "majority_class": info.classes[majority],
        "majority_share_on_test": (
            float(np.mean(test_labels == majority)) if len(test_labels) else None
        ),
        "fingerprint": dataset.fingerprint,
        "sources": [source.model_dump() for source in info.sources],
        **fields_of(info, "preprocessing", "public_facts", "licence", "citation"),
    }
