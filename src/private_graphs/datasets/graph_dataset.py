"""An attributed graph with labels and masks: in memory, on disk, and the invariants of both."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import scipy.sparse
from pydantic import Field

from private_graphs.datasets.arrays import UndirectedEdges, require
from private_graphs.datasets.invariants import check_graph
from private_graphs.datasets.labelled import MASKS, LabelledDataset, LabelledInfo
from private_graphs.datasets.spec import GraphSize

if TYPE_CHECKING:
    from torch_geometric.data import Data

TENSORS_FILE = "graph.safetensors"
_SPARSE_KEYS = ("features.indptr", "features.indices", "features.values")


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """CSR features (N, n_columns): sorted indices, no duplicates, no explicit zeros."""

    indptr: np.ndarray
    """(N + 1,) int64 offsets of the rows."""
    indices: np.ndarray
    """(nonzeros,) int64 columns, strictly increasing inside a row."""
    values: np.ndarray
    """(nonzeros,) float32, finite and not zero."""
    n_columns: int

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparseFeatures:
        """Convert any SciPy sparse matrix (N, F)."""
        matrix = scipy.sparse.csr_matrix(matrix, dtype=np.float32, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return cls(
            matrix.indptr.astype(np.int64),
            matrix.indices.astype(np.int64),
            matrix.data,
            int(matrix.shape[1]),
        )

    def to_scipy(self) -> scipy.sparse.csr_matrix:
        """Return the features as a SciPy CSR matrix (N, n_columns) float32."""
        shape = (len(self.indptr) - 1, self.n_columns)
        return scipy.sparse.csr_matrix((self.values, self.indices, self.indptr), shape=shape)


class DatasetInfo(LabelledInfo):
    """Content of a graph's ``dataset.json``."""

    feature_kind: Literal["sparse", "dense"]
    n_nodes: int = Field(ge=1)
    n_edges: int = Field(ge=0)
    """Undirected edges, each counted once."""
    n_features: int = Field(ge=1)
    loops_dropped: int = Field(ge=0)
    """Entries of the raw adjacency from a node to itself."""
    duplicates_dropped: int = Field(ge=0)
    """Directed entries of the raw adjacency that repeat an earlier one."""
    one_way_edges: int | None = Field(default=None, ge=0)
    """Edges that the raw adjacency has in one direction only; None: not counted."""
    features: str = "raw"
    """Kind of features made of texts (bow, fasttext, bert, sbert); raw: features from the files."""
    view: str | None = None
    """View in which the raw files were read (datasets/views.py); None if there is no choice."""
    node_sample: Literal["stratified", "keyed_coin"] | None = None
    """Sampling of the training nodes, done once (docs/privacy.md §3); None: all kept."""
    counts: dict[str, int] = {}
    """Counts from reading texts, such as ``texts_cut``; for the owner of the data."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ParsedGraph(UndirectedEdges):
    """Result of a reader of a raw format; the registry adds names and sources."""

    features: SparseFeatures | np.ndarray
    labels: np.ndarray
    train_mask: np.ndarray
    validation_mask: np.ndarray
    test_mask: np.ndarray
    n_classes: int
    node_sample: Literal["stratified", "keyed_coin"] | None = None
    preprocessing: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    """Names of the classes, for a dataset that does not declare them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphDataset(LabelledDataset):
    """An undirected attributed graph with node labels and three disjoint masks.

    The constructor checks every invariant and raises :class:`UserError` naming the key.
    """

    features: SparseFeatures | np.ndarray
    """CSR parts, or (N, F) float32; stored unnormalised."""
    edge_index: np.ndarray
    """(2, E) int64; every undirected edge once, i < j, no loops, sorted lexicographically."""
    info: DatasetInfo
    tensors_file: ClassVar[str] = TENSORS_FILE

    def __post_init__(self) -> None:
        where = f"dataset {self.info.name!r}"
        if isinstance(self.features, SparseFeatures):
            stated, actual = self.info.n_features, self.features.n_columns
            require(stated == actual, f"{where}: n_features", stated, f"{actual}, as stored")
        check_graph(self.arrays(), self.info, where, where)

    @classmethod
    def generated(
        cls, name: str, classes: Sequence[str], features: Any, edge_index: np.ndarray,
        labels: np.ndarray, masks: Sequence[np.ndarray],
    ) -> GraphDataset:  # fmt: skip
        """Make a graph that does not come from a file.

        ``features`` (N, F) is a SciPy matrix, ``edge_index`` (2, E) has i < j in any order,
        ``masks`` are for training, validation and test nodes.
        """
        edges = np.ascontiguousarray(edge_index[:, np.lexsort(edge_index[::-1])], np.int64)
        return cls.of(
            SparseFeatures.from_scipy(features),
            {"edge_index": edges, "labels": labels, **dict(zip(MASKS, masks, strict=True))},
            name=name, title=name, synthetic=True, classes=list(classes), loops_dropped=0,
            duplicates_dropped=0, sources=[], licence="none", citation="none", public_facts=[],
        )  # fmt: skip

    @classmethod
    def of(
        cls, matrix: SparseFeatures | np.ndarray, arrays: Mapping[str, np.ndarray], **fields: Any
    ) -> GraphDataset:
        """Make a graph of its feature matrix, edges, labels and masks; ``fields`` are those of its
        ``info`` that do not follow from the arrays."""
        sparse = isinstance(matrix, SparseFeatures)
        info = DatasetInfo(
            feature_kind="sparse" if sparse else "dense", n_nodes=len(arrays["labels"]),
            n_edges=arrays["edge_index"].shape[1],
            n_features=matrix.n_columns if sparse else matrix.shape[1],
            **{"units": "node"} | fields,
        )  # fmt: skip
        labels = arrays["labels"].astype(np.int64)
        return cls(features=matrix, **{**arrays, "labels": labels}, info=info)

    @property
    def size(self) -> GraphSize:
        """Sizes of all arrays."""
        features = self.features
        dense = isinstance(features, np.ndarray)
        return GraphSize(
            self.n_nodes, self.n_edges, features.size if dense else len(features.indices),
            self.n_features, self.n_classes, int(self.train_mask.sum()),
        )  # fmt: skip

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return len(self.labels)

    @property
    def n_edges(self) -> int:
        """Number of undirected edges E."""
        return self.edge_index.shape[1]

    @property
    def n_features(self) -> int:
        """Number of feature columns F."""
        return self.info.n_features

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the stored arrays by key."""
        if isinstance(self.features, SparseFeatures):
            parts = (self.features.indptr, self.features.indices, self.features.values)
            arrays = dict(zip(_SPARSE_KEYS, parts, strict=True))
        else:
            arrays = {"features": self.features}
        return super().arrays() | arrays | {"edge_index": self.edge_index}

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> GraphDataset:
        """Read a folder written by :meth:`save`; UserError for a violated invariant."""
        info, arrays = cls.stored(folder, DatasetInfo, check_graph)
        if info.feature_kind == "sparse":
            parts = [arrays.pop(key) for key in _SPARSE_KEYS]
            arrays["features"] = SparseFeatures(*parts, info.n_features)  # type: ignore[call-arg]
        return cls(**arrays, info=info)

    def to_pyg(self) -> Data:
        """Return the graph as a ``torch_geometric.data.Data``; see ``pyg.to_pyg``."""
        from private_graphs.datasets.pyg import to_pyg  # the import takes seconds

        return to_pyg(self)

    @classmethod
    def from_pyg(cls, data: Data, name: str) -> GraphDataset:
        """Return the graph in a ``Data`` with x, edge_index and y; see ``pyg.from_pyg``."""
        from private_graphs.datasets.pyg import from_pyg

        return from_pyg(data, name)

    def statistics(self) -> dict[str, Any]:
        """Return counts, baselines and sources; see ``statistics.of_graph``."""
        from private_graphs.datasets.statistics import of_graph

        return of_graph(self)
