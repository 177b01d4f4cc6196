"""Tables as papers print them: each printed number, and below it our scores with their ε.

A study names the rows and columns of its paper's table and the key of each number; ``laid_out``
puts printed numbers and scores there, and marks what was not run and what the paper does not print.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.words import (
    NOT_REPLAYED,
    accuracy,
    bound,
    budget,
    missing,
    number,
    tone,
)
from private_graphs.running.exhibit import NOTHING, Cell, Layout, LayoutCell, Line

LABELS = {"released": "code", "paper": "text", "sound": "fixed"}
"""Short names of the protocols in cells."""
ONLY_PRINTED = "printed only: not run here"
NOT_RUN, NOT_PRINTED = "not run", "added here"
_HOLDS, _REFUTED, _MODEL = "✓", "✗", "†"
_KEY = {
    NOT_RUN: ONLY_PRINTED,
    NOT_PRINTED: "not in the paper",
    "here": "of the dataset that is loaded here",
    **{label: PROTOCOLS[name].title for name, label in LABELS.items()},
    _HOLDS: "the ε that is asked for is proved, for the unit that the statement names",
    _REFUTED: "refuted: an attack shows a larger ε (99.9 %)",
    _MODEL: "the ε covers the model, not its predictions",
}
"""Meaning of labels and marks, in the order in which they are explained."""


@dataclass(frozen=True)
class LayoutColumn:
    """Column of a paper's table."""

    head: str
    of: Callable[[Mapping[str, Any]], Any]
    """From a row to the key of its number, or to the text of a heading."""
    group: str = ""
    heading: bool = False
    per: Sequence[str] = ()
    """Names in a row; adjacent rows with equal values share one cell. Those of the first column
    make the blocks of rows that are marked if nothing in them was run."""


def naming(
    column: str, names: Mapping[str, str], head: str = "", per: Sequence[str] = ()
) -> LayoutColumn:
    """Return the column of headings with the values of a row's ``column``, by their ``names``."""
    return LayoutColumn(
        head, lambda row: names.get(row[column], row[column]), heading=True, per=per
    )


def rows_of(names: Sequence[str], *frames: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the combinations of values in frames: by first name, then in order of occurrence."""
    keys = pd.concat([frame[list(names)] for frame in frames], ignore_index=True)
    keys = keys.drop_duplicates()
    first = keys[names[0]].map({name: i for i, name in enumerate(keys[names[0]].unique())})
    return keys.loc[first.sort_values(kind="stable").index].to_dict("records")


def short(text: str) -> str:
    """Return a number without the zero before its point: ``.767``."""
    return text.replace("0.", ".", 1) if text.removeprefix("-").startswith("0.") else text


def score_lines(
    points: Iterable[Mapping[str, Any]],
    key: Callable[[Mapping[str, Any]], Hashable],
    decimals: int = 3,
    times: float = 1,
) -> dict[Hashable, list[Line]]:
    """Return our lines by key, in the order of protocols.

    ``points`` are rows of ``Results.points`` or ``Results.baseline``; lines of a key that differ in
    their label alone are one line without a label.
    """
    order, groups = list(PROTOCOLS), {}
    for point in sorted(points, key=lambda row: order.index(row["protocol"])):
        mean, spread = (
            NOTHING if missing(value) else short(number(times * value, decimals))
            for value in (point["mean"], point.get("std"))
        )
        spread = (
            "" if spread == NOTHING else spread
        )  # the table of all columns says of how many runs
        line = Line(LABELS[point["protocol"]], mean, spread, _epsilon(point), accuracy(point))
        groups.setdefault(key(point), []).append(line)
    return {key: _shared(lines) for key, lines in groups.items()}


def _shared(lines: list[Line]) -> list[Line]:
    unlabelled = {replace(line, label="") for line in lines}
    return list(unlabelled) if len(unlabelled) == 1 and not lines[0].epsilon.statement else lines


def _epsilon(point: Mapping[str, Any]) -> Cell:
    """Return the ε that a point really has, with its statement: ``ε 5.90``, ``ε>4.78 ✗``."""
    if missing(point.get("status")):
        return Cell("")
    if point["status"] == "not_private":
        return Cell("", point["statement_id"])
    proved, refuted = point["epsilon_proved"], point["status"] == "refuted"
    if missing(proved) and refuted:
        lower = point.get("audit_epsilon_lower")
        text = f"ε {_REFUTED}" if missing(lower) else f"ε>{bound(lower)} {_REFUTED}"
        return Cell(text, point["statement_id"], "refuted")
    if missing(proved):
        return Cell("ε none", point["statement_id"], tone(point))
    replayed = point["status"] != "proved_not_replayed"
    holds = not refuted and replayed and proved <= point["epsilon"] * (1 + 1e-9)
    model = _MODEL if point["inference"] == "leaks" else ""
    digits = "0" if proved == 0 else budget(proved)
    text = f"ε {digits}{model}{f' {_HOLDS}' * holds}{f' {NOT_REPLAYED}' * (not replayed)}"
    return Cell(text, point["statement_id"], tone({**point, "status": "proved"}))


def laid_out(
    rows: Sequence[Mapping[str, Any]],
    places: Sequence[LayoutColumn],
    printed: Mapping[Hashable, LayoutCell],
    lines: Mapping[Hashable, Sequence[Line]],
) -> Layout:
    """Return a layout of printed numbers and our lines, both by key.

    Raises:
        ValueError: a printed number has no place.
    """
    keys = [[None if spec.heading else spec.of(row) for spec in places] for row in rows]
    lost = printed.keys() - {key for line in keys for key in line}
    if lost:
        raise ValueError(
            f"printed numbers without a place in the layout: {sorted(map(str, lost))}; expected a "
            "row and a column for each"
        )
    published, run = (np.array([[key in held for key in line] for line in keys], bool)
                  for held in (printed, lines))  # fmt: skip
    prints, runs = np.zeros((2, len(rows)), bool)  # by row: whether its block is printed, and run
    for block in _spans(rows, places[0].per):
        prints[block], runs[block] = published[block].any(), run[block].any()
    headings, unmerged = np.array([(spec.heading, not spec.per) for spec in places]).T
    new = prints & ~published[:, unmerged].any(axis=1)
    idle = (published & runs[:, None]).any(axis=0) & ~run.any(axis=0)
    extra = prints.any() & ~headings & ~published.any(axis=0)
    named = {int(np.argmax(headings & unmerged))} - {0}
    cells: list[list[LayoutCell | None]] = []
    for p, spec in enumerate(places):
        column: list[LayoutCell | None] = []
        for span in _spans(rows, spec.per):
            i, key = span[0], keys[span[0]][p]
            common = {"rows": len(span), "muted": bool(not runs[i] or idle[p])}
            scores = lines.get(key, ())
            if spec.heading:
                note = "" if prints[i] else NOT_PRINTED
                note = note if runs[i] else ONLY_PRINTED
                if p:  # the first column has the note of the block
                    note = NOT_PRINTED if p in named and new[i] else ""
                entry = LayoutCell(spec.of(rows[i]), note, heading=True, **common)
            elif key in printed:
                entry = replace(printed[key], lines=scores, **common)
                if not scores and not entry.muted and not entry.note:
                    entry = replace(entry, note=NOT_RUN)
            else:
                blank = len(scores) or extra[p] or new[i] or not prints[i]
                entry = LayoutCell("" if blank else NOTHING, lines=scores, **common)
            column += [entry, *[None] * (len(span) - 1)]
        cells.append(column)
    grid = list(zip(*cells, strict=True))
    notes = [NOT_PRINTED if is_extra else NOT_RUN if out else ""
             for is_extra, out in zip(extra, idle, strict=True)]  # fmt: skip
    columns = [(spec.group, spec.head, note) for spec, note in zip(places, notes, strict=True)]
    return Layout(columns, grid, _key(grid, notes))


def by_level(
    results: Any, paper: pd.DataFrame, scores: pd.DataFrame, levels: Mapping[str, str],
    graphs: Mapping[str, str], decimals: int, budget: str = "epsilon",
) -> Layout:  # fmt: skip
    """Return accuracies in percent: a row per level, ``line`` and ``budget``, a column per graph.

    ``paper`` and ``scores`` have the columns ``level``, ``line`` and ``budget``; ``levels`` and
    ``graphs`` are the paper's names. Graphs that it does not have come last.
    """
    named = [name for name in results.datasets if name in results.study.datasets]

    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return row["dataset"], row["level"], row[budget], row["line"]

    places = [
        naming("level", levels, per=("level",)),
        naming("line", {}, "method"),
        LayoutColumn("ε", lambda row: number(row[budget]), heading=True),
        *(LayoutColumn(graphs.get(name, name), lambda row, name=name: key(row | {"dataset": name}))
          for name in dict.fromkeys([*paper["dataset"], *named])),
    ]  # fmt: skip
    printed = {
        key(row): LayoutCell(
            number(row["accuracy_percent"], decimals), f"±{short(number(row['ci95'], 2))}"
        )
        for row in paper.to_dict("records")
    }
    return laid_out(
        rows_of(["level", budget, "line"], paper, scores), places, printed,
        score_lines(scores.to_dict("records"), key, 1, 100),
    )  # fmt: skip


def _spans(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[list[int]]:
    """Return the places of adjacent rows with equal values of ``names``; each alone without."""
    groups = groupby(range(len(rows)), lambda i: [rows[i][name] for name in names] if names else i)
    return [list(group) for _, group in groups]


def _key(
    cells: Iterable[Iterable[LayoutCell | None]], notes: Iterable[str]
) -> list[tuple[str, str]]:
    """Return the explanations of what occurs in cells and in the notes of columns."""
    entries = [entry for row in cells for entry in row if entry is not None]
    numbers = [entry for entry in entries if not entry.heading and entry.text not in ("", NOTHING)]
    seen = {*notes, *(entry.note for entry in entries)}
    for line in (line for entry in entries for line in entry.lines):
        seen |= {line.label, *line.epsilon.text}
    key = [(entry.text, "printed in the paper") for entry in numbers[:1]]
    key += [(entry.text, "struck through: an attack on this code refutes this ε, for every graph")
            for entry in numbers if entry.refuted][:1]  # fmt: skip
    return key + [(mark, meaning) for mark, meaning in _KEY.items() if mark in seen]
