"""Reader of the Planetoid raw files (Yang, Cohen & Salakhutdinov, ICML 2016).

Nodes are numbered as in PyTorch Geometric's ``Planetoid``: the rows of ``allx`` come first, and row
k of ``tx`` is the node ``test.index[k]``. Ids in the test range that ``test.index`` leaves out
(CiteSeer has 15) are nodes with neither features nor a label.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse

from private_graphs.datasets.arrays import classes_of_one_hot, undirected_edges
from private_graphs.datasets.graph_dataset import ParsedGraph, SparseFeatures
from private_graphs.datasets.unpickle import load_adjacency, load_array, load_csr
from private_graphs.errors import UserError

PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
N_VALIDATION = 500


def read_test_index(path: Path) -> np.ndarray:
    """Read the ids of the test nodes, one per line, in the order of the rows of ``tx``."""
    try:
        lines = path.read_text(encoding="ascii").split()
        ids = np.array([int(line) for line in lines], dtype=np.int64)
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(
            f"{path}: cannot be read as one node id per line ({error}); supply the original file"
        ) from error
    if len(ids) == 0 or ids.min() < 0 or len(np.unique(ids)) != len(ids):
        raise UserError(f"{path}: found {len(ids)} ids, expected distinct ids >= 0, at least one")
    return ids


def _same_rows(features: dict, labels: dict, paths: dict[str, Path]) -> None:
    """Check that the three parts fit together: rows, columns, and x being the start of allx."""
    for part in ("x", "tx", "allx"):
        label_part = part.replace("x", "y")
        n_rows, n_labels = features[part].shape[0], len(labels[label_part])
        if n_rows != n_labels:
            raise UserError(
                f"{paths[label_part]}: {n_labels} rows, expected {n_rows} as in {paths[part].name}"
            )
        for kind, name in ((features, part), (labels, label_part)):
            first = "allx" if kind is features else "ally"
            if kind[name].shape[1] != kind[first].shape[1]:
                raise UserError(
                    f"{paths[name]}: {kind[name].shape[1]} columns, expected "
                    f"{kind[first].shape[1]} as in {paths[first].name}"
                )
    n_labelled = features["x"].shape[0]
    if n_labelled > features["allx"].shape[0]:
        raise UserError(f"{paths['x']}: {n_labelled} rows, expected at most those of allx")
    if (features["allx"][:n_labelled] != features["x"]).nnz:
        raise UserError(f"{paths['x']}: differs from the first {n_labelled} rows of allx")
    if not np.array_equal(labels["ally"][:n_labelled], labels["y"]):
        raise UserError(f"{paths['y']}: differs from the first {n_labelled} rows of ally")


def _directed_entries(path: Path, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    adjacency = load_adjacency(path)
    try:
        nodes = np.fromiter(adjacency, dtype=np.int64, count=len(adjacency))
        lengths = [len(neighbours) for neighbours in adjacency.values()]
        targets = np.fromiter(
            (node for neighbours in adjacency.values() for node in neighbours), dtype=np.int64
        )
    except OverflowError as error:
        raise UserError(f"{path}: a node id does not fit 64 bits") from error
    sources = np.repeat(nodes, lengths)
    for ids in (nodes, targets):
        if len(ids) and (ids.min() < 0 or ids.max() >= n_nodes):
            raise UserError(
                f"{path}: node ids span {ids.min()}..{ids.max()}, expected 0..{n_nodes - 1} "
                "(the rows of allx and the ids of test.index)"
            )
    return sources, targets


def _fitting_test_index(path: Path, n_known: int, n_test: int) -> np.ndarray:
    """Read the test ids and check that they name the rows of tx and follow those of allx."""
    test_index = read_test_index(path)
    if len(test_index) != n_test:
        raise UserError(f"{path}: {len(test_index)} ids, expected {n_test} as rows in tx")
    last = int(test_index.max())
    # A gap larger than the known nodes is a corrupted id, not a node absent from the corpus.
    if test_index.min() < n_known or last >= 2 * (n_known + n_test):
        raise UserError(
            f"{path}: ids span {test_index.min()}..{last}, expected to start at {n_known}, after "
            "the rows of allx, with few gaps"
        )
    return test_index


def read_planetoid(folder: Path, name: str, n_validation: int = N_VALIDATION) -> ParsedGraph:
    """Read ``ind.<name>.*`` from a folder.

    The masks are the public ones: validation = the ``n_validation`` nodes after the first len(y),
    test = the ids of ``test.index``, train = all others.

    Raises:
        UserError: a file is missing, hostile or malformed, or the files do not fit together.
    """
    paths = {part: Path(folder) / f"ind.{name}.{part}" for part in PARTS}
    features = {part: load_csr(paths[part]) for part in ("x", "tx", "allx")}
    labels = {part: load_array(paths[part]) for part in ("y", "ty", "ally")}
    classes = {part: classes_of_one_hot(labels[part], str(paths[part])) for part in labels}
    _same_rows(features, labels, paths)
    n_known, n_test = features["allx"].shape[0], features["tx"].shape[0]
    test_index = _fitting_test_index(paths["test.index"], n_known, n_test)
    n_nodes = int(test_index.max()) + 1
    n_labelled = features["x"].shape[0]
    if n_labelled + n_validation > n_known:
        raise UserError(
            f"{paths['allx']}: {n_known} rows, expected at least {n_labelled + n_validation} "
            f"(labelled and {n_validation} validation nodes)"
        )
    rows = scipy.sparse.vstack([features["allx"], features["tx"]], format="coo")
    node_of_row = np.concatenate([np.arange(n_known), test_index])
    matrix = scipy.sparse.csr_matrix(
        (rows.data, (node_of_row[rows.row], rows.col)), shape=(n_nodes, rows.shape[1])
    )
    node_labels = np.full(n_nodes, -1, dtype=np.int64)
    node_labels[node_of_row] = np.concatenate([classes["ally"], classes["ty"]])
    validation_mask, test_mask = np.zeros((2, n_nodes), dtype=bool)
    validation_mask[n_labelled : n_labelled + n_validation] = True
    test_mask[test_index] = True
    edges = undirected_edges(*_directed_entries(paths["graph"], n_nodes), n_nodes)
    return ParsedGraph(
        features=SparseFeatures.from_scipy(matrix),
        edge_index=edges.edge_index,
        labels=node_labels,
        train_mask=~(validation_mask | test_mask),
        validation_mask=validation_mask,
        test_mask=test_mask,
        n_classes=labels["ally"].shape[1],
        loops_dropped=edges.loops,
        duplicates_dropped=edges.duplicates,
        one_way_edges=edges.one_way,
    )
