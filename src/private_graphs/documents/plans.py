"""What a dry run prints: a release that is planned and not made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from private_graphs.core.errors import counted
from private_graphs.documents.accounts import Account, over_budget
from private_graphs.documents.allowance import allowance_words
from private_graphs.documents.release import PAID, PlannedRelease, right_share, terms_of
from private_graphs.documents.tables import PUBLIC
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.rounding import at_most

if TYPE_CHECKING:
    from private_graphs.documents.links import PlannedVotes


def lines_of(
    plan: PlannedRelease | PlannedVotes, before: Account, after: Account,
    free: dict[str, np.ndarray] | None, paid: bool = False,
) -> tuple[str, ...]:  # fmt: skip
    """Return what a dry run prints, from public numbers alone.

    ``free`` are the answers of ``plan.free_rows``; ``paid``: it was interrupted.
    """
    limit, more = plan.spec.budget, tuple[str, ...]()
    budget = "without a limit" if limit is None else f"of {limit:g}"
    if isinstance(plan, PlannedRelease):
        noise, test = _noise_words(plan), terms_of(plan.docs, *PUBLIC)
        files = (
            "release/ (model.safetensors, predictions.csv of public documents, statement.json, "
            "README.md, report.html), private/ (predictions.csv)"
        )
        if plan.public and plan.facts:
            more = (f"links       {plan.public.links_words}",)
    else:
        test = plan.asked
        noise = (
            f"standard deviation {plan.events[0].noise_std:.3g} in each number of a round, where a "
            "link counts 1 at most"
        )
        files = "release/ (predictions.csv, statement.json, README.md, report.html)"
    lines = [
        f"noise       {noise}",
        f"spent       now {at_most(before.spent)}, after this release {at_most(after.spent)} "
        f"{budget} (most used {plan.spender})",
        f"files       {files}",
    ]
    if limit is not None and over_budget(after, limit):
        left = allowance_words(before, limit, plan.delta)
        lines.append(f"refused     epsilon {plan.epsilon:g} is over the budget: {left}")
    if free is not None:
        scores = ", ".join(f"{right_share(test, predicted):.3f} with {name}"
                           for name, predicted in free.items())  # fmt: skip
        lines.insert(0, f"free        right answers about public documents: {scores}")
    return (*lines, *more, *([PAID] if paid else []))


def _noise_words(plan: PlannedRelease) -> str:
    """Return the noise of a release of texts, and how large classes need to be."""
    mu = gdp_mu(plan.epsilon, plan.delta)
    sizes = {times * plan.epsilon: plan.training.least_class * mu
             / gdp_mu(times * plan.epsilon, plan.delta) for times in (1, 2, 4)}  # fmt: skip
    least = ", ".join(f"{size:,.0f} at epsilon {at:g}" for at, size in sizes.items())
    return (
        f"{plan.training.noise}; {plan.unit_name}s that a class needs to train: about {least}; "
        f"{counted(plan.trained, plan.unit_name)} train"
    )
