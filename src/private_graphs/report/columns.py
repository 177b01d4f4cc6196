"""Columns that tables of several studies share: values as they are, and points beside each other.

A table shows the points of a line in one row: those of every protocol, or at every ε.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from private_graphs.report.words import missing, number, score
from private_graphs.running.exhibit import Cell, Column

Show = Callable[[dict[str, Any]], Cell | str]
percent = partial(score, decimals=1, times=100)


def _text(value: Any, decimals: int | None = None) -> str:
    return value if isinstance(value, str) else number(value, decimals)


def _shown(row: Mapping[str, Any], name: str, decimals: int | None = None) -> str:
    return _text(row[name], decimals)


def plain(*values: str | Mapping[str, str], decimals: int | None = None) -> list[Column]:
    """Return columns with values of a row as they are: texts, and numbers with ``decimals``.

    A text names a value, and is its head; a mapping is from other heads to names.
    """
    heads = [{value: value} if isinstance(value, str) else value for value in values]
    return [Column(head, partial(_shown, name=name, decimals=decimals))
            for part in heads for head, name in part.items()]  # fmt: skip


def lookup(points: pd.DataFrame, keys: Sequence[str]) -> Callable[..., dict[str, Any] | None]:
    """Return a function: (row, other values of some keys) → the point with the row's ``keys``."""

    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(None if missing(row.get(name)) else row[name] for name in keys)

    at = {key(row): row for row in points.to_dict("records")}
    return lambda row, **values: at.get(key({**row, **values}))


def beside(
    points: pd.DataFrame, line: Sequence[str], over: str, values: Iterable[Any],
    shows: Mapping[str, Show], under: Collection[str] = (), words: Callable[[Any], str] = _text,
) -> list[Column]:  # fmt: skip
    """Return the columns of the points of a line, by head, in a group for each of ``values``.

    These are values of the column ``over``; ``words`` names their groups. Heads in ``under`` stand
    below the column before.
    """
    at = lookup(points, [*line, over])

    def shown(row: dict[str, Any], value: Any, show: Show) -> Cell | str:
        point = at(row, **{over: value})
        return Cell() if point is None else show(point)

    return [
        Column(head, partial(shown, value=value, show=show), words(value), head in under)
        for value in values
        for head, show in shows.items()
    ]


def along(
    points: pd.DataFrame, line: Sequence[str], over: str, values: Iterable[Any], show: Show,
    group: str = "", words: Callable[[Any], str] = _text,
) -> list[Column]:  # fmt: skip
    """Return a column for each of ``values`` of the column ``over``, in one group."""
    return [
        replace(column, head=column.group, group=group)
        for column in beside(points, line, over, values, {"": show}, words=words)
    ]


def arranged(frame: pd.DataFrame, by: Sequence[str], **orders: Iterable[Any]) -> pd.DataFrame:
    """Return the rows sorted by several columns; ``orders`` lists the values of some in order."""
    ranks = {name: {value: i for i, value in enumerate(order)} for name, order in orders.items()}

    def rank(column: pd.Series) -> pd.Series:
        return column.map(ranks[str(column.name)]) if column.name in ranks else column

    return frame.sort_values(list(by), key=rank, ignore_index=True)


def size_columns(names: Mapping[str, str], source: str = "printed") -> list[Column]:
    """Return, for each size, what a source prints (``<source>_<name>``), and ours below it."""
    return [
        Column(head, partial(_shown, name=f"{prefix}{name}"), words, under=not prefix)
        for name, words in names.items()
        for head, prefix in ((source, f"{source}_"), ("ours", ""))
    ]
