"""The work of one training job, counted from its plan and the size of its graph.

Work has kinds (``KINDS``), each an amount that time is proportional to; ``model`` knows the
seconds of each. What is counted is what the compiled kernels do (``training.kernels``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from private_graphs.cells import CellPlan
from private_graphs.cost.reach import Reach, known_reach
from private_graphs.datasets.registry import GraphSize
from private_graphs.protocols import PROTOCOLS, Protocol

TRAINING_KINDS = ("nonzero", "entry", "row", "word", "sgd", "adam", "draw", "visit")
"""Of training: products with non-zeros of X and entries of the propagation matrix (32 numbers
each), rows of hidden units, rows of the gradient that a visit writes, updated parameters, Gaussian
draws, visits of a block."""
OVERHEAD_KINDS = ("job", "block")
"""Around training: the start and the end of a job; numbers looked at to set up blocks."""
KINDS = TRAINING_KINDS + OVERHEAD_KINDS


@dataclass(frozen=True)
class Task:
    """One training job, as far as its time depends on it."""

    dataset: str
    optimizer: Literal["sgd", "adam"]
    protocol: str
    visits: str
    """``full_graph``, ``shuffled``, ``epoch_sum`` or ``poisson``."""
    splits: int
    train_fraction: float
    hidden: int
    dtype: str
    max_epochs: int
    private_runs: int
    private_epochs: float
    """Of all these runs together."""
    non_private_runs: int
    non_private_epochs: float
    features: str = "raw"

    @property
    def kind(self) -> str:
        """What early stopping depends on most."""
        return f"{self.optimizer}/{self.protocol}/{'full' if self.splits == 1 else 'split'}"


def task_of(plan: CellPlan, stopping_epochs: float = math.inf) -> Task:
    """Return the task of a plan whose non-private runs stop after ``stopping_epochs`` at most."""
    cell = plan.cell
    visits = PROTOCOLS[cell.protocol].visits if cell.visits == "protocol" else cell.visits
    non_private = len(plan.seeds) * sum(
        plan.n_learning_rates(epsilon) for epsilon in plan.epsilons if math.isinf(epsilon)
    )
    private = plan.n_replicas - non_private
    epochs = plan.epochs if plan.patience is None else min(plan.epochs, stopping_epochs)
    return Task(
        dataset=cell.dataset,
        optimizer=cell.optimizer,
        protocol=cell.protocol,
        visits=visits if cell.splits > 1 else "full_graph",
        splits=cell.splits,
        train_fraction=cell.train_fraction,
        hidden=plan.hidden,
        dtype=plan.dtype,
        max_epochs=plan.epochs,
        private_runs=private,
        private_epochs=private * plan.epochs,
        non_private_runs=non_private,
        non_private_epochs=non_private * epochs,
        features=cell.features,
    )


@dataclass(frozen=True)
class _Pass:
    """Expected amounts that forward passes read."""

    nonzeros: float
    entries: float
    rows: float
    words: float = 0.0
    """Columns of X, once for each visit."""


def count_work(task: Task, size: GraphSize, reach: Reach | None = None) -> dict[str, float]:
    """Return the expected amount of each kind of work; ``reach`` is that of the dataset if kept."""
    protocol = PROTOCOLS[task.protocol]
    known = known_reach(task.dataset) if task.features == "raw" else None
    reach = reach or known or _unmeasured(size)
    width = task.hidden / 32 * (2 if task.dtype == "float64" else 1)
    training = _training_pass(task, protocol, size, reach)
    scored = _validation_pass(task, protocol, size, reach)
    epochs = task.private_epochs + task.non_private_epochs

    def products(name: str) -> float:
        """Forward and backward passes of training, forward passes of validation."""
        once = getattr(training, name) * 2 * epochs
        return width * (once + getattr(scored, name) * task.non_private_epochs)

    updated, drawn = _updates(task, size, training.words)
    shared = task.splits == 1 and task.train_fraction == 1
    runs = 1 if shared else task.private_runs + task.non_private_runs
    return {
        "nonzero": products("nonzeros"),
        "entry": products("entries"),
        "row": products("rows"),
        "word": width * epochs * training.words,
        "sgd": updated if task.optimizer == "sgd" else 0.0,
        "adam": updated if task.optimizer == "adam" else 0.0,
        "draw": drawn,
        "visit": task.splits * epochs,
        "job": 1.0,
        "block": runs * (training.nonzeros + training.entries + 2 * task.splits * size.nodes),
    }


def _training_pass(task: Task, protocol: Protocol, size: GraphSize, reach: Reach) -> _Pass:
    """What the visits of one epoch read together."""
    fraction, splits = task.train_fraction, task.splits
    if protocol.message_passing == "induced":
        rows = size.train_nodes * fraction
        edges = reach.train_edges * fraction**2 / splits
        words = splits * size.features * reach.own_words.share(fraction / splits)
        return _Pass(reach.train_nonzeros * fraction, rows + 2 * edges, rows, words)
    present = 1 - (1 - fraction) * size.train_nodes / size.nodes
    return _near(size, reach, fraction / splits, present, times=splits)


def _validation_pass(task: Task, protocol: Protocol, size: GraphSize, reach: Reach) -> _Pass:
    """What scoring the validation nodes once reads: a third of the nodes outside training."""
    validation = (size.nodes - size.train_nodes) / 3
    whole = task.splits == 1 and task.train_fraction == 1
    if whole and protocol.message_passing == protocol.test_graph == "whole_graph":
        return _Pass(0.0, 0.0, 0.0)  # scored on the way of training
    if protocol.test_graph == "whole_graph":
        present = 1 - (1 - task.train_fraction) * size.train_nodes / size.nodes
        return _near(size, reach, min(1.0, validation / size.train_nodes), present, times=1)
    edges = size.edges * (validation / size.nodes) ** 2
    nonzeros = size.nonzeros * validation / size.nodes
    return _Pass(nonzeros, validation + 2 * edges, validation)


def _near(size: GraphSize, reach: Reach, probability: float, present: float, times: int) -> _Pass:
    """What passes over the whole graph read that score a part of it; ``present`` nodes are left."""
    return _Pass(
        nonzeros=times * present * size.nonzeros * reach.nonzeros.share(probability),
        entries=times
        * present
        * (size.nodes + 2 * size.edges * present)
        * reach.entries.share(probability),
        rows=times * present * size.nodes * reach.nodes.share(probability),
        words=times * size.features * reach.words.share(probability),
    )


def _updates(task: Task, size: GraphSize, words: float) -> tuple[float, float]:
    """Parameters updated, and Gaussian draws, of all runs; ``words`` are read in an epoch.

    A private step of SGD on a part leaves rows of W1 that it does not read alone: their noise is
    drawn when they are read next, and once more at the end.
    """
    rest = task.hidden * (size.classes + 1) + size.classes
    everything = task.hidden * size.features + rest
    steps = task.splits if task.visits in ("shuffled", "poisson") else 1
    dense = steps * everything
    private, final = dense, 0
    if task.optimizer == "sgd" and task.visits in ("shuffled", "poisson"):
        private, final = task.hidden * words + steps * rest, everything
    width = 2 if task.dtype == "float64" else 1
    updated = task.private_epochs * private + task.non_private_epochs * dense
    return width * updated, task.private_epochs * private + task.private_runs * final


def _unmeasured(size: GraphSize) -> Reach:
    share = size.train_nodes / size.nodes
    return Reach(train_edges=size.edges * share**2, train_nonzeros=size.nonzeros * share)
