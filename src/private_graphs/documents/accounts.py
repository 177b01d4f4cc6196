"""What the units of releases have spent, and what is left of a budget.

A release is charged to the units whose ids it held, and what one unit has spent is a filter: the
sum of μ² of the releases that held it stays within that of the budget (docs/privacy.md, "Documents
of an owner"). There are two accounts: of documents, and of the links between them. Public documents
are published without noise, so that their account of documents is infinite. All bounds are rounded
up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri_exp

from private_graphs.documents.declaration import LedgerState

_ROUNDING = 1e-12
"""More than what floating-point sums, roots and searches may have rounded down."""
OTHER_TOOL = "another tool"
"""Method of a release that was entered by hand."""
_EARLIER = 255
"""Side of persons whom earlier releases name, and today's table does not."""


@dataclass(frozen=True, eq=False)
class People:
    """Units of a release by the keyed hashes of their ids."""

    units: np.ndarray
    """(U,) uint64"""
    documents: np.ndarray
    """(N,) uint64; equal to ``units`` where each document is a unit."""
    unit_of: np.ndarray
    """(N,) unit of each document."""
    sides: np.ndarray
    """(U,) uint8 side of each unit (``tables``)."""


@dataclass(frozen=True)
class Cost:
    """Privacy cost of one side of a release for one of its units, or for one link."""

    mu: float
    """μ of Gaussian releases; infinite for what is published without noise."""
    distance: float = 0.0
    """Distance of lattice noise from Gaussian noise in total variation (docs/privacy.md §0.6)."""
    failure: float = 0.0
    """Probability at which nothing is promised, beside μ: δ of a release of another tool."""

    def of_group(self, count: int) -> Cost:
        """Return the cost for a unit that is ``count`` units of this one: k μ.

        A failure counts 1 + e^ε + … + e^((k-1)ε) times, with ε that of a release without noise of
        Gaussian kind (``of_pure``).
        """
        if not self.failure:
            return Cost(count * self.mu, self.distance)
        with np.errstate(divide="ignore", over="ignore"):
            growth = ndtr(self.mu / 2) / ndtr(-self.mu / 2)
            failure = self.failure * sum(growth**power for power in range(count))
        return Cost(count * self.mu, self.distance, float(failure))

    @classmethod
    def of_pure(cls, epsilon: float, failure: float = 0.0) -> Cost:
        """Return the cost of a release that is (ε, δ)-DP: μ-GDP, but for a failure δ."""
        return cls(float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon))), failure=failure)


PUBLISHED = Cost(math.inf)
"""Cost of documents whose texts and labels enter a release without noise."""


@dataclass(frozen=True, eq=False)
class RecordedRelease:
    """One release in the ledger."""

    release: str
    date: str
    graph: str
    method: str
    epsilon: float
    """ε that was asked for."""
    delta: float
    unit: str
    budget: float | None
    """Budget under which it was made."""
    finished: bool
    costs: dict[int, Cost]
    """Side -> cost in the account of documents."""
    links: Cost | None
    """Cost in the account of links, for one link between its documents; None: no link was read."""
    people: People
    state: LedgerState
    """The ledger with its line as the last one."""
    sentence: str = ""
    """What another tool has released, in the owner's words; empty for releases of this one."""
    publishes_links: bool = False
    """Whether the links among the documents that it published entered it without noise."""

    @property
    def protected(self) -> tuple[int, ...]:
        """Sides whose units the release protected."""
        return tuple(side for side, cost in self.costs.items() if math.isfinite(cost.mu))

    @property
    def published(self) -> tuple[int, ...]:
        """Sides whose documents the release published."""
        return tuple(set(self.costs) - set(self.protected))

    @property
    def mechanisms(self) -> list[tuple[tuple[int, ...], Cost]]:
        """Return sides with the cost of a unit on one of them.

        Training and test of a release are two mechanisms, whose squares add up. Another tool has
        one, in which all k units of a person count together, k μ.
        """
        if self.method == OTHER_TOOL:
            return [(tuple(self.costs), next(iter(self.costs.values())))]
        return [((side,), cost) for side, cost in self.costs.items()]

    @property
    def by_person(self) -> bool:
        """Whether a unit is a person, who may have several documents."""
        people = self.people
        return not np.array_equal(people.units[people.unit_of], people.documents)


@dataclass(frozen=True)
class Account:
    """What the units of a release have spent, in the account that the release is charged to."""

    sums: tuple[tuple[float, float, float], ...]
    """Distinct sums of units: of μ², of distances, and of failures."""
    delta: float
    """δ at which they are priced: the smallest of the account and of the releases in it."""
    repeats: tuple[float, ...] = ()
    """Of each, how often a further release at μ would add μ²: (t² + s²) times for a person with t
    units that train and s that test; empty: once."""

    @property
    def spent(self) -> float:
        """Return an upper bound on ε of the most used unit; 0 without a unit."""
        return max((composed(*sums, self.delta) for sums in self.sums), default=0.0)


def spender(unit: str, entries: Sequence[RecordedRelease]) -> str:
    """Return whom the account of a unit counts: after releases by person, persons too."""
    return "document or person" if unit == "document" and any(
        entry.by_person for entry in entries) else unit  # fmt: skip


def over_budget(account: Account, budget: float | None) -> bool:
    """Return whether a unit has spent more than the budget."""
    return budget is not None and account.spent > budget


def charged_account(
    entries: Sequence[RecordedRelease], people: People, delta: float, costs: dict[int, Cost],
    links: Cost | None, asked: bool = False,
) -> Account:  # fmt: skip
    """Return the account that a release is charged to.

    It is that of links for a release with ``links``, which publishes documents, else that of
    documents. ``asked``: the release itself included.
    """
    if links is not None:
        from private_graphs.documents.link_accounts import links_account

        return links_account(entries, people, delta, links if asked else None)
    sides = tuple(side for side, cost in costs.items() if math.isfinite(cost.mu))
    return documents_account(entries, people, delta, sides, costs if asked else None)


def documents_account(
    entries: Sequence[RecordedRelease], people: People, delta: float, sides: Sequence[int],
    extra: dict[int, Cost] | None = None, persons: bool = True,
) -> Account:  # fmt: skip
    """Return what the units on some sides have spent; ``persons``: and persons of earlier releases
    who have a document of these units.

    A unit has all documents that today's table or an earlier release says are its own. ``extra`` is
    a release that is asked for. δ is the smallest of the releases that held one of the units, and
    of the account.
    """
    known = with_earlier(people, entries)
    totals = np.zeros((3, len(known.units)))
    chosen = np.isin(known.sides, sides)
    for side in sides if persons else ():
        chosen |= (known.sides == _EARLIER) & (_held(people, (side,), known) > 0)
    for entry in entries:
        held = False
        for held_on, cost in entry.mechanisms:
            count = np.where(chosen, _held(entry.people, held_on, known), 0)
            if count.any():
                held = True
                add_cost(totals, cost, count)
        delta = min(delta, entry.delta) if held else delta
    for side, cost in (extra or {}).items():
        add_cost(totals, cost, _held(people, (side,), known))
    repeats = sum(
        (_held(people, (side,), known) ** 2 for side in sides), np.zeros(len(known.units))
    )
    return account_of(totals[:, chosen], delta, np.maximum(repeats, 1.0)[chosen])


def with_earlier(people: People, entries: Sequence[RecordedRelease]) -> People:
    """Return units with all their documents, and further persons, whose side is ``_EARLIER``."""
    lists = [people] + [entry.people for entry in entries if entry.by_person]
    further = np.setdiff1d(np.concatenate([part.units for part in lists]), people.units)
    units = np.concatenate([people.units, further])
    owners = np.concatenate([_places(units, part.units)[part.unit_of] for part in lists])
    documents = np.concatenate([part.documents for part in lists])
    pairs = np.unique(np.stack([owners.astype(np.uint64), documents]), axis=1)
    sides = np.concatenate([people.sides, np.full(len(further), _EARLIER, np.uint8)])
    return People(units, pairs[1], pairs[0].astype(np.int64), sides)


def account_of(totals: np.ndarray, delta: float, repeats: Any = 1.0) -> Account:
    """Return the account of (3, units) sums; (units,) ``repeats`` as in ``Account``."""
    rows = np.vstack([totals, np.broadcast_to(repeats, totals.shape[1])])
    *sums, often = np.unique(rows, axis=1).tolist()
    return Account(tuple(zip(*sums, strict=True)), delta, tuple(often))


def units_on(entry: RecordedRelease, sides: Sequence[int], people: People) -> np.ndarray:
    """Return (U,) bool: units with a document or a person that a release had on some sides."""
    return _held(entry.people, sides, people) > 0


def add_cost(totals: np.ndarray, cost: Cost, count: np.ndarray) -> None:
    """Add to (μ², distance, failure) a release with ``count`` of each unit (§0.2)."""
    held = count > 0
    totals[0, held] += (count[held] * cost.mu) ** 2
    totals[1, held] += cost.distance
    if cost.failure:
        numbers, places = np.unique(count[held], return_inverse=True)
        totals[2, held] += np.array([cost.of_group(int(n)).failure for n in numbers])[places]


def composed(square: float, distance: float, failure: float, delta: float) -> float:
    """Return ε of Gaussian releases at δ, less what failures take of it, rounded up."""
    from private_graphs.privacy.accountants import lattice_epsilon

    if math.isinf(square) or failure >= delta:
        return math.inf
    if not square:
        return 0.0
    epsilon, _ = lattice_epsilon(math.sqrt(square), distance, delta - failure)
    return epsilon * (1 + _ROUNDING) + _ROUNDING


def _held(then: People, sides: Sequence[int], now: People) -> np.ndarray:
    """Return how many units on some sides of an earlier release belong to each unit of today."""
    was = np.isin(then.sides, sides)
    owner = np.concatenate([now.unit_of, np.arange(len(now.units))])
    indices = _places(then.documents, now.documents)
    earlier = np.append(then.unit_of, -1)[indices]
    units = _places(then.units, now.units)
    pairs = np.stack([owner, np.concatenate([earlier, units])])
    pairs = np.unique(pairs[:, pairs[1] >= 0], axis=1)
    pairs = pairs[:, was[pairs[1]]]
    return np.bincount(pairs[0], minlength=len(now.units)).astype(float)


def _places(among: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Return where each of ``hashes`` stands in ``among``, or -1."""
    if not len(among):
        return np.full(len(hashes), -1)
    order = np.argsort(among, kind="stable")
    ranks = np.minimum(np.searchsorted(among[order], hashes), len(among) - 1)
    indices = order[ranks]
    return np.where(among[indices] == hashes, indices, -1)
