"""Earlier releases of the ledger that held documents of a declaration."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from private_graphs.core.errors import UserError, counted
from private_graphs.documents.accounts import People, RecordedRelease, units_on
from private_graphs.documents.declaration import Declaration
from private_graphs.documents.ledger import BudgetLedger
from private_graphs.documents.tables import PUBLIC, Documents


def smallest_budget(earlier: Sequence[RecordedRelease]) -> float:
    """Return the smallest budget under which a release was made; infinite where none had one."""
    return min((entry.budget for entry in earlier if entry.budget), default=math.inf)


def people_of(spec: Declaration, docs: Documents, ledger: BudgetLedger) -> People:
    """Return the hashed ids of all documents and units of a declaration."""
    return ledger.people(docs.units, docs.ids, docs.unit_of, docs.sides, alone=spec.unit is None)


def earlier_releases(
    spec: Declaration, docs: Documents, people: People, entries: Sequence[RecordedRelease]
) -> list[RecordedRelease]:
    """Return those of the releases in ``entries`` that protected one of these units.

    Raises:
        UserError: a document is public now, and an earlier release protected it or its person; or
            the other way round; the same for links among public documents.
    """
    releases = []
    public = np.isin(docs.sides, PUBLIC)
    for entry in entries:
        before = units_on(entry, entry.protected, people)
        opened = np.flatnonzero(before & public)
        closed = np.flatnonzero(units_on(entry, entry.published, people) & ~public)
        for units, side, was, now in (
            (opened, "public", "protected",
             "promised that nobody learns their texts; expected them private: take them out of "
             "what --public or --public-files names"),
            (closed, "private", "published what it read in",
             "nothing protects their texts any more; expected them public: name them with "
             "--public or --public-files, or leave them out"),
        ):  # fmt: skip
            if len(units):
                noun = f"{side} {spec.unit or 'document'}"
                example = docs.ids[int(np.flatnonzero(docs.unit_of == units[0])[0])]
                raise UserError(
                    f"{spec.name}: the release of {entry.graph!r} on {entry.date} {was} "
                    f"{counted(len(units), noun)} (such as the one of {example!r}), and {now}. If "
                    "they are other documents, give them other ids"
                )
        if spec.edges is not None:
            from private_graphs.documents.link_tables import refuse_published_links

            refuse_published_links(spec, public[docs.unit_of], entry, people)
        if before.any():
            releases.append(entry)
    return releases
