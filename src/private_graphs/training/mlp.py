"""Per-record DP-SGD for fully connected networks, with the loop of ``dpsgd``.

The gradient of a linear layer at one record is an outer product, so its norm has a closed form,
|input|² |error|², and no record's gradient is ever stored (Goodfellow 2015). Microbatches clip the
mean gradient of a fixed group of records as one (McMahan et al. 2018); its norm follows from the
group's Gram matrices.

Sums of clipped gradients and norms are float64, and noise is added before anything is rounded to
float32 (docs/privacy.md §3). A record's contribution depends on its position in the minibatch (by
rounding), but on no other record. A record without a label keeps its position and contributes
nothing; a removed record is represented this way, so that no other record moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from private_graphs.core.streams import PublicStreams
from private_graphs.mechanisms.descent import Descent
from private_graphs.training.dpsgd import (
    Order,
    Sgd,
    Stopping,
    Watched,
    clip_factors,
    descend,
    minibatches,
)

_CHUNK = 2048
"""Approximate number of records whose arrays are in memory at a time."""
LAYER_BITS = 28
"""Bits (of 32) of the counter of a hidden layer's random bytes; the others are the layer's
number."""
Masks = Callable[[int, np.ndarray, int], np.ndarray]
"""(number of a hidden layer, records (m,), units) → (m, units) random bytes of dropout."""
CANCELLED = 2.0**-40
"""Rounding error of a Gram matrix, relative to its largest possible sum; for layers of 8,000
inputs."""


def dropout_threshold(dropout: float) -> int:
    """Return the smallest random byte that keeps a hidden unit."""
    return min(255, round(256 * dropout))


def masks_in_turn(generator: np.random.Generator) -> Masks:
    """Return masks that follow each other: a record's depends on its place in the minibatch."""
    return lambda layer, records, units: np.frombuffer(
        generator.bytes(len(records) * units), dtype=np.uint8
    ).reshape(-1, units)


def masks_by_record(key: np.ndarray, step: int) -> Masks:
    """Return the masks of a step that depend on a record's number alone."""
    from private_graphs.training.noise import fill_flat_words  # importing Numba takes .5 s

    def drawn(layer: int, records: np.ndarray, units: int) -> np.ndarray:
        counters = -(-units // 16)
        words = np.empty((len(records), 4 * counters), dtype=np.uint32)
        for record, row in zip(records.tolist(), words, strict=True):
            fill_flat_words(key, step, (layer << LAYER_BITS) + record * counters, row)
        return words.view(np.uint8)[:, :units]

    return drawn


@dataclass(frozen=True)
class Net:
    """Linear layers with ReLU and dropout between them: (pixels, hidden, …, classes)."""

    sizes: tuple[int, ...]

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return sum((rows + 1) * columns for rows, columns in self._shapes())

    def _shapes(self) -> list[tuple[int, int]]:
        return list(zip(self.sizes[:-1], self.sizes[1:], strict=True))

    def layers(self, flat: Any) -> list[tuple[Any, Any]]:
        """Return views of flat arrays or tensors (…, P): weights (…, in, out), biases (…, out)."""
        views, begin = [], 0
        for rows, columns in self._shapes():
            end = begin + rows * columns
            weights = flat[..., begin:end].reshape(*flat.shape[:-1], rows, columns)
            views.append((weights, flat[..., end : end + columns]))
            begin = end + columns
        return views

    def start(self, generator: np.random.Generator) -> np.ndarray:
        """Return (P,) float32, uniform within 1/sqrt(inputs) as ``torch.nn.Linear`` starts."""
        flat = np.empty(self.n_parameters, dtype=np.float32)
        for (rows, columns), (weights, biases) in zip(
            self._shapes(), self.layers(flat), strict=True
        ):
            bound = 1 / math.sqrt(rows)
            weights[:] = generator.uniform(-bound, bound, size=(rows, columns))
            biases[:] = generator.uniform(-bound, bound, size=columns)
        return flat


@dataclass(frozen=True)
class MlpTraining:
    """Training settings that all replicas of a batch share."""

    epochs: int
    lot_size: int
    """Records of a minibatch, on average under Poisson sampling; all records form one full
    batch."""
    lots: Literal["shuffled", "poisson"]
    """Fixed-size minibatches in a fresh random order every epoch, or independent coins every
    step."""
    learning_rate: float
    clip_norm: float
    """Clip norm of each record's or microbatch's gradient; infinity: the minibatch's mean
    gradient is used without clipping, as in training without DP."""
    dropout: float = 0.0
    dropout_epochs: int | None = None
    """Number of initial epochs with dropout; None: all."""
    microbatch: int = 1
    """Number of records whose mean gradient is clipped as one: record i is in group i //
    microbatch."""

    @property
    def divisor(self) -> float:
        """Return the public divisor of the noisy sum, or of the noisy mean of a minibatch."""
        return 1.0 if math.isinf(self.clip_norm) else self.lot_size / self.microbatch


@dataclass(frozen=True)
class TrainedMlp:
    """Result of one replica."""

    parameters: np.ndarray
    """(P,) float32."""
    epochs: int
    """Number of epochs run."""


def train(
    net: Net,
    steps: MlpTraining,
    rows: np.ndarray,
    labels: np.ndarray,
    streams: Sequence[PublicStreams],
    descent: Descent,
    *,
    watched: Watched | None = None,
    threads: int = 1,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> list[TrainedMlp]:
    """Train one replica per element of ``streams`` on n records; replicas are independent.

    ``rows`` (n, d) are bytes, scaled by 1/255, or float32; ``labels`` (n,) int64, -1 for a record
    without a label, which contributes nothing. ``watched`` stops replicas early. ``progress`` is
    called with (replica-epochs done, all). A ``device`` other than the CPU trains all replicas at
    once, and draws noise and dropout on the device (``torch_dpsgd``).
    """
    descent.check_clip(steps.clip_norm)
    if watched is not None:
        descent.may_stop()
    if device != "cpu":
        from private_graphs.training import torch_dpsgd  # imports torch

        kind = device.removeprefix("torch-")
        return torch_dpsgd.train(
            net, steps, rows, labels, streams, descent, kind, watched, progress
        )
    done = [0] * len(streams)

    def one(number: int) -> TrainedMlp:
        def report(epochs: int) -> None:
            done[number] = epochs
            if progress is not None:
                progress(sum(done), len(streams) * steps.epochs)

        lane_descent = descent.of_lanes([number])
        return _descend(net, steps, rows, labels, streams[number], lane_descent, watched, report)

    with threadpool_limits(limits=1), ThreadPoolExecutor(max(1, threads)) as pool:
        return list(pool.map(one, range(len(streams))))


def _descend(
    net: Net,
    steps: MlpTraining,
    rows: np.ndarray,
    labels: np.ndarray,
    streams: PublicStreams,
    descent: Descent,
    watched: Watched | None,
    report: Callable[[int], None],
) -> TrainedMlp:
    """Train one replica."""
    lots, public = Lots(steps, len(rows), descent), descent.public_places
    masks = masks_in_turn(streams.generator("dropout"))
    stopping, epochs = Stopping.of(watched, steps.lot_size, streams), 0
    parameters = net.start(streams.generator("initial"))
    drawn = lots.drawn()

    def clipped(drops: bool, masks: Masks, groups: Sequence[np.ndarray]) -> np.ndarray:
        lot = lots.records(np.sort(groups[0]))
        total = gradient_sum(
            net, parameters, rows, labels, lot,
            clip_norm=steps.clip_norm,
            dropout=steps.dropout if drops else 0.0,
            masks=masks,
            microbatch=steps.microbatch,
        )  # fmt: skip
        if math.isinf(steps.clip_norm):
            total /= max(1, len(lot))
        return total[None]

    for epoch in range(steps.epochs):
        drops = steps.dropout_epochs is None or epoch < steps.dropout_epochs
        for step in range(epoch * lots.per_epoch, (epoch + 1) * lots.per_epoch):
            if public:
                masks = masks_by_record(streams.key("dropout"), step)
            next(descend(
                parameters[None], partial(clipped, drops, masks), descent,
                Sgd(steps.learning_rate / steps.divisor), 1, drawn, lots.n_groups,
            ))  # fmt: skip
        epochs = epoch + 1
        if stopping and stopping.stops(mean_loss(net, parameters, watched, stopping.batch())):
            break
        report(epochs)
    report(steps.epochs)
    return TrainedMlp(parameters, epochs)


@dataclass(frozen=True)
class Lots:
    """Minibatches of some replicas: of records, or of microbatch groups."""

    steps: MlpTraining
    n_records: int
    descent: Descent

    @property
    def n_groups(self) -> int:
        """Number of records, or of microbatch groups."""
        return -(-self.n_records // self.steps.microbatch)

    @property
    def order(self) -> Order:
        """Sampling of minibatches."""
        return "full" if self.steps.lot_size >= self.n_records else self.steps.lots

    @property
    def per_epoch(self) -> int:
        """Number of steps of an epoch."""
        if self.order == "shuffled":
            return -(-self.n_groups // (self.steps.lot_size // self.steps.microbatch))
        return -(-self.n_records // self.steps.lot_size)

    def drawn(self) -> Iterator[list[np.ndarray]]:
        """Yield the groups of each replica's minibatches, without end."""
        steps = self.steps
        size, rate = steps.lot_size // steps.microbatch, steps.lot_size / max(1, self.n_records)
        return minibatches(self.descent, self.n_groups, size, self.order, rate)

    def epoch(self) -> Iterator[list[np.ndarray]]:
        """Yield the minibatches of one epoch."""
        return islice(self.drawn(), self.per_epoch)

    def records(self, groups: np.ndarray) -> np.ndarray:
        """Return the records of some groups; those of a microbatch are adjacent.

        The last group may lack members: these have numbers from n on.
        """
        if self.steps.microbatch == 1:
            return groups
        members = np.arange(self.steps.microbatch)
        return (groups[:, None] * self.steps.microbatch + members).ravel()


def gradient_sum(
    net: Net,
    parameters: np.ndarray,
    rows: np.ndarray,
    labels: np.ndarray,
    lot: np.ndarray,
    *,
    clip_norm: float = math.inf,
    dropout: float = 0.0,
    masks: Masks | None = None,
    microbatch: int = 1,
) -> np.ndarray:
    """Return the (P,) float64 sum of the clipped cross-entropy gradients of a minibatch.

    ``lot`` (m,) are the records; those of a microbatch are adjacent; numbers from n on stand for
    members that the last microbatch lacks, and contribute nothing. ``masks`` draws dropout. A
    record (microbatch) with a non-finite gradient contributes nothing; without clipping it makes
    the whole sum zero, since nothing else bounds the sum.
    """
    total = np.zeros(len(parameters))
    chunk = max(1, _CHUNK // microbatch) * microbatch
    # overflow and its consequences are handled below
    with np.errstate(over="ignore", invalid="ignore"):
        for at in range(0, len(lot), chunk):
            part = _Pass(net, parameters, rows, labels, lot[at : at + chunk], dropout, masks)
            part.add(total, clip_norm, microbatch)
    if not np.isfinite(total).all():
        total[:] = 0.0
    return total


def predict(net: Net, parameters: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return (m,) classes of (m, d) rows."""
    everyone = np.arange(len(rows))
    classes = [
        _forward(net.layers(parameters), _inputs(rows, everyone[at : at + _CHUNK]))[-1].argmax(-1)
        for at in range(0, len(rows), _CHUNK)
    ]
    return np.concatenate(classes)


def mean_loss(net: Net, parameters: np.ndarray, watched: Watched, records: np.ndarray) -> float:
    """Return the mean cross-entropy of the labelled ones among ``records``; NaN without any."""
    layers, total = net.layers(parameters), 0.0
    records = records[watched.labels[records] >= 0]
    with np.errstate(over="ignore", invalid="ignore"):
        for at in range(0, len(records), _CHUNK):
            part = records[at : at + _CHUNK]
            logits = _forward(layers, _inputs(watched.rows, part))[-1].astype(np.float64)
            truth = logits[np.arange(len(part)), watched.labels[part]]
            total += float((np.logaddexp.reduce(logits, axis=1) - truth).sum())
    return total / len(records) if len(records) else math.nan


def _inputs(rows: np.ndarray, lot: np.ndarray) -> np.ndarray:
    """Return the (m, d) float32 inputs of a minibatch."""
    if rows.dtype == np.uint8:
        return np.multiply(rows[lot], np.float32(1 / 255), dtype=np.float32)
    return rows[lot]


def _forward(
    layers: list[tuple[np.ndarray, np.ndarray]],
    inputs: np.ndarray,
    keep: Callable[[int, int], np.ndarray] | None = None,
    scale: float = 1.0,
) -> list[np.ndarray]:
    """Return the inputs of all layers, then the logits.

    ``keep``: (number of a hidden layer, units) → which units of each record are kept.
    """
    arrays = [inputs]
    for number, (weights, biases) in enumerate(layers):
        outputs = arrays[-1] @ weights
        outputs += biases
        if number < len(layers) - 1:
            np.maximum(outputs, 0, out=outputs)
            if keep is not None:
                outputs *= keep(number, outputs.shape[1])
                outputs *= np.float32(scale)
        arrays.append(outputs)
    return arrays


class _Pass:
    """Forward and backward pass of a chunk of a minibatch."""

    def __init__(
        self,
        net: Net,
        parameters: np.ndarray,
        rows: np.ndarray,
        labels: np.ndarray,
        lot: np.ndarray,
        dropout: float,
        masks: Masks | None,
    ) -> None:
        self.net, numbers = net, lot
        mask = lot < len(rows)  # the last microbatch may lack members
        lot = np.where(mask, lot, 0)
        mask &= labels[lot] >= 0
        layers = net.layers(parameters)
        threshold = dropout_threshold(dropout)
        self.scale = 256 / (256 - threshold)

        def keep(layer: int, units: int) -> np.ndarray:
            assert masks is not None
            return masks(layer, numbers, units) >= threshold

        drops = keep if threshold else None
        inputs = _inputs(rows, lot)
        if not mask.all():
            inputs[~mask] = 0  # missing and unlabelled records have no inputs
        *self.inputs, logits = _forward(layers, inputs, drops, self.scale)
        self.errors = self._backward(layers, logits, labels[lot], mask)

    def _backward(
        self,
        layers: list[tuple[np.ndarray, np.ndarray]],
        logits: np.ndarray,
        labels: np.ndarray,
        mask: np.ndarray,
    ) -> list[np.ndarray]:
        """Return the gradients by all layers' outputs; zero without a label or where not finite."""
        usable = np.isfinite(logits).all(axis=1) & mask
        np.copyto(logits, 0.0, where=~usable[:, None])
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        logits[np.arange(len(labels)), labels] -= 1
        np.copyto(logits, 0.0, where=~usable[:, None])
        errors = [logits]
        for (weights, _), inputs in zip(layers[:0:-1], self.inputs[:0:-1], strict=True):
            inner = errors[0] @ weights.T
            inner *= inputs > 0
            inner *= np.float32(self.scale)
            errors.insert(0, inner)
        return errors

    def add(self, total: np.ndarray, clip_norm: float, microbatch: int) -> None:
        """Add the clipped gradients of the chunk to ``total`` (P,)."""
        pairs = list(zip(self.inputs, self.errors, strict=True))
        if math.isfinite(clip_norm):
            pairs = [[array.astype(np.float64) for array in pair] for pair in pairs]
            scale = clip_factors(_squared_norms(pairs, microbatch), clip_norm) / microbatch
            scale = np.repeat(scale, microbatch)[:, None]
            if not scale.all():  # 0 times a non-finite value stays non-finite
                pairs = [[np.where(scale > 0, array, 0.0) for array in pair] for pair in pairs]
            for _, errors in pairs:
                errors *= scale
        for (weights, biases), (inputs, errors) in zip(self.net.layers(total), pairs, strict=True):
            weights += inputs.T @ errors
            biases += errors.sum(axis=0)


def _squared_norms(pairs: list[list[np.ndarray]], microbatch: int) -> np.ndarray:
    """Return the squared norms of groups' mean gradients, over all layers and biases."""
    squares = sum(
        (np.einsum("ij,ij->i", inputs, inputs) + 1) * np.einsum("ij,ij->i", errors, errors)
        for inputs, errors in pairs
    )
    if microbatch == 1:
        return squares
    squared = 0.0
    for pair in pairs:  # |Σ a ⊗ e|² = Σ (a·a′)(e·e′) over the pairs of a group
        grouped = [array.reshape(-1, microbatch, array.shape[1]) for array in pair]
        inputs, errors = (array @ array.transpose(0, 2, 1) for array in grouped)
        squared = squared + ((inputs + 1) * errors).sum(axis=(1, 2))
    # Gradients that cancel leave rounding errors of their own size: never underestimate the norm.
    most = np.sqrt(squares).reshape(-1, microbatch).sum(axis=1) ** 2
    return (np.maximum(squared, 0.0) + CANCELLED * most) / microbatch**2
