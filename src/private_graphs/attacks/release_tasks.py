"""Small tasks on which each method releases what its proof says, and nothing hides the noise.

A task calls the function of the method that every result comes from, with streams as a runner makes
them, on two neighbouring datasets whose exact sums differ by the sensitivity. It answers two
questions about each release: the noise in units of what the method claims, and on which side of the
middle between the two exact sums the release lies along their difference. Section numbers refer to
``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from scipy.stats import laplace

from private_graphs.attacks.method_canary import MethodDesign, canary_task
from private_graphs.mechanisms.door import Door
from private_graphs.methods import (
    class_sums,
    dp_linear,
    dp_mlp,
    edge_votes,
    gcn_tuned,
    label_counts,
    method_named,
)
from private_graphs.methods.choice import choose
from private_graphs.methods.gcn_tuned import ProvedGcn, Tuning
from private_graphs.methods.method import Canary, Request
from private_graphs.methods.node_gradients import Model, Steps
from private_graphs.methods.text_gradients import Configuration, TextGradients
from private_graphs.methods.text_only import fit_text_model
from private_graphs.privacy.accountants import price
from private_graphs.privacy.events import Event
from private_graphs.tasks import SCENARIOS, GraphTask
from private_graphs.training.blocks import Structure
from private_graphs.training.streams import Streams

DELTA = 1e-5
SECRET = bytes(range(32))
"""In place of the operating system's: draws then come from its generator, and repeat."""
_SLOW = 1e-4
"""Learning rate over divisor where a second step is to see the gradients of the first."""
_NEVER = -12.0
"""Logit of the classes that the canary has in neither dataset."""
_AWAKE = 8.0
"""Value of the hidden units of a canary, in units of the constant's."""
_BATCH = 500
_TURNED = Canary(words=8, units=500)
"""So many axes are released with three or seven classes, each of which has a canary."""
_COPIES = 500
"""Canaries of one edge release, each an edge of its own between two nodes of its own."""


@dataclass(frozen=True, eq=False)
class Releases:
    """What some requests released."""

    noise: np.ndarray | None
    """(n, rounds, rows, columns) in units of the claimed standard deviation."""
    scores: np.ndarray
    """One for each canary: above 0 where the release is nearer to the sums of arm 1."""
    joined: np.ndarray | None = None
    """(n, parts) steps that each part joined, where parts toss coins."""


def released(method: str, task: GraphTask, requests: Sequence[Request]) -> tuple[Event, ...]:
    """Return what a method releases for the first of ``requests``."""
    door = Door.of([request.streams for request in requests])
    method_named(method).run(task, requests, door)
    door.close()
    return door.events()[0]


class Task(Protocol):
    """One method with one number of classes."""

    method: str
    classes: int
    batch: int
    """Requests of one call."""
    canaries: int
    """Units of one release that can be told apart each on its own."""
    events: tuple[Event, ...]
    """What the method says that a request releases."""

    @property
    def mu(self) -> float:
        """Of what a score is made of: Gaussian DP that is proved."""
        ...

    def release(self, arm: int, requests: Sequence[Request], noise_too: bool = True) -> Releases:
        """Release once for each request on the dataset of ``arm``, 0 or 1.

        Without ``noise_too`` the noise may be left out, where it takes time.
        """
        ...


def make_requests(
    method: str,
    classes: int,
    epsilon: float,
    arm: int,
    first: int,
    count: int,
    *,
    known: int = 1,
    secret: bytes | None = None,
) -> list[Request]:
    """Return ``count`` requests from seed ``first`` on; no two tasks or arms share a stream.

    ``secret`` stands for the bytes of the operating system, so that an audit repeats.
    """
    identity = {
        "data": f"arm {arm}", "cell": {"audit": "release", "method": method, "classes": classes},
        "epsilon": "inf" if math.isinf(epsilon) else epsilon, "delta": DELTA,
    }  # fmt: skip
    labels = np.arange(known)
    return [
        Request(epsilon, seed, labels, Streams.of(identity | {"seed": seed}, secret))
        for seed in range(first, first + count)
    ]


def _one_request(task: Task, epsilon: float) -> Request:
    return make_requests(task.method, task.classes, epsilon, 0, 0, 1)[0]


def scores_between(released: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Return (n,) scores of (n, …) releases along the difference of the (2, …) exact sums."""
    first, second = sums.reshape(2, -1)
    direction = (second - first) / np.linalg.norm(second - first)
    return (released.reshape(len(released), -1) - (first + second) / 2) @ direction


def _mu_of(events: Sequence[Event]) -> float:
    event = events[0]
    scenario = SCENARIOS["edges" if getattr(event, "unit", "node") != "node" else "text"]
    return price(event, scenario.unit, scenario.relation, DELTA).mu


@dataclass(frozen=True)
class ClassSumsTask:
    """One noisy sum. With two classes one canary is relabelled.

    With more, a text turned round moves the sum as far; then each axis has a canary of its own, and
    what they move is orthogonal.
    """

    method: str
    classes: int
    epsilon: float
    batch: int = _BATCH

    @property
    def canaries(self) -> int:
        """See :class:`Task`."""
        return 1 if self.classes == 2 else _TURNED.words

    def _problem(self, arm: int) -> GraphTask:
        scenario = METHOD_SCENARIOS[self.method]
        name = "class_sums" if scenario == "text" else self.method
        design = MethodDesign(name, scenario, self.epsilon, classes=self.classes)
        if self.classes == 2:
            return canary_task(design, arm)
        task = canary_task(design, 0, _TURNED)
        n, graph = _TURNED.words, task.public_adjacency is not None
        return replace(
            task,
            train_features=sp.identity(n, format="csr") * (1 - 2 * arm),
            train_labels=np.zeros(n, dtype=np.int64),
            train_to_public=sp.csr_matrix((n, task.public_adjacency.shape[0])) if graph else None,
            train_adjacency=sp.csr_matrix((n, n)) if graph else None,
        )

    @cached_property
    def _arms(self) -> list[tuple[GraphTask, class_sums.Ranked]]:
        arms = []
        for arm in (0, 1):
            task = self._problem(arm)
            text = class_sums.public_text(task, self.method != "class_sums_text")
            arms.append((task, class_sums.Ranked.of(task, text, self.epsilon)))
        return arms

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """As the method itself reports them of a run."""
        task = self._arms[0][0]
        return released(self.method, task, [_one_request(self, self.epsilon)])

    @property
    def mu(self) -> float:
        """See :class:`Task`."""
        return _mu_of(self.events)

    def release(self, arm: int, requests: Sequence[Request], noise_too: bool = True) -> Releases:
        """See :class:`Task`."""
        noisy = class_sums.noisy_sums(self._arms[arm][1], requests)
        sums = np.stack([ranked.sums * ranked.lattice.spacing for _, ranked in self._arms])
        noise = (noisy - sums[arm]) / self.events[0].noise_std
        if self.classes == 2:
            return Releases(noise[:, None], scores_between(noisy, sums))
        scores = [scores_between(noisy[:, [j]], sums[:, [j]]) for j in range(self.canaries)]
        return Releases(noise[:, None], np.concatenate(scores))


def _undecided(model: Callable[[int, int], Model]) -> Callable[[int, int], Model]:
    """Return a maker of models that start between the first two classes, far from all others.

    There a node labelled 0 and one labelled 1 have opposite gradients, whatever K is.
    """

    def make(rank: int, n_classes: int) -> Model:
        made = model(rank, n_classes)
        kind = type(made)

        def start(self: Model, generator: np.random.Generator) -> np.ndarray:
            parameters = kind.start(self, generator)
            parameters[len(parameters) - n_classes + 2 :] = _NEVER / made.bias
            return parameters

        return type("Undecided", (kind,), {"start": start})(**vars(made))

    return make


@dataclass(frozen=True)
class GradientTask:
    """One step of gradient descent, or two whose noise adds up: the canary is relabelled."""

    method: str
    classes: int
    epsilon: float
    steps: int = 1
    batch: int = _BATCH
    canaries: int = 1

    @cached_property
    def _trainer(self) -> TextGradients:
        method = {"dp_linear": dp_linear.TRAINER, "dp_mlp": dp_mlp.TRAINER}[self.method]
        return replace(method, model=_undecided(method.model))

    @cached_property
    def _arms(self) -> list[tuple[GraphTask, class_sums.PublicText]]:
        design = MethodDesign(self.method, "text", self.epsilon, classes=self.classes)
        tasks = [canary_task(design, arm) for arm in (0, 1)]
        return [(each, class_sums.PublicText.of(each, 0)) for each in tasks]

    def _fit(self, arm: int, requests: Sequence[Request]) -> tuple[np.ndarray, tuple[Event, ...]]:
        """(R, P) sums of the steps, noise included, from parameters before and after."""
        task, text = self._arms[arm]
        rate = 1.0 if self.steps == 1 else _SLOW
        rule = self._trainer.rule(1.0).steps
        steps = Steps(self.steps, rate * task.n_units, rule.clip_norm)
        configuration = Configuration(text.axes.rank, steps)
        after, events = self._trainer.fit(task, text, configuration, requests)
        model = self._trainer.model(text.axes.rank, self.classes)
        before = model.start(requests[0].streams.generator("initial")).astype(np.float32)
        return (before.astype(np.float64) - after) / rate, events[0]

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Of the steps that are taken here."""
        return self._fit(0, [_one_request(self, self.epsilon)])[1]

    @property
    def mu(self) -> float:
        """See :class:`Task`."""
        return _mu_of(self.events)

    @cached_property
    def _sums(self) -> np.ndarray:
        request = _one_request(self, math.inf)
        return np.stack([self._fit(arm, [request])[0][0] for arm in (0, 1)])

    def release(self, arm: int, requests: Sequence[Request], noise_too: bool = True) -> Releases:
        """See :class:`Task`."""
        totals, _ = self._fit(arm, requests)
        [event] = self.events
        std = event.noise_multiplier * event.clip_norm * math.sqrt(self.steps)
        noise = (totals - self._sums[arm]) / std
        return Releases(noise[:, None, :, None], scores_between(totals, self._sums))


@dataclass(frozen=True)
class GcnTask:
    """One epoch of plain SGD: one step of all parts, or two steps that two parts join by coins.

    Each part is one canary with a word and hidden units of its own, so that the gradients of two
    canaries are orthogonal but for the constant of the last layer; arm 1 relabels all of them. A
    score is of one canary that joined every step.
    """

    method: str
    classes: int
    epsilon: float
    batch: int = 4 * _BATCH

    @property
    def _poisson(self) -> bool:
        return self.method == "gcn_poisson"

    @property
    def _steps(self) -> int:
        return 2 if self._poisson else 1

    @property
    def _parts(self) -> int:
        return 2 if self._poisson else 8

    @property
    def canaries(self) -> int:
        """See :class:`Task`."""
        return self._parts

    @cached_property
    def _trainer(self) -> ProvedGcn:
        return gcn_tuned.POISSON if self._poisson else gcn_tuned.EPOCH_SUM

    @cached_property
    def _tuning(self) -> Tuning:
        return Tuning(self._parts, 1, "sgd", _SLOW if self._poisson else _SLOW * self._parts)

    def _problem(self, labels: Sequence[int]) -> GraphTask:
        n, public = self._parts, sp.csr_matrix((1, self._parts))
        return GraphTask(
            scenario=SCENARIOS["graph"],
            n_units=n,
            n_classes=self.classes,
            delta=DELTA,
            train_features=sp.identity(n, format="csr"),
            train_labels=np.array(labels),
            validation_features=public,
            validation_labels=np.zeros(1, dtype=np.int64),
            test_features=public,
            public_adjacency=sp.csr_matrix((2, 2)),
            train_to_public=sp.csr_matrix((n, 2)),
            train_adjacency=sp.csr_matrix((n, n)),
        )

    @cached_property
    def _structures(self) -> list[Structure]:
        first = [_one_request(self, self.epsilon)]
        return [
            self._trainer.structure(self._problem([arm] * self._parts), self._tuning, first)
            for arm in (0, 1)
        ]

    @cached_property
    def _start(self) -> np.ndarray:
        """The word of each canary drives units of its own; the first two classes are alike."""
        inputs, k = self._structures[0].inputs, self.classes
        words, hidden = inputs.n_features, inputs.n_hidden
        first = np.kron(np.eye(words), np.full(hidden // words, _AWAKE))
        last = np.zeros(hidden * k + k)
        last[len(last) - k + 2 :] = _NEVER
        return np.concatenate([first.ravel(), np.zeros(hidden), last])

    @cached_property
    def _directions(self) -> np.ndarray:
        """(parts, P) from the gradient of a canary labelled 0 to that of one labelled 1, norm 1."""
        inputs, k = self._structures[0].inputs, self.classes
        words, hidden = inputs.n_features, inputs.n_hidden
        # Without the constant, which all canaries share: they differ from their true directions by
        # 1/1000, and tell nothing of each other.
        units = np.hstack([np.kron(np.eye(words), np.ones(hidden // words)), np.zeros((words, 1))])
        turned = np.zeros(k)
        turned[:2] = 0.5, -0.5
        found = np.zeros((words, len(self._start)))
        found[:, words * hidden + hidden :] = np.kron(units, turned)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def _fit(self, arm: int, requests: Sequence[Request]) -> tuple[np.ndarray, tuple[Event, ...]]:
        """(R, P) sums of the steps of the epoch, from parameters before and after."""
        built = self._structures[arm]
        rows = np.zeros(len(requests), dtype=np.int64)
        structure = replace(
            built,
            parts=built.parts[rows],
            validation=built.validation[rows],
            test=built.test[rows],
            majority=built.majority[rows],
        )
        trained, events = self._trainer.fit(
            structure, self._tuning, requests, DELTA, start=self._start
        )
        before = self._start.astype(np.float32).astype(np.float64)
        return (before - trained.parameters) / _SLOW, (events[0],)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Of the epoch."""
        return self._fit(0, [_one_request(self, self.epsilon)])[1]

    @property
    def mu(self) -> float:
        """Of all steps; for parts that toss coins given that every step was joined."""
        return 2 * math.sqrt(self._steps) / self.events[0].noise_multiplier

    @property
    def _std(self) -> float:
        event = self.events[0]
        return event.noise_multiplier * event.clip_norm * math.sqrt(self._steps)

    @cached_property
    def _full_sums(self) -> list[np.ndarray]:
        return [self._fit(arm, [_one_request(self, math.inf)])[0] for arm in (0, 1)]

    def _part_of(self, arm: int) -> np.ndarray:
        """(parts,) the part that each canary is in, by the only word of its block."""
        structure = self._structures[arm]
        blocks = structure.blocks
        return np.argsort(blocks.words[blocks.words_start[structure.parts[0]]])

    def release(self, arm: int, requests: Sequence[Request], noise_too: bool = True) -> Releases:
        """See :class:`Task`."""
        totals, _ = self._fit(arm, requests)
        projected = totals @ self._directions.T
        if not self._poisson:
            noise = (totals - self._full_sums[arm]) / self._std
            return Releases(noise[:, None, :, None], projected.ravel())
        coins = np.stack(
            [each.streams.generator("order").random((2, 2)) < 0.5 for each in requests]
        )
        every = coins.all(axis=1)[:, self._part_of(arm)]
        if not noise_too:
            return Releases(None, projected[every])
        # The same streams toss the same coins: what is left without noise tells them apart.
        bare, _ = self._fit(arm, [replace(each, epsilon=math.inf) for each in requests])
        joined = np.rint((2 * arm - 1) * bare @ self._directions.T).astype(np.int64)
        if not np.array_equal(joined == 2, every):
            raise RuntimeError("the coins of training are not those of its streams")
        noise = (totals - bare) / self._std
        return Releases(noise[:, None, :, None], projected[every], joined)


@dataclass(frozen=True)
class EdgeVotesTask:
    """Three rounds, each given those before: every canary is one edge that is there or not."""

    method: str
    classes: int
    epsilon: float
    batch: int = 50
    canaries: int = int(0.8 * _COPIES)

    @cached_property
    def _problems(self) -> list[GraphTask]:
        n, k = 10 * self.classes * -(-_COPIES // (10 * self.classes)), self.classes
        size = n + 1 + _COPIES
        ends = np.arange(_COPIES), n + 1 + np.arange(_COPIES)
        both = np.concatenate(ends), np.concatenate(ends[::-1])
        edges = sp.csr_matrix((np.ones(2 * _COPIES), both), (size, size))
        return [
            GraphTask(
                scenario=SCENARIOS["edges"],
                n_units=_COPIES,
                n_classes=k,
                delta=DELTA,
                train_features=sp.csr_matrix((n, 1)),
                train_labels=np.arange(n) // 5 % k,
                validation_features=sp.csr_matrix((1, 1)),
                validation_labels=np.zeros(1, dtype=np.int64),
                test_features=sp.csr_matrix((_COPIES, 1)),
                adjacency=adjacency,
            )
            for adjacency in (sp.csr_matrix((size, size)), edges)
        ]

    @cached_property
    def _text(self):
        return fit_text_model(self._problems[0])

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """As the method itself reports them of a run."""
        request = _one_request(self, self.epsilon)
        return released(self.method, self._problems[0], [request])

    @property
    def mu(self) -> float:
        """See :class:`Task`."""
        return _mu_of(self.events)

    def release(self, arm: int, requests: Sequence[Request], noise_too: bool = True) -> Releases:
        """See :class:`Task`."""
        task, std = self._problems[arm], self.events[0].noise_std
        noises, scores = [], []
        for request in requests:
            votes = edge_votes.collect_votes(task, request, self._text)
            asked = votes.voters.asked
            # A canary whose training node is asked has two rows, and may say nothing to either.
            telling = ~asked[:_COPIES]
            score, noise = np.zeros(_COPIES), []
            for beliefs, noisy in zip(votes.beliefs, votes.noisy, strict=True):
                without, present = (
                    votes.lattice.spacing
                    * edge_votes.vote_sums(each.adjacency, votes.voters, beliefs, votes.lattice)
                    for each in self._problems
                )
                noise.append((noisy - (without, present)[arm]) / std)
                moved, middle = (present - without)[-_COPIES:], (present + without)[-_COPIES:] / 2
                score += ((noisy[-_COPIES:] - middle) * moved).sum(axis=1)
            noises.append(np.stack(noise))
            scores.append(score[telling])
        return Releases(np.stack(noises), np.concatenate(scores))


@dataclass(frozen=True)
class ChoiceTask:
    """The noisy choice among as many candidates as classes: one validation label flips two hits.

    Candidate 0 is right about half of the nodes, the others about one node more or less; arm 1 has
    one label that candidate 0 gains and candidate 1 loses.
    """

    classes: int
    epsilon: float
    method: str = "noisy_choice"
    nodes: int = 6

    def _case(self, arm: int) -> tuple[GraphTask, np.ndarray]:
        """A task whose validation labels are 0 or 1, and (C, V) predictions."""
        design = MethodDesign("class_sums", "text", self.epsilon, classes=self.classes)
        base = canary_task(design, 0)
        labels = np.arange(self.nodes) % 2
        labels[0] = 1 - arm
        predictions = np.zeros((self.classes, self.nodes), dtype=np.int64)
        for candidate in range(1, self.classes):
            predictions[candidate, : 1 + candidate // 2] = 1
        words = sp.csr_matrix((self.nodes, base.n_features))
        return replace(base, validation_features=words, validation_labels=labels), predictions

    def _request(self, arm: int, seed: int) -> Request:
        secret = SECRET if seed % 2 else None
        return make_requests(
            self.method, self.classes, self.epsilon, arm, seed, 1, known=0, secret=secret
        )[0]

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """As the choice itself reports them."""
        return choose(*self._arguments(0, 0))[1]

    def _arguments(self, arm: int, seed: int) -> tuple[GraphTask, Request, np.ndarray]:
        task, predictions = self._case(arm)
        return task, self._request(arm, seed), predictions

    def probabilities(self, arm: int) -> np.ndarray:
        """(C,) exact: proportional to exp(ε hits / 2)."""
        task, predictions = self._case(arm)
        hits = (predictions == task.validation_labels).sum(axis=1)
        weights = np.exp(self.epsilon * (hits - hits.max()) / 2)
        return weights / weights.sum()

    def counts(self, arm: int, draws: int) -> np.ndarray:
        """(C,) how often each candidate was chosen in ``draws`` choices."""
        task, _, predictions = self._arguments(arm, 0)
        chosen = [choose(task, self._request(arm, seed), predictions)[0] for seed in range(draws)]
        return np.bincount(chosen, minlength=self.classes)


@dataclass(frozen=True)
class LabelCountsTask:
    """The noisy count of one class in the row of a node that is asked, by where it lies.

    Arm 1 has one edge more, from that node to a training node of the class.
    """

    method: str
    classes: int
    epsilon: float
    copies: int = 1000
    """Asked nodes of one release, each with a canary of its own."""

    @property
    def _graph(self) -> GraphTask:
        design = MethodDesign(self.method, "edges", self.epsilon, classes=self.classes)
        return canary_task(design, 0)

    def _counts(self, arm: int) -> np.ndarray:
        base = self._graph
        n, asked = base.n_train, np.arange(self.copies)
        ends = np.full(self.copies, int((base.train_labels == 1).argmax())), n + asked
        both = np.concatenate(ends), np.concatenate(ends[::-1])
        size, ones = n + self.copies, np.full(2 * self.copies, arm)
        adjacency = sp.csr_matrix((ones, both), (size, size))
        return label_counts.label_counts(replace(base, adjacency=adjacency))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """As the method itself reports them of a run."""
        request = _one_request(self, self.epsilon)
        return released(self.method, self._graph, [request])

    @property
    def _bounds(self) -> np.ndarray:
        return np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0]) / min(1.0, self.epsilon)

    def probabilities(self, arm: int) -> np.ndarray:
        """(8,) exact, but for the lattice of 1/65,536: Laplace of scale 1/ε around ``arm``."""
        below = laplace.cdf(self._bounds, arm, 1 / self.epsilon)
        return np.diff(np.r_[0.0, below, 1.0])

    def counts(self, arm: int, draws: int) -> np.ndarray:
        """(8,) how often the count lay where, in ``draws`` noisy rows."""
        counts, found = self._counts(arm), np.zeros(len(self._bounds) + 1, np.int64)
        n = len(counts) - self.copies
        for seed in range(-(-draws // self.copies)):
            secret = SECRET if seed % 2 else None
            (request,) = make_requests(
                self.method, self.classes, self.epsilon, arm, seed, 1, secret=secret
            )
            noisy = label_counts.noisy_counts(
                counts, n, self.epsilon, request.streams.generator("noise")
            )[n:, 1]
            found += np.bincount(np.searchsorted(self._bounds, noisy), minlength=len(found))
        return found


METHOD_SCENARIOS = {
    "class_sums": "graph",
    "class_sums_text": "graph",
    "class_sums_public": "text",
}
TASKS: dict[str, Callable[[str, int, float], Task | LabelCountsTask]] = {
    "class_sums": ClassSumsTask,
    "class_sums_text": ClassSumsTask,
    "class_sums_public": ClassSumsTask,
    "dp_linear": GradientTask,
    "dp_mlp": GradientTask,
    "gcn_epoch_sum": GcnTask,
    "gcn_poisson": GcnTask,
    "edge_votes": EdgeVotesTask,
    "label_counts": LabelCountsTask,
}
"""How each method that reads private data is audited."""
