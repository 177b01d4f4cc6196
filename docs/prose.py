"""Pages whose sentences hold numbers: every number is a value of a table of recorded results.

A page ``docs/NAME.md`` with numbers of results is made from the template
``docs/templates/NAME.md.j2``, whose expressions call the functions of ``NAMES``:
``{{ at("lrec2022/table1", dataset="cora", ...) }}``.
``python docs/tables.py`` makes the pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from private_graphs.core.errors import UserError
from private_graphs.report import layout
from private_graphs.report.claims import COLUMNS
from private_graphs.report.table import csv
from private_graphs.report.words import bound, budget
from private_graphs.site.record import read_recorded
from private_graphs.site.shelf import Shelf, recorded_shelf
from private_graphs.site.write import write_texts

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
TEMPLATES = DOCS / "templates"
ENDING = ".md.j2"

_recorded = cache(read_recorded)


@cache
def shelf(study: str) -> Shelf:
    """Return the recorded results of a study."""
    return recorded_shelf(ROOT / "recorded" / study, _recorded)


@cache
def frame(file: str) -> pd.DataFrame:
    """Return a table of recorded results, read as from its file: ``lrec2022/table1_2`` is the
    second one of that table's exhibit, ``claims/lrec2022`` has the verdicts on a text's claims."""
    study, _, stem = file.partition("/")
    with TemporaryDirectory() as folder:
        if study == "claims":
            return pd.read_csv(StringIO(csv(shelf(stem).claims[list(COLUMNS)])))
        for exhibit in shelf(study).exhibits:
            if re.fullmatch(rf"{exhibit.name}(_\d+)?", stem):
                write_texts(exhibit, shelf(study).blocks(exhibit), Path(folder), ("csv",))
                if (path := Path(folder, f"{stem}.csv")).is_file():
                    return pd.read_csv(path)
    raise UserError(f"{file}: no such table of recorded results; expected STUDY/EXHIBIT_NUMBER")


def rows(file: str, **where: Any) -> pd.DataFrame:
    """Return the rows of a CSV at values of columns, of which a list names several.

    Raises UserError where there are none: a sentence about nothing is not written.
    """
    found = frame(file)
    for name, value in where.items():
        found = found[found[name].isin(value if isinstance(value, list) else [value])]
    if found.empty:
        raise UserError(f"{file}: no row with {where}; the page needs one")
    return found


def short(value: float, decimals: int = 2) -> str:
    """Return a score as the pages write it: no zero before the point."""
    return layout.short(f"{value:.{decimals}f}")


UPPER = ("epsilon_proved", "epsilon_all_runs")
"""Columns of upper bounds on ε; ``LOWER``: of lower bounds."""
LOWER = ("audit_epsilon_lower",)


def _score(value: float, column: str, decimals: int) -> str:
    """Return a value that is no bound on ε; UserError for a bound, which is rounded to its side."""
    if column in UPPER + LOWER:
        name = "proved" if column in UPPER else "shown"
        raise UserError(f"{column}: a bound on ε; expected {name}(...), which rounds it safely")
    return short(value, decimals)


def proved(file: str, column: str = UPPER[0], **where: Any) -> str:
    """Return an upper bound on ε that all rows at a place have, rounded up; from the smallest to
    the largest where they differ."""
    found = rows(file, **where)[column]
    return " to ".join(dict.fromkeys(budget(float(end)) for end in (found.min(), found.max())))


def shown(file: str, column: str = LOWER[0], **where: Any) -> str:
    """Return the largest lower bound on ε at a place, rounded down."""
    return bound(float(rows(file, **where)[column].max()))


def at(file: str, column: str = "mean", decimals: int = 2, **where: Any) -> str:
    """Return the one value of a column at a place."""
    found = rows(file, **where)[column]
    if len(found) != 1:
        raise UserError(f"{file}: {len(found)} rows with {where}; expected one")
    return _score(float(found.iloc[0]), column, decimals)


def span(file: str, column: str = "mean", decimals: int = 2, **where: Any) -> str:
    """Return the smallest and the largest value of a column at a place."""
    found = rows(file, **where)[column]
    ends = (_score(float(end), column, decimals) for end in (found.min(), found.max()))
    return " to ".join(dict.fromkeys(ends))


def most(file: str, column: str = "mean", decimals: int = 2, **where: Any) -> str:
    """Return the largest value of a column at a place."""
    return _score(float(rows(file, **where)[column].max()), column, decimals)


def _differences(file: str, where: dict[str, Any]) -> pd.Series:
    found = rows(file, **where).dropna(subset=["published"])
    found = found[found["n"] > 0]
    if found.empty:
        raise UserError(f"{file}: nothing is printed at {where}")
    return found["mean"] - found["published"]


def off(file: str, decimals: int = 3, **where: Any) -> str:
    """Return the largest distance of a mean to the printed score."""
    return short(float(np.abs(_differences(file, where)).max()), decimals)


def above(file: str, **where: Any) -> str:
    """Return how many means lie above the printed score, of how many."""
    found = _differences(file, where)
    return f"{int((found > 0).sum())} of {len(found)}"


def lead(file: str, decimals: int = 2, **where: Any) -> str:
    """Return the mean at a place minus the majority class."""
    [row] = rows(file, **where).to_dict("records")
    return short(row["mean"] - row["majority"], decimals)


def claim(study: str, id_: str, protocol: str) -> str:
    """Return the verdict on a claim with what was measured: ``holds (.148 [.100, .197])``."""
    found = rows(f"claims/{study}", id=id_, protocol=protocol)
    [row] = found.to_dict("records")
    ends = f" [{short(row['low'], 3)}, {short(row['high'], 3)}]" if row["low"] < row["high"] else ""
    return f"{row['verdict'].replace('_', ' ')} ({short(row['measured'], 3)}{ends})"


def measured(study: str, id_: str, protocol: str, decimals: int = 3) -> str:
    """Return what was measured of a claim."""
    return at(f"claims/{study}", "measured", decimals, id=id_, protocol=protocol)


def difference(
    file: str, one: dict[str, Any], other: dict[str, Any], decimals: int = 3, **where: Any
) -> str:
    """Return the mean at a place minus that at another one."""
    found = []
    for place in (one, other):
        values = rows(file, **where, **place)["mean"]
        if len(values) != 1:
            raise UserError(f"{file}: {len(values)} rows with {where}, {place}")
        found.append(float(values.iloc[0]))
    return short(found[0] - found[1], decimals)


NAMES = {each.__name__: each for each in (
    at, span, most, proved, shown, off, above, lead, claim, measured, difference)}  # fmt: skip
INF = float("inf")


def templates() -> Iterable[Path]:
    """Return the templates of pages."""
    return sorted(TEMPLATES.rglob(f"*{ENDING}"))


def page_of(template: Path) -> Path:
    """Return the page that a template makes."""
    return DOCS / template.relative_to(TEMPLATES).with_suffix("")


def made(template: Path) -> str:
    """Return the text of its page."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.globals.update(NAMES, INF=INF)
    return environment.from_string(template.read_text(encoding="utf-8")).render()
