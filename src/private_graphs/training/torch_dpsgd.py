"""Per-record DP-SGD of many replicas at once in PyTorch: what a GPU runs (see ``mlp``).

Arithmetic, minibatches and initial parameters are those of ``mlp``, replica by replica. Noise and
dropout are drawn on the device, under the keys of the same streams (``torch_noise``). The record
numbers of all minibatches are sent to the device once per epoch; in between there is no transfer
and no wait for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from private_graphs.core.streams import PublicStreams
from private_graphs.mechanisms.descent import Descent
from private_graphs.training import torch_noise
from private_graphs.training.dpsgd import Sgd, Stopping, Watched, clip_factors
from private_graphs.training.mlp import (
    CANCELLED,
    LAYER_BITS,
    Lots,
    MlpTraining,
    Net,
    TrainedMlp,
    dropout_threshold,
)
from private_graphs.training.torch_backend import chunks_that_fit, free_bytes

_FILLED_TO = 64
"""Minibatches are padded to a multiple of this many groups."""
_EVALUATED = 8192
"""Number of records whose loss is computed at a time."""
_BYTES_PER_PARAMETER = 160
"""Memory per parameter of a replica: float32 value, float64 sum, noise and its computation."""
_BYTES_PER_UNIT = 64
"""Memory per unit of a record: its activation and error as float32 and float64, and a random
draw."""


def train(
    net: Net,
    steps: MlpTraining,
    rows: np.ndarray,
    labels: np.ndarray,
    streams: Sequence[PublicStreams],
    descent: Descent,
    device: str,
    watched: Watched | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[TrainedMlp]:
    """Train as ``mlp.train``, with as many replicas at once as fit into the device's memory."""
    kind = torch.device(device)
    data = torch.from_numpy(rows).to(kind), torch.from_numpy(labels).to(kind)
    per_replica = _BYTES_PER_PARAMETER * net.n_parameters
    trained: list[TrainedMlp] = []
    for chunk in chunks_that_fit([per_replica] * len(streams), free_bytes(kind) // 2):
        places = range(len(streams))[chunk]
        batch = _DeviceBatch(net, steps, *data, streams[chunk], descent.of_lanes(places), watched)
        for epoch in range(steps.epochs):
            batch.epoch(epoch)
            if progress is not None:
                done = len(trained) * steps.epochs + (epoch + 1) * len(places)
                progress(done, len(streams) * steps.epochs)
            if not len(batch.numbers):
                break
        trained += batch.trained()
    return trained


class _DeviceBatch:
    """Replicas that train together, on the device of their data."""

    def __init__(
        self,
        net: Net,
        steps: MlpTraining,
        rows: torch.Tensor,
        labels: torch.Tensor,
        streams: Sequence[PublicStreams],
        descent: Descent,
        watched: Watched | None,
    ) -> None:
        self.descent = descent
        self.net, self.steps, self.rows, self.labels = net, steps, rows, labels
        self.theta = self._sent([net.start(seed.generator("initial")) for seed in streams])
        self.noise_key = self._sent(descent.keys().astype(np.int64))
        self.dropout_key = self._sent([seed.key("dropout").astype(np.int64) for seed in streams])
        self.std = self._sent(descent.stds)[:, None]
        self.lots = Lots(steps, len(rows), descent)
        self.watches = [Stopping.of(watched, steps.lot_size, seed) for seed in streams]
        self.watched = watched and [
            torch.from_numpy(array).to(rows.device) for array in (watched.rows, watched.labels)
        ]
        self.numbers, self.epochs = np.arange(len(streams)), 0
        self.done: dict[int, TrainedMlp] = {}
        self.clock = torch.zeros((), dtype=torch.int64, device=rows.device)
        record = _BYTES_PER_UNIT * len(streams) * (sum(net.sizes) + 2 * steps.microbatch)
        room = free_bytes(rows.device) // 4 // record
        self.chunk = max(1, room // steps.microbatch) * steps.microbatch

    def _sent(self, arrays: Sequence[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.stack(arrays)).to(self.rows.device)

    def epoch(self, number: int) -> None:
        """Take the steps of an epoch."""
        steps = self.steps
        drops = steps.dropout_epochs is None or number < steps.dropout_epochs
        for lots, sizes in self._drawn():
            total = gradient_sums(
                self.net, self.theta, self.rows, self.labels, lots,
                clip_norm=steps.clip_norm, microbatch=steps.microbatch, chunk=self.chunk,
                threshold=dropout_threshold(steps.dropout) if drops else 0,
                draw=lambda units: torch_noise.bytes_of(self.dropout_key, self.clock, units),
                by_record=self.descent.public_places,
            )  # fmt: skip
            if not math.isfinite(steps.clip_norm):
                total = total / sizes.clamp(min=1)[:, None]
            if self.descent.stds.any():
                total += self.std * torch_noise.normals(
                    self.noise_key, self.clock, total.shape[1], torch.float64
                )
            Sgd(steps.learning_rate / steps.divisor).step(self.theta, total)
            self.clock += 1
            self.descent.taken(range(len(self.theta)))
        self.epochs += 1
        if self.watched is not None:
            self._leave(np.array([
                watch.stops(_mean_loss(self.net, theta, *self.watched, watch.batch()))  # type: ignore[call-arg]
                for watch, theta in zip(self.watches, self.theta, strict=True)
            ]))  # fmt: skip

    def _leave(self, gone: np.ndarray) -> None:
        """Remove the replicas of the mask ``gone`` (R,); no other one depends on them."""
        if not gone.any():
            return
        for index in np.flatnonzero(gone):
            row = self.theta[int(index)].cpu().numpy()
            self.done[int(self.numbers[index])] = TrainedMlp(row, self.epochs)
        stay = np.flatnonzero(~gone)
        self.numbers, self.watches = self.numbers[stay], [self.watches[i] for i in stay]
        self.descent = self.descent.of_lanes(stay)
        self.lots = Lots(self.steps, len(self.rows), self.descent)
        rows = torch.from_numpy(stay).to(self.theta.device)
        self.theta, self.noise_key, self.dropout_key, self.std = (
            tensor[rows] for tensor in (self.theta, self.noise_key, self.dropout_key, self.std)
        )

    def _drawn(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the records (R, W) of each step, -1 as padding, and their numbers (R,)."""
        drawn = [[self.lots.records(np.sort(lot)) for lot in lots] for lots in self.lots.epoch()]
        sizes = np.array([[len(lot) for lot in lots] for lots in drawn])
        filled = _FILLED_TO * self.steps.microbatch
        table = np.full((*sizes.shape, -(-max(1, sizes.max()) // filled) * filled), -1)
        for step, lots in enumerate(drawn):
            for replica, lot in enumerate(lots):
                table[step, replica, : len(lot)] = lot
        yield from zip(self._sent(table), self._sent(sizes), strict=True)

    def trained(self) -> list[TrainedMlp]:
        """Return the replicas, in the order of their streams."""
        self._leave(np.full(len(self.numbers), True))
        return [self.done[number] for number in sorted(self.done)]


def gradient_sums(
    net: Net,
    theta: torch.Tensor,
    rows: torch.Tensor,
    labels: torch.Tensor,
    lots: torch.Tensor,
    *,
    clip_norm: float = math.inf,
    microbatch: int = 1,
    threshold: int = 0,
    draw: Callable[[torch.Tensor], torch.Tensor] | None = None,
    by_record: bool = False,
    chunk: int | None = None,
) -> torch.Tensor:
    """Return (R, P) float64 sums of clipped gradients of R minibatches (see ``mlp.gradient_sum``).

    ``theta`` (R, P) float32; ``lots`` (R, W) record numbers, padded with numbers outside [0, n).
    ``draw`` returns 16 random bytes for each of the units (R, U); a byte below ``threshold`` drops.
    ``by_record``: units follow from the number of a record, not from its place in the minibatch.
    ``chunk``: number of records per minibatch in memory at a time, whole microbatches; None: all.
    """
    total = torch.zeros(theta.shape, dtype=torch.float64, device=theta.device)
    chunk = chunk or lots.shape[1]
    for at in range(0, lots.shape[1], chunk):
        part = lots[:, at : at + chunk]
        places = torch.arange(at, at + part.shape[1], device=part.device).expand_as(part)
        places = part.clamp(min=0) if by_record else places
        device_pass = _DevicePass(net, theta, rows, labels, part, threshold, draw, places)
        device_pass.add(total, clip_norm, microbatch)
    return torch.where(torch.isfinite(total).all(dim=1, keepdim=True), total, 0.0)


def _mean_loss(
    net: Net, theta: torch.Tensor, rows: torch.Tensor, labels: torch.Tensor, records: np.ndarray
) -> float:
    """``mlp.mean_loss`` of one replica ``theta`` (P,)."""
    total, count = 0.0, 0
    for part in torch.from_numpy(records).to(rows.device).split(_EVALUATED):
        part = part[labels[part] >= 0]
        outputs = rows[part] * (1 / 255) if rows.dtype == torch.uint8 else rows[part]
        for number, (weights, biases) in enumerate(net.layers(theta)):
            outputs = torch.addmm(biases, outputs.relu() if number else outputs, weights)
        logits, targets = outputs.double(), labels[part]
        total += float(torch.nn.functional.cross_entropy(logits, targets, reduction="sum"))
        count += len(part)
    return total / count if count else math.nan


class _DevicePass:
    """Forward and backward pass of a chunk of each minibatch.

    The random bytes of a hidden layer follow from ``places`` (R, W), never from chunks or padding.
    """

    def __init__(
        self,
        net: Net,
        theta: torch.Tensor,
        rows: torch.Tensor,
        labels: torch.Tensor,
        lots: torch.Tensor,
        threshold: int,
        draw: Callable[[torch.Tensor], torch.Tensor] | None,
        places: torch.Tensor,
    ) -> None:
        self.net = net
        mask = (lots >= 0) & (lots < len(rows))
        lots = torch.where(mask, lots, 0)
        labels = labels[lots]
        mask &= labels >= 0
        scale = 256 / (256 - threshold)
        layers = net.layers(theta)
        taken = torch.where(mask[:, :, None], rows[lots], 0)  # padding reads no record
        self.inputs = [taken * (1 / 255) if rows.dtype == torch.uint8 else taken]
        for number, (weights, biases) in enumerate(layers):
            outputs = torch.baddbmm(biases[:, None], self.inputs[-1], weights)
            if number < len(layers) - 1:
                outputs = outputs.relu()
                if threshold:
                    units = torch.arange(-(-outputs.shape[2] // 16), device=lots.device)
                    chosen = (number << LAYER_BITS) + places[:, :, None] * len(units) + units
                    drawn = draw(chosen.flatten(1)).unflatten(1, (-1, 16 * len(units)))
                    outputs = outputs * (drawn[:, :, : outputs.shape[2]] >= threshold) * scale
            self.inputs.append(outputs)
        logits = self.inputs.pop()
        usable = (torch.isfinite(logits).all(dim=2) & mask)[:, :, None]
        logits = torch.where(usable, logits, 0.0).softmax(dim=2)
        labels = labels.clamp(min=0)[:, :, None]
        one_hot = torch.arange(logits.shape[2], device=logits.device) == labels
        self.errors = [torch.where(usable, logits - one_hot.float(), 0.0)]
        for (weights, _), inputs in zip(layers[:0:-1], self.inputs[:0:-1], strict=True):
            inner = self.errors[0] @ weights.transpose(1, 2)
            self.errors.insert(0, inner * (inputs > 0) * scale)

    def add(self, total: torch.Tensor, clip_norm: float, microbatch: int) -> None:
        """Add the clipped gradients of the chunk to ``total`` (R, P)."""
        pairs = [
            (inputs.double(), errors.double())
            for inputs, errors in zip(self.inputs, self.errors, strict=True)
        ]
        if math.isfinite(clip_norm):
            factors = clip_factors(_squared_norms(pairs, microbatch), clip_norm) / microbatch
            factors = factors.repeat_interleave(microbatch, dim=1)[:, :, None]
            pairs = [  # 0 times a non-finite value stays non-finite
                tuple(torch.where(factors > 0, array, 0.0) for array in pair) for pair in pairs
            ]
            pairs = [(inputs, errors * factors) for inputs, errors in pairs]
        for (weights, biases), (inputs, errors) in zip(self.net.layers(total), pairs, strict=True):
            weights += inputs.transpose(1, 2) @ errors
            biases += errors.sum(dim=1)


def _squared_norms(pairs: list[tuple[torch.Tensor, torch.Tensor]], microbatch: int) -> torch.Tensor:
    """Return squared norms (R, groups) of mean gradients, over all layers and biases."""
    squares = sum(
        (inputs.square().sum(dim=2) + 1) * errors.square().sum(dim=2) for inputs, errors in pairs
    )
    if microbatch == 1:
        return squares
    squared: Any = 0.0
    for pair in pairs:
        inputs, errors = (tensor.unflatten(1, (-1, microbatch)) for tensor in pair)
        inputs, errors = inputs @ inputs.transpose(2, 3), errors @ errors.transpose(2, 3)
        squared = squared + ((inputs + 1) * errors).sum(dim=(2, 3))
    most = squares.sqrt().unflatten(1, (-1, microbatch)).sum(dim=2).square()
    return (squared.clamp(min=0.0) + CANCELLED * most) / microbatch**2
