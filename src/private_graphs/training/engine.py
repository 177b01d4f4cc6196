"""Training of a batch of replicas of one job: schedule of visits, early stopping, kept weights.

Replicas never interact, so each thread trains whole replicas; the compiled kernels release the
interpreter lock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from private_graphs.core.errors import UserError
from private_graphs.core.streams import PublicStreams
from private_graphs.mechanisms.descent import Descent
from private_graphs.mechanisms.door import ReleaseMismatch
from private_graphs.privacy.events import FullBatch, Poisson, Shuffled
from private_graphs.training.blocks import Structure
from private_graphs.training.cpu_backend import CpuBackend
from private_graphs.training.kernels import Rule, State, Step, aligned_zeros, row_length

if TYPE_CHECKING:
    from private_graphs.training.gcn_protocol import GcnProtocol

_COUNTERS = 2**32
"""Number of the counters of one step (``noise.fill_flat_words``)."""
Progress = Callable[[int, int], None]
"""Called with (replica-epochs done, replica-epochs in all)."""


@dataclass(frozen=True)
class EngineSettings:
    """Training settings that all replicas of a batch share."""

    optimizer: Literal["sgd", "adam"]
    epochs: int
    private: bool
    """Whether gradients are clipped and noise is added, as the protocol says."""
    clip_norm: float = 1.0
    weight_decay: float = 0.0
    hidden: int = 32
    dropout: float = 0.5
    patience: int | None = None
    """Epochs without a better validation loss before a replica stops; None: never."""
    validate_every_epoch: bool = False
    """Score the validation nodes after each epoch even if nothing depends on the score."""
    lazy_noise: bool = True
    """Draw the noise of a row of W1 only when the row is read next. CPU only, and only where
    that is exact (plain SGD without weight decay): the same distribution from fewer draws."""
    dtype: Literal["float32", "float64"] = "float32"
    device: Literal["cpu", "cuda", "torch-cpu"] = "cpu"
    """``torch-cpu`` runs the GPU's code on the CPU."""


@dataclass(frozen=True)
class ReplicaSpec:
    """Random streams and start of one replica."""

    streams: PublicStreams
    learning_rate: float
    start: np.ndarray | None = None
    """(P,) parameters before the first step; None: ``initial_parameters`` of the streams."""
    parts: np.ndarray | None = None
    """(T,) part of each training node, for the reference; None: drawn from the streams."""


@dataclass(frozen=True)
class Trained:
    """Results of R replicas."""

    parameters: np.ndarray
    """(R, P) flat parameters: W1 (features, hidden), b1, W2 (hidden, classes), b2."""
    epochs: np.ndarray
    """(R,) number of epochs run."""
    validation_loss: np.ndarray
    """(R,) mean cross-entropy of the kept weights on the validation nodes."""
    validation_predictions: np.ndarray
    """(R, validation nodes) predicted classes."""
    test_predictions: np.ndarray
    """(R, test nodes) predicted classes."""
    validation_losses: np.ndarray
    """(epochs, R) validation loss after every epoch; NaN where it was not computed, because
    nothing depended on it or the replica had stopped."""
    majority: np.ndarray
    """(R,) most frequent class of the labelled training nodes."""
    seconds: float


def joins_validation(
    protocol: GcnProtocol, settings: EngineSettings, splits: int, train_fraction: float
) -> bool:
    """Return whether an epoch's forward pass can also score the validation nodes, exactly.

    The pass has the weights of the epoch before. So training and validation must share one graph,
    an epoch must have one step, dropout must end after the first epoch, and the last weights must
    be the kept ones (not those of an earlier epoch).
    """
    watched = settings.patience is not None or settings.validate_every_epoch
    return (
        watched
        and not settings.private
        and settings.device == "cpu"
        and splits == 1
        and train_fraction == 1
        and protocol.dropout == "first_epoch"
        and protocol.message_passing == protocol.test_graph == "whole_graph"
        and protocol.stopped_weights == "last"
    )


def initial_parameters(
    streams: PublicStreams, n_features: int, hidden: int, n_classes: int
) -> np.ndarray:
    """Return (P,) Glorot-uniform weights and zero biases, like ``torch_geometric.nn.GCNConv``."""
    generator = streams.generator("initial")

    def glorot(rows: int, columns: int) -> np.ndarray:
        bound = np.sqrt(6.0 / (rows + columns))
        return generator.uniform(-bound, bound, size=rows * columns)

    first, second = glorot(n_features, hidden), glorot(hidden, n_classes)
    return np.concatenate([first, np.zeros(hidden), second, np.zeros(n_classes)])


def layers(
    parameters: np.ndarray, n_features: int, hidden: int, n_classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return views of parameters (…, P): weights (…, F, h), biases (…, h), weights (…, h, K) and
    biases (…, K) of both layers. What follows them pads the classes."""
    ends = np.cumsum([n_features * hidden, hidden, hidden * n_classes, n_classes])
    w1, b1, w2, b2 = np.split(parameters[..., : ends[-1]], ends[:-1], axis=-1)
    batch = parameters.shape[:-1]
    return (w1.reshape(*batch, n_features, hidden), b1,
            w2.reshape(*batch, hidden, n_classes), b2)  # fmt: skip


def train(
    structure: Structure,
    protocol: GcnProtocol,
    settings: EngineSettings,
    replicas: Sequence[ReplicaSpec],
    descent: Descent,
    *,
    threads: int = 1,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Trained:
    """Train ``replicas``; ``structure`` has their rows in the same order.

    ``descent`` adds the noise of every step, tosses coins and counts noisy steps; it was made with
    ``coins="order"``. A replica's result depends neither on the others nor on ``threads``.
    """
    threads = 1 if settings.device == "cuda" else max(1, threads)  # the GPU cuts its own batches
    chunks = [c for c in np.array_split(np.arange(len(replicas)), threads) if len(c)]
    total = len(replicas) * settings.epochs
    done = [0] * len(chunks)

    def run(number: int) -> None:
        def report(replica_epochs: int) -> None:
            done[number] = replica_epochs
            if progress is not None:
                progress(sum(done), total)

        batches[number].run(report)

    batches = [_Batch(structure, protocol, settings, replicas, chunk, descent) for chunk in chunks]
    batches[0].backend.prepare()  # compiles, once per machine, outside the measured time
    started = clock()
    with threadpool_limits(limits=1):  # the small matrix products gain nothing from BLAS threads
        with ThreadPoolExecutor(len(chunks)) as pool:
            list(pool.map(run, range(len(chunks))))
        validation = [batch.score(structure.validation) for batch in batches]
        test = [batch.score(structure.test) for batch in batches]
    return Trained(
        parameters=np.concatenate([batch.backend.parameters() for batch in batches]),
        epochs=np.concatenate([batch.epochs for batch in batches]),
        validation_loss=np.concatenate([loss for loss, _ in validation]),
        validation_predictions=np.concatenate([predictions for _, predictions in validation]),
        test_predictions=np.concatenate([predictions for _, predictions in test]),
        validation_losses=np.concatenate([batch.losses for batch in batches], axis=1),
        majority=structure.majority,
        seconds=clock() - started,
    )


class _Patience:
    """Early stopping of many replicas on the validation loss."""

    def __init__(self, count: int, patience: int | None) -> None:
        self.patience = patience
        self.best = np.full(count, np.inf)
        self.stale = np.zeros(count, dtype=np.int64)

    @property
    def on(self) -> bool:
        return self.patience is not None

    def limits(self, active: np.ndarray, deciding: bool) -> np.ndarray:
        """Return the loss (A,) at which a replica stops unless lower; NaN while patience lasts."""
        if not deciding:
            return np.full(len(active), np.nan)
        last = self.stale[active] + 1 >= self.patience
        return np.where(last, self.best[active], np.nan)

    def update(self, active: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Record the losses of ``active``; return which improved and which must stop."""
        improved = active[loss < self.best[active]]
        self.best[active] = np.fmin(self.best[active], loss)
        self.stale[active] += 1
        self.stale[improved] = 0
        return improved, active[self.stale[active] >= self.patience]


class _Batch:
    """The replicas of one thread."""

    def __init__(
        self,
        structure: Structure,
        protocol: GcnProtocol,
        settings: EngineSettings,
        replicas: Sequence[ReplicaSpec],
        rows: np.ndarray,
        descent: Descent,
    ) -> None:
        self.descent = descent.of_lanes(rows)
        self.structure, self.protocol, self.settings = structure, protocol, settings
        self.rows = rows  # row numbers in the structure
        self.replicas = [replicas[row] for row in rows]
        self.splits = structure.parts.shape[1]
        self.visits = protocol.visits if self.splits > 1 else "epoch_sum"
        self.epochs = np.zeros(len(rows), dtype=np.int64)
        self.losses = np.full((settings.epochs, len(rows)), np.nan, dtype=np.float32)
        self.steps = 0
        self.taken = np.zeros(len(rows), dtype=np.int64)
        """(R,) number of steps that each replica has taken."""
        self.rule, state = self._rule(), self._state()
        self._check_plan()
        self.backend = self._backend(state)

    def _backend(self, state: State):
        """Return the back end: compiled kernels on the CPU, PyTorch elsewhere."""
        structure, settings = self.structure, self.settings
        common = (structure.inputs, structure.blocks, self.rule, state)
        if settings.device == "cpu":
            return CpuBackend(*common, self.descent)
        from private_graphs.training.torch_backend import TorchBackend  # imports torch

        return TorchBackend(*common, device=settings.device.removeprefix("torch-"))

    def _state(self) -> State:
        settings, replicas, inputs = self.settings, self.replicas, self.structure.inputs
        sizes = (inputs.n_features, inputs.n_hidden, inputs.n_classes)
        full, none = (len(replicas), row_length(*sizes)), (len(replicas), 0)
        parameters = aligned_zeros(full, settings.dtype)
        for row, spec in zip(parameters, replicas, strict=True):
            start = initial_parameters(spec.streams, *sizes) if spec.start is None else spec.start
            row[: len(start)] = start
        moments = full if settings.optimizer == "adam" else none
        return State(
            parameters=parameters,
            first_moment=aligned_zeros(moments, settings.dtype),
            second_moment=aligned_zeros(moments, settings.dtype),
            learning_rate=np.array([spec.learning_rate for spec in replicas], dtype=np.float64),
            noise_std=self.descent.stds.copy(),
            noise_key=self.descent.keys(),
            dropout_key=np.stack([spec.streams.key("dropout") for spec in replicas]),
            drawn=np.zeros(len(replicas), np.int64),
            noised=np.zeros((len(replicas), inputs.n_features if self._lazy() else 0), np.int64),
        )

    def _check_plan(self) -> None:
        """Raise ReleaseMismatch if the steps are not those of a replica's plan."""
        kinds = {"epoch_sum": FullBatch, "shuffled": Shuffled, "poisson": Poisson}
        options = kinds.values() if self.splits == 1 else [kinds[self.visits]]
        samplings = [kind(1 / self.splits if kind is Poisson else self.splits) for kind in options]
        clipped, norm = math.isfinite(self.rule.clip), self.settings.clip_norm
        for query in self.descent.queries:
            if query is None:
                continue
            planned = query.sampling in samplings and query.clip_norm == norm
            if not planned or (query.clipping != "none") != clipped:
                raise ReleaseMismatch(
                    f"steps by {samplings[0]}, {'clipped' if clipped else 'not clipped'} to "
                    f"{norm}; planned {query}"
                )

    def _lazy(self) -> bool:
        """Return whether noise is drawn only when a row is read (``Rule.lazy``)."""
        settings = self.settings
        plain_sgd = settings.optimizer == "sgd" and settings.weight_decay == 0
        by_parts = self.visits != "epoch_sum"
        # a replica that stops early must not receive noise of steps that only others take
        runs_through = settings.patience is None
        possible = plain_sgd and by_parts and runs_through and settings.device == "cpu"
        # Weights that a step has updated are rounded to float32 before delayed noise arrives. No
        # privacy cost covers that, so runs under secret randomness do not delay it.
        secret = any(replica.streams.secret for replica in self.replicas)
        watched = self.descent.door.watch.active  # a watch sees every step
        return settings.lazy_noise and possible and not secret and not watched

    def _apart(self) -> int:
        """Return ``Rule.apart``, for which the number of nodes is the largest size of a part."""
        inputs = self.structure.inputs
        several = self.splits > 1 and self.settings.dropout > 0
        if not (several and self.descent.public_places):
            return 0
        apart = -(-len(inputs.labels) * inputs.n_hidden // 16)
        if apart * self.splits >= _COUNTERS:
            raise UserError(
                f"splits: {self.splits} parts, whose dropout masks have {apart * self.splits:,} "
                f"counters; expected fewer than {_COUNTERS:,}: give fewer splits, or dropout: 0"
            )
        return apart

    def _rule(self) -> Rule:
        settings = self.settings
        clips = settings.private and self.protocol.clipping == "global_norm"
        sums_parts = self.splits > 1 and self.protocol.visits == "epoch_sum"
        threshold = min(255, round(256 * settings.dropout))
        return Rule(
            clip=settings.clip_norm if clips else np.inf,
            divisor=float(self.splits) if sums_parts else 1.0,
            weight_decay=settings.weight_decay,
            adam=settings.optimizer == "adam",
            lazy=self._lazy(),
            keep_threshold=threshold,
            keep_scale=256 / (256 - threshold),
            apart=self._apart(),
        )

    def run(self, report: Callable[[int], None]) -> None:
        """Run all epochs; replicas that stop early leave the batch."""
        settings = self.settings
        count = len(self.rows)
        active = np.arange(count)
        watch = _Patience(count, settings.patience)
        keeps_best = watch.on and self.protocol.stopped_weights == "best_validation"
        for epoch in range(settings.epochs):
            joined = self.structure.joined
            # with joined blocks, an epoch scores the previous weights and decides on them
            judged = watch.on and not (joined and epoch == 0)
            loss = self._epoch(active, epoch, watch.limits(active, judged and joined))
            if not joined:
                self.epochs[active] += 1
                if watch.on or settings.validate_every_epoch:
                    loss, _ = self._score(active, self.structure.validation)
            if (watch.on or settings.validate_every_epoch) and epoch >= joined:
                self.losses[epoch - joined, active] = loss
            if judged:
                improved, stopped = watch.update(active, loss)
                if keeps_best:
                    self.backend.keep_best(improved)
                active = np.setdiff1d(active, stopped)
            if joined:
                self.epochs[active] += 1
            left = (settings.epochs - epoch - 1) * len(active)
            report(count * settings.epochs - left)
            if not len(active):
                break
        if keeps_best:
            self.backend.restore_best()
        for index, count in enumerate(self.taken):
            self.descent.taken([index], int(count))

    def _epoch(self, active: np.ndarray, epoch: int, stop_at: np.ndarray) -> np.ndarray:
        """Run one epoch; with joined blocks, return the validation loss (A,) before it.

        With joined blocks, replicas whose loss is not below ``stop_at`` (A,) take no step.
        """
        dropout = self.settings.dropout > 0 and (
            self.protocol.dropout == "every_epoch" or epoch == 0
        )
        steps = []
        for number, blocks in enumerate(self._schedule(active), self.steps):
            starts = np.concatenate([[0], np.cumsum([len(block) for block in blocks])])
            visits = np.concatenate(blocks).astype(np.int64)
            steps.append(Step(active, starts.astype(np.int64), visits, number, dropout, stop_at))
        self.backend.begin(steps)
        for step in steps:
            loss = self.backend.train_step(step)
            self.taken[active] += 1
        self.steps += len(steps)
        return loss

    def _schedule(self, active: np.ndarray) -> list[list[np.ndarray]]:
        """Return the blocks to visit: for each step of an epoch, the list of replicas' blocks."""
        parts = self.structure.parts[self.rows[active]]
        if self.visits == "epoch_sum":
            return [list(parts)]
        if self.visits == "shuffled":
            orders = self.descent.orders()
            order = np.stack([orders[a].permutation(self.splits) for a in active])
            visited = np.take_along_axis(parts, order, axis=1)
            return [list(visited[:, t : t + 1]) for t in range(self.splits)]
        joins = self.descent.of_lanes(active)
        return [
            [
                row[joined]
                for row, joined in zip(parts, joins.join(self.splits, 1 / self.splits), strict=True)
            ]
            for _ in range(self.splits)
        ]

    def score(self, block_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean loss (R,) and predictions (R, nodes) of all replicas of the batch."""
        return self._score(np.arange(len(self.rows)), block_of)

    def _score(self, replicas: np.ndarray, block_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.backend.evaluate(replicas, block_of[self.rows[replicas]])
