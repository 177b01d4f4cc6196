"""The door: the one object through which private data leave a run.

A method declares once what it will release: its *plan*, the events from which calibration computes
the privacy cost. Every call of the door takes an exact value and the planned event. The event fixes
how much noise is added, and the door counts its uses: it refuses a release that is not planned or
exceeds the plan, and ``close`` refuses a plan that was not used up. So the code that adds noise and
the code that computes its privacy cost cannot differ.

A door has R replicas, each with its own secret streams (``Lane``). ``batch`` returns a door of some
of them and shares their state, so that no noise is drawn twice. Arrays are (R, …). Each replica has
its own query; None stands for a replica without DP, which gets no noise. Draws come from named
streams; a stream is opened once and then continued, so that two calls never get the same noise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from private_graphs.core.streams import Streams
from private_graphs.privacy.events import Event, NoisyGradients, SecretSample, Unnoised
from private_graphs.privacy.queries import (
    ExponentialChoice,
    GaussianQuery,
    LaplaceQuery,
    PureQuery,
)

if TYPE_CHECKING:
    from private_graphs.mechanisms.descent import Descent

WITHOUT_NOISE = 2.0**-40
"""Lattice spacing of sums that get no noise."""

Array = np.ndarray


class ReleaseMismatch(RuntimeError):
    """A run released something other than its plan declares: a bug in the method, no user error."""


@dataclass(eq=False)
class Ledger:
    """Planned and counted releases of one replica about one public part of the units."""

    plan: tuple[Event, ...] | None = None
    """None: nothing may be released."""
    uses: Counter[Event] = field(default_factory=Counter)
    capped: set[Event] = field(default_factory=set)
    """Events whose count is a cap: the whole count is paid for, fewer uses are allowed."""
    sampled: bool = False
    unnoised: dict[str, Unnoised] = field(default_factory=dict)

    @property
    def flat(self) -> tuple[Event, ...]:
        """Return the planned mechanisms, including those inside a secret sample."""
        parts = (e.releases if isinstance(e, SecretSample) else (e,) for e in self.plan or ())
        return tuple(e for part in parts for e in part if not isinstance(e, Unnoised))

    @property
    def events(self) -> tuple[Event, ...]:
        """Return the events that enter the privacy cost: the plan, and unnoised reads."""
        plan = self.plan or ()
        return (*plan, *(event for event in self.unnoised.values() if event not in plan))

    def spend(self, query: Event, count: int = 1) -> None:
        """Count ``count`` uses of an event.

        Raises:
            ReleaseMismatch: the plan allows fewer.
        """
        uses = self.uses[query]
        if not uses and query not in self.flat:
            raise ReleaseMismatch(f"{query} is released; planned {self.plan}")
        self.uses[query] = uses = uses + count
        if uses > _count(query):
            raise ReleaseMismatch(f"{uses} releases of {query}; planned {_count(query)}")

    def close(self) -> None:
        """Raise ReleaseMismatch if less was released than planned."""
        for query in self.flat:
            missing = self.uses[query] < _count(query) and query not in self.capped
            if missing or self.uses[query] > _count(query):
                raise ReleaseMismatch(
                    f"{self.uses[query]} releases of {query}; planned {_count(query)}"
                )
        for event in self.plan or ():
            if isinstance(event, Unnoised) and event.reason not in self.unnoised:
                raise ReleaseMismatch(f"nothing was read without noise; planned {event}")
        if any(isinstance(event, SecretSample) for event in self.plan or ()) and not self.sampled:
            raise ReleaseMismatch("a secret sample was planned and none was drawn")


def _count(query: Event) -> int:
    """Return how often a plan uses an event."""
    assert not isinstance(query, SecretSample | Unnoised)  # a flat plan has what is in them
    return query.releases if isinstance(query, NoisyGradients) else query.calls or query.count


@dataclass(eq=False)
class Lane:
    """One replica: its secret streams, and its ledger for each part of the units."""

    streams: Streams
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    _opened: dict[str, np.random.Generator] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def ledger(self, part: str) -> Ledger:
        """Return the ledger of a part of the units; "" is the part without a name."""
        if part not in self.ledgers:  # every step asks
            self.ledgers[part] = Ledger()
        return self.ledgers[part]

    def generator(self, stream: str) -> np.random.Generator:
        """Return the generator of a stream; later calls continue the same sequence."""
        if stream not in self._opened:
            self._take(stream)
            self._opened[stream] = self.streams.of_door.generator(stream)
        return self._opened[stream]

    def key(self, stream: str) -> Array:
        """Return the key of a counter-based stream; a second call raises ReleaseMismatch."""
        self._take(stream)
        return self.streams.of_door.key(stream)

    def _take(self, stream: str) -> None:
        if stream in self._taken:
            raise ReleaseMismatch(f"the stream {stream} is opened twice: its noise would repeat")
        self._taken.add(stream)


class Watch:
    """Observer of a door's calls. This one does nothing; those of ``replay`` record and compare."""

    active = False
    public_places = False
    """Whether draws of the public streams must begin at public places (``Descent``)."""

    def passed(self, lane: Lane, part: str, kind: str, query: Any, exact: Any, noisy: Any) -> Any:
        """Return the value to release in place of ``noisy``."""
        return noisy

    def joined(self, lane: Lane, positions: Array, population: int) -> Array:
        """Return the positions that join a step, given those whose coins came up heads."""
        return positions

    def sampled(self, lane: Lane, order: Array, size: int) -> Array:
        """Return the positions in a secret sample: the first ``size`` of a random order."""
        return order[:size]

    def terms(
        self, descent: Descent, clipped: Callable[..., Any], joined: Sequence[Array], total: Any,
        population: int,
    ) -> None:  # fmt: skip
        """Observe the per-unit terms of a step."""

    def public(self, lane: Lane, name: str, value: Array) -> None:
        """Observe a value that is computed from released values."""


UNSEEN = Watch()


@dataclass(frozen=True, eq=False)
class Door:
    """Door of R replicas, for releases about one public part of the units."""

    lanes: Sequence[Lane]
    watch: Watch = UNSEEN
    name: str = ""
    """Name of the part of the units."""

    @classmethod
    def of(cls, streams: Sequence[Streams], watch: Watch = UNSEEN) -> Door:
        """Make the door of replicas with these secret streams."""
        return cls([Lane(stream) for stream in streams], watch)

    def batch(self, requests: Sequence[Any]) -> Door:
        """Return the door of the replicas that answer ``requests``."""
        lanes = {lane.streams.public_id: lane for lane in self.lanes}
        return Door([lanes[run.streams.public_id] for run in requests], self.watch, self.name)

    def of_lanes(self, places: Sequence[int]) -> Door:
        """Return the door of the replicas at ``places``."""
        return Door([self.lanes[index] for index in places], self.watch, self.name)

    def part(self, name: str) -> Door:
        """Return the door for a part of the units that the calls for other parts do not read.

        Parts are a public partition of the units; the privacy cost of a run is that of its
        costliest part.
        """
        return Door(self.lanes, self.watch, name)

    # --- plans ---

    def plan(self, events: Sequence[Sequence[Event]]) -> None:
        """Declare the planned releases of each replica, once, before anything private is read."""
        for lane, planned in zip(self.lanes, events, strict=True):
            ledger = lane.ledger(self.name)
            if ledger.plan is not None:
                raise ReleaseMismatch("a plan is made once, before the first release")
            ledger.plan = tuple(planned)

    def events(self) -> list[tuple[Event, ...]]:
        """Return the events that each replica released about this part of the units."""
        return [lane.ledger(self.name).events for lane in self.lanes]

    def planned(self) -> list[bool]:
        """Return whether each replica has a plan."""
        return [lane.ledger(self.name).plan is not None for lane in self.lanes]

    def inherit(self, events: Sequence[Sequence[Event]]) -> None:
        """Plan and count the releases of another job, whose artifacts are read; refuse others."""
        self.plan(events)
        for lane, planned in zip(self.lanes, events, strict=True):
            ledger = lane.ledger(self.name)
            for query in ledger.flat:
                ledger.spend(query, _count(query))
            ledger.unnoised |= {e.reason: e for e in planned if isinstance(e, Unnoised)}
            ledger.sampled = True

    def close(self) -> None:
        """Raise ReleaseMismatch if a replica released something other than its plan."""
        for lane in self.lanes:
            for ledger in lane.ledgers.values():
                ledger.close()

    # --- releases ---

    def gaussian(
        self,
        exact: Array,
        queries: Sequence[GaussianQuery | None],
        *,
        stream: str = "noise",
        dtype: type = np.float64,
    ) -> Array:
        """Return (R, …) float64: ``exact`` plus the Gaussian noise of each query.

        Float sums are overwritten; ``dtype`` is the type in which normals are drawn. Integers count
        the query's lattice spacings, and get discrete noise (docs/privacy.md §0.6).
        """
        lattice = np.issubdtype(exact.dtype, np.integer)
        released = np.empty(exact.shape) if lattice else exact
        for row, out, lane, query in zip(exact, released, self.lanes, queries, strict=True):
            original = row.copy() if self.watch.active else row
            # Charged before anything is drawn, so that a refused query releases nothing.
            if query is not None:
                if lattice != (query.spacing > 0):
                    raise ReleaseMismatch("integers need a spacing, floats need none")
                lane.ledger(self.name).spend(query)
            # M(x) = f(x) + N(0, σ² I), σ = Δ/μ: exact Gaussian DP with μ (Dong, Roth & Su 2022).
            if lattice:
                out[...] = self._discrete(lane, row, query, stream)
            elif query is not None:
                noise = lane.generator(stream).standard_normal(row.shape, dtype=dtype)
                out += dtype(query.noise_std) * noise
            if self.watch.active:
                out[...] = self.watch.passed(lane, self.name, "gaussian", query, original, out)
        return released

    def _discrete(self, lane: Lane, row: Array, query: GaussianQuery | None, stream: str) -> Array:
        if query is None:
            return row * WITHOUT_NOISE
        from private_graphs.mechanisms.exact import discrete_gaussian  # importing Numba takes .5 s

        # Only integers are drawn and compared (Karney 2016, Algorithm D).
        steps = round(query.noise_std / query.spacing)
        return (row + discrete_gaussian(lane.generator(stream), steps, row.shape)) * query.spacing

    def laplace(
        self,
        exact: Array,
        queries: Sequence[LaplaceQuery | PureQuery | None],
        *,
        sensitivity: float | None = None,
        spacing: float = 0.0,
        weights: Array | float = 1,
        stream: str = "noise",
    ) -> Array:
        """Return (R, …) float64: ``exact`` plus Laplace noise of scale · ``weights``.

        The query's sensitivity is the L1 sensitivity of exact / ``weights``. If the plan gives ε
        alone, the sensitivity is ``sensitivity`` and the scale is sensitivity / ε. Integers count
        spacings of ``spacing`` and get discrete noise with integer ``weights`` (one per row of the
        first axis).
        """
        released = np.empty(exact.shape)
        for row, out, lane, query in zip(exact, released, self.lanes, queries, strict=True):
            lattice = np.issubdtype(row.dtype, np.integer)
            out[...] = row * spacing if lattice else row
            if query is not None:
                lane.ledger(self.name).spend(query)
                draw = lane.generator(stream)
                if isinstance(query, PureQuery):
                    assert sensitivity is not None
                    out += draw.laplace(0, sensitivity / query.epsilon * weights, row.shape)
                elif lattice:
                    out[...] = (
                        row + _discrete_laplace(draw, query, spacing, weights, row)
                    ) * spacing
                else:
                    out += draw.laplace(0, query.scale * np.asarray(weights), row.shape)
            if self.watch.active:
                unit = sensitivity if isinstance(query, PureQuery) else 1.0
                self._set_by(lane, unit, spacing, weights)
                original = (row * spacing if lattice else row) / weights / unit
                out[...] = self.watch.passed(lane, self.name, "laplace", query, original, out)
        return released

    def rows(
        self, exact: Array, query: GaussianQuery | None, mask: Array, *, stream: str = "noise"
    ) -> Array:
        """Return the ``mask`` rows of ``exact`` (n, …) with noise, else NaN; one replica only.

        Every asked row is one release of the query, whose count is a cap that is paid in full,
        because earlier releases may decide which rows are asked. Noise is drawn for all rows, so
        that the draws for a row do not depend on which other rows are asked. ``query`` None adds no
        noise.
        """
        [lane] = self.lanes
        noise = lane.generator(stream).standard_normal(exact.shape)
        noisy = np.full(exact.shape, np.nan)
        noisy[mask] = exact[mask]
        if query is not None:
            ledger = lane.ledger(self.name)
            ledger.capped.add(query)
            ledger.spend(query, int(mask.sum()))
            noisy[mask] += query.noise_std * noise[mask]
            rows = self.watch.passed(lane, self.name, "rows", query, exact[mask], noisy[mask])
            noisy[mask] = rows
        return noisy

    def respond(
        self,
        cells: Sequence[Array],
        n_cells: int,
        queries: Sequence[PureQuery | None],
        *,
        stream: str = "noise",
    ) -> list[Array]:
        """Return randomised responses to ``cells`` (n,), each one of ``n_cells`` answers.

        A cell is kept with probability e^ε / (e^ε + n_cells - 1), else replaced by any other one,
        uniformly.
        """
        released = []
        for truth, lane, query in zip(cells, self.lanes, queries, strict=True):
            answers = truth
            if query is not None:
                lane.ledger(self.name).spend(query)
                draw = lane.generator(stream)
                keep = math.exp(query.epsilon) / (math.exp(query.epsilon) + n_cells - 1)
                alternatives = draw.integers(0, n_cells - 1, size=len(truth))
                alternatives += alternatives >= truth
                answers = np.where(draw.random(len(truth)) < keep, truth, alternatives)
            if self.watch.active:
                self._set_by(lane, n_cells)
            released.append(self.watch.passed(lane, self.name, "respond", query, truth, answers))
        return released

    def flip(
        self,
        codes: Array,
        total: int,
        keep: float,
        make: float,
        query: PureQuery,
        sample: Callable[[np.random.Generator, int], Array],
        *,
        stream: str = "noise",
    ) -> Array:
        """Return the bits that are set after randomised response, sorted; one replica only.

        Bits are codes: ``codes`` are the set ones among ``total`` bits. A set bit stays with
        probability ``keep``; any other bit is set with probability ``make``.
        ``sample(generator, size)`` draws about
        ``size`` codes uniformly. No array has ``total`` entries: the number of newly set bits is
        binomial, and their positions are uniform.

        Raises:
            ReleaseMismatch: the probabilities have a higher privacy cost than the query.
        """
        [lane] = self.lanes
        cost = 0.0 if keep == make else math.inf
        if 0 < make < keep < 1:
            cost = math.log(max(keep / make, (1 - make) / (1 - keep)))
        if cost > query.epsilon * (1 + 1e-9):
            raise ReleaseMismatch(f"flips with {keep} and {make} cost {cost}: {query}")
        lane.ledger(self.name).spend(query)
        draw = lane.generator(stream)
        stay = codes[draw.random(len(codes)) < keep]
        count = draw.binomial(total - len(codes), make)
        extras = np.empty(0, np.int64)
        while len(extras) < count:
            draws = sample(draw, count - len(extras) + 64)
            extras = np.concatenate([extras, draws[~np.isin(draws, codes)]])
            _, first = np.unique(extras, return_index=True)
            extras = extras[np.sort(first)]  # the first of equal draws, in the order of drawing
        flipped = np.sort(np.concatenate([stay, extras[:count]]))  # else the true ones are first
        if self.watch.active:
            self._set_by(lane, total, keep, make)
        return self.watch.passed(lane, self.name, "flip", query, np.sort(codes), flipped)

    def sample(
        self, population: int, size: int, *, stream: str = "sample", shared: Streams | None = None
    ) -> list[Array]:
        """Return the positions of a secret sample in random order; the sample is never published.

        ``shared``: streams of a sample that all runs under one kept seed share.
        """
        released = []
        for lane in self.lanes:
            lane.ledger(self.name).sampled = True
            draw = (lane if shared is None else shared.of_door).generator(stream)
            released.append(self.watch.sampled(lane, draw.permutation(population), size))
        return released

    def choose_top(
        self,
        scores: Sequence[Array],
        top: int,
        queries: Sequence[ExponentialChoice | None],
        *,
        without: float,
        stream: str = "choice",
    ) -> list[Array]:
        """Return (n, top) sorted column indices for each row of a replica's (n, m) ``scores``.

        The exponential mechanism, ``top`` times without replacement: the largest of scores plus
        Gumbel noise (Durfee & Rogers 2019). All choices count as one call. ``without``: scale of
        the noise that breaks ties without DP.
        """
        released = []
        for exact, lane, query in zip(scores, self.lanes, queries, strict=True):
            if query is not None:
                lane.ledger(self.name).spend(query)
            scale = without if query is None else query.scale
            noisy = exact + lane.generator(stream).gumbel(0, scale, exact.shape)
            places = np.sort(np.argpartition(-noisy, top - 1, axis=1)[:, :top], axis=1)
            released.append(self.watch.passed(lane, self.name, "choose_top", query, exact, places))
        return released

    def descent(
        self,
        queries: Sequence[Any],
        *,
        noise: str = "noise",
        coins: str = "lots",
        dtype: type = np.float64,
        toss: Literal["each", "count"] = "each",
        without: float = 0.0,
    ) -> Descent:
        """Return the noisy steps of one training run; ``noise`` and ``coins`` are stream names.

        ``without``: noise standard deviation of replicas without DP; it gives no guarantee.
        """
        from private_graphs.mechanisms.descent import Descent  # few methods take noisy steps

        return Descent(self, list(queries), noise, coins, dtype, toss, without)

    def unnoised(self, reason: str, values: Sequence[Any]) -> Sequence[Any]:
        """Return ``values``, read from private data without noise: there is no guarantee then."""
        for lane, value in zip(self.lanes, values, strict=True):
            event = Unnoised(reason)
            lane.ledger(self.name).unnoised[reason] = event
            self.watch.passed(lane, self.name, "unnoised", event, value, value)
        return values

    def _set_by(self, lane: Lane, *values: Any) -> None:
        """Show the watch public numbers that set the noise and are not in the query."""
        for value in values:
            self.watch.public(lane, "what sets the noise", np.asarray(value))

    def public(self, name: str, values: Sequence[Any]) -> None:
        """Show the watch a value computed from releases: a replay must reproduce it to the bit."""
        if self.watch.active:
            for lane, value in zip(self.lanes, values, strict=True):
                self.watch.public(lane, name, np.asarray(value))


def _discrete_laplace(
    draw: np.random.Generator,
    query: LaplaceQuery,
    spacing: float,
    weights: Array | float,
    row: Array,
) -> Array:
    """Return discrete Laplace noise in spacings; rows of equal weight are drawn together."""
    from private_graphs.mechanisms.exact import discrete_laplace  # imports Numba

    steps = round(query.scale / spacing)
    if np.ndim(weights) == 0:
        return discrete_laplace(draw, steps * int(weights), row.shape)
    noise = np.empty(row.shape, np.int64)
    flat = np.asarray(weights).reshape(len(row), -1)[:, 0]
    edges = np.flatnonzero(np.diff(flat)) + 1
    for begin, end in zip([0, *edges], [*edges, len(row)], strict=True):
        noise[begin:end] = discrete_laplace(draw, steps * int(flat[begin]), row[begin:end].shape)
    return noise
