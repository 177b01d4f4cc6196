"""Dataset metadata that is known before the files exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from private_graphs.core.files import sha256_of
from private_graphs.datasets.labelled import RawFile

if TYPE_CHECKING:
    from private_graphs.datasets.graph_dataset import GraphDataset, ParsedGraph
    from private_graphs.datasets.image_dataset import ParsedImages
    from private_graphs.datasets.own import OwnGraph
    from private_graphs.datasets.text_graph import TextGraph


@dataclass(frozen=True)
class GraphSize:
    """Size of a built dataset, known in advance; an image counts as a node without edges."""

    nodes: int
    edges: int
    """Undirected edges."""
    nonzeros: int
    """Non-zero entries of the feature matrix."""
    features: int
    classes: int
    train_nodes: int
    test_nodes: int | None = None
    """None: at most those that are no training nodes."""


TEXT_FEATURES = ("bert", "bow", "fasttext", "sbert")
"""Feature kinds of a graph with texts; the first is the default."""


def numbered(n_classes: int) -> tuple[str, ...]:
    """Return numbered names for classes without names."""
    return tuple(f"class {label}" for label in range(n_classes))


@dataclass(frozen=True)
class DatasetSpec:
    """Registry entry of a dataset, known before its files exist."""

    name: str
    title: str
    raw: str
    """Path of the raw file or folder below the raw folder."""
    classes: tuple[str, ...]
    """Names of the labels 0..K-1: public, so declared here and not read from private labels. Empty
    for published data whose reader names them (``ParsedGraph.classes``)."""
    size: GraphSize
    """Size with the default features."""
    synthetic: bool = False
    features: tuple[str, ...] = ("raw",)
    """Available feature kinds; the first is the default."""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """(columns, non-zeros) for feature kinds other than the default."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Feature kind -> model of the download rules; other text features use an embedded model."""
    views: tuple[str, ...] = ()
    """Names of the available views; empty where the raw files leave no choice."""
    max_edges: int | None = None
    """Public bound on the number of undirected edges, whatever the edges are: the published number
    rounded up to two digits; for a user's own graph, the declared bound."""
    part_of: tuple[str, str] | None = None
    """Dataset of ``data/sources.yaml`` that has the raw file, and the file; None: an entry of its
    own."""
    own: OwnGraph | None = None
    """Declaration of a user's own graph."""
    built: GraphDataset | None = None
    """The graph itself, if a user built it permanently (``dataset --pyg``)."""
    data: Literal["graph", "images"] = "graph"
    """Kind of dataset: a graph, or images."""
    read: Callable[..., ParsedGraph | ParsedImages] | None = None
    """Reader of ``raw``, called with the view if there are ``views`` (a view may lack the last
    classes). None: features are made of texts."""
    read_texts: Callable[..., TextGraph] | None = None
    """Reader of ``raw`` as a text graph, called with the view, with ``dataset.json`` metadata and a
    progress callback as keywords."""
    write: Callable[[Path], list[Path]] | None = None
    """Generator of a synthetic dataset's raw files below a raw folder; returns their paths."""

    def written(self, raw_dir: Path) -> list[RawFile]:
        """Generate the raw files of a synthetic dataset; return their records."""
        assert self.write is not None
        return [
            RawFile(file=path.relative_to(raw_dir).as_posix(), sha256=sha256_of(path), url=None)
            for path in self.write(raw_dir)
        ]

    @property
    def users(self) -> bool:
        """Whether a user brought the graph, which may be private."""
        return self.own is not None or self.built is not None

    @property
    def has_texts(self) -> bool:
        """Whether the features are made of texts."""
        return self.features[0] != "raw"

    def size_with(self, features: str) -> GraphSize:
        """Size of the dataset with these features."""
        if features not in self.sizes:
            return self.size
        columns, nonzeros = self.sizes[features]
        return replace(self.size, features=columns, nonzeros=nonzeros)

    def models_of(self, kind: str) -> list[str]:
        """Names of the downloaded models that a feature kind needs."""
        return [self.models[kind]] if kind in self.models else []
