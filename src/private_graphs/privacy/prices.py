"""Joint privacy cost of mechanisms: in a run, in all runs of a budget, in all rows of a file.

``accountants`` computes the cost of one mechanism and composes costs; this module decides which
mechanisms compose. Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import PricedEvent, compose_groups, price
from private_graphs.privacy.checks import delta_too_large
from private_graphs.privacy.choices import undominated, ways
from private_graphs.privacy.events import Event

Claim = tuple[str, str, float, int]
"""Unit, relation, delta and number of units."""

NOTHING_READ = ((), 0.0, "nothing private is read, so that one unit changes nothing")
"""Privacy cost of a run on public data alone."""


@dataclass(frozen=True)
class SearchRuns:
    """Runs with the same events: of a search in another job, released together, or of a file."""

    events: tuple[Event, ...]
    """Events of one run; empty where it reads nothing private."""
    n_runs: int
    apart: tuple[Event, ...] = ()
    """Events of one run about units that no other event reads (``build_statement``)."""


@dataclass(frozen=True)
class FileRows:
    """Joint guarantee of the rows of one results file (§5)."""

    epsilon: float | None
    """ε of all counted rows; None if nothing is proved."""
    proof: str
    counted: int
    """Number of private rows, and of runs of another file that chose their learning rate."""
    not_counted: int
    """Number of rows without DP in the same file, which reveal the data."""


@dataclass(frozen=True)
class Prices:
    """Joint privacy cost of all mechanisms of the runs of one budget."""

    proved: float | None
    """ε of one run."""
    together: float | None
    """ε of all runs."""
    proof: str
    own: tuple[PricedEvent, ...]
    """Guarantees of one run's events."""
    groups: tuple[tuple[tuple[PricedEvent, ...], int], ...]
    """Guarantees of all runs' events, with the number of runs."""

    @property
    def second_route(self) -> float | None:
        """ε by an independent computation, if there is only one mechanism."""
        return self.own[0].second_route if len(self.own) == 1 and self.proved else None


def _priced(events: Sequence[Event], claim: Claim) -> tuple[PricedEvent, ...]:
    return tuple(price(event, *claim[:3]) for event in events)


def proved_by(
    events: Sequence[Event], claim: Claim
) -> tuple[tuple[PricedEvent, ...], float | None, str]:
    """Return the guarantees of the events, ε of one run, and the proof in words."""
    delta, n_units = claim[2:]
    priced = _priced(events, claim)
    proof = "; ".join(event.proof for event in priced)
    if delta_too_large(delta, n_units):
        refusal = f"none: delta x units = {delta * n_units:g} is not below 1"
        return priced, None, f"{refusal} ({proof})"
    return priced, compose_groups([(priced, 1)], delta), proof


def price_runs(
    claim: Claim,
    runs: Sequence[SearchRuns],
    reads_private: bool,
    apart: Sequence[Event],
) -> Prices:
    """Return the privacy cost of the first of ``runs`` and of all; see ``build_statement``."""
    delta, (first, *further) = claim[2], runs
    priced, proved, proof = proved_by(first.events, claim) if reads_private else NOTHING_READ
    groups = [(priced, first.n_runs)]
    groups += [(_priced(run.events, claim), run.n_runs) for run in further]
    if not apart or proved is None:
        together = compose_groups(groups, delta) if reads_private and proved is not None else proved
        return Prices(proved, together, proof, priced, tuple(groups))
    aside, bound, words = proved_by(apart, claim)
    together = _costliest([((events, aside), number) for events, number in groups], delta)
    return Prices(
        proved=None if bound is None else max(proved, bound),
        together=together,
        proof=f"{proof}; about units that no other mechanism reads: {words}; the larger of the two",
        own=(*priced, *aside),
        groups=(*groups, (aside, sum(number for _, number in groups))),
    )


Parts = tuple[tuple[PricedEvent, ...], ...]
"""Guarantees of one run's events about different units, of which a unit pays one group."""


def _costliest(runs: Sequence[tuple[Parts, int]], delta: float) -> float | None:
    """Return ε of runs for a unit that stands in one part of each, in the costliest way.

    None, where nothing is proved, is costlier than all. Where there are too many ways to compose
    each, a unit is charged for all parts of each run: an upper bound of every way.
    """
    candidates = [(undominated(parts, _covers), number) for parts, number in runs]
    try:
        options = ways(candidates)
    except UserError:
        options = [[(tuple(chain.from_iterable(parts)), number) for parts, number in candidates]]
    epsilons = [compose_groups(way, delta) for way in options]
    proved = [epsilon for epsilon in epsilons if epsilon is not None]
    return max(proved) if len(proved) == len(epsilons) else None


def _covers(events: Sequence[PricedEvent], rival: Sequence[PricedEvent]) -> bool:
    """Return whether events cost at least as much as others, whatever follows (§0.1)."""
    if any(event.epsilon is None or event.mu is None for event in (*events, *rival)):
        return False
    square, least = (sum((event.mu or 0) ** 2 for event in group) for group in (events, rival))
    distance, nearest = (sum(event.total_variation for event in group) for group in (events, rival))
    return square >= least and distance >= nearest


@lru_cache(maxsize=64)
def price_file(claim: Claim, runs: tuple[SearchRuns, ...], not_counted: int) -> FileRows:
    """Compose the private rows of a file, at all budgets: ``runs``, with their events.

    Runs with equal events form one group. A unit pays for ``events`` or for ``apart`` of a run, in
    the costliest way; if some rows read the units of ``apart`` without noise, these events are left
    out and the result covers the other units alone. ``not_counted`` is the number of rows without
    DP.
    """
    delta, n_units = claim[2:]
    counted = sum(run.n_runs for run in runs)
    words = f"all {counted} private rows of the file compose"
    if not counted:
        return FileRows(None, "none: no row of the file is private", 0, not_counted)
    if delta_too_large(delta, n_units):
        none = f"none: delta x units = {delta * n_units:g} is not below 1"
        return FileRows(None, none, counted, not_counted)
    reading = [run for run in runs if run.events or run.apart]
    if not reading:
        return FileRows(0.0, NOTHING_READ[2], counted, not_counted)
    two_groups = all(run.apart for run in reading)
    if two_groups:
        words += "; two groups of units that no mechanism reads both, the larger of the two"
    if any(getattr(event, "shared", "") for run in reading for event in run.events):
        words += "; what reads one secret sample composes inside it, and is amplified once"
    counts: Counter[tuple[tuple[Event, ...], ...]] = Counter()
    for run in reading:
        counts[tuple(filter(None, (run.events, run.apart if two_groups else ())))] += run.n_runs
    try:
        proved = _costliest(
            [
                (tuple(_priced(events, claim) for events in parts), number)
                for parts, number in counts.items()
                if parts
            ],
            delta,
        )
    except UserError as error:  # loss distributions have no finite ε
        return FileRows(None, f"none: {error}", counted, not_counted)
    if proved is None:
        return FileRows(None, "none: nothing is proved for some of its rows", counted, not_counted)
    return FileRows(proved, words, counted, not_counted)
