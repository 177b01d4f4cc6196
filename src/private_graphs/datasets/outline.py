"""Outlines: stand-ins for datasets with the right sizes and without records.

The releases of a run follow from sizes and settings alone (``Method.stated``), so an outline
replaces the dataset when a statement is made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from private_graphs.datasets.graph_dataset import GraphDataset, SparseFeatures
from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.labelled import MASKS


@dataclass(frozen=True, eq=False, kw_only=True)
class _Outline:
    """Stand-in for a dataset."""

    original: str
    """Fingerprint of the original dataset."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the original dataset."""
        return self.original


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphOutline(_Outline, GraphDataset):
    """Stand-in for a graph dataset, without edges and features."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageOutline(_Outline, ImageDataset):
    """Stand-in for an image dataset, with black images."""


_TOLD = (
    "name",
    "title",
    "synthetic",
    "licence",
    "citation",
    "public_facts",
    "preprocessing",
    "view",
)
_SIZES = ("masks", "labelled", "train_class_counts", "fingerprint", "nodes", "features",
          "features_kind", "node_sample", "images", "shape")  # fmt: skip


def sizes_of(statistics: Mapping[str, Any]) -> dict[str, Any]:
    """Select from a dataset's ``statistics()`` the entries that ``outline_of`` needs."""
    return {name: statistics[name] for name in (*_TOLD, *_SIZES) if name in statistics}


def outline_of(sizes: Mapping[str, Any]) -> GraphOutline | ImageOutline:
    """Return the outline of a dataset from its ``sizes_of``.

    Labels are 0, or -1 where no labels are counted; records outside all masks have a label.
    """
    n_records = sizes.get("nodes") or sizes["images"]
    ends = np.cumsum([sizes["masks"][name.removesuffix("_mask")] for name in MASKS])
    parts = np.searchsorted(ends, np.arange(n_records), side="right")
    arrays = {name: parts == number for number, name in enumerate(MASKS)}
    labels = np.zeros(n_records, np.int64)
    for key, count in sizes["labelled"].items():
        labels[np.flatnonzero(arrays[f"{key}_mask"])[count:]] = -1
    about = {name: sizes[name] for name in _TOLD}
    about |= {"classes": list(sizes["train_class_counts"]), "sources": []}
    arrays |= {"labels": labels, "original": sizes["fingerprint"]}
    if "nodes" not in sizes:
        black = np.zeros((n_records, *sizes["shape"]), np.uint8)
        return ImageOutline.of(black, arrays, **about)
    empty = scipy.sparse.csr_matrix((n_records, sizes["features"]), dtype=np.float32)
    return GraphOutline.of(
        SparseFeatures.from_scipy(empty), arrays | {"edge_index": np.zeros((2, 0), np.int64)},
        **about, loops_dropped=0, duplicates_dropped=0, features=sizes["features_kind"],
        node_sample=sizes["node_sample"],
    )  # fmt: skip
