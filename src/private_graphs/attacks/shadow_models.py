"""Models of a job that are trained on random halves of the training nodes, for an attack.

Sizes, divisors and noise stay those of all nodes, which are public: a node that a coin leaves out
counts as a unit that contributes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from private_graphs.attacks.decoding import decoded
from private_graphs.attacks.neighbours import with_members
from private_graphs.attacks.views import (
    FEATURES,
    NOISY_SUMS,
    PUBLIC,
    WHOLE,
    gcn_margins,
    margins,
    queries,
)
from private_graphs.core.errors import UserError
from private_graphs.core.limits import CANDIDATE_PICTURES
from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.graphs.normalise import gcn_propagation
from private_graphs.mechanisms.door import Door, Lane, Watch
from private_graphs.methods import method_named
from private_graphs.methods.noisy_sums import adjacency_of
from private_graphs.running.jobs import Job
from private_graphs.running.run import planned
from private_graphs.tasks.graph_task import GraphTask, Records
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.method import Context, Outcome, Request
from private_graphs.tasks.tasks import SCENARIOS, NodeTask, Task


@dataclass(frozen=True)
class Models:
    """R models, each trained on the nodes whose coins came up heads."""

    nodes: np.ndarray
    """(n,) candidates: training nodes with a label; of pictures at most ``CANDIDATE_PICTURES``."""
    coins: np.ndarray
    """(R, n) whether a model learned from a node."""
    classes: np.ndarray
    """(R, M) predicted classes of the test nodes."""
    accuracy: np.ndarray
    """(R,) on the test nodes."""
    majority: float
    """Accuracy of always guessing the most frequent class."""
    n_classes: int
    near: np.ndarray
    """(n, M) test nodes that the attacker looks at for a candidate: its neighbours, or all where no
    test node reads a training node's edges."""
    margins: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By view: (R, n) margins of the candidates' labels."""
    decoded: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By what is published: (R, n) scores that are computed from it without shadows."""

    @classmethod
    def of(
        cls,
        nodes: np.ndarray,
        coins: np.ndarray,
        classes: np.ndarray,
        truth: np.ndarray,
        n_classes: int,
        margins: Mapping[str, np.ndarray],
        reach: np.ndarray | None = None,
    ) -> Models:
        """Score the predicted classes against the labels of the test nodes (M,)."""
        most = float(np.bincount(truth).max() / len(truth))
        accuracy = (classes == truth).mean(axis=1)
        if reach is None:
            reach = np.ones((len(nodes), len(truth)), dtype=bool)
        return cls(nodes, coins, classes, accuracy, most, n_classes, reach, margins)


Trainer = Callable[[Sequence[int]], Models]
"""From the numbers of models to the models."""


def coins_of(job: Job, number: int, n: int) -> np.ndarray:
    """Return the (n,) independent fair coins of one model of a job."""
    identity = {"attack": job.leaks.attack, "job": job.id, "seed": job.leaks.seed, "model": number}
    return Streams.of(identity).generator("coins").random(n) < 0.5


def trainer(job: Job, dataset: GraphDataset, context: Context) -> Trainer:
    """Return what trains models of a job by number: the same number, the same model."""
    total = job.leaks.shadows + job.leaks.targets
    first = job.leaks.seed * total
    seeds = tuple(range(first, first + total))
    task, requests = planned(job.model_copy(update={"seeds": seeds}), dataset)
    if SCENARIOS[job.scenario].unit not in ("node", "node_out_list", "record"):
        raise UserError(
            f"{job.id}: no membership inference on {job.method}, scenario {job.scenario}; expected "
            "a scenario whose unit is a node or a record"
        )
    return _TRAINERS.get(job.method, _one_by_one)(job, dataset, task, requests, context)


def _gcn_trainer(
    job: Job, dataset: GraphDataset, task: NodeTask, requests: Sequence[Request], context: Context
) -> Trainer:
    """Train all models as one batch; their parameters answer every view."""
    from private_graphs.methods import gcn
    from private_graphs.training.blocks import feature_matrix, training_labels

    labels = training_labels(dataset, task.protocol)
    nodes = np.flatnonzero(dataset.train_mask & (dataset.labels >= 0))
    rest = np.flatnonzero(dataset.train_mask & (dataset.labels < 0))
    views = queries(dataset, nodes)
    matrix = feature_matrix(dataset).astype(np.float64)
    tested = np.flatnonzero(dataset.test_mask & (labels >= 0))
    truth = labels[tested]
    step = gcn_propagation(dataset.edge_index, dataset.n_nodes)
    reach = sp.csr_array(step[nodes])[:, tested].toarray() > 0

    def train(numbers: Sequence[int]) -> Models:
        chosen = [requests[number] for number in numbers]
        coins = _coins(job, numbers, len(nodes))
        members = [np.sort(np.concatenate([nodes[row], rest])) for row in coins]
        door = Door.of([request.streams for request in chosen])
        trained, _ = gcn.fit(task, chosen, door, context, gcn.Members(members, job.leaks.left_out))
        door.close()
        hidden = chosen[0].settings.hidden
        margins = gcn_margins(
            trained.parameters, matrix, views, labels[nodes], hidden, dataset.n_classes
        )
        classes = trained.test_predictions
        return Models.of(nodes, coins, classes, truth, dataset.n_classes, margins, reach)

    return train


def _one_by_one(
    job: Job, dataset: Any, task: Task, requests: Sequence[Request], context: Context
) -> Trainer:
    """Run the method once per model, on its own members."""
    method, sides = method_named(job.method), _Sides.of(dataset, task, job)
    asking = replace(context, progress=None, asked=sides.asked)

    def train(numbers: Sequence[int]) -> Models:
        coins, outcomes = _coins(job, numbers, len(sides.nodes)), []
        for index, number in enumerate(numbers):
            members = np.ones(sides.everybody, dtype=bool)
            members[sides.places] = coins[index]
            door, subtask = Door.of([requests[number].streams]), with_members(task, members)
            answers = method.answers(subtask, [requests[number]], door, asking)
            if answers[0].logits is None:
                raise UserError(
                    f"{job.id}: {job.method} shows no class scores of records that an attack asks "
                    "for; expected a method that does"
                )
            outcomes += answers
            door.close()
            context.report(number + 1, len(requests))
        return sides.models(coins, outcomes)

    return train


def _class_sums_trainer(
    job: Job, dataset: GraphDataset, task: GraphTask, requests: Sequence[Request], context: Context
) -> Trainer:
    """Release the sums of all models with one map of rows; decode them too."""
    from private_graphs.methods import class_sums
    from private_graphs.methods.exact_sums import ROW_BITS

    sides = _Sides.of(dataset, task, job)
    nodes, everyone = sides.nodes, sides.asked
    released = class_sums.Released(class_sums.Public(task), job.epsilons[0])
    if released.steps:
        raise UserError(
            f"{job.id}: class_sums takes {released.steps} residual steps on {job.dataset}; "
            "expected a graph on which it releases one sum, which is what the attack decodes"
        )
    k, labels = task.n_classes, task.train_labels
    grid = class_sums.grid_rows(released.rows.for_training(), everyone, k)
    released.asked = grid / 2.0**ROW_BITS
    noise = released.first.noise_std if np.isfinite(job.epsilons[0]) else 0.0
    codes = class_sums.class_codes(k)[labels]
    terms = np.einsum("nm,nk->nmk", released.asked, codes).reshape(len(nodes), -1)

    def train(numbers: Sequence[int]) -> Models:
        coins, outcomes, seen = _coins(job, numbers, len(nodes)), [], _ReleasedSums()
        for start in range(0, len(numbers), class_sums.BATCH):
            places = slice(start, start + class_sums.BATCH)
            chosen = [requests[number] for number in numbers[places]]
            released.sums = class_sums.member_sums(grid, labels, coins[places], released.first, k)
            door = Door.of([request.streams for request in chosen], seen)
            outcomes += released.answer(chosen, door)
            door.close()
            context.report(numbers[places][-1] + 1, len(requests))
        models = sides.models(coins, outcomes)
        sums = np.stack(seen.released).reshape(len(numbers), -1)
        return replace(models, decoded={NOISY_SUMS: decoded(sp.csr_matrix(terms), sums, noise)})

    return train


_TRAINERS = {"gcn": _gcn_trainer, "class_sums": _class_sums_trainer}
"""Methods whose models are made together; those of all others one by one."""


def _coins(job: Job, numbers: Sequence[int], n: int) -> np.ndarray:
    return np.stack([coins_of(job, number, n) for number in numbers])


@dataclass(frozen=True)
class _Sides:
    """Whom an attack asks about, and what it asks a model."""

    nodes: np.ndarray
    """(n,) candidates."""
    places: np.ndarray
    """(n,) their places among all labelled training records, who are members if no candidates."""
    everybody: int
    labels: np.ndarray
    """(n,) labels of the candidates."""
    truth: np.ndarray
    """(M,) labels of the test records."""
    n_classes: int
    asked: Any
    """``Context.asked``."""
    view: str
    near: np.ndarray | None = None
    """``Models.near``."""

    @classmethod
    def of(cls, dataset: Any, task: Task, job: Job) -> _Sides:
        """Take all training records with a label as candidates; of pictures a random sample."""
        labelled = dataset.labels >= 0
        nodes = np.flatnonzero(dataset.train_mask & labelled)
        tested = np.flatnonzero(dataset.test_mask & labelled)
        places, reach = np.arange(len(nodes)), None
        if isinstance(task, GraphTask):
            inputs: Any = task.training(slice(None))
            view = FEATURES if task.train_to_public is None else PUBLIC
        elif isinstance(task, ImageTask):
            identity = {"attack": "candidates", "seed": job.leaks.seed}
            order = Streams.of(identity).generator("candidates").permutation(len(nodes))
            places, view = np.sort(order[:CANDIDATE_PICTURES]), FEATURES
            inputs = task.train_pixels[task.train_labels >= 0][places]
        elif task.scenario.unit == "node_out_list":
            inputs, view = nodes, WHOLE
            reach = adjacency_of(task.graph)[nodes][:, tested].toarray() > 0
        else:
            features = dataset.features
            matrix = features if isinstance(features, np.ndarray) else features.to_scipy()
            rows = sp.csr_matrix(matrix[nodes])
            inputs, view = Records(rows, dataset.labels[nodes]), FEATURES
        chosen = nodes[places]
        return cls(chosen, places, len(nodes), dataset.labels[chosen], dataset.labels[tested],
                   task.n_classes, inputs, view, reach)  # fmt: skip

    def models(self, coins: np.ndarray, outcomes: Sequence[Outcome]) -> Models:
        """Return the models that gave some outcomes."""
        logits = np.stack([outcome.logits for outcome in outcomes])
        classes = np.stack([outcome.test_predictions for outcome in outcomes])
        scores = {self.view: margins(logits, self.labels)}
        return Models.of(self.nodes, coins, classes, self.truth, self.n_classes, scores, self.near)


class _ReleasedSums(Watch):
    """What the door releases."""

    active = True

    def __init__(self) -> None:
        self.released: list[np.ndarray] = []

    def passed(self, lane: Lane, part: str, kind: str, query: Any, exact: Any, noisy: Any) -> Any:
        """Keep the noisy sum of one model."""
        self.released.append(np.array(noisy))
        return noisy
