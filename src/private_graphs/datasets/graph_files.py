"""A graph that a user brings as one file: ``.npz``, or ``.pt`` of PyTorch Geometric.

It is kept as arrays below ``data/own``; every command and study then takes its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.errors import UsageError, UserError
from private_graphs.core.files import sha256_of, write_json
from private_graphs.core.manifest import MANIFEST
from private_graphs.datasets.arrays import UndirectedEdges, require
from private_graphs.datasets.graph_dataset import GraphDataset, SparseFeatures
from private_graphs.datasets.labelled import FILE_MASKS, INFO_FILE, MASKS, RawFile
from private_graphs.datasets.spec import numbered
from private_graphs.graphs.split import keyed_split

BOUND_FILE = "bound.json"
"""File beside a kept graph with the public bound on its edges."""


def read_graph(name: str, path: Path) -> GraphDataset:
    """Read the graph in a file; nothing in it is run.

    Raises:
        UsageError: the file is neither ``.npz`` nor ``.pt``.
        UserError: it is missing or malformed, or its parts contradict each other.
    """
    kinds = {".npz": _read_npz, ".pt": _read_pt}
    if path.suffix not in kinds:
        raise UsageError(
            f"--file is {path}; expected a graph as .npz, or as .pt of PyTorch Geometric"
        )
    if not path.is_file():
        raise UserError(f"--file is {path}: no such file; expected an .npz or .pt file")
    source = RawFile(file=path.name, sha256=sha256_of(path), url=None)
    graph = kinds[path.suffix](name, path, [source])
    for key in MASKS:
        labelled = np.any(getattr(graph, key) & (graph.labels >= 0))
        require(labelled, f"{path}: {key}", "no node with a label", "one at least to learn from or "
                "to score", "supply labels, or other masks")  # fmt: skip
    return graph


def _read_npz(name: str, path: Path, sources: list[RawFile]) -> GraphDataset:
    from private_graphs.datasets.npz import read_npz

    parsed = read_npz(path, keyed=False)
    masks = {key: getattr(parsed, key) for key in MASKS}
    return users_graph(
        name, parsed.features, parsed, parsed.labels, masks,
        sources=sources, preprocessing=[*parsed.preprocessing],
    )  # fmt: skip


def _read_pt(name: str, path: Path, sources: list[RawFile]) -> GraphDataset:
    from private_graphs.datasets import pyg  # the import takes seconds

    data = pyg.saved_graph(path)
    return pyg.from_pyg(data, name, sources=sources, preprocessing=pyg.first_split(data))


def users_graph(
    name: str,
    features: SparseFeatures | np.ndarray,
    edges: UndirectedEdges,
    labels: np.ndarray,
    masks: Mapping[str, np.ndarray],
    **fields: Any,
) -> GraphDataset:
    """Return a graph that a user brings.

    ``features`` (N, F), ``labels`` (N,) integers from 0, -1 for none. ``masks``: three of (N,) bool
    by the names of a dataset's. ``fields``: further fields of ``DatasetInfo``.
    """
    info = {
        "title": name,
        "licence": "not stated",
        "citation": "not stated",
        "sources": [],
        "public_facts": [
            "the number of nodes and the names of the classes",
            *(
                ["the vocabulary (columns of the features)"]
                if isinstance(features, SparseFeatures)
                else []
            ),
            "the train, validation and test masks",
            "all validation and test nodes with their features, labels and mutual edges",
        ],
    } | fields
    return GraphDataset.of(
        features, {"edge_index": edges.edge_index, "labels": labels, **masks},
        name=name, synthetic=False, classes=list(numbered(int(labels.max()) + 1)),
        **edges.entry_counts, **info,
    )  # fmt: skip


def split_masks(
    given: Mapping[str, np.ndarray | None], n: int, where: str
) -> tuple[dict[str, np.ndarray], str]:
    """Return the three masks of a graph of ``n`` nodes, and a sentence that says whence they come.

    ``given``: (n,) bool by the names of ``FILE_MASKS``. Nodes in none of them train:
    their labels and edges are then protected. Without masks one node in ten is drawn for testing,
    one in ten for validation, and the others train.

    Raises:
        UserError: masks that are incomplete or of another form.
    """
    if all(mask is None for mask in given.values()):
        split = keyed_split([str(node) for node in range(n)], seed=0)
        train, validation, test = (split == part for part in range(3))
        sentence = "masks: 80/10/10 by a keyed permutation of the node numbers"
    else:
        for key in FILE_MASKS:
            mask = given.get(key)
            fits = mask is not None and mask.shape == (n,) and mask.dtype == np.bool_
            actual = "none" if mask is None else f"{mask.dtype} of shape {mask.shape}"
            require(fits, f"{where}: {key}", actual, f"bool of shape ({n},) for each of "
                    f"{', '.join(FILE_MASKS)}, or no mask at all")  # fmt: skip
        validation, test = given["val_mask"], given["test_mask"]
        train = ~(validation | test)
        sentence = "masks: those of the file; nodes of none of them train"
    return dict(zip(MASKS, (train, validation, test), strict=True)), sentence


# --- kept below data/own -----------------------------------------------------------------------


def keep_graph(dataset: GraphDataset, folder: Path, max_edges: int | None) -> None:
    """Save a user's graph with the bound on its edges and the hashes of its files."""
    dataset.save(folder)
    write_json(folder / BOUND_FILE, {"max_edges": max_edges})
    names = (dataset.tensors_file, INFO_FILE, BOUND_FILE)
    write_json(folder / MANIFEST, {"sha256": {name: sha256_of(folder / name) for name in names}})


def bound_of(folder: Path) -> int | None:
    """Return the public bound on the edges of a kept graph, if its owner gave one."""
    path = folder / BOUND_FILE
    return parsed_json(path.read_text(encoding="utf-8"))["max_edges"] if path.is_file() else None
