"""Tables as CSV text, such that no spreadsheet takes a cell for a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

_SIGNS = "=+@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b-"
"""Characters that begin a formula, in ASCII, full width and small form."""
_NUMBER = re.compile(r" *[+-]?\d+(?:[.,]\d+)?")
_DROPPED = r"\x00-\x08\x0e-\x1f\x7f\xad\u061c\u200b-\u200f\u2060-\u206f\ufeff\"'"
_BLANKS = r" \x0b\x0c\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Characters before a sign that programs drop, quotes among them."""
_FORMULA = re.compile(
    rf"\A(?='*[\t\r\n])|(?:\A|(?<=[,;|\t\r\n]))(?=[{_BLANKS}{_DROPPED}]*[{_SIGNS}])"
    rf"|(?<=([ :^~]))(?=[{_DROPPED}]*[{_SIGNS}]\S)(?![+-]\d[\d.,]*(?:\1|\Z))")  # fmt: skip
"""Places where a formula begins, whatever separator a program reads the table with; one that is
escaped already is escaped again, so that no two ids are one cell."""


def cell(text: str) -> str:
    """Return a cell with ``'`` before each formula in it; a number as a whole is none."""
    return text if _NUMBER.fullmatch(text) else _FORMULA.sub("'", text)


def table_text(header: Sequence[str], rows: Iterable[Sequence[str | float]]) -> str:
    """Return a table as CSV: text in double quotes, numbers without, no cell a formula."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(map(cell, header))
    for row in rows:
        writer.writerow(cell(field) if isinstance(field, str) else field for field in row)
    return table.getvalue()
