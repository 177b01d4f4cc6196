"""Tasks of graphs with separate training, validation and test nodes: scenarios ``text``, ``graph``
and ``edges``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from private_graphs.core.errors import UserError
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.tasks.tasks import SCENARIOS, Evaluation, Scenario

if TYPE_CHECKING:
    from private_graphs.datasets.shards import ShardedGraph


UNIT_ROWS = "every row of features is scaled to norm 1 by itself"
"""Preprocessing of features by ``GraphTask``."""


@dataclass(frozen=True, eq=False)
class Records:
    """Some training nodes, with fields named as in ``GraphTask``."""

    train_features: scipy.sparse.csr_matrix
    train_labels: np.ndarray
    train_to_public: scipy.sparse.csr_matrix | None = None


@dataclass(frozen=True, eq=False)
class Shards:
    """A private part that is not in memory and is read only through exact sums over its records."""

    total: Callable[[Any], np.ndarray]
    """Callback that returns the exact sum for a query of the method (``Method.query``)."""
    first: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the text model made beforehand from the public part, under ``edges``."""


@dataclass(frozen=True, eq=False)
class GraphTask:
    """n training, V validation and M test nodes, with labels; features are rows of L2 norm 1.

    A row of zeros stays zero. Nodes without a label are left out, except test nodes on request: an
    unlabelled training node contributes nothing, which a replaced node may do anyway.
    """

    scenario: Scenario
    n_units: int
    """Number of private units: training nodes, labelled or not; under ``edges`` the declared bound
    on the edges, since their number is private."""
    n_classes: int
    delta: float
    train_features: scipy.sparse.csr_matrix
    """(n, d) float64; private, except under ``edges``."""
    train_labels: np.ndarray
    """(n,) int64; private, except under ``edges``."""
    validation_features: scipy.sparse.csr_matrix
    """(V, d); public."""
    validation_labels: np.ndarray
    """(V,); each request says which of them are public, the others are private."""
    test_features: scipy.sparse.csr_matrix
    """(M, d); public under ``graph`` and ``edges``, else known to whoever asks for a prediction."""
    public_adjacency: scipy.sparse.csr_matrix | None = None
    """(V+M, V+M) symmetric 0/1 among validation, then test nodes; public; only under ``graph``."""
    train_to_public: scipy.sparse.csr_matrix | None = None
    """(n, V+M) 0/1; row i holds the edges of training node i to public nodes, as private as its row
    of features and part of the same unit; only under ``graph``."""
    train_adjacency: scipy.sparse.csr_matrix | None = None
    """(n, n) symmetric 0/1 among training nodes; private; only under ``graph``."""
    adjacency: scipy.sparse.csr_matrix | None = None
    """(n+V+M, n+V+M) symmetric 0/1 among training, validation, test nodes; private; only under
    ``edges``."""
    shards: Shards | None = None
    """Private part of a graph in shards; the private fields are then empty."""

    @property
    def n_train(self) -> int:
        """Number of labelled training nodes."""
        return len(self.train_labels)

    def training(self, nodes: slice) -> Records:
        """Return some training nodes."""
        edges = self.train_to_public
        return Records(
            self.train_features[nodes],
            self.train_labels[nodes],
            None if edges is None else edges[nodes],
        )

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return int(self.train_features.shape[1])


def sharded_task(
    graph: ShardedGraph, scenario: str, delta: float, max_edges: int | None
) -> tuple[GraphTask, Evaluation]:
    """Return the task of a graph in shards: its public part without the private one."""
    about, is_edges = graph.info, scenario == "edges"
    if scenario != about.scenario:
        raise UserError(
            f"{about.name} is in shards for scenario {about.scenario}; found {scenario}"
        )
    if is_edges and max_edges is None:
        raise _no_bound(about.name)
    bound = max_edges or 0
    records, labels = np.array(graph.public("test_records")), np.array(graph.public("test_labels"))
    known = np.array(graph.public("validation_labels"))
    texts = [scipy.sparse.csr_matrix((len(side), about.n_features)) for side in (known, labels)]
    if not is_edges:
        names = ("validation_features", "test_features")
        texts = [
            unit_rows(graph.public_matrix(name, text.shape))
            for name, text in zip(names, texts, strict=True)
        ]
    size = len(known) + len(labels)
    task = GraphTask(
        scenario=SCENARIOS[scenario],
        n_units=bound if is_edges else about.n_train,
        n_classes=graph.n_classes,
        delta=delta,
        train_features=scipy.sparse.csr_matrix((0, about.n_features)),
        train_labels=graph.public("train_labels") if is_edges else np.zeros(0, np.int64),
        validation_features=texts[0],
        validation_labels=known,
        test_features=texts[1],
        public_adjacency=(
            graph.public_matrix("public_adjacency", (size, size)) if scenario == "graph" else None
        ),
        shards=Shards(
            graph.total,
            {"probabilities": graph.public("first"), **about.first} if is_edges else {},
        ),
    )
    return task, Evaluation(records, labels)


def unit_rows(matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return the rows scaled to L2 norm 1, in float64; rows of zeros stay zero."""
    matrix = scipy.sparse.csr_matrix(matrix, dtype=np.float64)
    norms = np.sqrt(matrix.multiply(matrix).sum(axis=1)).A1
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return scipy.sparse.csr_matrix(scipy.sparse.diags(scale) @ matrix)


def build_graph_task(
    dataset: GraphDataset,
    scenario: Scenario,
    delta: float,
    unlabelled: bool = False,
    max_edges: int | None = None,
) -> GraphTask:
    """Divide ``dataset`` for ``scenario``; ``unlabelled`` keeps test nodes without a label.

    ``max_edges`` is the public bound on the undirected edges, needed only under ``edges``
    (docs/privacy.md §6). Raises UserError for a side without labelled nodes, for a missing or
    exceeded bound, and at node level for a dataset whose training nodes were sampled per class: one
    relabelled node moves others in and out (docs/privacy.md §3).
    """
    if scenario.unit == "node" and dataset.info.node_sample == "stratified":
        raise UserError(
            f"{dataset.info.name}: its training nodes were sampled per class, which no proved "
            "method is priced for; build it for the protocol sound, which tosses a coin per node"
        )
    labelled = dataset.labels >= 0
    sides = {
        "training": np.flatnonzero(dataset.train_mask & labelled),
        "validation": np.flatnonzero(dataset.validation_mask & labelled),
        "test": np.flatnonzero(dataset.test_mask & labelled),
    }
    for name, nodes in sides.items():
        if not len(nodes):
            raise UserError(
                f"{dataset.info.name}: no labelled {name} node; proved methods need some of each"
            )
    train, validation, test = sides.values()
    if unlabelled:
        test = np.flatnonzero(dataset.test_mask)
    features = dataset.features
    rows = features if isinstance(features, np.ndarray) else features.to_scipy()
    matrix = unit_rows(scipy.sparse.csr_matrix(rows))
    public, everyone = np.r_[validation, test], np.r_[train, validation, test]
    edges: Any = _adjacency(dataset) if scenario.name != "text" else None
    is_edges = scenario.name == "edges"
    return GraphTask(
        scenario=scenario,
        n_units=(bound_on_edges(dataset, max_edges) if is_edges else int(dataset.train_mask.sum())),
        n_classes=dataset.n_classes,
        delta=delta,
        train_features=matrix[train],
        train_labels=dataset.labels[train],
        validation_features=matrix[validation],
        validation_labels=dataset.labels[validation],
        test_features=matrix[test],
        public_adjacency=edges[public][:, public] if scenario.name == "graph" else None,
        train_to_public=edges[train][:, public] if scenario.name == "graph" else None,
        train_adjacency=edges[train][:, train] if scenario.name == "graph" else None,
        adjacency=edges[everyone][:, everyone] if is_edges else None,
    )


def bound_on_edges(dataset: GraphDataset, max_edges: int | None) -> int:
    """Return the declared bound; no error message reveals the number of edges."""
    if max_edges is None:
        raise _no_bound(dataset.info.name)
    if dataset.n_edges > max_edges:
        raise UserError(
            f"{dataset.info.name}: more edges than the declared bound of {max_edges:,}; declare a "
            "larger one with --max-edges (max_edges of a graph of your own), known without "
            "looking at the links"
        )
    return max_edges


def _no_bound(name: str) -> UserError:
    return UserError(
        f"{name}: --scenario edges protects each link, so that their number "
        "is private too; declare a bound with --max-edges N (max_edges of a graph of your own):"
        " any upper bound that is known without looking at the links, such as what is "
        "published about the graph; the noise does not depend on it, delta x N below 1 is "
        "all that is asked"
    )


def _adjacency(dataset: GraphDataset) -> scipy.sparse.csr_matrix:
    source, target = dataset.edge_index
    ones = np.ones(2 * len(source))
    shape = (dataset.n_nodes, dataset.n_nodes)
    return scipy.sparse.csr_matrix((ones, (np.r_[source, target], np.r_[target, source])), shape)
