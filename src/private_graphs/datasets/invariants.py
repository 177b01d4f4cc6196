"""Invariants of a graph on disk and in memory; each violation names its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from private_graphs.datasets.arrays import distinct, require
from private_graphs.datasets.labelled import MASKS

if TYPE_CHECKING:
    from private_graphs.datasets.graph_dataset import DatasetInfo


class Checker:
    """Raiser of UserErrors for one origin, with key, found and expected."""

    def __init__(self, where: str) -> None:
        self.where = where

    def require(self, holds: bool | np.bool_, key: str, actual: object, expected: str) -> None:
        remedy = "build the dataset again from its raw files"
        require(holds, f"{self.where}: {key}", actual, expected, remedy)

    def array(
        self, array: np.ndarray, key: str, dtype: type, shape: tuple[int | None, ...]
    ) -> None:
        fits = array.ndim == len(shape) and all(
            size is None or size == length for size, length in zip(shape, array.shape, strict=True)
        )
        sizes = "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
        self.require(
            fits and array.dtype == np.dtype(dtype),
            key,
            f"{array.dtype} of shape {array.shape}",
            f"{np.dtype(dtype)} of shape {sizes}",
        )


def check_graph(
    arrays: dict[str, np.ndarray], info: DatasetInfo, where: str, info_where: str
) -> None:
    """Check every invariant of a graph.

    Args:
        arrays: the tensors of ``graph.safetensors`` by key.
        where, info_where: origin of the arrays and of ``info``, for the messages.

    Raises:
        UserError: the first violation, naming origin, key, found and expected.
    """
    check, check_info = Checker(where), Checker(info_where)
    sparse = info.feature_kind == "sparse"
    feature_keys = {"features.indptr", "features.indices", "features.values"}
    expected = {"edge_index", "labels", *MASKS} | (feature_keys if sparse else {"features"})
    check_keys(check, arrays, expected)
    check_labels_and_masks(check, check_info, arrays, info.classes)
    n_nodes = len(arrays["labels"])
    if sparse:
        _check_sparse(check, arrays, n_nodes, info.n_features)
    else:
        check.array(arrays["features"], "features", np.float32, (n_nodes, info.n_features))
        finite = bool(np.all(np.isfinite(arrays["features"])))
        check.require(finite, "features", "NaN or infinity", "finite values")
    _check_edges(check, arrays["edge_index"], n_nodes)
    n_edges = arrays["edge_index"].shape[1]
    check_info.require(info.n_nodes == n_nodes, "n_nodes", info.n_nodes, f"{n_nodes}, as stored")
    check_info.require(info.n_edges == n_edges, "n_edges", info.n_edges, f"{n_edges}, as stored")


def check_keys(check: Checker, arrays: dict[str, np.ndarray], expected: set[str]) -> None:
    """Require exactly the expected keys."""
    for key in sorted(expected ^ set(arrays)):
        problem = "a key that does not belong here" if key in arrays else "no such key"
        check.require(False, key, problem, f"exactly the keys {sorted(expected)}")


def _check_sparse(
    check: Checker, arrays: dict[str, np.ndarray], n_nodes: int, n_columns: int
) -> None:
    indptr = arrays["features.indptr"]
    indices, values = arrays["features.indices"], arrays["features.values"]
    check.array(indptr, "features.indptr", np.int64, (n_nodes + 1,))
    check.array(indices, "features.indices", np.int64, (None,))
    check.array(values, "features.values", np.float32, (len(indices),))
    rises = indptr[0] == 0 and indptr[-1] == len(indices) and bool(np.all(np.diff(indptr) >= 0))
    check.require(
        rises,
        "features.indptr",
        f"offsets from {indptr[0]} to {indptr[-1]}",
        f"offsets that rise from 0 to {len(indices)} and never fall",
    )
    if len(indices) == 0:
        return
    check.require(
        indices.min() >= 0 and indices.max() < n_columns,
        "features.indices",
        f"columns {indices.min()}..{indices.max()}",
        f"columns 0..{n_columns - 1} (n_features)",
    )
    rows = np.repeat(np.arange(n_nodes), np.diff(indptr))
    rising = (np.diff(indices) > 0) | (np.diff(rows) > 0)
    check.require(
        np.all(rising),
        "features.indices",
        f"{int(np.sum(~rising))} columns that do not follow a smaller one",
        "strictly increasing columns inside each row",
    )
    check.require(
        np.all(np.isfinite(values)), "features.values", "NaN or infinity", "finite values"
    )
    check.require(np.all(values != 0), "features.values", "explicit zeros", "values that are not 0")


def _check_edges(check: Checker, edge_index: np.ndarray, n_nodes: int) -> None:
    check.array(edge_index, "edge_index", np.int64, (2, None))
    if edge_index.shape[1] == 0:
        return
    low, high = edge_index
    check.require(
        edge_index.min() >= 0 and edge_index.max() < n_nodes,
        "edge_index",
        f"node ids {edge_index.min()}..{edge_index.max()}",
        f"node ids 0..{n_nodes - 1}",
    )
    loops = int(np.sum(low == high))
    check.require(loops == 0, "edge_index", f"{loops} loops", "no loops")
    reversed_edges = int(np.sum(low > high))
    check.require(reversed_edges == 0, "edge_index", f"{reversed_edges} edges i > j", "i < j")
    codes = low * n_nodes + high
    duplicates = len(codes) - len(distinct(codes))
    check.require(duplicates == 0, "edge_index", f"{duplicates} duplicates", "each edge once")
    ordered = bool(np.all(np.diff(codes) > 0))
    check.require(ordered, "edge_index", "edges out of order", "edges sorted by (i, j)")


def check_labels_and_masks(
    check: Checker, check_info: Checker, arrays: dict[str, np.ndarray], classes: list[str]
) -> None:
    """Require (N,) labels of named classes and three disjoint masks."""
    labels = arrays["labels"]
    check.array(labels, "labels", np.int64, (None,))
    check.require(len(labels) >= 1, "labels", "no labels", "at least one")
    check.require(
        labels.min() >= -1 and labels.max() < len(classes),
        "labels",
        f"labels {labels.min()}..{labels.max()}",
        f"labels -1 (none) to {len(classes) - 1}",
    )
    taken = np.zeros(len(labels), dtype=bool)
    for key in MASKS:
        check.array(arrays[key], key, np.bool_, labels.shape)
        shared = int(np.sum(taken & arrays[key]))
        check.require(shared == 0, key, f"{shared} members of another mask", "disjoint masks")
        taken |= arrays[key]
    check_info.require(len(set(classes)) == len(classes), "classes", classes, "distinct names")
