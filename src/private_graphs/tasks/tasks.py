"""Tasks: a dataset divided into private and public parts, for one scenario.

A scenario defines the protected unit and what is public. A task contains no test labels, so no
method can read them; the exception is a protocol that repeats code that did (``stops_on_test``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
import scipy.sparse

from private_graphs.core.errors import UserError
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.protocols import Protocol
from private_graphs.privacy.statements import Inference, Relation, Unit

if TYPE_CHECKING:
    from private_graphs.datasets.image_dataset import ImageDataset
    from private_graphs.datasets.shards import ShardedGraph
    from private_graphs.tasks.graph_task import GraphTask
    from private_graphs.tasks.image_task import ImageTask

ScenarioName = Literal[
    "text", "graph", "edges", "links", "lists", "nodes", "records", "classes", "subclasses"
]
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
    called: str
    """Name on pages; files and commands have ``name``."""
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
            called="texts only",
            title="node level, public: the validation documents",
            unit="node",
            relation="replace",
            inference="params_only",
            public_facts=(_SIZES, _WORDS, _VALIDATION, _OWN_TEST),
        ),
        Scenario(
            name="graph",
            called="with public graph",
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
            called="links",
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
            called="links, whole graph",
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
            called="lists of friends",
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
            called="training nodes",
            title="node level, all nodes public but the training ones",
            unit="node",
            relation="replace",
            inference="inductive_disjoint",
            public_facts=("the sizes of the dataset: they are not covered",),
            cut="whole",
        ),
        Scenario(
            name="records",
            called="single records",
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
                called=called,
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
            for name, called, title, unit, whose in (
                (
                    "classes",
                    "whole classes",
                    "class level: all training images of a class at once",
                    "class",
                    "how many training images each class has, and that nobody moves to another "
                    "class: an image that does changes two units, which this epsilon does not "
                    "cover",
                ),
                (
                    "subclasses",
                    "parts of classes",
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


Task: TypeAlias = "GraphTask | NodeTask | ImageTask"


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
            from private_graphs.tasks.graph_task import sharded_task

            return sharded_task(dataset, scenario, delta, max_edges)
    labels, kind = dataset.labels, SCENARIOS[scenario]
    fitting = [name for name, entry in SCENARIOS.items()
               if (entry.cut == "images") != isinstance(dataset, GraphDataset)]  # fmt: skip
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
        from private_graphs.tasks.image_task import image_task

        return image_task(dataset, kind, labels, test, protocol, delta), evaluation
    if kind.cut == "sides":
        from private_graphs.tasks.graph_task import build_graph_task

        return build_graph_task(dataset, kind, delta, unlabelled, max_edges), evaluation

    def bound() -> int:
        from private_graphs.tasks.graph_task import bound_on_edges

        return bound_on_edges(dataset, max_edges)

    hidden = np.where(dataset.test_mask & (dataset.labels >= 0), 0, dataset.labels)
    counts: dict[Unit, Callable[[], int]] = {
        "node": lambda: int(dataset.train_mask.sum()),
        "node_out_list": lambda: dataset.n_nodes,
        "edge_undirected": bound,
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
