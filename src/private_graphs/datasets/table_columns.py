"""Columns of a table: which ones names refer to, and which types are text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from private_graphs.core.errors import UserError, suggest
from private_graphs.datasets.spelling import NOT_SEEN, looks

OF_MODEL = " of the model"
"""End of the roles of columns that a released model reads: no flag names them otherwise."""
_SHOWN_COLUMNS, _SHOWN_LENGTH = 8, 40


def columns_of(path: Path, columns: list[str], roles: Mapping[str, str]) -> dict[str, str]:
    """Return, for each name, the column among ``columns`` that it refers to.

    An exact match wins; otherwise a name matches up to invisible characters around it.
    """
    meant, taken = {}, dict[str, str]()
    for role, name in roles.items():
        count = columns.count(name)
        matches = [column for column in columns if column.strip(NOT_SEEN) == name.strip(NOT_SEEN)]
        if count == 1 or (not count and len(matches) == 1):
            meant[name] = actual = name if count else matches[0]
            if (other := taken.setdefault(actual, role)) != role:
                raise UserError(
                    f"{path}: {roles[other]!r} ({other}) and {name!r} ({role}) are both the column "
                    f"{actual!r}, expected one role per column"
                )
            continue
        listing = _shown(columns)
        if count > 1:
            raise UserError(
                f"{path}: {count} columns are called {name!r} ({role}), expected one: rename them"
            )
        hint = _column_hint(role, name, columns)
        if len(columns) == 1 and "|" in columns[0]:
            hint = "; expected commas, semicolons or tabs between the fields: save the file so"
        raise UserError(f"{path}: no column {name!r} ({role}), found {listing}{hint}")
    return meant


def _shown(columns: list[str]) -> str:
    """Return column names for a message; a long one is private text of a file without a header."""
    named = [
        repr(name) if len(name) <= _SHOWN_LENGTH else f"one of {len(name)} characters"
        for name in columns[:_SHOWN_COLUMNS]
    ]
    suffix = f" and {len(columns) - len(named)} more" if len(columns) > len(named) else ""
    return ", ".join(named) + suffix


def _column_hint(role: str, name: str, columns: list[str]) -> str:
    """Return a hint which column may be meant, and which flag names it."""
    if role.endswith(OF_MODEL):
        return f", expected the column that the model reads: rename yours to {name!r}"
    flag = f"--{role.split()[0]}"
    same = [column for column in columns if looks(column) == looks(name)]
    if same:
        return f"; did you mean {same[0]!r}? ({flag} {shlex.quote(same[0])})"
    hint = suggest(name, [column for column in columns if len(column) <= _SHOWN_LENGTH])
    if role in ("source", "target"):
        return f"{hint}; name the columns of the edges with --source and --target"
    also = " or 'predict'" if role == "label" else ""
    return hint or f"; name the column with {flag} of 'declare'{also}"


def require_readable(path: Path, name: str, kind: pa.DataType) -> None:
    """Raise UserError unless values of a type are text, or have one spelling."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    readable = (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    )
    if not readable:
        floating = pa.types.is_floating(kind)
        why = "missing values turn whole numbers into decimals; " if floating else ""
        raise UserError(
            f"{path}: column {name!r} is of type {kind}, expected text or whole numbers; {why}"
            "write it as text"
        )
