"""The DP-SGD loop (Abadi et al., CCS 2016, Algorithm 1).

Every step takes a minibatch of units, sums their clipped gradients, lets the door add the planned
noise (``mechanisms.descent``), and updates the parameters. An engine provides the sum of the
clipped gradients of some units; minibatches, clip factors, optimizers and early stopping are here.
Steps on a GPU (``torch_dpsgd``) use these parts in the same order. Compiled steps have their own:
``roots`` shares the safe clip norm, the GCN (``kernels``, ``engine``) nothing.

Arrays are NumPy's or PyTorch's; R is the number of replicas, P that of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from private_graphs.mechanisms.descent import Descent

ROUNDING = 64
"""Safety margin of clipped norms below the bound, in rounding units of the floating-point type."""

Order = Literal["full", "poisson", "shuffled", "whole", "fixed"]
"""Sampling of minibatches. ``full``: all units. ``poisson``: an independent coin per unit and
step. ``shuffled``: consecutive parts of a random order per epoch, the last part smaller.
``whole``: the same without a smaller last part. ``fixed``: a fixed number of units without
replacement in each step."""


def safe_norm(clip_norm: float, dtype: Any) -> float:
    """Return the bound for clipping norms that are computed in ``dtype``."""
    return clip_norm * (1 - ROUNDING * float(np.finfo(dtype).eps))


def clip_factors(squared_norms: Any, clip_norm: float, margin: float | None = None) -> Any:
    """Return min(1, C / norm) for squared norms of any shape; 0 where they are not finite.

    ``margin`` is the relative safety margin of the norm; None: ``ROUNDING`` units of the type.
    """
    array = isinstance(squared_norms, np.ndarray)
    if margin is None:
        dtype = squared_norms.dtype if array else str(squared_norms.dtype).removeprefix("torch.")
        safe = safe_norm(clip_norm, dtype)
    else:
        safe = clip_norm * (1 - margin)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        factors = safe / squared_norms**0.5
        factors = np.minimum(factors, 1.0) if array else factors.clip(max=1.0)
    factors[~(squared_norms < math.inf)] = 0.0
    return factors


def minibatches(
    descent: Descent, population: int, size: int, order: Order, rate: float = 1.0
) -> Iterator[list[np.ndarray]]:
    """Yield the positions of each replica's units in every step, without end.

    ``size`` is public; Poisson sampling uses the rates of the queries (``rate`` without DP). Only
    its coins are secret: the other orders give no privacy amplification.
    """
    while order == "poisson":
        yield descent.join(population, rate)
    generators = descent.orders()
    while order == "full":
        yield [np.arange(population)] * len(generators)
    while order == "fixed":
        yield [rng.choice(population, size, replace=False, shuffle=False) for rng in generators]
    size = max(1, size)
    last = population // size * size if order == "whole" else population
    while True:
        orders = [rng.permutation(population) for rng in generators]
        for start in range(0, max(1, last), size):
            yield [permutation[start : start + size] for permutation in orders]


def _of_type(values: Any, like: Any) -> Any:
    """Return ``values`` rounded to the type of ``like``."""
    return values.astype(like.dtype) if isinstance(values, np.ndarray) else values.to(like.dtype)


@dataclass
class Sgd:
    """Plain SGD on noisy sums, computed in float64 up to the parameter update."""

    rate: float
    """Learning rate divided by the public divisor that stands for the minibatch size."""

    def step(self, parameters: Any, total: Any) -> None:
        """Update ``parameters`` (…, P) in place, against ``total`` of the same shape."""
        parameters -= _of_type(self.rate * total, parameters)


class Adam:
    """Adam (Kingma & Ba 2015) on (R, P) tensors, with one learning rate per replica."""

    def __init__(self, rates: Sequence[float], divisor: float = 1.0) -> None:
        """``divisor`` is the public divisor of the sums."""
        self.rates, self.divisor, self.steps = rates, divisor, 0
        self._moments: tuple[Any, Any] | None = None

    def step(self, parameters: Any, total: Any) -> None:
        """Update ``parameters`` (R, P) in place, against ``total`` of the same shape."""
        import torch

        if self._moments is None:
            self._moments = torch.zeros_like(parameters), torch.zeros_like(parameters)
        first, second = self._moments
        gradient = _of_type(total / self.divisor, parameters)
        self.steps += 1
        first.lerp_(gradient, 0.1)
        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        size = second.sqrt().div_(math.sqrt(1 - 0.999**self.steps)).add_(1e-8)
        rates = torch.tensor(self.rates, dtype=torch.float32)[:, None]
        parameters.sub_(rates * first.div(size) / (1 - 0.9**self.steps))


def descend(
    parameters: Any,
    clipped_sum: Callable[[Sequence[np.ndarray]], Any],
    descent: Descent,
    optimizer: Sgd | Adam,
    steps: int,
    lots: Iterator[list[np.ndarray]] | None = None,
    population: int = 0,
    *,
    public: Callable[[Any], Any] = lambda total: total,
) -> Iterator[int]:
    """Take ``steps`` noisy steps that update ``parameters`` (R, P) in place; yield after each.

    ``clipped_sum`` returns (R, P) float64 sums of the clipped gradients of the units at a
    minibatch's positions, out of ``population`` positions. Without ``lots`` every step takes all
    units, and ``clipped_sum`` gets no positions. ``public`` post-processes a noisy sum with public
    data.
    """
    for step in range(steps):
        if lots is None:
            total = descent.add(clipped_sum(()))
        else:
            total = descent.take(clipped_sum, next(lots), population)
        optimizer.step(parameters, public(total))
        descent.public("parameters", parameters)
        yield step


@dataclass(frozen=True, eq=False)
class Watched:
    """Public labelled records whose loss stops the training of a replica early.

    As in the code of LREC 2022: after every epoch the records are cut into batches of the minibatch
    size in a fresh random order, and the rule reads the mean cross-entropy of the *last* batch.
    """

    rows: np.ndarray
    """(V, d), in the form of the training rows."""
    labels: np.ndarray
    """(V,) int64, -1 for a record without a label."""
    patience: int
    """Consecutive epochs with a loss above the minimum so far, after which training ends."""


@dataclass
class Stopping:
    """Early stopping of one replica."""

    patience: int
    n_records: int
    first: int
    """Index of the first record of the last batch."""
    generator: np.random.Generator
    best: float = math.inf
    stale: int = 0

    @classmethod
    def of(cls, watched: Watched | None, size: int, streams: Any) -> Stopping | None:
        """Return the rule of a replica with minibatches of ``size``; None without a rule."""
        if watched is None:
            return None
        n_records = len(watched.labels)
        first = (n_records - 1) // size * size
        return cls(watched.patience, n_records, first, streams.generator("stopping"))

    def batch(self) -> np.ndarray:
        """Draw the last batch of an epoch: record indices."""
        return np.sort(self.generator.permutation(self.n_records)[self.first :])

    def stops(self, loss: float) -> bool:
        """Take the loss of an epoch (equal counts as lower); return whether training ends."""
        if loss > self.best:
            self.stale += 1
        else:
            self.best, self.stale = loss, 0
        return self.stale >= self.patience
