"""Tables of documents, read as a declaration says: units, texts, labels, sides.

Everything that is a count of private documents stays with the owner. What enters a release is
decided for each unit by its own documents, its id and fixed keys (docs/privacy.md).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from private_graphs.core.errors import UserError, counted
from private_graphs.core.limits import LONGEST_NAME
from private_graphs.datasets import own_tables
from private_graphs.datasets.spelling import NOT_SEEN, is_missing, looks, seen, shown
from private_graphs.documents.declaration import Declaration

TRAINING, TEST, KNOWN, PUBLIC_TEST = range(4)
"""Sides of units: private training and private test units; public units whose labels are used, and
those on which scores of releases of links are computed."""
PUBLIC = (KNOWN, PUBLIC_TEST)
"""Sides of public units."""
_TEST_SHARES, _MANY = (0.2, 0.1), 3000
"""Shares of the private units that only answer the count of right answers, of few and of many."""
_MOST_OUTSIDE = 100
"""Labels outside the classes among which a mistyped class is looked for."""
_YES = frozenset(("1", "true", "yes", "y", "x", "public"))
_NO = frozenset(("", "0", "false", "no", "n", "private"))


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents and units of a declaration."""

    ids: list[str]
    """(N,) ids of all documents of the tables, dropped ones included."""
    unit_of: np.ndarray
    """(N,) unit of each document."""
    units: list[str]
    """(U,) ids of the units; a unit without a kept document stays, with a zero term."""
    sides: np.ndarray
    """(U,) ``TRAINING``, ``TEST``, ``KNOWN`` or ``PUBLIC_TEST``."""
    texts: list[str]
    """(N,) texts, columns joined."""
    labels: np.ndarray
    """(N,) classes, -1 for none."""
    kept: np.ndarray
    """(N,) bool: documents that are not dropped."""
    classes: tuple[str, ...]
    outside: tuple[str, ...] = ()
    """Frequent labels that are no class, most frequent first."""
    dropped: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    sha256: str = ""
    """Hash of the table as it was read."""

    def on(self, *sides: int) -> np.ndarray:
        """Return the kept documents of units on some sides, those of a unit side by side."""
        rows = np.flatnonzero(self.kept & np.isin(self.sides, sides)[self.unit_of])
        return rows[np.argsort(self.unit_of[rows], kind="stable")]

    def units_on(self, *sides: int) -> np.ndarray:
        """Return the units on some sides."""
        return np.flatnonzero(np.isin(self.sides, sides))


def read_documents(
    spec: Declaration,
    warnings_about: Callable[[own_tables.OwnTable, list[str], Declaration], list[str]] = (
        lambda table, units, spec: []
    ),
) -> Documents:
    """Read the tables of documents of a declaration.

    ``warnings_about`` returns warnings about the table of documents and their units.

    Raises:
        UserError: names the file and the line of what cannot be used.
    """
    table = own_tables.read_table(spec.nodes, spec.roles, encoding=spec.encoding).trimmed(
        spec.id, spec.label
    )
    ids = own_tables.distinct_ids(table, spec.id)
    known = dict.fromkeys(_distinct(table, ids), spec.nodes.name)
    texts, blank = _texts(table, spec)
    labels = table.cells(spec.label)
    units = _units(table, spec, ids)
    warnings = warnings_about(table, units, spec)
    public, files = _public(table, spec), list[Path]()
    if spec.public_files is not None:
        from private_graphs.documents.public_tables import public_tables, refuse_known

        files = public_tables(spec.public_files)
    for path in files:
        persons = spec.unit in own_tables.column_names(path, spec.encoding)
        left_out = {"public"} if persons else {"public", "unit"}
        roles = {key: value for key, value in spec.roles.items() if key not in left_out}
        extra = own_tables.read_table(path, roles, encoding=spec.encoding)
        extra = extra.trimmed(spec.id, spec.label)
        more_texts, more_blank = _texts(extra, spec)
        more_ids = own_tables.distinct_ids(extra, spec.id)
        refuse_known(extra, more_ids, known)
        known |= dict.fromkeys(_distinct(extra, more_ids), path.name)
        ids += more_ids
        owners = _units(extra, spec, more_ids) if persons else more_ids
        units += [unit if unit[:5] == "unit\0" else f"public\0{unit}" for unit in owners]
        texts, blank = texts + more_texts, np.concatenate([blank, more_blank])
        labels += extra.cells(spec.label)
        public = np.concatenate([public, np.ones(extra.n_rows, dtype=bool)])
    names, unit_of = _numbered(units)
    private = np.zeros(len(names), dtype=bool)
    private[unit_of[~public]] = True  # a unit is public only as a whole
    classes = spec.classes or _classes_of(
        [label for label, known in zip(labels, ~private[unit_of], strict=True) if known], spec
    )
    if long := [name for name in classes if len(name) > LONGEST_NAME]:
        raise UserError(
            f"{spec.nodes}: a class has a name of {len(long[0]):,} characters, expected at most "
            f"{LONGEST_NAME:,}: is {spec.label!r} the column of labels?"
        )
    if blank.all():
        raise UserError(f"{spec.nodes}: no document has a text; expected one at least")
    codes, outside, spelt = _codes(labels, classes)
    warnings += spelt
    mask = ~blank
    mask[mask] = _kept_of_units(names, unit_of[mask], np.asarray(ids, object)[mask], spec)
    crowded = int((~blank & ~mask).sum())
    mixed = int((public & private[unit_of]).sum())
    if mixed:
        warnings.append(
            f"{counted(mixed, 'document')} marked public, of a {spec.unit} with documents that are "
            "not: private all the same"
        )
    return Documents(
        ids=ids, unit_of=unit_of, units=names,
        # by units: a mark in a row of a private one may decide nothing for others
        sides=_sides(names, private, not private.all(), spec.test_share),
        texts=texts, labels=codes, kept=mask, classes=tuple(classes), outside=outside,
        dropped={
            "document without text": int(blank.sum()),
            f"document beyond {spec.max_per_unit} of one {spec.unit or 'unit'}": crowded,
        },
        warnings=tuple(warnings), sha256=table.sha256,
    )  # fmt: skip


def keyed(purpose: str, parts: Iterable[str]) -> list[int]:
    """Return a 64-bit keyed hash of each text: fixed in advance, a function of the text alone."""
    key = f"private-graphs documents: {purpose}".encode()
    return [
        int.from_bytes(hashlib.blake2b(part.encode(), key=key, digest_size=8).digest(), "big")
        for part in parts
    ]


def _texts(table: own_tables.OwnTable, spec: Declaration) -> tuple[list[str], np.ndarray]:
    """Return joined texts, and which documents have none."""
    blank = np.logical_and.reduce([own_tables.is_blank(table.columns[name]) for name in spec.text])
    if blank.any() and not spec.drop_empty:
        rows, suffix = own_tables.first_rows(blank)
        raise table.error(
            rows,
            f"no text in {', '.join(map(repr, spec.text))}{suffix}; write one, or leave such "
            "documents out with --drop-empty",
        )
    columns = [table.cells(name) for name in spec.text]
    return ["\n".join(parts) for parts in zip(*columns, strict=True)], blank


def _distinct(table: own_tables.OwnTable, ids: list[str]) -> dict[str, int]:
    """Return visible form of an id -> row; the ledger keeps one account of each."""
    rows: dict[str, int] = {}
    for row, key in enumerate(ids):
        if (first := rows.setdefault(seen(key), row)) != row:
            raise table.error(
                (first, row),
                f"the ids {ids[first]!a} and {key!a} look the same, expected each id once; keep "
                "one of them",
            )
    return rows


def _units(table: own_tables.OwnTable, spec: Declaration, ids: list[str]) -> list[str]:
    """Return the unit of each document; a document without one is its own unit."""
    if spec.unit is None:
        return list(ids)
    names = (seen(cell) for cell in table.cells(spec.unit))
    return [f"unit\0{name}" if name else doc_id for name, doc_id in zip(names, ids, strict=True)]


def _public(table: own_tables.OwnTable, spec: Declaration) -> np.ndarray:
    """Return (N,) bool: documents that the column of the declaration calls public."""
    if spec.public is None:
        return np.zeros(table.n_rows, dtype=bool)
    values = [cell.strip(NOT_SEEN).lower() for cell in table.cells(spec.public)]
    wrong = np.array([answer not in _YES | _NO for answer in values])
    if wrong.any():
        rows, suffix = own_tables.first_rows(wrong)
        raise table.error(
            rows,
            f"{spec.public!r} is {values[rows[0]]!r}{suffix}, expected yes or no: only documents "
            "that say yes (or 1, true, public) are public",
        )
    return np.array([answer in _YES for answer in values])


def _numbered(names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return distinct names in order of appearance, and the number of each name."""
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
    return list(numbers), codes


def _classes_of(labels: list[str], spec: Declaration) -> tuple[str, ...]:
    """Return the names of the classes of public documents, one for each that looks the same."""
    counts = Counter(labels)
    names: dict[str, str] = {}
    for label in sorted(counts, key=lambda text: (-counts[text], text)):
        if label.strip(NOT_SEEN) and not is_missing(label):
            names.setdefault(looks(label), label)
    if len(names) < 2:
        raise UserError(
            f"{spec.nodes}: public documents have {len(names)} classes in {spec.label!r}, expected "
            "at least two: name the classes with --classes a,b,c"
        )
    return tuple(sorted(names.values()))


def _codes(
    labels: list[str], classes: Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...], list[str]]:
    """Return (N,) classes, frequent labels that are none, and warnings about labels."""
    exact = {name: number for number, name in enumerate(classes)}
    lookalikes: dict[str, int] = {}
    for name, number in exact.items():
        lookalikes.setdefault(looks(name), number)
    counts = Counter(labels)
    kinds = {label: exact.get(label, lookalikes.get(looks(label), -1)) if label else -1
             for label in counts}  # fmt: skip
    none = {label for label, kind in kinds.items() if label and kind < 0}
    absent = set(filter(is_missing, none))

    def some(texts: set[str]) -> str:
        return ", ".join(map(shown, sorted(texts)[:3]))

    extra = none - absent
    often = tuple(sorted(extra, key=lambda text: (-counts[text], text))[:_MOST_OUTSIDE])
    warnings = []
    if extra:
        warnings.append(
            f"{counted(sum(counts[text] for text in extra), 'label')} outside the classes (such as "
            f"{some(extra)}): they count as unlabelled, and private ones stay protected"
        )
    if absent:
        count = sum(counts[text] for text in absent)
        warnings.append(f"{counted(count, 'label')} {some(absent)}: read as no label")
    if respelt := {label for label, kind in kinds.items() if kind >= 0} - set(classes):
        warnings.append(
            f"{counted(len(respelt), 'spelling', 'of labels')} ({some(respelt)}) unlike a class in "
            "case, invisible characters, Unicode form or the way to write a number alone: read as "
            "that class"
        )
    unused = [shown(name) for name, number in exact.items() if number not in kinds.values()]
    if unused:
        warnings.append(
            f"no document has the class {', '.join(unused)}: expected some of each; check the "
            "names in --classes"
        )
    return np.array([kinds[label] for label in labels], dtype=np.int64), often, warnings


def _kept_of_units(
    names: list[str], unit_of: np.ndarray, ids: np.ndarray, spec: Declaration
) -> np.ndarray:
    """Return which documents are kept: of each unit those with the smallest keyed hashes.

    The hash is of the unit's and the document's id, so that no unit changes what is kept of
    another one.
    """
    mask = np.ones(len(unit_of), dtype=bool)
    sizes = np.bincount(unit_of, minlength=len(names))
    crowded = np.flatnonzero((sizes > spec.max_per_unit)[unit_of])
    if len(crowded):
        pairs = (f"{names[unit_of[row]]}\0{ids[row]}" for row in crowded)
        ranks = np.array(keyed("kept documents", pairs), dtype=np.uint64)
        order = crowded[np.lexsort((ranks, unit_of[crowded]))]
        first = np.r_[0, np.flatnonzero(np.diff(unit_of[order])) + 1]
        rank = np.arange(len(order)) - np.repeat(first, np.diff(np.r_[first, len(order)]))
        mask[order[rank >= spec.max_per_unit]] = False
    return mask


def _sides(
    names: list[str], private: np.ndarray, any_public: bool, test_share: float | None
) -> np.ndarray:
    """Return the side of each unit, by a keyed hash of its id.

    With public documents all private units train, and a release of links is tested on half of the
    public ones; else a share of the private units answers the count of right answers: the larger
    one includes the smaller.
    """
    share = np.array(keyed("sides", names), dtype=np.uint64) / 2.0**64
    if any_public:
        return np.where(private, TRAINING, np.where(share < 0.5, PUBLIC_TEST, KNOWN))
    if test_share is None:
        test_share = _TEST_SHARES[len(names) >= _MANY]
    return np.where(share < test_share, TEST, TRAINING)
