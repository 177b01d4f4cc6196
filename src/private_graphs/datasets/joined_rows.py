"""Rows that a field in double quotes may have swallowed, as two stray quotes let it."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from private_graphs.datasets.own_tables import OwnTable, csv_rows

_MANY = 10
"""Lines like rows in one field from which it may have swallowed them; prose has hardly as many."""


def rows_that_join(table: OwnTable) -> list[int]:
    """Return rows with a field of many lines, each of which has the separators of a row."""
    if table.content is None:
        return []
    _, header = next(csv_rows(table.content, table.delimiter))
    separators, rows = len(header) - 1, set[int]()
    for column in table.columns.values() if separators else ():
        breaks = pc.fill_null(pc.count_substring(column, "\n"), 0)
        for row in np.flatnonzero(np.asarray(breaks) > _MANY).tolist():
            lines = column[row].as_py().splitlines()[1:-1]
            if all(line.count(table.delimiter) == separators for line in lines):
                rows.add(row)
    return sorted(rows)
