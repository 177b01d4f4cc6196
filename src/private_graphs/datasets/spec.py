"""What is known of a dataset before its files exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from private_graphs.datasets.graph_dataset import GraphDataset, ParsedGraph
    from private_graphs.datasets.image_dataset import ParsedImages
    from private_graphs.datasets.own import OwnGraph
    from private_graphs.datasets.text_graph import TextGraph


@dataclass(frozen=True)
class GraphSize:
    """Size of a built dataset, known in advance; of images, each is a node without edges."""

    nodes: int
    edges: int
    """Undirected."""
    nonzeros: int
    """Of the feature matrix."""
    features: int
    classes: int
    train_nodes: int


TEXT_FEATURES = ("bert", "bow", "fasttext", "sbert")
"""Features of a graph with texts; the first is the default."""


def numbered(n_classes: int) -> tuple[str, ...]:
    """Return names of classes that have none."""
    return tuple(f"class {label}" for label in range(n_classes))


@dataclass(frozen=True)
class DatasetSpec:
    """What the registry knows of a dataset before its files exist."""

    name: str
    title: str
    raw: str
    """Path of its file or folder below the raw folder."""
    classes: tuple[str, ...]
    """Names of the labels 0..K-1: public, so declared here and not read off private labels."""
    size: GraphSize
    """With the default features."""
    synthetic: bool = False
    features: tuple[str, ...] = ("raw",)
    """Kinds that it can have; the first is the default."""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """(columns, non-zeros) with other features than the default."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Features -> model of the download rules; other features of texts use an embedded one."""
    views: tuple[str, ...] = ()
    """Names of the views in which it can be read; none where the raw files leave no choice."""
    max_edges: int | None = None
    """Bound on the undirected edges that is public whatever the edges are: what is published about
    the dataset, rounded up to two digits; of a user's own graph, what the owner declared."""
    own: OwnGraph | None = None
    """What a user declared, of a user's own graph."""
    built: GraphDataset | None = None
    """The graph itself, where a user built it for good (``dataset --pyg``)."""
    data: Literal["graph", "images"] = "graph"
    """What one unit of it is."""
    read: Callable[..., ParsedGraph | ParsedImages] | None = None
    """Reads ``raw``, with the view where it has ``views``: one may lack the last classes. None: its
    features are made of texts."""
    read_texts: Callable[..., TextGraph] | None = None
    """Reads ``raw`` in a view, with what ``dataset.json`` says of it and a progress by keyword."""
    write: Callable[[Path], list[Path]] | None = None
    """Generates the raw files of a synthetic dataset below a raw folder; returns their paths."""

    @property
    def has_texts(self) -> bool:
        """Whether its features are made of texts."""
        return self.features[0] != "raw"

    def size_with(self, features: str) -> GraphSize:
        """Size of the dataset with these features."""
        if features not in self.sizes:
            return self.size
        columns, nonzeros = self.sizes[features]
        size = self.size
        return GraphSize(size.nodes, size.edges, nonzeros, columns, size.classes, size.train_nodes)
