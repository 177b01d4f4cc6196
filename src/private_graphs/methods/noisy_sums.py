"""Noisy sums of unit rows over neighbours: message direction, privacy cost, and published claims.

Aggregation perturbation (Sajadmanesh et al., USENIX Security 2023, Section 4.2) as in ProGAP and
GAP: rows are scaled to norm 1 before summation, so that one directed edge changes one row of the
sums by 1, and every row gets noise. Under ``links`` an undirected edge is stored in both directions
and changes two rows: sqrt 2. Under ``lists`` each node sends to at most D receivers on a list that
it draws itself: it changes D rows, by 2 each under replacement: 2·sqrt D. docs/privacy.md §6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse
from pydantic import Field

from private_graphs.core.streams import Streams
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.protocols import Protocol, by_name
from private_graphs.mechanisms.door import Door, ReleaseMismatch
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.calibration import gdp_noise
from private_graphs.privacy.events import Event
from private_graphs.privacy.queries import GaussianQuery, PoissonSums
from private_graphs.privacy.query_calibration import renyi_scale, scale_noise
from private_graphs.privacy.renyi import (
    Releases,
    mironov_epsilon,
    renyi_epsilon,
    simple_epsilon,
    simple_mu,
)
from private_graphs.tasks.method import (
    Context,
    Method,
    Outcome,
    PrintedEpsilon,
    Request,
    Settings,
    but_rate,
    in_batches,
    torch_memory,
)
from private_graphs.tasks.tasks import NodeTask

if TYPE_CHECKING:
    from private_graphs.datasets.spec import GraphSize
    from private_graphs.training import stacks

WIDTH = 16
"""Number of hidden channels in all networks of the two papers."""
_ACTIVATIONS = 2**22
"""Maximum number of one layer's outputs that are trained together in full batches."""


class SumsSettings(Settings):
    """Settings that methods with noisy sums share; the defaults are ProGAP's at edge level."""

    hops: int = Field(default=5, ge=0)
    """Number K of noisy sums along edges."""
    learning_rate: float = Field(default=0.01, gt=0)
    epochs: int = Field(default=100, ge=1)
    """Epochs of each training stage."""
    lot: int = Field(default=256, ge=1)
    """Average number of training nodes of a step; only under ``lists``."""
    degree: int = Field(default=100, ge=1)
    """Maximum number D of receivers on a node's list; only under ``lists``."""


@dataclass(frozen=True, kw_only=True)
class SumsProtocol(Protocol):
    """Calibration of the noise, and non-released private values that were read."""

    accountant: Literal["tight", "theorems", "proved"]
    """``tight``: exact Gaussian DP of a directed edge; at node level Rényi DP with the best
    conversion. ``theorems``: Theorems 4.1 and 4.2 of ProGAP. ``proved``: as in privacy
    statements."""
    unit_rows: bool
    """Whether rows are scaled to norm 1 before the last layer."""
    epoch_of_lists: Literal["best_validation", "last"]
    """Epoch whose parameters are kept under ``lists``, where validation nodes are private."""


PROTOCOLS = by_name(
    SumsProtocol(
        name="released",
        summary="what the authors' code does: a directed edge is the unit, though every "
        "friendship is stored both ways; lists are drawn once for a run",
        calibration="published",
        accountant="tight",
        unit_rows=True,
        epoch_of_lists="best_validation",
    ),
    SumsProtocol(
        name="paper",
        summary="what the paper's text says, with the accounting of its theorems",
        calibration="published",
        accountant="theorems",
        unit_rows=False,
        epoch_of_lists="best_validation",
    ),
    SumsProtocol(
        name="sound",
        summary="what can be proved: an undirected edge, or a node with the list that it owns",
        accountant="proved",
        unit_rows=True,
        epoch_of_lists="last",
    ),
)

VALIDATION_READ = (
    "the epoch that is kept was chosen on the validation nodes, whose features and labels are not "
    "covered: proved is for the other nodes"
)
CURVES_KEPT = (
    "the accuracies of every epoch that are kept beside the rows read training and validation "
    "nodes, and no mechanism covers them"
)
_EDGE_REASON = (
    "an undirected edge adds one unit row to each of the two rows of its ends, and moves no other: "
    "rows are functions of public features and labels and of earlier noisy sums"
)
_LIST_REASON = (
    "a node sends one unit row to the {degree} receivers at most that it listed itself, and no "
    "other list depends on it; replaced, it moves the rows of both lists by 2·sqrt {degree} at most"
)
_STEP_REASON = (
    "one training node changes its own clipped gradient alone, which reads its features, its label "
    "and noisy sums"
)


@dataclass(frozen=True)
class Budget:
    """Releases of the runs of a job with equal settings, up to the scale of the noise."""

    hops: int
    steps: int
    """Number of DP-SGD steps; 0 under ``links``."""
    accounted: int
    """Number of steps that the authors' accountant composes."""
    rate: float
    degree: int
    delta: float
    unit: Literal["edge_undirected", "node_out_list"]

    def releases(self, scale: float) -> tuple[Releases, ...]:
        """Return what the papers' accountants compose: one unit changes a sum by 1 or sqrt D."""
        sums = (Releases(scale, self.hops),) if self.hops else ()
        return (*sums, Releases(scale, self.accounted, self.rate))

    def events(self, scale: float) -> tuple[Event, ...]:
        """Return the plan: the events that enter the privacy cost."""
        edge = self.unit == "edge_undirected"
        words: dict[str, Any] = {"unit": self.unit}
        words["relation"] = "add_remove" if edge else "replace"
        plan: list[Event] = []
        if self.hops:
            plan.append(
                GaussianQuery(
                    count=self.hops,
                    sensitivity=math.sqrt(2) if edge else 2 * math.sqrt(self.degree),
                    noise_std=self.noise_std(scale),
                    reason=_EDGE_REASON if edge else _LIST_REASON.format(degree=self.degree),
                    clipping="row",
                    **words,
                )
            )
        if self.steps:
            plan.append(
                PoissonSums(
                    count=self.steps,
                    noise_multiplier=scale,
                    clip_norm=1.0,
                    rate=self.rate,
                    reason=_STEP_REASON,
                    clipping="per_record",
                    **words,
                )
            )
        return tuple(plan)

    def noise_std(self, scale: float) -> float:
        """Return the noise standard deviation of a sum."""
        return scale if self.unit == "edge_undirected" else scale * math.sqrt(self.degree)


@lru_cache(maxsize=256)
def noise_scale(budget: Budget, protocol: SumsProtocol, epsilon: float) -> float:
    """Return the scale of all noise at ``epsilon``: σ of a sum, or the multiplier of a step."""
    accountant, delta = protocol.accountant, budget.delta
    if budget.unit == "edge_undirected":
        if not budget.hops:
            return 0.0
        if accountant == "proved":
            return math.sqrt(2) * gdp_noise(epsilon, budget.hops, delta, "add_remove")
        mu = {"tight": gdp_mu, "theorems": simple_mu}[accountant](epsilon, delta)
        return math.sqrt(budget.hops) / mu
    if accountant == "proved":
        return scale_noise(epsilon, delta, budget.events)
    printed = {"tight": renyi_epsilon, "theorems": mironov_epsilon}[accountant]
    return renyi_scale(epsilon, delta, budget.releases, printed)


def scales_of(budget: Budget, protocol: SumsProtocol, requests: Sequence[Request]) -> list[float]:
    """Return the scale of the noise of each request; 0 without DP."""
    return [
        noise_scale(budget, protocol, entry.epsilon) if entry.private else 0.0 for entry in requests
    ]


def stated_by(
    budget_of_settings: Callable[[NodeTask, Any], Budget],
) -> Callable[..., dict[str, Any]]:
    """Return ``Method.stated`` for runs with such a budget."""

    def stated(
        task: NodeTask, request: Request, context: Context, chosen: Mapping
    ) -> dict[str, Any]:
        if not request.private:
            return {"noise_generator": "numpy_float32"}
        budget = budget_of_settings(task, request.settings)
        scale = chosen.get("noise_multiplier")
        if scale is None:
            (scale,) = scales_of(budget, task.protocol, [request])
        assumptions = ()
        if task.scenario.unit == "node_out_list" and task.protocol.epoch_of_lists != "last":
            curves = getattr(request.settings, "curves", False)
            assumptions = (VALIDATION_READ, *([CURVES_KEPT] if curves else []))
        return {
            "events": budget.events(scale),
            "claim": claim(budget, task.protocol, request.epsilon, scale),
            "noise_generator": "numpy_float32",
            "assumptions": assumptions,
        }

    return stated


def claim(
    budget: Budget, protocol: SumsProtocol, epsilon: float, scale: float
) -> PrintedEpsilon | None:
    """Return the published claim of the protocol; None if it claims only what is proved."""
    if protocol.accountant == "proved" or not budget.events(1.0):
        return None
    if budget.unit == "edge_undirected":
        if protocol.accountant == "tight":
            return PrintedEpsilon(
                epsilon, f"exact Gaussian DP of {budget.hops} sums for a directed edge"
            )
        mu = math.sqrt(budget.hops) / scale
        return PrintedEpsilon(
            simple_epsilon(mu, budget.delta), f"ProGAP, Theorem 4.1, with K = {budget.hops}"
        )
    words = f"{budget.hops} sums and {budget.accounted} steps at q = {budget.rate:.6g}"
    if protocol.accountant == "tight":
        printed = renyi_epsilon(budget.releases(scale), budget.delta)
        return PrintedEpsilon(printed, f"Rényi DP of {words}, the best conversion")
    printed = mironov_epsilon(budget.releases(scale), budget.delta)
    return PrintedEpsilon(printed, f"ProGAP, Theorem 4.2, with {words}")


def adjacency_of(graph: GraphDataset) -> scipy.sparse.csr_matrix:
    """Return the (N, N) symmetric 0/1 matrix in float32."""
    first, second = graph.edge_index
    ends = np.r_[first, second], np.r_[second, first]
    ones = np.ones(len(ends[0]), np.float32)
    return scipy.sparse.csr_matrix((ones, ends), (graph.n_nodes, graph.n_nodes))


def _mixed(values: np.ndarray) -> np.ndarray:
    """Apply SplitMix64 to uint64 values: a fixed pseudo-random function."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def owned_lists(
    adjacency: scipy.sparse.csr_matrix, degree: int, streams: Streams
) -> scipy.sparse.csr_matrix:
    """Return (N, N) 0/1 with at most ``degree`` receivers in each sender's row.

    A node keeps the neighbours with the smallest random numbers; these depend only on the run's key
    and the two ids, so that other nodes' edges do not change its list.
    """
    owner = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    pair = owner.astype(np.uint64) * np.uint64(adjacency.shape[0]) + adjacency.indices.astype(
        np.uint64
    )
    key = np.frombuffer(streams.key("lists").tobytes()[:8], np.uint64)[0]
    order = np.lexsort((_mixed(_mixed(pair) ^ key), owner))
    ranks = np.arange(len(owner)) - adjacency.indptr[owner]
    arcs = order[ranks < degree]
    ones = np.ones(len(arcs), np.float32)
    return scipy.sparse.csr_matrix((ones, (owner[arcs], adjacency.indices[arcs])), adjacency.shape)


def places_of(mask: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return (population,) the index in ``nodes`` of each node of a ``mask``; -1 for others."""
    indices = np.full(len(mask), -1)
    indices[nodes] = np.arange(len(nodes))
    return indices[mask]


class NoisySums:
    """Noisy sums along edges; the only reader of the edges. Each stage is released once."""

    def __init__(
        self,
        receiving: Sequence[scipy.sparse.csr_matrix],
        door: Door,
        queries: Sequence[GaussianQuery | None],
    ):
        """``receiving`` (N, N) for each run, or shared: row i marks the senders of i."""
        self.receiving, self.door, self.queries, self.count = receiving, door, queries, 0

    def release(self, stage: int, rows: np.ndarray) -> np.ndarray:
        """Return (R, N, h): noisy sums of the (R, N, h) ``rows``, scaled to norm 1 (or zero).

        Raises:
            ReleaseMismatch: the stage was released before; the difference of two sums under the
                same noise would have none.
        """
        if stage != self.count + 1:
            raise ReleaseMismatch(
                f"sums of stage {stage} were asked for after {self.count}; expected each stage "
                "once, in order: the price does not hold"
            )
        self.count += 1
        rows = rows.astype(np.float64)  # in float32 one row could change how others are rounded
        norms = np.sqrt(np.square(rows).sum(-1, keepdims=True))
        finite = (norms > 0) & np.isfinite(norms)  # a row that overflowed counts as zero
        unit = np.divide(rows, norms, out=np.zeros_like(rows), where=finite)
        if len(self.receiving) == 1:
            replicas, n, width = unit.shape
            flat = unit.transpose(1, 0, 2).reshape(n, replicas * width)
            sums = (self.receiving[0] @ flat).reshape(n, replicas, width).transpose(1, 0, 2).copy()
        else:
            sums = np.stack([a @ b for a, b in zip(self.receiving, unit, strict=True)])
        noisy = self.door.gaussian(sums, self.queries, stream="sums", dtype=np.float32)
        return noisy.astype(np.float32)


def budget_of(task: NodeTask, settings: SumsSettings, stages: int) -> Budget:
    """Return the budget of runs that train ``stages`` networks one after the other."""
    unit = task.scenario.unit
    lists = unit == "node_out_list"
    n = int(task.graph.train_mask.sum())  # under lists, whether a node has a label is private
    steps = settings.epochs * max(1, n // settings.lot)
    return Budget(
        hops=settings.hops,
        steps=stages * steps if lists else 0,
        accounted=stages * (settings.epochs * n // settings.lot) if lists else 0,
        rate=min(1.0, settings.lot / n),
        degree=settings.degree,
        delta=task.delta,
        unit=unit,
    )


@dataclass(frozen=True, eq=False)
class SumsData:
    """Arrays of a task, as training reads them."""

    task: NodeTask
    rows: stacks.SparseRows
    """Features of all N nodes."""
    adjacency: scipy.sparse.csr_matrix
    train: np.ndarray
    """Indices of labelled training nodes, in the form of ``validation`` and ``test``."""
    validation: np.ndarray
    test: np.ndarray
    asked: np.ndarray | None = None
    """Indices of nodes whose logits an attack asks for."""

    @property
    def places(self) -> np.ndarray:
        """(population,) index of each training node in ``train``; -1 for one without a label."""
        return places_of(self.task.graph.train_mask, self.train)

    @classmethod
    def of(cls, task: NodeTask, queries: np.ndarray | None = None) -> SumsData:
        """Convert a task."""
        from private_graphs.training.stacks import SparseRows

        graph, features = task.graph, task.graph.features
        matrix = features if isinstance(features, np.ndarray) else features.to_scipy()
        labelled = graph.labels >= 0
        sides = (graph.train_mask, graph.validation_mask, graph.test_mask)
        train, validation, test = (np.flatnonzero(side & labelled) for side in sides)
        return cls(
            task,
            SparseRows(scipy.sparse.csr_matrix(matrix)),
            adjacency_of(graph) if task.lists is None else task.lists,
            train,
            validation,
            test,
            queries,
        )

    def sums(
        self, door: Door, plans: Sequence[Sequence[Event]], requests: Sequence[Request]
    ) -> NoisySums:
        """Return the reader of the edges: all edges, or the lists of each run."""
        queries = of_kind(GaussianQuery, plans)
        if self.task.scenario.unit == "edge_undirected":
            return NoisySums([self.adjacency], door, queries)
        degree = requests[0].settings.degree
        lists = [owned_lists(self.adjacency, degree, r.streams).T.tocsr() for r in requests]
        return NoisySums(lists, door, queries)


@dataclass(eq=False)
class Trainer:
    """Trainer of the networks of some requests."""

    data: SumsData
    requests: Sequence[Request]
    scales: Sequence[float]
    door: Door
    queries: Sequence[PoissonSums | None]
    """Query of each run's steps, if nodes are private."""
    watches: bool = False
    """Whether accuracies of every epoch are recorded. Only where validation nodes choose the
    epoch: otherwise nodes are private, and nothing about them may be published."""
    best: np.ndarray | None = None
    """(R,) validation scores of the epochs that the last training kept, if it chose."""
    told: list[np.ndarray] = field(default_factory=list)
    """(epochs, R) validation scores of every training run, if it chose."""
    learned: list[np.ndarray] = field(default_factory=list)
    """(epochs, R) scores on the training nodes, if recorded."""

    def __post_init__(self) -> None:
        self.watches = self.watches and self.chooses

    @property
    def lists(self) -> bool:
        """Whether nodes are private."""
        return self.data.task.scenario.unit == "node_out_list"

    @property
    def chooses(self) -> bool:
        """Whether the epoch with the best validation score is kept."""
        return not self.lists or self.data.task.protocol.epoch_of_lists == "best_validation"

    def fit(self, network: stacks.Network, stack: stacks.Stack, inputs: stacks.StackInputs) -> None:
        """Train ``stack`` on the training nodes among all nodes' ``inputs``."""
        from private_graphs.training import stacks

        data, settings = self.data, self.requests[0].settings
        labels, train, learned = data.task.graph.labels, inputs.take(data.train), []

        def watch() -> None:
            if self.watches:
                learned.append(stacks.accuracy(network, stack, train, labels[data.train]).numpy())

        fit = stacks.Fit(
            train,
            labels[data.train],
            [request.settings.learning_rate for request in self.requests],
            settings.epochs,
            inputs.take(data.validation) if self.chooses else None,
            labels[data.validation] if self.chooses else None,
            after_epoch=watch,
        )
        if self.lists and self.requests[0].private:
            noisy = stacks.Noisy(settings.lot, data.places, stacks.steps(self.door, self.queries))
            curve = stacks.train_noisy(network, stack, fit, noisy)
        else:
            curve = stacks.train_whole(network, stack, fit)
        self.told.append(curve.numpy())
        self.best = self.told[-1].max(axis=0, initial=0) if self.chooses else None
        if self.watches:
            self.learned.append(np.stack(learned))

    def answered(
        self, network: stacks.Network, stack: stacks.Stack, inputs: stacks.StackInputs
    ) -> list[Outcome]:
        """Return the outcomes of trained networks, with the logits that an attack asks for."""
        from private_graphs.training import stacks

        logits, queries = stacks.outputs(network, stack, inputs), self.data.asked
        outcomes = self.outcomes(logits.argmax(-1).numpy())
        if queries is None:
            return outcomes
        scores = logits.numpy()[:, queries]
        return [replace(outcome, logits=row) for outcome, row in zip(outcomes, scores, strict=True)]

    def outcomes(self, predicted: np.ndarray) -> list[Outcome]:
        """Return the outcomes of (R, N) predicted classes."""
        data, settings = self.data, self.requests[0].settings
        # of all networks, one after the other
        curves = np.concatenate(self.told or [np.empty((0, len(self.requests)))])
        outcomes = []
        for index, scale in enumerate(self.scales):
            outcomes.append(
                Outcome(
                    test_predictions=predicted[index, data.test],
                    validation_predictions=predicted[index, data.validation],
                    measured={"epochs": settings.epochs, "noise_multiplier": scale},
                    curves={"validation_micro_f1": curves[:, index]} if len(curves) else {},
                    artifacts=self._artifacts(index),
                )
            )
        return outcomes

    def _artifacts(self, index: int) -> dict[str, np.ndarray]:
        if not self.learned:
            return {}
        return {
            "training_accuracy": np.concatenate(self.learned)[:, index],
            "validation_accuracy": np.concatenate(self.told)[:, index],
            "stages": np.array([len(stage) for stage in self.learned]),
        }


def memory(settings: SumsSettings, size: GraphSize, runs: int) -> int:
    """See ``Method.memory``: activations of a chunk of runs, about sixteen arrays of them."""
    numbers = runs * size.train_nodes * WIDTH * (settings.hops + 1)
    return torch_memory(settings, size, runs) + 64 * min(numbers, _ACTIVATIONS)


Answer = Callable[[SumsData, Sequence[Request], Door], list[Outcome]]


def of_kind(kind: type, plans: Sequence[Sequence[Event]]) -> list[Any]:
    """Return the event of one kind in each plan; None for a plan without it."""
    return [next((event for event in plan if isinstance(event, kind)), None) for plan in plans]


def planned(
    data: SumsData, budget: Budget, requests: Sequence[Request], door: Door, watches: bool = False
) -> tuple[Trainer, NoisySums]:
    """Plan the releases of requests that train together; return their trainer and their sums."""
    scales = scales_of(budget, data.task.protocol, requests)
    plans = [
        budget.events(scale) if request.private else ()
        for request, scale in zip(requests, scales, strict=True)
    ]
    door.plan(plans)
    trainer = Trainer(data, requests, scales, door, of_kind(PoissonSums, plans), watches)
    return trainer, data.sums(door, plans, requests)


def layer(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a linear layer, whose weight has ``shape``: (…, inputs, outputs)."""
    return {f"{name}.weight": shape, f"{name}.bias": (*shape[:-2], shape[-1])}


def norms(names: Sequence[str], *shape: int) -> dict[str, tuple[int, ...]]:
    """Return the normalisation shapes of some layers: (branches, channels)."""
    return {f"{name}.norm.{part}": shape for name in names for part in ("weight", "bias")}


def started(network: Any, streams: Sequence[Streams], stage: int = 0) -> stacks.Stack:
    """Return the initial parameters of a network with ``shapes()`` and ``norm``."""
    from private_graphs.training.stacks import Stack, initial, running

    shapes = network.shapes()
    statistics = running(shapes, len(streams)) if network.norm == "batch" else {}
    return Stack(initial(shapes, streams, stage), statistics)


def answer_alike(
    answer: Answer, task: NodeTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Answer every request, in chunks that train together and fit into memory.

    The requests of a chunk differ only in ε, learning rate and seed.
    """
    import torch

    torch.set_num_threads(context.threads)
    data = SumsData.of(task, context.asked)

    def answered(batch: list[Request], door: Door, context: Context) -> list[Outcome]:
        size, outcomes = len(batch), []
        if task.scenario.unit == "edge_undirected":
            numbers = len(data.train) * WIDTH * (batch[0].settings.hops + 1)
            size = max(1, _ACTIVATIONS // max(1, numbers))
        for start in range(0, len(batch), size):
            places = range(len(batch))[start : start + size]
            outcomes += answer(data, batch[start : start + size], door.of_lanes(places))
            context.report(len(outcomes), len(batch))
        return outcomes

    return in_batches(requests, door, context, but_rate, answered)


def sums_method(
    name: str, title: str, answer: Answer, scenarios: tuple[str, ...], **fields: Any
) -> Method:
    """Return a method whose ``answer`` trains chunks of alike requests."""
    shared: dict[str, Any] = {
        "protocols": PROTOCOLS, "memory": memory, "prepares": "features are used as they are",
    }  # fmt: skip
    return Method(name, title, partial(answer_alike, answer), scenarios, **shared | fields)
