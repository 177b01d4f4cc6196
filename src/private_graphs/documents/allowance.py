"""What an account leaves of a budget."""

from __future__ import annotations

import math

from private_graphs.documents.accounts import Account, composed
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.queries import LATTICE_RATIO, lattice_distance
from private_graphs.privacy.rounding import at_least, at_most

_PLANNED_NUMBERS = 2**22
"""Numbers with lattice noise that a planned release is supposed to draw, at most."""
_HALVINGS = 40


def allowance(account: Account, budget: float, delta: float, releases: int = 1) -> float:
    """Return ε of each of so many further releases at δ that the budget allows a unit.

    It is rounded down to the digits that are shown.
    """
    repeats = account.repeats or (1.0,) * len(account.sums)
    if releases == 1 and not any(map(any, account.sums)) and max(repeats, default=1.0) <= 1:
        return budget  # a release is calibrated to its ε, with the distance of its own noise
    distance = releases * lattice_distance(LATTICE_RATIO, _PLANNED_NUMBERS)

    def over(square: float) -> bool:
        return any(
            composed(before + repeat * square, apart + distance, failure, account.delta) > budget
            for (before, apart, failure), repeat in zip(
                account.sums or ((0.0, 0.0, 0.0),), repeats or (1.0,), strict=True
            )
        )

    low, high = 0.0, gdp_mu(budget, account.delta) ** 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if over(middle) else (middle, high)
    return float(at_least(gdp_epsilon(math.sqrt(low / releases), delta))) if low else 0.0


def allowance_words(account: Account, budget: float, delta: float) -> str:
    """Return what the most used unit has spent, and what is left at δ, in words."""
    spent = f"a unit of these ids has spent {at_most(account.spent)} of {budget:g}"
    if failures := [failure for *_, failure in account.sums if failure >= account.delta]:
        return (
            f"{spent} at delta {account.delta:g}, since what other tools have spent on it fails "
            f"with probability {max(failures):.2g}: at a larger --delta of 'declare' less is spent"
        )
    left = at_least(allowance(account, budget, delta))
    return f"{spent}, so that a release at {left} is left"
