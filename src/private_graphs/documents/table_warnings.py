"""Warnings of ``declare`` about a table of documents: findings that are often mistakes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from private_graphs.core.errors import counted, listed
from private_graphs.core.files import names_in
from private_graphs.datasets import own_tables
from private_graphs.datasets.joined_rows import rows_that_join
from private_graphs.datasets.spelling import is_missing, seen, shown
from private_graphs.documents.declaration import Declaration
from private_graphs.documents.hashing import listed_words, tokens
from private_graphs.documents.tables import Documents

_DECIMAL = re.compile(r"\d+\.0+")
"""A whole number with decimals."""
_WORD = re.compile(r"\w")


def warnings_about(table: own_tables.OwnTable, units: list[str], spec: Declaration) -> list[str]:
    """Return warnings about a table and the unit of each of its documents."""
    return [
        *_alone_warnings(units, spec),
        *_missing_warnings(units, spec), *_wordless_warnings(table, spec),
        *_unlisted_warnings(table, spec),
        *_decimal_warnings(table, spec), *_joined_warnings(table), *_unread_warnings(spec),
    ]  # fmt: skip


def _alone_warnings(units: list[str], spec: Declaration) -> list[str]:
    """Return a warning about documents without a person."""
    count = sum(not unit.startswith("unit\0") for unit in units) if spec.unit else 0
    return [
        f"{counted(count, 'document')} without {spec.unit!r}: each counts as a person of its own, "
        "and who has several of them is protected less; fill the column where the person is known"
    ] if count else []  # fmt: skip


def _missing_warnings(units: list[str], spec: Declaration) -> list[str]:
    """Return a warning about persons whose name is a spelling of a missing value."""
    counts = Counter(unit.removeprefix("unit\0") for unit in units if unit.startswith("unit\0"))
    return [
        f"{counted(counts[name], 'document')} with {spec.unit!r} {shown(name)}, which looks like a "
        f"missing value: they count as one person, of whom at most {spec.max_per_unit} documents "
        "are kept; leave the field empty where the person is not known"
        for name in sorted(filter(is_missing, counts))
    ]


def alike_warnings(docs: Documents, spec: Declaration) -> list[str]:
    """Return warnings about ids, in all tables, that may be those of one person or document."""
    persons = [name.removeprefix("unit\0") for name in docs.units if name.startswith("unit\0")]
    kinds = {"document": (spec.id, docs.ids)}
    if spec.unit:
        kinds["person"] = spec.unit, persons
    warnings = []
    for unit, (column, names) in kinds.items():
        distinct = set(map(seen, names))
        if several := len(distinct) - len({name.casefold().lstrip("0") for name in distinct}):
            warnings.append(
                f"{counted(several, 'value', f'of {column!r}')} unlike another one only in case or "
                f"leading zeros: each counts as a {unit} of its own, and who has several is "
                f"protected less; give each {unit} one value"
            )
    return warnings


def _wordless_warnings(table: own_tables.OwnTable, spec: Declaration) -> list[str]:
    """Return warnings about texts and columns of texts without a word."""
    bare = (name for name in spec.text if not any(map(seen, table.cells(name))))
    count = 0 if spec.model else sum(
        bool(seen(text) and not _WORD.search(text)) for text in _texts(table, spec)
    )  # fmt: skip
    return [f"{name!r} has no text in any row: nothing of it is read" for name in bare] + [
        f"{counted(count, 'document')} without a letter or digit: no word of them is read"
    ] * (count > 0)


def _unlisted_warnings(table: own_tables.OwnTable, spec: Declaration) -> list[str]:
    """Return a warning about texts without a word of the public list."""
    if spec.vocabulary is None:
        return []
    words = set(listed_words(spec.vocabulary, spec.encoding))
    count = sum(bool(seen(text) and words.isdisjoint(tokens(text)))
                for text in _texts(table, spec))  # fmt: skip
    return [
        f"{counted(count, 'document')} without a word of {spec.vocabulary.name}: nothing of them "
        "is read, and they get no class"
    ] if count else []  # fmt: skip


def _texts(table: own_tables.OwnTable, spec: Declaration) -> Iterator[str]:
    return map("\n".join, zip(*map(table.cells, spec.text), strict=True))


def _decimal_warnings(table: own_tables.OwnTable, spec: Declaration) -> list[str]:
    """Return a warning about whole numbers that a program has written as decimals."""
    columns = (name for name in (spec.id, spec.unit) if name)
    cells = {name: next(filter(_DECIMAL.fullmatch, table.cells(name)), None) for name in columns}
    return [
        f"{name!r} is {value!r} and the like: missing values turn whole numbers into decimals; the "
        f"ledger takes {value.partition('.')[0]} and {value} for two people: write the column as "
        "it was in earlier tables"
        for name, value in cells.items() if value
    ]  # fmt: skip


def _joined_warnings(table: own_tables.OwnTable) -> list[str]:
    """Return a warning about a field that may have swallowed rows, as two stray quotes let it."""
    rows = rows_that_join(table)
    return [str(table.error(
        rows[:1], "a field in double quotes spans lines that each look like a row: they count as "
        "one document; if a quote is missing, close it",
    ))] if rows else []  # fmt: skip


def _unread_warnings(spec: Declaration) -> list[str]:
    """Return a warning about files beside public tables that no table is read from."""
    if spec.public_files is None or not spec.public_files.is_dir():
        return []
    unread = [name for name in names_in(spec.public_files)
              if (name[0] == ".") == (Path(name).suffix.lower() in own_tables.ENDS)]  # fmt: skip
    return [
        f"{spec.public_files}: not read: {listed(map(shown, unread), 3)}; expected tables that end "
        f"in {', '.join(own_tables.ENDS)} and are not hidden: unpack, convert or rename those that "
        "are tables"
    ] if unread else []  # fmt: skip
