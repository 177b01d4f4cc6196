"""Noisy steps of a training run: a release for each, through the door."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from private_graphs.mechanisms.door import Array, Door, ReleaseMismatch
from private_graphs.privacy.events import NoisyGradients
from private_graphs.privacy.queries import GaussianQuery, PoissonSums


@dataclass(eq=False)
class Descent:
    """Noisy steps of one training run of R replicas."""

    door: Door
    queries: list[Any]
    noise: str
    coins: str
    dtype: type
    toss: Literal["each", "count"]
    without: float = 0.0

    def __post_init__(self) -> None:
        self.stds = np.array([noise_std(step) if step else self.without for step in self.queries])
        """(R,) noise standard deviation of a sum."""
        self._buffer: Array | None = None
        self._tossed = 0  # steps whose coins were tossed and whose noise is not added yet
        self._joined: Sequence[Array] | None = None  # positions that the last coins selected
        self._shown = 0  # compiled steps that the watch has seen

    @property
    def public_places(self) -> bool:
        """Whether draws of the public streams begin at places that follow from public numbers.

        They do under fresh noise and under a replay. With a kept seed they follow each other, as
        they did in recorded runs, so that where the draws of a unit begin follows from private
        sizes or secret coins of others (``privacy.assumptions.HIDDEN_MASKS``).
        """
        fresh = all(lane.streams.secret for lane in self.door.lanes)
        return fresh or self.door.watch.public_places

    @property
    def _counts_on_coins(self) -> bool:
        """Return whether a plan's privacy cost relies on secret sampling of the terms."""
        return any(_rate(query) < 1 for query in self.queries if query is not None)

    def check_clip(self, norm: float) -> None:
        """Raise ReleaseMismatch if the plan does not allow terms clipped to ``norm``.

        Infinity means no clipping. A Gaussian query states its own sensitivity.
        """
        for query in self.queries:
            planned = getattr(query, "clip_norm", norm)
            if isinstance(query, NoisyGradients) and query.clipping == "none":
                planned = math.inf
            if planned != norm:
                raise ReleaseMismatch(f"terms are clipped to {norm}; planned {query}")

    def join(self, population: int, rate: float = 1.0) -> list[Array]:
        """Toss the coins of one step; return the positions in ``population`` that join it.

        Each query has its own sampling rate; ``rate`` is for replicas without DP. Coins belong to
        public positions, whether or not a labelled unit has that position.
        """
        positions = []
        self._tossed += 1
        for lane, query in zip(self.door.lanes, self.queries, strict=True):
            q, draw = rate if query is None else _rate(query), lane.generator(self.coins)
            if self.toss == "each":
                rows = np.flatnonzero(draw.random(population) < q)
            else:
                rows = draw.choice(population, draw.binomial(population, q), False, shuffle=False)
            positions.append(self.door.watch.joined(lane, rows, population))
        self._joined = positions
        return positions

    def join_steps(self, steps: int, population: int) -> list[list[Array]]:
        """Toss the coins of all ``steps`` in advance; return each replica's positions by step."""
        positions = []
        self._tossed += steps
        for lane, query in zip(self.door.lanes, self.queries, strict=True):
            draw = lane.generator(self.coins)
            sizes = draw.binomial(population, _rate(query), steps)
            rows = (draw.permutation(population)[:size] for size in sizes)
            positions.append([self.door.watch.joined(lane, batch, population) for batch in rows])
        return positions

    def orders(self) -> list[np.random.Generator]:
        """Return a generator per replica, for orders and minibatches without amplification.

        Raises:
            ReleaseMismatch: a plan relies on secret sampling, which ``join`` performs.
        """
        if self._counts_on_coins:
            raise ReleaseMismatch("the plan counts on the coins of the door; expected join")
        return [lane.generator(self.coins) for lane in self.door.lanes]

    def step(
        self, clipped: Callable[[Sequence[Array]], Any], population: int, rate: float = 1.0
    ) -> Any:
        """Return the noisy sum of one step; ``clipped(positions)`` computes (R, P) exact sums.

        ``population`` and ``rate`` as in ``join``.
        """
        return self.take(clipped, self.join(population, rate), population)

    def take(
        self, clipped: Callable[[Sequence[Array]], Any], joined: Sequence[Array], population: int
    ) -> Any:
        """Return the noisy sum over the units at ``joined``, chosen by coins or a public order.

        Raises:
            ReleaseMismatch: the plan relies on coins, and the last ones selected other positions.
        """
        if self._counts_on_coins and joined is not self._joined:
            raise ReleaseMismatch("a step sums other units than its coins chose; expected join's")
        total = clipped(joined)
        if self.door.watch.active:
            self.door.watch.terms(self, clipped, joined, total, population)
        return self.add(total)

    def add(self, sums: Any) -> Any:
        """Add the noise of one step to (R, P) float64 ``sums`` (NumPy or PyTorch) in place.

        Raises:
            ReleaseMismatch: the plan relies on coins, and none were tossed for this step.
        """
        if self._tossed:
            self._tossed -= 1
        elif self._counts_on_coins:
            raise ReleaseMismatch("the plan counts on the coins of the door; expected join")
        array = sums.numpy() if hasattr(sums, "numpy") else sums
        watch = self.door.watch
        before = array.copy() if watch.active else array
        if self._buffer is None or self._buffer.shape != array.shape:
            self._buffer = np.zeros(array.shape, self.dtype)
        for row, lane, query in zip(self._buffer, self.door.lanes, self.queries, strict=True):
            if query is not None:
                lane.ledger(self.door.name).spend(query)
            if query is not None or self.without:
                lane.generator(self.noise).standard_normal(dtype=self.dtype, out=row)
        noise = self._buffer.astype(np.float64, copy=False)
        noise *= self.stds[:, None]  # without a copy; the next step draws all of it anew
        array += noise
        if watch.active:
            for row, lane, query, exact in zip(
                array, self.door.lanes, self.queries, before, strict=True
            ):
                row[...] = watch.passed(lane, self.door.name, "step", query, exact, row)
        return sums

    def public(self, name: str, values: Sequence[Any]) -> None:
        """See ``Door.public``."""
        self.door.public(name, values)

    def of_lanes(self, places: Sequence[int]) -> Descent:
        """Return the steps of the replicas at ``places``, for one thread."""
        return Descent(
            self.door.of_lanes(places), [self.queries[index] for index in places], self.noise,
            self.coins, self.dtype, self.toss, self.without,
        )  # fmt: skip

    # --- compiled and GPU code, which draws the noise from counters ---

    def keys(self) -> Array:
        """Return (R, 4) or (R, 8) uint32 keys of counter-based noise."""
        return np.stack([lane.key(self.noise) for lane in self.door.lanes])

    def may_stop(self) -> None:
        """Allow fewer steps than planned, if a public rule ends training early.

        The privacy cost covers all planned steps.
        """
        for lane, query in zip(self.door.lanes, self.queries, strict=True):
            if query is not None:
                lane.ledger(self.door.name).capped.add(query)

    def passed(self, index: int, kind: str, exact: Array, after: Array) -> Array:
        """Show the watch a step of compiled code: its exact sum, and the state ``after`` it."""
        lane = self.door.lanes[index]
        self._shown += self.queries[index] is not None
        return self.door.watch.passed(lane, self.door.name, kind, self.queries[index], exact, after)

    def taken(self, places: Sequence[int], count: int = 1) -> None:
        """Count ``count`` noisy steps that compiled code took for the replicas at ``places``.

        Raises:
            ReleaseMismatch: a watch is active and did not see all of them (GPU steps).
        """
        if self.door.watch.active:
            self._shown -= count * sum(self.queries[index] is not None for index in places)
            if self._shown < 0:
                raise ReleaseMismatch("steps that no watch can see; expected a run on the CPU")
        for index in places:
            query = self.queries[index]
            if query is not None:
                self.door.lanes[index].ledger(self.door.name).spend(query, count)


def noise_std(query: PoissonSums | NoisyGradients | GaussianQuery) -> float:
    """Return the noise standard deviation of one sum."""
    if isinstance(query, GaussianQuery):
        return query.noise_std
    return query.noise_multiplier * query.clip_norm


def _rate(query: PoissonSums | NoisyGradients | GaussianQuery | None) -> float:
    """Return the probability with which a term joins a step."""
    return float(getattr(getattr(query, "sampling", query), "rate", 1.0))
