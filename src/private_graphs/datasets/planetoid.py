"""Reader of the Planetoid raw files (Yang, Cohen & Salakhutdinov, ICML 2016).

Nodes are numbered as in PyTorch Geometric's ``Planetoid``: the rows of ``allx`` come first, and row
k of ``tx`` is the node ``test.index[k]``. Ids of the test range that are missing from
``test.index`` (15 in CiteSeer) are nodes with neither features nor a label; PyTorch Geometric's
reader labels them 0, and drops loops and repeated entries without counting them.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from private_graphs.datasets.arrays import require, undirected_edges
from private_graphs.datasets.embedded import checksums
from private_graphs.datasets.graph_dataset import ParsedGraph, SparseFeatures

PARTS = ("y", "tx", "ty", "allx", "ally", "graph")
"""Pickles that are read; ``x`` is the beginning of ``allx``."""
N_VALIDATION = 500


def listed() -> set[str | None]:
    """Return the sha256 hashes of the files that may be unpickled."""
    from private_graphs.datasets.sources import load_sources

    known = {file.sha256 for source in load_sources().values() for file in source.files}
    return known | {*checksums().values()}


def unpickled(path: Path) -> Any:
    """Return the object in a pickle whose sha256 this project lists.

    Unpickling runs code, so any other file is refused.

    Raises:
        UserError: the file has another content.
    """
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    require(digest in listed(), path, f"sha256 {digest}", "one that data/sources.yaml lists, since "
            "a pickle is a program")  # fmt: skip
    with warnings.catch_warnings():  # the pickles name NumPy and SciPy modules of 2016
        warnings.simplefilter("ignore")
        return pickle.loads(content, encoding="latin1")  # noqa: S301 (sha256 checked above)


def read_planetoid(path: Path) -> ParsedGraph:
    """Read ``<folder>/ind.<name>.*`` of a path ``<folder>/<name>``; UserError for a pickle that is
    not listed."""
    prefix = path.with_name(f"ind.{path.name}")
    parts = {part: unpickled(prefix.with_name(f"{prefix.name}.{part}")) for part in PARTS}
    lines = prefix.with_name(f"{prefix.name}.test.index").read_text(encoding="ascii").split()
    return planetoid_graph(parts, np.array(lines, dtype=np.int64))


def planetoid_graph(
    parts: Mapping[str, Any], test_index: np.ndarray, n_validation: int = N_VALIDATION
) -> ParsedGraph:
    """Assemble the graph from the parts of the Planetoid files.

    The masks are the public ones: validation = the ``n_validation`` nodes after the first len(y),
    test = ``test_index``, train = all others.
    """
    n_labelled, n_known = len(parts["y"]), len(parts["ally"])
    n_nodes = int(test_index.max()) + 1
    node_of_row = np.concatenate([np.arange(n_known), test_index])
    rows = scipy.sparse.vstack([parts["allx"], parts["tx"]], format="coo")
    words = (rows.data, (node_of_row[rows.row], rows.col))
    one_hot = np.concatenate([parts["ally"], parts["ty"]])
    labels = np.full(n_nodes, -1, dtype=np.int64)
    labels[node_of_row] = one_hot.argmax(axis=1)
    validation_mask, test_mask = np.zeros((2, n_nodes), dtype=bool)
    validation_mask[n_labelled : n_labelled + n_validation] = True
    test_mask[test_index] = True
    lists = parts["graph"]  # node -> its neighbours
    sources = np.repeat(list(lists), [len(neighbours) for neighbours in lists.values()])
    targets = np.fromiter(chain.from_iterable(lists.values()), dtype=np.int64)
    edges = undirected_edges(sources, targets, n_nodes)
    return ParsedGraph(
        **vars(edges),
        features=SparseFeatures.from_scipy(
            scipy.sparse.csr_matrix(words, shape=(n_nodes, rows.shape[1]))
        ),
        labels=labels,
        train_mask=~(validation_mask | test_mask),
        validation_mask=validation_mask,
        test_mask=test_mask,
        n_classes=one_hot.shape[1],
    )
