"""Which rows of a table are wrong: found where reading has failed, so that a message names them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa

from private_graphs.core.errors import UserError
from private_graphs.datasets.own_tables import OwnTable, csv_rows


def lines_of(data: bytes, rows: Sequence[int], delimiter: str) -> list[int]:
    """Return the lines (from 1) where rows (from 0, header not counted) start."""
    lines = [line for line, _ in islice(csv_rows(data, delimiter), max(rows) + 2)]
    return [lines[row + 1] for row in rows]


def check_rows(path: Path, data: bytes, n_fields: int, delimiter: str) -> None:
    """Raise UserError for the first row with a wrong number of fields or an unclosed quote."""
    for line, row in csv_rows(data, delimiter):
        if len(row) != n_fields:
            raise UserError(
                f"{path}: line {line}: {len(row)} fields, expected the {n_fields} of the header; "
                "put a field that has a separator, a quote or a line break in double quotes"
            )
    # Text after an unclosed quote belongs to its field, which then spans further lines.
    mark = b"\nend of file\n"
    line, row = deque(csv_rows(data.rstrip(b"\r\n") + mark, delimiter), maxlen=1).pop()
    if len(row) != 1 or row[0] != "end of file":
        raise UserError(
            f"{path}: line {line}: a field starts with a double quote that is never closed; close "
            "it, and write a quote inside a quoted field twice"
        )


def refuse_quotes(path: Path, data: bytes, n_fields: int, delimiter: str, end: int) -> NoReturn:
    """Raise UserError for the field at a place of the text, which is quoted in part."""
    check_rows(path, data, n_fields, delimiter)
    raise UserError(
        f"{path}: line {len(data[: end + 1].splitlines())}: text follows the double quote that "
        "closes a field, which may have swallowed rows; write a quote inside a quoted field twice"
    )


def refuse_repeated(table: OwnTable, column: pa.ChunkedArray, codes: np.ndarray) -> None:
    """Raise UserError for the first id, by its (rows,) code, that stands in a second row."""
    _, first = np.unique(codes, return_index=True)
    repeated = np.ones(len(codes), dtype=bool)
    repeated[first] = False
    second = int(np.flatnonzero(repeated)[0])
    rows = [int(np.flatnonzero(codes == codes[second])[0]), second]
    count = int(repeated.sum())
    suffix = f" ({count:,} repeated ids in all)" if count > 1 else ""
    raise table.error(
        rows,
        f"both have the id {column[second].as_py()!r}{suffix}, expected each id once; keep one "
        "of them",
    )
