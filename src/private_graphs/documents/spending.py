"""What the ledger says of declared documents: spent, left, planned, and entered of other tools."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from private_graphs.core.arguments import require_types
from private_graphs.core.errors import UsageError, UserError, counted, require_text
from private_graphs.core.limits import MOST_COUNT
from private_graphs.core.markup import on_one_line
from private_graphs.datasets.spelling import seen
from private_graphs.documents.accounts import (
    OTHER_TOOL,
    Account,
    Cost,
    People,
    RecordedRelease,
    documents_account,
    spender,
    units_on,
    with_earlier,
)
from private_graphs.documents.allowance import allowance
from private_graphs.documents.declaration import (
    DATA,
    LINK,
    Declaration,
    declared,
    delta_of,
    known_names,
    needed,
)
from private_graphs.documents.earlier import people_of
from private_graphs.documents.ledger import BudgetLedger, fresh_name
from private_graphs.documents.link_accounts import links_account
from private_graphs.documents.tables import (
    KNOWN,
    PUBLIC_TEST,
    TEST,
    TRAINING,
    Documents,
    read_documents,
)
from private_graphs.privacy.rounding import at_least, at_most

if TYPE_CHECKING:
    from private_graphs.documents.payment import Payment

_SIDES = {TRAINING: "trained", TEST: "tested", KNOWN: "public", PUBLIC_TEST: "public"}


@dataclass(frozen=True)
class Spent:
    """What the most used unit of a declaration has spent, in the two accounts of the ledger."""

    graph: str
    unit: str
    delta: float
    budget: float | None
    spent: float
    """Account of documents: ε of the most used protected unit; 0 where all documents are public."""
    links: float
    """Account of links: ε of the most used link between the documents."""
    left: float | None
    """ε of one more release that holds the most used unit, or link; None without a budget."""
    releases: list[dict[str, Any]]
    """Releases that held one of its units, under whatever name."""

    def lines(self) -> list[str]:
        """Return what the command prints."""
        linked = f", {at_most(self.links)} for the most used link" if self.unit != LINK else ""
        spent = self.spent if linked else self.links
        if linked and math.isinf(self.links):
            linked = ", links among public documents published without noise"
        budget = "no budget" if self.budget is None or self.left is None else (
            f"budget {self.budget:g}, of which one more release may ask for {at_least(self.left)}"
            if self.left else f"budget {self.budget:g}, which allows no further release"
        )  # fmt: skip
        head = (
            f"{self.graph}: spent {_amount(spent)} for the most used {self.unit}{linked} at delta "
            f"{self.delta:g}; {budget}"
        )
        return [head, *map(_release_line, self.releases)]

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def _amount(spent: float) -> str:
    """Return ε in words, rounded up."""
    return at_most(spent) if math.isfinite(spent) else (
        "without bound (documents of it are public in a release, or what another tool spent fails "
        "with a larger probability than delta)"
    )  # fmt: skip


def _told(entry: RecordedRelease) -> dict[str, Any]:
    """Return what ``ledger --json`` shows of a release."""
    return {
        "release": entry.release, "date": entry.date, "graph": entry.graph, "method": entry.method,
        "epsilon": entry.epsilon, "delta": entry.delta, "unit": entry.unit,
        "units": len(entry.people.documents) if entry.unit == LINK
        else int(units_on(entry, entry.protected, entry.people).sum()),
        "budget": entry.budget,
        "accounts": [
            *(["documents"] if entry.protected else []), *(["links"] if entry.links else [])
        ],
        "state": "finished" if entry.finished else "started", "sentence": entry.sentence,
    }  # fmt: skip


def _release_line(row: dict[str, Any]) -> str:
    units = (f"links of {counted(row['units'], 'document')}" if row["unit"] == LINK
             else counted(row["units"], row["unit"]))  # fmt: skip
    fields = (row["date"], row["graph"], row["method"], f"epsilon {at_most(row['epsilon'])}", units,
              row.get("side", ""), row["state"], row["sentence"])  # fmt: skip
    return "  " + "  ".join(filter(None, fields))


@require_types
def ledger(
    name: str | None = None, *, id: str | None = None, data: str | Path = DATA
) -> Spent | list[Spent] | list[SpentOn]:
    """Show what was spent: the ε of the most used unit, over all releases of its ids.

    There are two accounts: of documents, and of links (releases that protect links, for which all
    documents are public).

    Args:
        name (str): declaration; by default all of them.
        id (str): id of a person or document: what was spent on this one alone, and in which
            releases; also of somebody who is in no table any more.
        data (path): folder of raw files, as in ``declare``.

    Returns:
        Spent or list of Spent: ε of the most used unit and of the most used link; with ``id`` what
        ``spent_on`` returns.

    Example:
        >>> ledger("letters").spent  # doctest: +SKIP

    Raises:
        UserError: a line of the ledger that was changed or lost.
    """
    if id is not None:
        return spent_on(id, name, data=data)
    data = Path(data)
    if name is None:
        return [_Book.of(graph, data).spent for graph in known_names(data)]
    return _Book.of(name, data).spent


@dataclass(frozen=True, eq=False)
class _Book:
    """A declaration with the ledger of its data folder."""

    spec: Declaration
    docs: Documents
    ledger: BudgetLedger
    people: People
    entries: list[RecordedRelease]

    @classmethod
    def of(cls, name: str, data: Path) -> _Book:
        spec, book = needed(name, data), BudgetLedger(data)
        docs = read_documents(spec)
        return cls(spec, docs, book, people_of(spec, docs, book), book.entries())

    @property
    def protected(self) -> int:
        """Number of protected units."""
        return len(self.docs.units_on(TRAINING, TEST))

    @property
    def unit(self) -> str:
        """Name of the unit."""
        links = not self.protected and self.spec.max_edges
        return LINK if links else self.spec.unit or "document"

    @property
    def delta(self) -> float:
        """δ of its releases."""
        n_links = self.spec.max_edges if self.unit == LINK else None
        return delta_of(self.spec, n_links or self.protected)

    @cached_property
    def accounts(self) -> dict[bool, list[Account]]:
        """The accounts of today's units, and of those of earlier tables under this name: those of
        documents, and those of their links (True)."""
        entries, delta = self.entries, self.delta
        earlier = [entry for entry in entries if entry.graph == self.spec.name]
        tables = {_identity(people, sides): (people, sides) for people, sides in (
            (self.people, (TRAINING, TEST)), *((one.people, one.protected) for one in earlier)
        )}.values()  # fmt: skip
        return {
            False: [documents_account(entries, people, delta, sides) for people, sides in tables],
            True: [links_account(entries, people, delta) for people, _ in tables],
        }

    def unfinished(self, costs: dict[int, Cost], sentence: str) -> str:
        """Return the name of the entry of another tool that was interrupted; "" without one.

        Raises:
            UsageError: it was for other units, or is whole: it counts already.
        """
        for entry in self.entries:
            same = (entry.graph, entry.method, {*entry.costs.values()}, entry.sentence) == (
                self.spec.name, OTHER_TOOL, {*costs.values()}, sentence)  # fmt: skip
            if not same:
                continue
            parts = ("units", "documents")
            alike = all({*getattr(entry.people, part).tolist()}
                        == {*getattr(self.people, part).tolist()} for part in parts)  # fmt: skip
            if alike and not entry.finished:
                return entry.release
            whom = "" if alike else (
                " for the units and documents that were in the table then; others are there now"
            )  # fmt: skip
            interrupted = "" if entry.finished else " was interrupted,"
            raise UsageError(
                f"the entry of {entry.date}{interrupted} has this sentence and this cost, and "
                f"counts{whom}. Nothing more was entered: for another release, or once more for "
                "all that are there now, give another --sentence"
            )
        return ""

    def left(self, releases: int = 1) -> float:
        """Return ε of each of so many further releases of all units."""
        assert self.spec.budget is not None
        rest = self.spec.budget, self.delta, releases
        return min(allowance(account, *rest) for account in self.accounts[self.unit == LINK])

    @property
    def spent(self) -> Spent:
        """What was spent, and in which releases."""
        spent, links = (
            max(account.spent for account in self.accounts[linked]) for linked in (False, True)
        )
        held = [
            entry
            for entry in self.entries
            if entry.graph == self.spec.name
            or np.isin(entry.people.documents, self.people.documents).any()
            or np.isin(entry.people.units, self.people.units).any()
        ]
        return Spent(
            self.spec.name, spender(self.unit, held), self.delta, self.spec.budget, spent, links,
            None if self.spec.budget is None else self.left(), [_told(entry) for entry in held],
        )  # fmt: skip


def _identity(people: People, sides: Sequence[int]) -> bytes:
    """Return what equal tables of units have in common: they have one account."""
    parts = (np.array(sides), people.units, people.documents, people.unit_of, people.sides)
    return b"".join(hashlib.sha256(part.tobytes()).digest() for part in parts)


@dataclass(frozen=True)
class BudgetPlan:
    """What further releases may ask for, so that all of them stay within the budget."""

    graph: str
    unit: str
    releases: int
    epsilon: float
    """ε of each, rounded down; 0 where nothing is left."""
    delta: float
    budget: float
    spent: float

    def lines(self) -> list[str]:
        """Return what the command prints."""
        head, count = f"{self.graph}: ", counted(self.releases, "further release")
        if not self.epsilon:
            return [
                f"{head}the budget of {self.budget:g} does not allow {count}: the most used "
                f"{self.unit} has spent {_amount(self.spent)} at delta {self.delta:g}"
            ]
        return [
            f"{head}each of {count} may ask for epsilon {at_least(self.epsilon)}, with the most "
            f"used {self.unit} in all of them (spent {at_most(self.spent)} of {self.budget:g}, "
            f"delta {self.delta:g})"
        ]

    def __repr__(self) -> str:
        return "\n".join(self.lines())


@require_types
def plan_releases(name: str, releases: int, *, data: str | Path = DATA) -> BudgetPlan:
    """Say for which ε each of several further releases may ask, all within the budget.

    Releases compose to less than their sum: 12 of a budget of 4 have .99 each, not .33.
    Each is supposed to hold every unit; who is in few of them spends less.

    Args:
        name (str): declaration with a budget.
        releases (int): number of further releases, at least 1.
        data (path): folder of raw files, as in ``declare``.

    Returns:
        BudgetPlan: ε for each of them, with the most used unit in all.

    Example:
        >>> plan_releases("letters", 12)  # doctest: +SKIP

    Raises:
        UsageError: a declaration without a budget, or no release.
    """
    if not 1 <= releases <= MOST_COUNT:
        raise UsageError(f"--releases is {releases}; expected 1 to {MOST_COUNT:,}")
    book = _Book.of(name, Path(data))
    if book.spec.budget is None:
        raise UsageError(
            f"{name!r} has no budget that releases could share: declare it again with --budget"
        )
    spent = book.spent
    return BudgetPlan(
        name, spent.unit, releases, book.left(releases), book.delta, book.spec.budget,
        spent.links if book.unit == LINK else spent.spent,
    )  # fmt: skip


@dataclass(frozen=True)
class SpentOn:
    """What was spent on one person or document, and in which releases."""

    id: str
    kind: str
    """``person`` or ``document``."""
    spent: float
    """ε of all releases that held it; infinite where one published it without noise."""
    links: float
    """ε of a link of its documents."""
    delta: float | None
    """δ of both: the smallest of these releases; None without one."""
    releases: list[dict[str, Any]]
    unread: tuple[str, ...] = ()
    """Declarations whose table cannot be read, so that documents of a person in it are not known.
    """

    def lines(self) -> list[str]:
        """Return what the command prints."""
        head = f"{self.kind} {self.id!r}: "
        if self.delta is None:
            head += "in no release of this ledger"
        elif any(row["side"] == "public" for row in self.releases):
            head += "public in a release, which protected nothing of it"
        elif math.isinf(self.spent):
            public = any("public" in row["side"] for row in self.releases)
            reason = (
                "a release published documents of it without noise" if public else
                "what other tools have spent on it fails with a larger probability"
            )  # fmt: skip
            head += f"nothing is proved at delta {self.delta:g}, since {reason}"
        else:
            head += (f"spent {at_most(self.spent)} at delta {self.delta:g} in "
                     f"{counted(len(self.releases), 'release')}")  # fmt: skip
        if math.isinf(self.links):
            head += "; links of it were published without noise"
        elif self.links:
            head += f"; a link of it {at_most(self.links)}"
        if self.unread:
            head += f" (without what the tables of {', '.join(self.unread)} would add)"
        return [head, *map(_release_line, self.releases)]

    def __repr__(self) -> str:
        return "\n".join(self.lines())


@require_types
def spent_on(id: str, name: str | None = None, *, data: str | Path = DATA) -> list[SpentOn]:
    """Return what was spent on the person, and on the document, that is called ``id``.

    A person pays for documents of theirs that were released by document, as far as declared tables
    have them.

    Args:
        id (str): id of a person or document.
        name (str): declaration whose table is read; by default all of them.
        data (path): folder of raw files, as in ``declare``.

    Returns:
        list of SpentOn: ε and releases, for the person and for the document.

    Example:
        >>> spent_on("P000017")  # doctest: +SKIP

    Raises:
        UsageError: a folder without a release, such as a wrong one.
    """
    require_text(id=id)
    data = Path(data)
    book = BudgetLedger(data)
    if not (entries := book.entries()):
        raise UsageError(
            f"{book.folder}: there is no release in it, so that nothing was spent on {id!r} as far "
            "as this folder knows; expected the ledger of the releases: run the command where they "
            "were made, or name their folder of raw files with --data"
        )
    unit, documents, unread = f"unit\0{seen(id)}", list[str](), []
    if name is not None:
        needed(name, data)
    for graph in known_names(data) if name is None else [name]:
        try:
            spec = declared(graph, data)
            if spec is None or spec.unit is None:
                continue
            docs = read_documents(spec)
        except UserError:
            unread.append(graph)
            continue
        if unit in docs.units:
            rows = np.flatnonzero(docs.unit_of == docs.units.index(unit))
            documents += [docs.ids[row] for row in rows]
    documents = list(dict.fromkeys(documents))
    none, side = np.zeros(len(documents), np.int64), np.array([TRAINING])
    person = book.people([unit], documents, none, side, alone=False)
    document = book.people([id], [id], np.zeros(1, np.int64), side, alone=True)
    return [
        _spent_on(id, "person", person, entries, tuple(unread)),
        _spent_on(id, "document", document, entries),
    ]


def _spent_on(
    id: str, kind: str, people: People, entries: Sequence[RecordedRelease],
    unread: tuple[str, ...] = (),
) -> SpentOn:  # fmt: skip
    held, known = [], with_earlier(people, entries)
    for entry in entries:
        sides = [_SIDES[side] for side in entry.costs
                 if units_on(entry, (side,), known)[: len(people.units)].any()]  # fmt: skip
        if sides:
            held.append((entry, _told(entry) | {"side": " and ".join(dict.fromkeys(sides))}))
    delta = min((entry.delta for entry, _ in held), default=None)
    priced = entries, people, delta or 0.5
    return SpentOn(
        id, kind, documents_account(*priced, (TRAINING,), persons=False).spent,
        links_account(*priced, among=False).spent,
        delta, [row for _, row in held], unread,
    )  # fmt: skip


@require_types
def add_spending(
    name: str, sentence: str, *, mu: float | None = None, epsilon: float | None = None,
    delta: float = 0.0, relation: Literal["add_remove", "replace"] = "add_remove",
    data: str | Path = DATA,
) -> Spent:  # fmt: skip
    """Enter what another tool has spent on all protected units of a declaration.

    It is entered whatever the budget is, as it is spent, and no line can be taken back.

    Args:
        name (str): declaration.
        sentence (str): what was released, with which tool, and when; it stands in the ledger.
        mu (float): μ of Gaussian DP, of all steps together.
        epsilon (float): in place of ``mu``: what the other tool has proved. The μ that covers it
            is entered, which at a small δ is several times as much: give ``mu`` if known.
        delta (float): with ``epsilon``; it has to be below the δ of the declaration, of which it
            takes its part.
        relation (str): what it was proved for; add_remove, as in most tools, counts twice: a
            replaced unit is removed and added.
        data (path): folder of raw files, as in ``declare``.

    Returns:
        Spent: what is spent with this entry.

    Example:
        >>> add_spending("letters", "Opacus, topics of May", mu=0.2)  # doctest: +SKIP

    An entry that was interrupted is continued by the same call, and counts once; every error after
    its line has a note that says so. A sentence that is entered with this cost is refused.

    Raises:
        UsageError: numbers that are none, a δ that is not below that of the declaration, or an
            entry that is there already.
    """
    require_text(sentence=sentence)
    if not (sentence := on_one_line(sentence)):
        raise UsageError("--sentence is empty; say which tool released what, and when")
    from private_graphs.documents.payment import paid

    data = Path(data)
    with paid(name, data) as payment, BudgetLedger(data).entering():
        return _entered(payment, sentence, mu, epsilon, delta, relation, data)


def _entered(
    payment: Payment, sentence: str, mu: float | None, epsilon: float | None, delta: float,
    relation: str, data: Path,
) -> Spent:  # fmt: skip
    name, book = payment.name, _Book.of(payment.name, data)
    if book.unit == LINK:
        raise UsageError(
            f"{name!r}: all documents are public, and spending of another tool on links cannot be "
            "entered: declare a smaller --budget for what is left of them"
        )
    cost = _cost(mu, epsilon, delta, book.delta, relation)
    account = Account(((cost.mu**2, 0.0, cost.failure),), book.delta)
    costs = {side: cost for side in (TRAINING, TEST) if len(book.docs.units_on(side))}
    release = book.unfinished(costs, sentence)
    entry = release or fresh_name()
    payment.release = lambda: entry
    payment.epsilon, payment.ledger = account.spent, book.ledger
    if not release:
        book.ledger.start(
            book.people, costs, None, account.spent, graph=name, method=OTHER_TOOL,
            delta=book.delta, unit=book.unit, relation="replace", sentence=sentence,
            release=entry,
        )  # fmt: skip
    book.ledger.finish(entry)
    return _Book.of(name, data).spent


_MOST_SPENT = 1e6
"""Largest ε or μ of another tool: far above, nothing is protected, and squares overflow."""


def _cost(
    mu: float | None, epsilon: float | None, delta: float, most: float, relation: str
) -> Cost:
    """Return the cost for a unit that is replaced; ``most`` is the δ of the account."""
    if (mu is None) == (epsilon is None):
        raise UsageError("give --mu, or --epsilon (with --delta): one of them")
    value, flag = (mu, "--mu") if epsilon is None else (epsilon, "--epsilon")
    if not (value is not None and 0 < value <= _MOST_SPENT):
        raise UsageError(f"{flag} is {value}; expected a number above 0, at most {_MOST_SPENT:,g}")
    if mu is not None and delta:
        raise UsageError("--delta belongs to --epsilon; leave it out beside --mu")
    if not delta >= 0:
        raise UsageError(f"--delta is {delta}; expected a number of at least 0")
    times, value = 2 if relation == "add_remove" else 1, float(value)
    cost = Cost(value) if epsilon is None else Cost.of_pure(value, float(delta))
    cost = cost.of_group(times)
    if not cost.failure < most:
        twice = "" if times == 1 else " (of a replaced unit, which is removed and added)"
        raise UsageError(
            f"--delta is {delta:g}, which makes {at_most(cost.failure)}{twice}; expected less than "
            f"{most:g}, the delta of this account: give epsilon at a smaller delta, or --mu"
        )
    return cost
