"""What the links between documents have spent: an account of their own (docs/privacy.md §16)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from private_graphs.documents.accounts import (
    PUBLISHED,
    Account,
    Cost,
    People,
    RecordedRelease,
    account_of,
    add_cost,
    units_on,
)


def links_account(
    entries: Sequence[RecordedRelease], people: People, delta: float, extra: Cost | None = None,
    among: bool = True,
) -> Account:  # fmt: skip
    """Return what the links between some documents have spent.

    A link is charged to the releases that held a document of its ends: never fewer than those that
    held both, and hence itself. Links that a release published are charged without end; ``among``:
    both ends of a link are among these documents. ``extra`` is a release that is asked for.
    """
    totals = np.zeros((3, len(people.units)))
    for entry in entries:
        if entry.links is not None:
            held, cost = units_on(entry, tuple(entry.costs), people), entry.links
        elif entry.publishes_links:
            held, cost = units_on(entry, entry.published, people), PUBLISHED
            held &= not among or held[people.unit_of].sum() > 1
        else:
            continue
        add_cost(totals, cost, held.astype(float))
        delta = min(delta, entry.delta) if held.any() else delta
    if extra is not None:
        add_cost(totals, extra, np.ones(len(people.units)))
    return account_of(totals, delta)
