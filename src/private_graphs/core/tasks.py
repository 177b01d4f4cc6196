"""Tasks: a dataset divided into private and public parts, for one scenario.

A scenario defines the protected unit and what is public. A task contains no test labels, so no
method can read them; the exception is a protocol that repeats code that did (``stops_on_test``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import scipy.sparse

from private_graphs.core.errors import UserError
from private_graphs.core.protocols import Protocol
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.privacy.statements import Inference, Relation, Unit

if TYPE_CHECKING:
    from private_graphs.datasets.image_dataset import ImageDataset
    from private_graphs.datasets.shards import ShardedGraph

ScenarioName = Literal[
    "text", "graph", "edges", "links", "lists", "nodes", "records", "classes", "subclasses"
]
UNIT_ROWS = "every row of features is scaled to norm 1 by itself"
"""Preprocessing of features by ``GraphTask``."""
_SIZES = (
    "the numbers of training, validation and test nodes, of classes and of features; who is which, "
    "and who has a label"
)
_WORDS = "the words that are counted, or the model that makes features of texts"
_VALIDATION = "the texts of the validation nodes"
_TEST = "test nodes are not protected: their labels are read for the scores that are shown"
_OWN_TEST = (
    f"{_TEST}, their texts for their own predictions and, with those of the validation nodes, for "
    "the words that are counted"
)


@dataclass(frozen=True)
class Scenario:
    """What is protected and what is public."""

    name: ScenarioName
    title: str
    unit: Unit
    relation: Relation
    inference: Inference
    public_facts: tuple[str, ...]
    cut: Literal["sides", "whole", "images"] = "sides"
    """Shape of a method's input: training, validation and test nodes apart (``GraphTask``), the
    whole graph (``NodeTask``), or images (``ImageTask``)."""
    scores_are_queries: bool = False
    """Whether validation and test records are units too, so that their scores are queries."""


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="text",
            title="node level, public: the validation documents",
            unit="node",
            relation="replace",
            inference="params_only",
            public_facts=(_SIZES, _WORDS, _VALIDATION, _OWN_TEST),
        ),
        Scenario(
            name="graph",
            title="node level, texts and edges of the evaluation side public",
            unit="node",
            relation="replace",
            inference="inductive_disjoint",
            public_facts=(
                _SIZES,
                _WORDS,
                f"{_VALIDATION} and of the test nodes, and the edges among them",
                _TEST,
            ),
        ),
        Scenario(
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
        Scenario(
            name="links",
            title="edge level, features of all nodes and labels but those of the test nodes public",
            unit="edge_undirected",
            relation="add_remove",
            inference="noisy_rows",
            public_facts=(
                "the features of all nodes, and the labels of the training and validation nodes",
                _SIZES,
                "a bound on the number of edges, declared without looking at them",
                _TEST,
            ),
            cut="whole",
        ),
        Scenario(
            name="lists",
            title="node level, each node with the list of edges that it owns",
            unit="node_out_list",
            relation="replace",
            inference="joint_dp_predictions",
            public_facts=(
                "the numbers of nodes, of training nodes, of classes and of features; who is which",
                "the labels of validation and test nodes are not protected; their features and "
                "lists are",
            ),
            cut="whole",
            scores_are_queries=True,
        ),
        Scenario(
            name="nodes",
            title="node level, all nodes public but the training ones",
            unit="node",
            relation="replace",
            inference="inductive_disjoint",
            public_facts=("the sizes of the dataset: they are not covered",),
            cut="whole",
        ),
        Scenario(
            name="records",
            title="record level, validation and test images public",
            unit="record",
            relation="replace",
            inference="params_only",
            public_facts=(
                "the numbers of training, validation and test images, of classes and of pixels; "
                "who is which",
                "the validation images",
                "test images are not protected: their pixels are read for their own predictions, "
                "their labels for the scores that are shown",
            ),
            cut="images",
        ),
        *(
            Scenario(
                name=cast("ScenarioName", name),
                title=title,
                unit=cast("Unit", unit),
                relation="replace",
                inference="params_only",
                public_facts=(
                    "the numbers of training, validation and test images, of classes and of "
                    f"pixels; {whose}",
                    "the validation images with their labels",
                    "test images are not protected: their pixels are read for their own "
                    "predictions, their labels for the scores that are shown",
                ),
                cut="images",
            )
            for name, title, unit, whose in (
                (
                    "classes",
                    "class level: all training images of a class at once",
                    "class",
                    "how many training images each class has, and that nobody moves to another "
                    "class: an image that does changes two units, which this epsilon does not "
                    "cover",
                ),
                (
                    "subclasses",
                    "subclass level: all training images of a part of a class at once",
                    "subclass",
                    "the rule that says to which part of its class an image belongs, how many "
                    "training images each part has, and that none moves to another part: an image "
                    "that does changes two units, which this epsilon does not cover",
                ),
            )
        ),
    )
}
"""Every scenario by name; under ``nodes`` the dataset itself says what is public. The edges of a
node are part of its protected unit, except between two public nodes."""


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


@dataclass(frozen=True, eq=False)
class NodeTask:
    """A whole graph, for methods that divide it themselves as their protocol says (``nodes``,
    ``links``, ``lists``); features are as stored."""

    scenario: Scenario
    protocol: Any
    n_units: int
    """Number of private units: training nodes, labelled or not; under ``links`` the declared bound
    on the edges; under ``lists`` all nodes."""
    n_classes: int
    delta: float
    graph: GraphDataset
    """Graph with all nodes, edges and masks; labels of test nodes are replaced by 0."""
    validation_labels: np.ndarray
    """(V,) labels of the scored validation nodes."""
    lists: scipy.sparse.csr_matrix | None = None
    """(N, N) 0/1; row i marks the nodes that node i may list (``lists``); None: its neighbours in
    the graph. A list belongs to its owner, so that a neighbouring task changes one list."""


@dataclass(frozen=True, eq=False)
class ImageTask:
    """n private training, V public validation, M test images (``records``, ``classes``,
    ``subclasses``).

    A training image without a label contributes nothing, which a replaced one may do anyway; other
    unlabelled images are left out, except test images on request.
    """

    scenario: Scenario
    protocol: Any
    n_units: int
    """Number of private units: training images n, labelled or not; or classes; under ``subclasses``
    a lower bound, the number of classes, and ``Outcome.n_units`` has the number."""
    n_classes: int
    delta: float
    shape: tuple[int, int, int]
    """Channels, height and width (c, h, w)."""
    train_pixels: np.ndarray
    """(n, c·h·w) uint8; private."""
    train_labels: np.ndarray
    """(n,) int64, -1 where there is none; private."""
    validation_pixels: np.ndarray
    """(V, c·h·w); public."""
    validation_labels: np.ndarray
    """(V,); each request says which of them are public, the others are private."""
    test_pixels: np.ndarray
    """(M, c·h·w); known to the person who asks for a prediction."""
    stopping_labels: np.ndarray | None = None
    """(V+M,) labels of validation, then test images, -1 for none, for a protocol that stops early
    on them; None for all other protocols."""
    votes: np.ndarray | None = None
    """(V+M, K) vote counts of teachers that were trained elsewhere, on training images among
    others, for validation, then test images; private. None: no such teachers."""


Task = GraphTask | NodeTask | ImageTask


@dataclass(frozen=True)
class Evaluation:
    """Predicted and scored records; only the runner has them."""

    test_records: np.ndarray
    """(M,) numbers of the test records."""
    test_labels: np.ndarray
    """(M,) labels, -1 for none."""


def build_task(
    dataset: GraphDataset | ImageDataset | ShardedGraph,
    scenario: str,
    protocol: Protocol,
    delta: float,
    *,
    unlabelled: bool = False,
    max_edges: int | None = None,
) -> tuple[Task, Evaluation]:
    """Divide ``dataset`` for a scenario; return the task and, separately, what scores its answers.

    ``unlabelled`` also predicts test records without a label. Raises UserError as
    ``build_graph_task`` does, and for an image scenario on a graph or the reverse.
    """
    if not isinstance(dataset, GraphDataset):
        from private_graphs.datasets.shards import ShardedGraph

        if isinstance(dataset, ShardedGraph):
            return _sharded_task(dataset, scenario, delta, max_edges)
    labels, kind = dataset.labels, SCENARIOS[scenario]
    fitting = [name for name, each in SCENARIOS.items()
               if (each.cut == "images") != isinstance(dataset, GraphDataset)]  # fmt: skip
    if scenario not in fitting:
        raise UserError(
            f"{dataset.info.name} has no scenario {scenario}: its units are "
            f"{dataset.info.units}s; expected {' or '.join(fitting)}"
        )
    if protocol.unlabelled == "class_zero":
        labels = np.where(labels < 0, 0, labels)
    test = dataset.test_mask & (unlabelled | (labels >= 0))
    evaluation = Evaluation(np.flatnonzero(test), labels[test])
    if not isinstance(dataset, GraphDataset):
        return _image_task(dataset, kind, labels, test, protocol, delta), evaluation
    if kind.cut == "sides":
        return build_graph_task(dataset, kind, delta, unlabelled, max_edges), evaluation
    hidden = np.where(dataset.test_mask & (dataset.labels >= 0), 0, dataset.labels)
    counts: dict[Unit, Callable[[], int]] = {
        "node": lambda: int(dataset.train_mask.sum()),
        "node_out_list": lambda: dataset.n_nodes,
        "edge_undirected": lambda: _bound_on_edges(dataset, max_edges),
    }
    task = NodeTask(
        scenario=kind,
        protocol=protocol,
        n_units=counts[kind.unit](),
        n_classes=dataset.n_classes,
        delta=delta,
        graph=replace(dataset, labels=hidden),
        validation_labels=labels[dataset.validation_mask & (labels >= 0)],
    )
    return task, evaluation


def _sharded_task(
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
    texts = [scipy.sparse.csr_matrix((len(each), about.n_features)) for each in (known, labels)]
    if not is_edges:
        names = ("validation_features", "test_features")
        texts = [
            unit_rows(graph.public_matrix(name, each.shape))
            for name, each in zip(names, texts, strict=True)
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


def with_drawn_masks(
    dataset: GraphDataset,
    test_share: float,
    validation_share: float,
    generator: np.random.Generator,
) -> GraphDataset:
    """Return ``dataset`` with uniformly drawn masks, independent of edges and labels.

    The test nodes for a generator do not depend on the other share. All other nodes train.
    """
    n = dataset.n_nodes
    order = generator.permutation(n)
    first = round(test_share * n)
    second = first + round(validation_share * n)
    places = np.empty(n, np.int64)
    places[order] = np.arange(n)
    return replace(
        dataset,
        test_mask=places < first,
        validation_mask=(first <= places) & (places < second),
        train_mask=places >= second,
    )


def with_metis_masks(dataset: GraphDataset, parts: int) -> GraphDataset:
    """Return ``dataset`` with the masks of DPAR's authors: of the parts that METIS makes, the fifth
    holds the test nodes, the sixth is left out, all others train.

    Raises UserError for a graph too small to have both.
    """
    from private_graphs.graphs.metis import metis_partition

    part = metis_partition(dataset.edge_index, dataset.n_nodes, parts)
    test, train = part == 4, (part != 4) & (part != 5)
    if not (test.any() and train.any()):
        raise UserError(
            f"{dataset.info.name}: METIS makes an empty part of its {dataset.n_nodes} nodes; "
            f"expected many more nodes than the {parts} parts"
        )
    nobody = np.zeros(dataset.n_nodes, bool)
    return replace(dataset, test_mask=test, validation_mask=nobody, train_mask=train)


def _image_task(
    dataset: ImageDataset,
    scenario: Scenario,
    labels: np.ndarray,
    test: np.ndarray,
    protocol: Protocol,
    delta: float,
) -> ImageTask:
    """Return the task of images, from protocol labels (N,) and the mask ``test`` (N,)."""
    pixels = dataset.images.reshape(len(labels), -1)
    train, validation = dataset.train_mask, dataset.validation_mask & (labels >= 0)
    votes = dataset.votes
    return ImageTask(
        scenario=scenario,
        protocol=protocol,
        n_units=int(train.sum()) if scenario.unit == "record" else dataset.n_classes,
        n_classes=dataset.n_classes,
        delta=delta,
        shape=dataset.images.shape[1:],
        train_pixels=pixels[train],
        train_labels=labels[train],
        validation_pixels=pixels[validation],
        validation_labels=labels[validation],
        test_pixels=pixels[test],
        stopping_labels=(
            None
            if protocol.stops_on_test is None
            else np.concatenate([labels[validation], labels[test]])
        ),
        votes=None if votes is None else np.concatenate([votes[validation], votes[test]]),
    )


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
        n_units=(
            _bound_on_edges(dataset, max_edges) if is_edges else int(dataset.train_mask.sum())
        ),
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


def _bound_on_edges(dataset: GraphDataset, max_edges: int | None) -> int:
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
