"""DP-GNN: DP-SGD on a one-layer graph network, whose examples are nodes with their neighbours.

Daigavane et al., 2021 (arXiv:2111.15521), Algorithm 2 and Theorem 1, as ProGAP compares it. The
gradient of a target node (*root*) reads the node and at most D others. It is clipped as one, so
that a replaced node changes the sum by 2C for each target that reads it before or after: itself and
the receivers on its old list and on its new one, 2D + 1 targets, where the paper counts D + 1.
docs/methods.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse
from pydantic import Field

from private_graphs.datasets.protocols import Protocol, by_name
from private_graphs.mechanisms.door import Door
from private_graphs.methods import noisy_sums
from private_graphs.privacy.events import Event, Unnoised
from private_graphs.privacy.queries import GaussianQuery, PoissonSums
from private_graphs.privacy.query_calibration import renyi_scale, scale_noise
from private_graphs.privacy.renyi import occurrence_epsilon
from private_graphs.studies.progap.methods.edge_rand import Sage
from private_graphs.tasks.method import Context, Outcome, PrintedEpsilon, Request
from private_graphs.tasks.tasks import NodeTask

if TYPE_CHECKING:
    import torch

    from private_graphs.training import stacks

EPOCH_CHOSEN = Unnoised(
    "the epoch that is kept is the one with the best validation score, for which validation nodes "
    "read the features of others over the true lists without noise"
)
SUM_RATIO = 2.0
"""Noise of the prediction sum in units of its sensitivity, divided by that of a step in units of
C times the number of targets that one node changes."""


class DpGnnSettings(noisy_sums.SumsSettings):
    """Settings of DP-GNN: ``hops`` is its number of layers."""

    hops: int = Field(default=1, ge=1, le=1)
    epochs: int = Field(default=10, ge=1)


@dataclass(frozen=True, kw_only=True)
class DpGnnProtocol(Protocol):
    """Inputs of a target node, sampling of targets, and neighbours at prediction."""

    reads: Literal["own_list", "received"]
    """Message direction in training. ``own_list``: the neighbours that the target node sampled
    (in-degree unbounded). ``received``: the nodes that sampled the target."""
    clips: Literal["rows", "roots"]
    """``rows``: the gradients that Opacus treats as examples', those of the rows of all nodes in
    a batch's subgraph, each multiplied by their number, although one row reads others."""
    lots: Literal["whole", "fixed", "poisson"]
    """Sampling of minibatches, see ``training.dpsgd.Order``."""
    answers: Literal["edges", "noisy_sum"]
    """``noisy_sum``: rows are scaled to norm 1 before summation, and one noisy sum over all
    lists replaces the neighbours in predictions."""
    epoch: Literal["best_validation", "last"]
    """Epoch whose parameters are kept. Scoring an epoch makes validation nodes read other nodes,
    without noise."""


PROTOCOLS = by_name(
    DpGnnProtocol(
        name="released",
        summary="what the authors' code does: rows of a batch's subgraph are clipped and not "
        "its roots, and lists that bound what a node sends are read the other way round",
        calibration="published",
        inference="leaks",
        reads="own_list",
        clips="rows",
        lots="whole",
        answers="edges",
        epoch="best_validation",
    ),
    DpGnnProtocol(
        name="paper",
        summary="what the paper's text says: batches drawn anew for every step, each node in "
        "at most D + 1 training rows",
        calibration="published",
        inference="leaks",
        reads="received",
        clips="roots",
        lots="fixed",
        answers="edges",
        epoch="best_validation",
    ),
    DpGnnProtocol(
        name="sound",
        summary="what can be proved: a node with the list that it owns, moved to other rows",
        reads="received",
        clips="roots",
        lots="poisson",
        answers="noisy_sum",
        epoch="last",
    ),
)


@dataclass(frozen=True)
class DpGnnBudget:
    """Releases of a run, up to the scale of the noise."""

    protocol: DpGnnProtocol
    steps: int
    accounted: int
    """Number of steps that the authors' accountant composes."""
    lot: int
    population: int
    """Public number of training nodes."""
    degree: int
    delta: float
    n_nodes: int

    @property
    def occurrences(self) -> int:
        """Return the number of training rows with one node, as the paper counts them."""
        return min(self.degree + 1, self.population)

    @property
    def moved(self) -> int:
        """Return how many targets' gradients one node may change: its own, old and new list."""
        return min(2 * self.degree + 1, self.population)

    def noise_std(self, scale: float) -> float:
        """Return the noise standard deviation of a step, whose gradients have norm at most 1."""
        sound = self.protocol.lots == "poisson"
        return scale * (self.moved if sound else 2 * self.occurrences)

    def sum_std(self, scale: float) -> float:
        """Return the noise standard deviation of the prediction sum."""
        return scale * SUM_RATIO * 2 * math.sqrt(self.degree)

    def events(self, scale: float) -> tuple[Event, ...]:
        """Return the events that enter the privacy cost."""
        words = {"unit": "node_out_list", "relation": "replace"}
        if self.protocol.lots == "poisson":
            return (
                PoissonSums(
                    count=self.steps, noise_multiplier=self.noise_std(scale), clip_norm=1.0,
                    rate=min(1.0, self.lot / self.population), terms=self.moved,
                    reason="a node is read by its own clipped gradient and by those of the "
                    f"{self.degree} receivers at most on its list; replaced, by those of its new "
                    "list; which of its senders a root keeps no other root depends on",
                    clipping="per_record", **words,
                ),
                GaussianQuery(
                    count=1, sensitivity=2 * math.sqrt(self.degree),
                    noise_std=self.sum_std(scale),
                    reason=f"a node sends one unit row to the {self.degree} receivers at most on "
                    "its list, all of which are added; no other list depends on it",
                    clipping="row", **words,
                ),
            )  # fmt: skip
        if self.protocol.clips == "rows":
            terms = min(self.lot * (self.degree + 1), self.n_nodes)
            reason = (
                "rows of all nodes in the subgraph of a batch are clipped, and a replaced node may "
                "change the gradients of all of them"
            )
        else:
            terms = min(self.lot, self.moved)
            reason = (
                "a replaced node may change the clipped gradients of its own row and of those on "
                "its old and its new list, and all of them may be in one batch"
            )
        return (
            GaussianQuery(
                count=self.steps, sensitivity=2.0 * terms, noise_std=self.noise_std(scale),
                reason=reason, clipping="per_record", **words,
            ),
            *([EPOCH_CHOSEN] if self.protocol.epoch == "best_validation" else []),
        )  # fmt: skip

    def printed(self, scale: float) -> float:
        """Return the ε of Theorem 1 for the noise."""
        lot = min(self.lot, self.population)
        return occurrence_epsilon(
            scale, self.occurrences, lot, self.population, self.accounted, self.delta
        )


def budget_of(task: NodeTask, settings: DpGnnSettings) -> DpGnnBudget:
    """Return the budget of runs with ``settings``."""
    n = int(task.graph.train_mask.sum())  # whether a node has a label is private
    steps = settings.epochs * max(1, n // settings.lot)
    accounted = max(1, settings.epochs * n // settings.lot)
    return DpGnnBudget(
        task.protocol, steps, accounted, settings.lot, n, settings.degree, task.delta,
        task.graph.n_nodes,
    )  # fmt: skip


@lru_cache(maxsize=64)
def noise_scale(budget: DpGnnBudget, epsilon: float) -> float:
    """Return the scale of all noise at ``epsilon``."""
    if budget.protocol.calibration == "proved":
        return scale_noise(epsilon, budget.delta, budget.events)
    return renyi_scale(epsilon, budget.delta, lambda scale: scale, lambda s, _: budget.printed(s))


def stated(task: NodeTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``."""
    if not request.private:
        return {"noise_generator": "numpy_float32"}
    budget, claim = budget_of(task, request.settings), None
    scale = chosen.get("noise_multiplier") or noise_scale(budget, request.epsilon)
    if task.protocol.calibration == "published":
        words = (
            f"Daigavane et al. 2021, Theorem 1, {budget.accounted} steps, {budget.occurrences} "
            f"occurrences"
        )
        claim = PrintedEpsilon(budget.printed(scale), words)
    return {
        "events": budget.events(scale),
        "claim": claim,
        "noise_generator": "numpy_float32",
    }


@dataclass(frozen=True, eq=False)
class StarNet(Sage):
    """A layer on features, one sum over the nodes that a node reads, a hidden layer, a head."""

    answering: Sequence[scipy.sparse.csr_matrix] = ()
    """(N, N) of each replica: which nodes each node reads in evaluation."""
    unit_rows: bool = False

    def gathered(self, forward: stacks.Forward, values):
        """Return sums over the nodes that each node reads, and its own values."""
        from torch.nn.functional import normalize

        from private_graphs.training.stacks import Mixed

        view = forward.view
        if view.present is None:
            if view.inputs.hops is not None:  # noisy sums
                return view.hops, values
            sent = normalize(values, dim=-1) if self.unit_rows else values
            return Mixed.apply(sent, self.matrices if forward.training else self.answering), values
        stars = values.unflatten(2, (view.present.shape[1], -1))  # (R, 1, n, 1 + w, h)
        sent = stars[..., 1:, :]
        sent = normalize(sent, dim=-1) if self.unit_rows else sent
        return (sent * view.present[:, None, :, :, None]).sum(-2), stars[..., 0, :]


def stars_of(
    rows: stacks.SparseRows, reading: Sequence[scipy.sparse.csr_matrix], roots: np.ndarray
) -> stacks.Stars:
    """Return the examples of ``roots``: row i of a matrix ``reading`` marks the nodes i reads."""
    import torch

    from private_graphs.training.stacks import Stars

    parts = [matrix[roots] for matrix in reading]
    width = max(1, *(int(np.diff(part.indptr).max(initial=0)) for part in parts))
    members = np.zeros((len(parts), len(roots), 1 + width), np.int32)
    members[..., 0] = roots
    present = np.zeros((len(parts), len(roots), width), np.float32)
    for replica, part in enumerate(parts):
        counts = np.diff(part.indptr)
        row = np.repeat(np.arange(len(roots)), counts)
        slot = np.arange(part.nnz) - np.repeat(part.indptr[:-1], counts)
        members[replica, row, 1 + slot] = part.indices
        present[replica, row, slot] = 1
    return Stars(rows, None, torch.from_numpy(members), torch.from_numpy(present))


def row_sums(
    rows: stacks.SparseRows, train: np.ndarray, labels: np.ndarray, network: StarNet, lot: int
) -> Callable[[stacks.Stack, Sequence[np.ndarray]], torch.Tensor]:
    """Return the sum of what Opacus clips: gradients of the rows of a batch's subgraph.

    ``train`` are nodes with ``labels`` (n,), from which minibatches are drawn. The loss is a mean
    over the batch. Opacus multiplies the gradient of each row by the number of rows: those of the
    batch and of all nodes that it reads.
    """
    import torch

    from private_graphs.training import stacks

    inputs = stacks.StackInputs(rows)

    def sums(stack: stacks.Stack, drawn: Sequence[np.ndarray]) -> torch.Tensor:
        total = torch.zeros_like(stack.flat, dtype=torch.float64)
        for replica, batch in enumerate(drawn):
            if not len(batch):
                continue
            roots = train[batch]
            reads = network.matrices[replica][roots]
            neighbours = np.setdiff1d(reads.indices, roots)
            members = np.r_[roots, neighbours]
            reads = reads[:, members]
            reads.resize(len(members), len(members))  # the other rows read nothing relevant
            params = {name: part[replica : replica + 1] for name, part in stack.parameters.items()}
            squares, add = stacks.example_gradients(
                replace(network, matrices=[reads]),
                stacks.Stack(params, {}),
                inputs.view(torch.from_numpy(members)[None]),
                torch.from_numpy(labels[batch]),
                torch.arange(len(roots)),
            )
            factor = len(members) / lot
            total[replica] = add((1 / squares.sqrt().clamp(min=1e-12)).clamp(max=factor))[0]
        return total

    return sums


def _train(data: noisy_sums.SumsData, requests: Sequence[Request], door: Door) -> list[Outcome]:
    """Train requests that differ only in ε, learning rate and seed."""
    import torch

    from private_graphs.training import stacks

    task, settings = data.task, requests[0].settings
    protocol, labels = task.protocol, task.graph.labels
    budget, private = budget_of(task, settings), requests[0].private
    scales = [noise_scale(budget, request.epsilon) if private else 0.0 for request in requests]
    streams = [request.streams for request in requests]
    plans = [budget.events(scale) if private else () for scale in scales]
    door.plan(plans)
    lists = [noisy_sums.owned_lists(data.adjacency, settings.degree, stream) for stream in streams]
    received = [matrix.T.tocsr() for matrix in lists]
    if protocol.reads == "received":
        # A target keeps at most D of its senders, by its own draw.
        reading = [
            noisy_sums.owned_lists(matrix, settings.degree, stream)
            for matrix, stream in zip(received, streams, strict=True)
        ]
        answering = reading
    else:
        reading, answering = lists, received
    network = StarNet(
        task.graph.n_features, task.n_classes, 1, reading, "layer", answering,
        protocol.answers == "noisy_sum",
    )  # fmt: skip
    stack, whole = noisy_sums.started(network, streams), stacks.StackInputs(data.rows)
    chooses = protocol.epoch == "best_validation"
    fit = partial(
        stacks.Fit,
        labels=labels[data.train],
        rates=[request.settings.learning_rate for request in requests],
        epochs=settings.epochs,
        validation=whole if chooses else None,
        validation_labels=labels[data.validation] if chooses else None,
        validation_rows=data.validation if chooses else None,
    )
    if private:
        noisy = stacks.Noisy(
            settings.lot, data.places, stacks.steps(door, [plan[0] for plan in plans]),
            protocol.lots, clipped=row_sums(
                data.rows, data.train, labels[data.train], network, settings.lot
            ) if protocol.clips == "rows" else None,
        )  # fmt: skip
        stars = whole if noisy.clipped else stars_of(data.rows, reading, data.train)
        scores = stacks.train_noisy(network, stack, fit(stars), noisy)
        if chooses:
            door.unnoised(EPOCH_CHOSEN.reason, scores.numpy().T)
    else:
        stacks.train_whole(network, stack, fit(whole, train_rows=data.train))
    if network.unit_rows:
        queries = [plan[1] if private else None for plan in plans]
        sums = noisy_sums.NoisySums(received, door, queries)
        with torch.no_grad():
            sent = network.base(stacks.Forward(stack, whole.view(), training=False))[:, 0].numpy()
        whole = stacks.StackInputs(data.rows, torch.from_numpy(sums.release(1, sent))[:, None])
    predicted = stacks.predictions(network, stack, whole)
    return [
        Outcome(
            test_predictions=predicted[index, data.test],
            validation_predictions=predicted[index, data.validation],
            measured={"epochs": settings.epochs, "noise_multiplier": scale},
        )
        for index, scale in enumerate(scales)
    ]


METHODS = (
    noisy_sums.sums_method(
        "dp_gnn",
        "DP-GNN",
        _train,
        ("lists",),
        settings=DpGnnSettings,
        protocols=PROTOCOLS,
        stated=stated,
        summary="DP-SGD on a one-layer graph network, whose examples are nodes with "
        "their neighbours.",
    ),
)
