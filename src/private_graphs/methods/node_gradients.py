"""DP gradient descent with one clipped gradient per node, for a batch of models at once.

Each step clips the global norm of every node's gradient to C, adds one Gaussian noise to the sum,
and divides by a public number (Abadi et al., CCS 2016, Algorithm 1, with every example in every
step). A replaced node changes each sum by at most 2C. Per-node norms have a closed form, so that no
per-node gradient is ever stored (Goodfellow 2015).

Products and sums are float64 whatever the type of the parameters. A computed term of a node depends
by rounding on which nodes stand beside it, as a library multiplies matrices of other sizes in other
ways. In float64 a logit over d columns is within d·2^-53·|W| of the exact one in any order, so that
a node that is replaced, or loses its label, moves the terms of all n others together by at most
n·√K·d·2^-52·|W|, and the sum by n² rounding units of 1e-16 C more; measured, it is below 1e-9 C for
weights W of norm 1,000 and more. In float32 others moved by up to 3e-4 C.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from private_graphs.mechanisms.descent import Descent
from private_graphs.privacy.calibration import gdp_noise
from private_graphs.privacy.events import FullBatch, NoisyGradients
from private_graphs.tasks.graph_task import GraphTask
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.method import Request
from private_graphs.training import dpsgd
from private_graphs.training.dpsgd import Sgd, clip_factors

_BLOCK = 500_000
"""Maximum number of entries of the largest array of one block of rows."""


@dataclass(frozen=True)
class ModelTraining:
    """Training settings of all models of a batch."""

    count: int
    learning_rate: float
    clip_norm: float

    @property
    def average_from(self) -> int:
        """Number of steps before the first averaged iterate: the last half is averaged."""
        return self.count // 2


def errors_of(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return (b, R, K) gradients of the cross-entropy by the logits: softmax minus one-hot.

    The gradient is zero if the logits are not finite. ``logits`` is overwritten.
    """
    usable = np.isfinite(logits).all(axis=-1, keepdims=True)
    if not usable.all():
        np.copyto(logits, 0.0, where=~usable)
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    logits[np.arange(len(labels)), :, labels] -= 1
    return logits if usable.all() else np.where(usable, logits, 0.0)


def descend(
    model: Linear,
    start: np.ndarray,
    rows: np.ndarray,
    labels: np.ndarray,
    steps: ModelTraining,
    descent: Descent,
    *,
    divisor: float,
) -> np.ndarray:
    """Train R models from ``start`` (R, P) on n nodes; return (R, P) averaged iterates.

    ``descent`` adds the noise of every step; ``divisor`` is public.
    """
    descent.check_clip(steps.clip_norm)
    parameters = start.astype(rows.dtype, copy=True)
    average = np.zeros_like(parameters)

    def clipped(_: object) -> np.ndarray:
        return clipped_total(model, parameters, rows, labels, steps.clip_norm)

    optimizer = Sgd(steps.learning_rate / divisor)
    for step in dpsgd.descend(parameters, clipped, descent, optimizer, steps.count):
        if step >= steps.average_from:
            average += parameters
    return average / (steps.count - steps.average_from)


def full_batches(
    task: GraphTask | ImageTask, request: Request, steps: int, clip_norm: float
) -> NoisyGradients | None:
    """Return the query of one noisy sum per step, each unit a part of its own; None without DP."""
    if not request.private:
        return None
    return NoisyGradients(
        clipping="per_record",
        clip_norm=clip_norm,
        noise_multiplier=gdp_noise(request.epsilon, steps, task.delta, "replace"),
        releases=steps,
        epochs=steps,
        sampling=FullBatch(parts=task.n_units),
    )


def clipped_total(
    model: Linear, parameters: np.ndarray, rows: np.ndarray, labels: np.ndarray, clip_norm: float
) -> np.ndarray:
    """Return the sum of the clipped gradients of all nodes (R, P) in float64, block by block."""
    total, weights = np.zeros(parameters.shape), parameters.astype(np.float64)
    for block in _blocks(len(rows), len(parameters) * model.width()):
        chunk = rows[block].astype(np.float64)
        total += model.clipped_sum(weights, chunk, labels[block], clip_norm)
    return total


def _blocks(n: int, width: int) -> list[slice]:
    size = max(1, _BLOCK // max(1, width))
    return [slice(first, first + size) for first in range(0, n, size)]


def predict(model: Linear, parameters: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return (R, m) classes of (m, d) rows."""
    classes = [
        model.logits(parameters, rows[block]).argmax(axis=-1)
        for block in _blocks(len(rows), len(parameters) * model.width())
    ]
    return np.concatenate(classes).T.astype(np.int64)


def _outer_sum(rows: np.ndarray, errors: np.ndarray, bias: float) -> np.ndarray:
    """Return the float64 sum of [x, bias] ⊗ error over nodes: (b, d), (b, e) give (d + 1, e)."""
    rows, errors = rows.astype(np.float64), errors.astype(np.float64)
    return np.concatenate([rows.T @ errors, bias * errors.sum(axis=0, keepdims=True)])


@dataclass(frozen=True)
class Linear:
    """Softmax regression: K logits from d columns and a constant column ``bias``.

    R sets of parameters stand in the rows of (R, P).
    """

    n_columns: int
    n_classes: int
    bias: float = 0.3

    def width(self) -> int:
        """Return the entries of the widest array, per node and set of parameters."""
        return self.n_classes

    def start(self, generator: np.random.Generator) -> np.ndarray:
        """Return initial parameters: (d + 1) x K zeros; the last row is the constant's."""
        return np.zeros((self.n_columns + 1) * self.n_classes)

    def logits(self, parameters: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return (b, R, K) class scores of (b, d) rows."""
        count, classes = len(parameters), self.n_classes
        weights = (
            parameters.reshape(count, -1, classes).transpose(1, 0, 2).reshape(-1, count * classes)
        )
        logits = rows @ weights[:-1] + self.bias * weights[-1]
        return logits.reshape(len(rows), count, classes)

    def clipped_sum(
        self, parameters: np.ndarray, rows: np.ndarray, labels: np.ndarray, clip_norm: float
    ) -> np.ndarray:
        """Return (R, P) float64 sums of the clipped gradients of b nodes, [x, bias] ⊗ (p - y)."""
        errors = errors_of(self.logits(parameters, rows), labels)
        sizes = np.einsum("ij,ij->i", rows, rows) + self.bias**2
        scale = clip_factors(np.einsum("ijk,ijk->ij", errors, errors) * sizes[:, None], clip_norm)
        errors *= scale[:, :, None]
        sums = _outer_sum(rows, errors.reshape(len(rows), -1), self.bias)
        count, classes = len(parameters), self.n_classes
        return sums.reshape(-1, count, classes).transpose(1, 0, 2).reshape(count, -1)
