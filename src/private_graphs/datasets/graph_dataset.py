"""One attributed graph with labels and masks: in memory, on disk, and the invariants of both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors
import safetensors.numpy
import scipy.sparse
import scipy.sparse.csgraph
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from private_graphs.datasets.arrays import fingerprint_of
from private_graphs.datasets.invariants import check_graph
from private_graphs.errors import UserError
from private_graphs.files import atomic_path, write_text

TENSORS_FILE, INFO_FILE = "graph.safetensors", "dataset.json"
_SPARSE_KEYS = ("features.indptr", "features.indices", "features.values")
_MASKS = ("train_mask", "validation_mask", "test_mask")


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
        """Take over any SciPy sparse matrix (N, F)."""
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


class RawFile(BaseModel):
    """A raw file that a dataset was built from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    url: str | None
    """None: the file was generated, not downloaded."""


class DatasetInfo(BaseModel):
    """What ``dataset.json`` holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    title: str
    synthetic: bool
    classes: list[str] = Field(min_length=1)
    """Names of the labels 0..K-1."""
    feature_kind: Literal["sparse", "dense"]
    units: str
    """What one row is, such as ``node``."""
    n_nodes: int = Field(ge=1)
    n_edges: int = Field(ge=0)
    """Undirected edges, each counted once."""
    n_features: int = Field(ge=1)
    loops_dropped: int = Field(ge=0)
    """Entries of the raw adjacency from a node to itself."""
    duplicates_dropped: int = Field(ge=0)
    """Directed entries of the raw adjacency that repeat an earlier one."""
    one_way_edges: int | None = Field(default=None, ge=0)
    """Edges of which the raw adjacency has one direction only; None: not counted."""
    sources: list[RawFile]
    licence: str
    citation: str
    public_facts: list[str]
    """What is public by declaration (docs/privacy.md §5)."""
    features: str = "raw"
    """Kind of features made of texts (bow, fasttext, bert, sbert); raw: those of the files."""
    view: str | None = None
    """How the raw files were read (datasets/views.py); None where they leave no choice."""
    node_sample: Literal["stratified", "keyed_coin"] | None = None
    """How a share of the training nodes was drawn for good (docs/privacy.md §3); None: all kept."""
    preprocessing: list[str] = []
    """Sentences on how nodes and features were chosen, for the privacy statement."""


@dataclass(frozen=True, eq=False)
class ParsedGraph:
    """What a reader of a raw format returns; the registry adds names and sources."""

    features: SparseFeatures | np.ndarray
    edge_index: np.ndarray
    labels: np.ndarray
    train_mask: np.ndarray
    validation_mask: np.ndarray
    test_mask: np.ndarray
    n_classes: int
    loops_dropped: int
    duplicates_dropped: int
    one_way_edges: int
    node_sample: Literal["stratified", "keyed_coin"] | None = None
    preprocessing: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class GraphDataset:
    """An undirected attributed graph with node labels and three disjoint masks.

    Building one checks every invariant and raises :class:`UserError` naming the key.
    """

    features: SparseFeatures | np.ndarray
    """CSR parts, or (N, F) float32; stored raw, never normalised."""
    edge_index: np.ndarray
    """(2, E) int64; every undirected edge once, i < j, no loops, sorted lexicographically."""
    labels: np.ndarray
    """(N,) int64 in 0..K-1, or -1 where there is no label."""
    train_mask: np.ndarray
    """(N,) bool."""
    validation_mask: np.ndarray
    """(N,) bool."""
    test_mask: np.ndarray
    """(N,) bool."""
    info: DatasetInfo

    def __post_init__(self) -> None:
        where = f"dataset {self.info.name!r}"
        n_columns = (
            self.features.n_columns
            if isinstance(self.features, SparseFeatures)
            else self.info.n_features
        )
        if n_columns != self.info.n_features:
            raise UserError(
                f"{where}: n_features is {self.info.n_features}, expected the {n_columns} columns "
                "of the features"
            )
        check_graph(self._arrays(), self.info, where, where)

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

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.info.classes)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (64 hex digits) over the name and all arrays, independent of the platform."""
        return fingerprint_of(self.info.name, self._arrays())

    def _arrays(self) -> dict[str, np.ndarray]:
        if isinstance(self.features, SparseFeatures):
            parts = (self.features.indptr, self.features.indices, self.features.values)
            arrays = dict(zip(_SPARSE_KEYS, parts, strict=True))
        else:
            arrays = {"features": self.features}
        for key in ("edge_index", "labels", *_MASKS):
            arrays[key] = getattr(self, key)
        return arrays

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``graph.safetensors``, then ``dataset.json``, each atomically."""
        folder = Path(folder)
        tensors = {key: np.ascontiguousarray(value) for key, value in self._arrays().items()}
        with atomic_path(folder / TENSORS_FILE) as temporary:
            safetensors.numpy.save_file(tensors, temporary)
        write_text(folder / INFO_FILE, self.info.model_dump_json(indent=2) + "\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> GraphDataset:
        """Read a folder written by :meth:`save` and check every invariant.

        Raises:
            UserError: names the file, the key, what was found and what was expected.
        """
        info = _load_info(Path(folder) / INFO_FILE)
        path = Path(folder) / TENSORS_FILE
        try:
            arrays = safetensors.numpy.load_file(path)
        except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
            raise UserError(f"{path}: cannot be read ({error}); {_REBUILD}") from error
        check_graph(arrays, info, str(path), str(Path(folder) / INFO_FILE))
        features = arrays.get("features")
        if features is None:
            features = SparseFeatures(*(arrays[key] for key in _SPARSE_KEYS), info.n_features)
        return cls(
            features, arrays["edge_index"], arrays["labels"], *(arrays[key] for key in _MASKS), info
        )

    def statistics(self) -> dict[str, Any]:
        """Return counts, baselines and sources as a JSON-able dict (scores in 0..1).

        ``classes_missing`` names the classes of which a mask has no labelled node; ``components``
        are those of the whole graph, an isolated node being one.
        """
        masks = {key.removesuffix("_mask"): getattr(self, key) for key in _MASKS}
        labelled = self.labels >= 0
        ends = {key: mask[self.edge_index] for key, mask in masks.items()}  # (2, E)
        inside = {key: int(end.all(axis=0).sum()) for key, end in ends.items()}
        class_counts = {
            key: np.bincount(self.labels[mask & labelled], minlength=self.n_classes)
            for key, mask in masks.items()
        }
        train_counts = class_counts["train"]
        component_sizes = self._component_sizes()
        test_labels = self.labels[self.test_mask & labelled]
        majority = int(train_counts.argmax())
        words = self._features_per_node()
        return {
            "name": self.info.name,
            "title": self.info.title,
            "synthetic": self.info.synthetic,
            "features_kind": self.info.features,
            "view": self.info.view,
            "nodes": self.n_nodes,
            "edges": self.n_edges,
            "features": self.n_features,
            "feature_nonzeros": int(words.sum()),
            "nodes_without_features": int(np.sum(words == 0)),
            "classes": self.n_classes,
            "masks": {key: int(mask.sum()) for key, mask in masks.items()},
            "labelled": {key: int((mask & labelled).sum()) for key, mask in masks.items()},
            "train_class_counts": dict(zip(self.info.classes, train_counts.tolist(), strict=True)),
            "classes_missing": {
                key: [
                    name for name, count in zip(self.info.classes, counts, strict=True) if not count
                ]
                for key, counts in class_counts.items()
            },
            "isolated_nodes": int(np.sum(component_sizes == 1)),
            "components": len(component_sizes),
            "largest_component": int(component_sizes.max()),
            "loops_dropped": self.info.loops_dropped,
            "duplicates_dropped": self.info.duplicates_dropped,
            "one_way_edges": self.info.one_way_edges,
            "majority_class": self.info.classes[majority],
            "majority_share_on_test": (
                float(np.mean(test_labels == majority)) if len(test_labels) else None
            ),
            "edges_inside": inside,
            "edges_crossing": self.n_edges - sum(inside.values()),
            "fingerprint": self.fingerprint,
            "sources": [source.model_dump() for source in self.info.sources],
            "edge_entries": self._edge_entries(),
            "preprocessing": self.info.preprocessing,
            "licence": self.info.licence,
            "citation": self.info.citation,
        }

    def _edge_entries(self) -> int | None:
        """Rows of the raw edge file between its nodes, where files leave a choice of nodes."""
        info = self.info
        if info.view is None or info.one_way_edges is None:
            return None
        return 2 * info.n_edges - info.one_way_edges + info.loops_dropped + info.duplicates_dropped

    def _features_per_node(self) -> np.ndarray:
        """Return (N,) numbers of features that are not zero."""
        if isinstance(self.features, SparseFeatures):
            return np.diff(self.features.indptr)
        return np.count_nonzero(self.features, axis=1)

    def _component_sizes(self) -> np.ndarray:
        """Return the numbers of nodes of the connected components."""
        ones = np.ones(self.n_edges, dtype=np.int8)
        adjacency = scipy.sparse.coo_array((ones, self.edge_index), shape=(self.n_nodes,) * 2)
        _, component = scipy.sparse.csgraph.connected_components(adjacency, directed=False)
        return np.bincount(component)


_REBUILD = "delete the folder and build the dataset again"


def _load_info(path: Path) -> DatasetInfo:
    try:
        return DatasetInfo.model_validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror or error}); {_REBUILD}"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "JSON"
        raise UserError(
            f"{path}: {key}: found {str(first['input'])[:80]!r}: {first['msg']}; {_REBUILD}"
        ) from error
