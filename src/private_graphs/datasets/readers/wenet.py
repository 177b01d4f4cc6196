"""WeNet: food choices of students in four countries, as packed by ProGAP's authors; unpublished."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from private_graphs.datasets.arrays import require, undirected_edges
from private_graphs.datasets.graph_dataset import ParsedGraph
from private_graphs.datasets.prepared import prepared
from private_graphs.datasets.spec import DatasetSpec, GraphSize, numbered

N_CLASSES = 4


def read_wenet(path: Path) -> ParsedGraph:
    """Read ``data.pt``, a PyTorch Geometric graph with ``x``, ``edge_index`` and ``y``.

    PyTorch unpickles only tensors, plain values and the graph object. All classes stay; the split,
    loops and nodes without an edge are treated as in ``datasets/prepared.py``.

    Raises:
        UserError: the file is missing, hostile or malformed, or its parts contradict each other.
    """
    import torch

    from private_graphs.datasets.pyg import saved_graph  # the import takes seconds

    graph = saved_graph(path)
    tensors = {key: tensor for key, tensor in graph.to_dict().items() if torch.is_tensor(tensor)}
    arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
    remedy = "supply the authors' file"
    fits = {"x", "edge_index", "y"} <= arrays.keys()
    require(fits, path, f"tensors {sorted(arrays)}", "x, edge_index and y", remedy)
    features, ends, labels = arrays["x"], arrays["edge_index"], arrays["y"].reshape(-1)

    def check(key: str, holds: bool, expected: str) -> None:
        actual = f"{arrays[key].dtype} of shape {arrays[key].shape}"
        require(holds, f"{path}: {key}", actual, expected, remedy)

    def spans(values: np.ndarray, bound: int) -> bool:
        return values.dtype.kind in "iu" and 0 <= values.min() and values.max() < bound

    n_nodes = len(labels)
    check("y", n_nodes > 0 and spans(labels, N_CLASSES), f"classes from 0 to {N_CLASSES - 1}")
    right = features.ndim == 2 and len(features) == n_nodes and features.dtype.kind in "fiub"
    features = features.astype(np.float32)
    check("x", right and np.all(np.isfinite(features)), f"{n_nodes} rows of finite numbers")
    right = ends.ndim == 2 and len(ends) == 2 and ends.size > 0
    check("edge_index", right and spans(ends, n_nodes), f"two rows of numbers below {n_nodes}")
    return prepared(
        labels.astype(np.int64),
        N_CLASSES,
        undirected_edges(ends[0], ends[1], n_nodes),
        lambda tied: features[tied],
        (
            "nodes without an edge are dropped, and neighbours are defined after that; how the "
            "authors made features and classes is outside every guarantee",
        ),
        str(path),
    )


# Sizes from the paper.
DATASETS = (
    DatasetSpec(
        "wenet",
        "WeNet",
        "wenet/data.pt",
        numbered(N_CLASSES),
        GraphSize(37_576, 11_342_103, 37_576 * 44, 44, N_CLASSES, 28_182),
        max_edges=12_000_000,
        read=read_wenet,
    ),
)
