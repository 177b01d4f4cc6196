"""Reader of gnn-benchmark ``.npz`` graphs (Shchur et al., 2018; Bojchevski & Günnemann, 2018).

Only the keys of the adjacency, the attributes and the labels are touched, with
``allow_pickle=False``: the published files hold object arrays under other keys.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse

from private_graphs.core.errors import UserError
from private_graphs.datasets.arrays import (
    check_range,
    checked_csr,
    keyed_order,
    masks_by_order,
    require,
    undirected_edges,
)
from private_graphs.datasets.graph_dataset import ParsedGraph, SparseFeatures
from private_graphs.datasets.labelled import FILE_MASKS
from private_graphs.datasets.zipped import MAX_MEMBER_BYTES, member, opened, readable

N_VALIDATION, N_TEST = 500, 1000
MASK_KEY = b"private-graphs masks 1"
"""Public constant; the masks depend on it and on the number of nodes alone."""
_FEW_BYTES = 2**26
"""Size of an array that is read however well it is packed."""


def keyed_masks(
    n_nodes: int, n_validation: int = N_VALIDATION, n_test: int = N_TEST
) -> dict[str, np.ndarray]:
    """Return train, validation and test masks (n_nodes,) bool by a keyed permutation of node ids.

    Ids are ordered by BLAKE2b(id) under :data:`MASK_KEY`: the first ``n_validation`` validate, the
    next ``n_test`` test, the others train. The masks depend on the graph's size alone.

    Raises:
        UserError: too few nodes to leave a training node.
    """
    if n_nodes <= n_validation + n_test:
        raise UserError(
            f"the graph has {n_nodes} nodes, expected more than the {n_validation} validation "
            f"and {n_test} test nodes together"
        )
    return masks_by_order(keyed_order(np.arange(n_nodes), MASK_KEY), n_validation, n_test)


class _Archive:
    """The arrays of one ``.npz`` file, read on demand and never unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with opened(path) as archive:
            self._names = set(archive.namelist())

    def __contains__(self, key: str) -> bool:
        return f"{key}.npy" in self._names

    def read(self, key: str, count: int | None = None) -> np.ndarray:
        """Read ``count`` numbers at most; without, ids, which no graph packs so well as zeros."""
        with opened(self.path) as archive, readable(f"{self.path}: {key}"):
            entry = member(archive, f"{key}.npy", str(self.path))
            most = 100 * entry.compress_size if count is None else 16 * count
            require(entry.file_size <= max(most, _FEW_BYTES), f"{self.path}: {key}",
                    f"{entry.file_size:,} bytes in {entry.compress_size:,} packed ones",
                    f"at most {most:,}")  # fmt: skip
            with archive.open(entry) as stream:
                return np.lib.format.read_array(stream, allow_pickle=False)

    def matrix(self, name: str, canonical: bool = True) -> scipy.sparse.csr_matrix | np.ndarray:
        """Read a CSR matrix (``adj_data`` … or ``adj_matrix.data`` …) or a dense one."""
        for prefix in (f"{name}_", f"{name}_matrix."):
            if prefix + "data" in self:
                ids = [self.read(prefix + part) for part in ("indices", "indptr")]
                data = self.read(prefix + "data", len(ids[0]))
                shape = self.read(prefix + "shape", 2)
                where = f"{self.path}: {prefix}*"
                fits = shape.shape == (2,) and shape.dtype.kind in "iu"
                require(fits, f"{where}: shape", shape.tolist(), "two integers")
                return checked_csr(data, *ids, tuple(shape.tolist()), where, canonical)  # type: ignore[call-arg]
        key = f"{name}_matrix"
        require(key in self, self.path, f"the arrays {sorted(self._names)}",
                f"one of {name}_data, {key}.data and {key} too")  # fmt: skip
        dense = self.read(key, MAX_MEMBER_BYTES)
        fits = dense.ndim == 2 and dense.dtype.kind in "fiub" and np.all(np.isfinite(dense))
        require(fits, f"{self.path}: {key}", f"{dense.dtype} of shape {dense.shape}",
                "a matrix of finite numbers")  # fmt: skip
        return dense


def _checked_labels(
    archive: _Archive, n_nodes: int, n_classes: int | None
) -> tuple[np.ndarray, int]:
    """Return labels (n_nodes,) int64, -1 for none, and the number of classes."""
    labels = archive.read("labels", n_nodes)
    where = f"{archive.path}: labels"
    fits = labels.shape == (n_nodes,) and labels.dtype.kind in "iu"
    require(fits, where, f"{labels.dtype} of shape {labels.shape}", f"({n_nodes},) integers")
    labels = labels.astype(np.int64)
    present = np.unique(labels[labels != -1])
    if n_classes is not None:
        check_range(present, n_classes, f"{where} other than -1 (none)")
        return labels, n_classes
    n_classes = int(present[-1]) + 1 if len(present) else 0
    fits = n_classes and present[0] == 0 and len(present) == n_classes
    ends = (
        f"{present[0]}..{present[-1]} with {len(present)} distinct values" if n_classes else "none"
    )
    require(fits, f"{where} other than -1 (none)", ends, "every class from 0 to the largest")
    return labels, n_classes


def read_npz(
    path: Path,
    n_validation: int = N_VALIDATION,
    n_test: int = N_TEST,
    n_classes: int | None = None,
    keyed: bool = True,
) -> ParsedGraph:
    """Read a gnn-benchmark graph; directed adjacencies become symmetric, weights are ignored.

    An entry of weight 0 is no edge, a label of -1 means none. With ``n_classes`` declared, classes
    may have no node; otherwise every class from 0 to the largest has to occur. Masks in the file
    (``train_mask``, ``val_mask``, ``test_mask``) are taken as they are; without, ``keyed`` draws
    them by the number of nodes (``keyed_masks``), else ``graph_files.split_masks`` does.

    Raises:
        UserError: the file is missing or malformed, or its parts contradict each other.
    """
    path = Path(path)
    archive = _Archive(path)
    # Repeated entries are counted below, so they must not be added up here.
    adjacency = scipy.sparse.coo_matrix(archive.matrix("adj", canonical=False))
    attributes = archive.matrix("attr")
    n_nodes = adjacency.shape[0]
    square = adjacency.shape[1] == n_nodes
    require(square, f"{path}: adj", f"shape {adjacency.shape}", "a square matrix")
    rows = attributes.shape[0]
    require(rows == n_nodes, f"{path}: attr", f"{rows} rows", f"{n_nodes} nodes")
    labels, n_classes = _checked_labels(archive, n_nodes, n_classes)
    present = adjacency.data != 0
    edges = undirected_edges(adjacency.row[present], adjacency.col[present], n_nodes)
    given = {key: archive.read(key, n_nodes) for key in FILE_MASKS if key in archive}
    if given or not keyed:
        from private_graphs.datasets.graph_files import split_masks

        masks, sentence = split_masks(given, n_nodes, str(path))
        preprocessing = [sentence]
    else:
        masks, preprocessing = keyed_masks(n_nodes, n_validation, n_test), []
    return ParsedGraph(
        **vars(edges),
        features=(
            SparseFeatures.from_scipy(attributes)
            if scipy.sparse.issparse(attributes)
            else attributes.astype(np.float32)
        ),
        labels=labels,
        **masks,
        preprocessing=tuple(preprocessing),
        n_classes=n_classes,
    )
