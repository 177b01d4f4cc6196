"""A classification task cut into what is private and what is public, as a proved method sees it.

Three settings, each with the unit that it protects and what it takes to be public. Test labels are
not part of a problem: no method can read them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.errors import UserError
from private_graphs.methods.names import SettingName
from private_graphs.privacy.statements import Inference, Relation, Unit

_SIZES = (
    "the numbers of training, tuning and test nodes, of classes and of features; who is which, and "
    "who has a label"
)
_WORDS = "the words that are counted, or the model that makes features of texts"
_TUNING = "the texts of the tuning nodes (the validation nodes)"
_TEST = "test nodes are not protected: their labels are read for the scores that are shown"
_OWN_TEST = (
    f"{_TEST}, their texts for their own predictions and, with those of the tuning nodes, for the "
    "words that are counted"
)


@dataclass(frozen=True)
class Setting:
    """What is protected and what is public."""

    name: SettingName
    title: str
    unit: Unit
    relation: Relation
    inference: Inference
    public_facts: tuple[str, ...]


SETTINGS: dict[str, Setting] = {
    each.name: each
    for each in (
        Setting(
            name="text",
            title="node level, only the tuning set public",
            unit="node",
            relation="replace",
            inference="params_only",
            public_facts=(_SIZES, _WORDS, _TUNING, _OWN_TEST),
        ),
        Setting(
            name="graph",
            title="node level, texts and edges of the evaluation side public",
            unit="node",
            relation="replace",
            inference="inductive_disjoint",
            public_facts=(
                _SIZES,
                _WORDS,
                f"{_TUNING} and of the test nodes, and the edges among them",
                _TEST,
            ),
        ),
        Setting(
            name="edges",
            title="edge level, texts and training labels public",
            unit="edge_undirected",
            relation="add_remove",
            inference="noisy_rows",
            public_facts=(
                "the texts of all nodes and the labels of the training nodes",
                _SIZES,
                "a bound on the number of edges, declared without looking at them",
                _TEST,
            ),
        ),
    )
}
"""Every setting by name. The edges of a node are part of what its unit protects, except between
two public nodes."""


@dataclass(frozen=True, eq=False)
class Problem:
    """n training, V tuning and M test nodes, with labels; features are rows of L2 norm 1.

    A row of zeros stays so. Nodes without a label take no part, but test nodes where they are asked
    for: as training nodes they contribute nothing, which a replaced node may do anyway.
    """

    setting: Setting
    n_units: int
    """Private units: training nodes, labelled or not; under ``edges`` the declared bound on the
    edges, since how many there are is private."""
    n_classes: int
    delta: float
    train_features: scipy.sparse.csr_matrix
    """(n, d) float64. Private but under ``edges``."""
    train_labels: np.ndarray
    """(n,) int64. Private but under ``edges``."""
    tuning_features: scipy.sparse.csr_matrix
    """(V, d); public."""
    tuning_labels: np.ndarray
    """(V,). Which of them are public a request says; the others are private."""
    test_features: scipy.sparse.csr_matrix
    """(M, d); public under ``graph`` and ``edges``, else known to who asks for a prediction."""
    public_adjacency: scipy.sparse.csr_matrix | None = None
    """(V+M, V+M) symmetric 0/1 among tuning then test nodes; public; only under ``graph``."""
    train_to_public: scipy.sparse.csr_matrix | None = None
    """(n, V+M) 0/1, row i the edges of training node i to public nodes; as private as its row of
    features, and part of it; only under ``graph``."""
    train_adjacency: scipy.sparse.csr_matrix | None = None
    """(n, n) symmetric 0/1 among training nodes; private; only under ``graph``."""
    adjacency: scipy.sparse.csr_matrix | None = None
    """(n+V+M, n+V+M) symmetric 0/1 among training, tuning, test nodes; private; only under
    ``edges``."""

    @property
    def n_train(self) -> int:
        """Number of labelled training nodes."""
        return len(self.train_labels)

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return int(self.train_features.shape[1])


def unit_rows(matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return the rows scaled to L2 norm 1, in float64; rows of zeros stay."""
    matrix = scipy.sparse.csr_matrix(matrix, dtype=np.float64)
    norms = np.sqrt(matrix.multiply(matrix).sum(axis=1)).A1
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return scipy.sparse.csr_matrix(scipy.sparse.diags(scale) @ matrix)


def build_problem(
    dataset: GraphDataset,
    setting: Setting,
    delta: float,
    unlabelled: bool = False,
    max_edges: int | None = None,
) -> Problem:
    """Cut ``dataset`` for ``setting``; ``unlabelled`` keeps test nodes without a label.

    ``max_edges`` is the public bound on the undirected edges, needed under ``edges`` alone
    (docs/privacy.md §6). Raises UserError where a side has no labelled node, where the bound is
    missing or exceeded, and at node level for a dataset whose training nodes were sampled per
    class: one relabelled node moves others in and out (docs/privacy.md §3).
    """
    if setting.unit == "node" and dataset.info.node_sample == "stratified":
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
    train, tuning, test = sides.values()
    if unlabelled:
        test = np.flatnonzero(dataset.test_mask)
    features = dataset.features
    rows = features if isinstance(features, np.ndarray) else features.to_scipy()
    matrix = unit_rows(scipy.sparse.csr_matrix(rows))
    public, everyone = np.r_[tuning, test], np.r_[train, tuning, test]
    edges = _adjacency(dataset) if setting.name != "text" else None
    is_edges = setting.name == "edges"
    return Problem(
        setting=setting,
        n_units=(
            _bound_on_edges(dataset, max_edges) if is_edges else int(dataset.train_mask.sum())
        ),
        n_classes=dataset.n_classes,
        delta=delta,
        train_features=matrix[train],
        train_labels=dataset.labels[train],
        tuning_features=matrix[tuning],
        tuning_labels=dataset.labels[tuning],
        test_features=matrix[test],
        public_adjacency=edges[public][:, public] if setting.name == "graph" else None,
        train_to_public=edges[train][:, public] if setting.name == "graph" else None,
        train_adjacency=edges[train][:, train] if setting.name == "graph" else None,
        adjacency=edges[everyone][:, everyone] if is_edges else None,
    )


def _bound_on_edges(dataset: GraphDataset, max_edges: int | None) -> int:
    """Return the declared bound; no message tells how many edges there are."""
    if max_edges is None:
        raise UserError(
            f"{dataset.info.name}: --setting edges protects each link, so that the number of links "
            "is private too; declare a bound with --max-edges N (max_edges of a graph of your own):"
            " any upper bound that is known without looking at the links, such as what is "
            "published about the graph; the noise does not depend on it, delta x N below 1 is "
            "all that is asked"
        )
    if dataset.n_edges > max_edges:
        raise UserError(
            f"{dataset.info.name}: more edges than the declared bound of {max_edges:,}; declare a "
            "larger one with --max-edges (max_edges of a graph of your own), known without "
            "looking at the links"
        )
    return max_edges


def _adjacency(dataset: GraphDataset) -> scipy.sparse.csr_matrix:
    source, target = dataset.edge_index
    ones = np.ones(2 * len(source))
    shape = (dataset.n_nodes, dataset.n_nodes)
    return scipy.sparse.csr_matrix((ones, (np.r_[source, target], np.r_[target, source])), shape)
