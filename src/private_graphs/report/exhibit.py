"""Exhibits: a table or figure is a value over a tidy frame; one function draws any of a kind.

A file ``studies/<study>/<name>.py`` ends with ``EXHIBIT``; nothing else names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

NOTHING = "–"


@dataclass(frozen=True)
class Cell:
    """What people see of a value: text, a link to its statement, and how it is to be taken."""

    text: str = NOTHING
    statement: str = ""
    """Identifier of the privacy statement behind it."""
    tone: str = ""
    """A class of the page: ``published``, ``words.strength`` of a proved ε, ``refuted``."""


@dataclass(frozen=True)
class Column:
    """A column: its head, how a row is shown there, and the group that it stands in."""

    head: str
    show: Callable[[dict[str, Any]], Cell | str]
    group: str = ""
    under: bool = False
    """On a page it stands below the column before it, in one cell."""


@dataclass(frozen=True)
class Table:
    """A table for people over a frame for programs (``data`` is what the CSV holds)."""

    title: str
    frame: pd.DataFrame
    columns: Sequence[Column]
    notes: Sequence[str] = ()
    panel: str = ""
    """Column of the rows that starts a new table on the page: ``dataset``."""
    lines: pd.DataFrame | None = None
    """What people see, where one of their rows stands for several of ``frame``."""
    stacked: bool = False
    """On a narrow screen a row is a card: cells of words, which nobody compares down a column."""

    @property
    def data(self) -> pd.DataFrame:
        """``frame`` without words for people, which other columns have as names."""
        return self.frame.drop(columns=["heading", "title"], errors="ignore")

    @property
    def shown(self) -> pd.DataFrame:
        """The rows that people see."""
        return self.frame if self.lines is None else self.lines

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The same, as every writer reads them."""
        return self.shown.to_dict("records")


_OF_A_POINT = ("dataset", "protocol", "epsilon", "status", "statement_id")
"""Columns that say where a point of a chart comes from."""


@dataclass(frozen=True)
class Chart:
    """Lines or markers over an axis, small multiples by row and column."""

    title: str
    frame: pd.DataFrame
    """One row per point: ``x``, ``y``, ``spread``, ``line``, facets, ``status``, ``statement_id``.

    Names of lines, facets and categories stand in the order of a categorical column, else as they
    first come; a line that is a number has a rank among the numbers. A row without ``line`` and
    ``y`` can hold a printed number of no line.
    """
    x: str
    y: str = "mean"
    spread: str = "std"
    line: str = ""
    """Column with the name of the line or marker that a point belongs to."""
    line_label: str = ""
    """Words before the lines in the legend."""
    words: str = ""
    """Column with words about a line in one row of facets: what is proved there. Every row of
    facets then has a legend of its own."""
    row: str = ""
    """Column of the rows of facets; further lines of a name are explanations of it."""
    column: str = ""
    printed: str = ""
    """Column with the number that the paper prints at a point, drawn beside it."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Horizontal lines of a facet: label -> column of the frame (majority class, public data)."""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    steps: bool = False
    """Values of x stand at equal distances, whatever they are."""
    categories: bool = False
    """The x values are names: markers without lines, names from top to bottom."""
    notes: Sequence[str] = ()

    @property
    def drawn(self) -> pd.DataFrame:
        """The columns of ``frame`` that the picture reads, and where its points come from."""
        read = {self.x, self.y, self.spread, self.line, self.words, self.row, self.column,
                self.printed, *self.references.values(), *_OF_A_POINT}  # fmt: skip
        return self.frame[[name for name in self.frame if name in read]]


@dataclass(frozen=True)
class Heatmap:
    """A matrix of counts or shares: a confusion matrix."""

    title: str
    values: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    row_label: str = ""
    column_label: str = ""
    most: float | None = None
    """Value of the darkest colour, by default the largest."""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Pictures:
    """A grid of images, such as digits that an attack reconstructs."""

    title: str
    images: np.ndarray
    """(rows, columns, height, width) in 0..1, of colours with a last axis of red, green, blue and
    how opaque."""
    rows: Sequence[str]
    columns: Sequence[str]
    notes: Sequence[str] = ()


Block = Table | Chart | Heatmap | Pictures | str
"""A part of an exhibit; a string is a paragraph."""


@dataclass(frozen=True)
class Bar:
    """A score in the picture of the overview."""

    label: str
    value: float
    tone: str = ""
    """As ``Cell.tone``; nothing where no private data are read."""


@dataclass(frozen=True)
class Answer:
    """What the overview says of a study: a question, sentences, a picture, what is best."""

    question: str
    verdict: str
    """The answer to it, in one sentence."""
    sentences: Sequence[tuple[str, str]]
    """(first word, the rest), such as ("Printed", "scores of …")."""
    bars: Mapping[str, Sequence[Bar]]
    """By dataset: scores from 0 to 1."""
    caption: str
    best: str
    """The scores of the best proved methods, in a few words."""


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of a paper, or one of ours."""

    name: str
    """Such as table1: also the name of its files and page."""
    title: str
    groups: Sequence[str]
    """Run groups that it reads: of its own study, or of another one as ``lrec2022.B``."""
    build: Callable[[Any], Sequence[Block]]
    """``build(results)`` with a ``report.results.Results``."""
    meaning: str = ""
    """What a reader learns from it, in one or two sentences."""
    answer: Callable[[Any], Answer | None] | None = None
    """``answer(results)``: what the overview says of its study; None where runs are missing."""
    statistics: bool = False
    """Whether it shows the sizes of the study's datasets, which are built for it then."""

    def reads(self, study_id: str) -> list[tuple[str, str]]:
        """Return (study, run group) of what it reads as an exhibit of ``study_id``."""
        parts = (group.rpartition(".") for group in self.groups)
        return [(owner or study_id, group) for owner, _, group in parts]

    def rows_of(self, rows: pd.DataFrame, study_id: str) -> pd.Series:
        """Return which of some tidy rows are of the run groups that it reads."""
        names = [".".join(pair) for pair in self.reads(study_id)]
        return (rows["study"] + "." + rows["group"]).isin(names)
