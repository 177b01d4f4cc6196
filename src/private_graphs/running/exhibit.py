"""Exhibits: a table or figure is a value over a tidy frame; one function draws all of a kind.

Modules of ``studies/<study>`` define them as ``NAME = Exhibit(...)``, or several
of a kind as a tuple; no list elsewhere names one.
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
    """Displayed value of a cell: text, link to its statement, and tone."""

    text: str = NOTHING
    statement: str = ""
    """Identifier of the value's privacy statement."""
    tone: str = ""
    """CSS class on the page: ``published``, ``words.strength`` of a proved ε, ``refuted``."""
    accuracy: tuple[str, float] | None = field(default=None, compare=False)
    """Dataset and share of right answers, which a page sets in grey where naming the largest class
    is as good."""


@dataclass(frozen=True)
class Column:
    """Column of a table: head, display of a row, and column group."""

    head: str
    show: Callable[[dict[str, Any]], Cell | str]
    group: str = ""
    under: bool = False
    """On a page: displayed below the previous column, in the same cell."""
    above: bool = False
    """On a page: a heading over the rows that share its text, in place of a column."""
    sparse: bool = False
    """On a page: left out of panels in which it has no entry."""


@dataclass(frozen=True)
class Line:
    """A score of ours below a printed number, with the ε that it really has."""

    label: str
    """Short name of its protocol; empty for what all protocols share."""
    score: str
    spread: str = ""
    epsilon: Cell = Cell("")
    """Its tone colours the ε; its statement is linked from the line."""
    accuracy: tuple[str, float] | None = field(default=None, compare=False)
    """As of ``Cell``."""

    @property
    def text(self) -> str:
        """The line as plain text: ``code .361 ± .051 ε>4.78 ✗``."""
        around = f"± {self.spread}" if self.spread else ""
        return " ".join(filter(None, (self.label, self.score, around, self.epsilon.text)))


@dataclass(frozen=True)
class LayoutCell:
    """Cell of a paper's table: what the paper prints, and our scores below it."""

    text: str = ""
    """The printed number; empty where the paper has no such cell."""
    note: str = ""
    """Small text after it: the printed spread, or why there is no score of ours."""
    lines: Sequence[Line] = ()
    heading: bool = False
    """Whether it names its row."""
    refuted: bool = False
    """Whether an attack refutes the ε of the printed number, which is then struck through."""
    muted: bool = False
    """Whether no score of ours stands in its part of the table."""
    rows: int = 1
    """Number of rows that it spans."""


@dataclass(frozen=True)
class Layout:
    """A table as its paper prints it: the paper's head, rows and columns."""

    columns: Sequence[tuple[str, str, str]]
    """(group, head, note) of every column."""
    rows: Sequence[Sequence[LayoutCell | None]]
    """Cells by row; None is covered by the cell above."""
    key: Sequence[tuple[str, str]]
    """(mark, meaning) of the labels and marks that occur."""


@dataclass(frozen=True)
class Table:
    """A displayed table over a machine-readable frame (``data`` is the content of the CSV)."""

    title: str
    frame: pd.DataFrame
    columns: Sequence[Column]
    notes: Sequence[str] = ()
    panel: str = ""
    """Column whose values split the page's table into several: ``dataset``."""
    lines: pd.DataFrame | None = None
    """Displayed rows, if one of them represents several rows of ``frame``."""
    stacked: bool = False
    """On a narrow screen each row becomes a card: for cells of words, which are not compared by
    column."""
    unfolded: int | None = None
    """Number of panels that a page shows at once, where the others are unfolded on request; None:
    all of them."""
    layout: Layout | None = None
    """The same numbers as the paper arranges them, which every form shows in place of ``columns``;
    a page has these below, on request."""

    @property
    def data(self) -> pd.DataFrame:
        """``frame`` without display columns, which other columns duplicate as names."""
        return self.frame.drop(columns=["heading", "title"], errors="ignore")

    @property
    def shown(self) -> pd.DataFrame:
        """Displayed rows."""
        return self.frame if self.lines is None else self.lines

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Displayed rows as dictionaries, as every writer reads them."""
        return self.shown.to_dict("records")


_OF_A_POINT = ("dataset", "protocol", "epsilon", "status", "statement_id")
"""Columns with the provenance of a chart's point."""


@dataclass(frozen=True)
class Chart:
    """Lines or markers over an axis, small multiples by row and column."""

    title: str
    frame: pd.DataFrame
    """One row per point: ``x``, ``y``, ``spread``, ``line``, facets, ``status``, ``statement_id``.

    Names of lines, facets and categories are in the order of a categorical column, else of first
    occurrence; a numeric line has a rank among the numbers. A row without ``line`` and ``y`` can
    hold a printed number that belongs to no line.
    """
    x: str
    y: str = "mean"
    spread: str = "std"
    line: str = ""
    """Column with the name of the point's line or marker."""
    line_label: str = ""
    """Legend title."""
    words: str = ""
    """Column with a description of a line in one row of facets: its proved guarantee. Every row
    of facets then has its own legend."""
    row: str = ""
    """Column of the rows of facets; further lines of text in a name explain it."""
    column: str = ""
    printed: str = ""
    """Column with the paper's printed number at a point, drawn next to it."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Horizontal reference lines of a facet: label → column of the frame (majority class, public
    data)."""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    steps: bool = False
    """Values of x are equally spaced, whatever they are."""
    categories: bool = False
    """x values are names: markers without lines, names from top to bottom."""
    bars: str = ""
    """Name of the line that is drawn as bars from zero, with the points of others on them; only
    over categories."""
    joined: bool = True
    """Whether lines join the points; not those of people or classes."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """Colours of lines and references by what their names hold: those of the study."""
    notes: Sequence[str] = ()

    @property
    def axes(self) -> str:
        """What its axes show, in words."""
        upwards = self.y_label or self.y
        if self.categories:
            return f"Across: {upwards}"
        return f"Upwards: {upwards}. Across: {self.x_label or self.x}"

    @property
    def drawn(self) -> pd.DataFrame:
        """The columns of ``frame`` that the picture reads, and the provenance of its points."""
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
    """Value of the darkest colour; by default the maximum."""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Pictures:
    """A grid of images, for example digits that an attack reconstructs."""

    title: str
    images: np.ndarray
    """(rows, columns, height, width) in 0..1; colour images have a last axis of red, green, blue
    and opacity."""
    rows: Sequence[str]
    columns: Sequence[str]
    notes: Sequence[str] = ()


Block = Table | Chart | Heatmap | Pictures | str
"""A part of an exhibit; a string is a paragraph."""


@dataclass(frozen=True)
class Comparison:
    """A small table of scores on the first page: a line per source, a column per dataset."""

    datasets: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Cell]]]
    """(source, its scores in the order of ``datasets``)."""


@dataclass(frozen=True)
class StudyAnswer:
    """What the first page says of its first study, beside the verdict."""

    question: str
    answer: str
    because: Sequence[str]
    """Why the printed ε is not true, in sentences."""
    printed: Comparison
    """What is printed, beside what the same network scores at that ε."""
    method: str
    """The method to use instead, by name."""
    protects: str
    """What it does and protects, in one sentence."""
    instead: Comparison
    """What it scores, beside public data alone."""
    worth: str
    """When it is worth it, in one sentence."""
    numbers: Mapping[str, str]
    """Numbers for the sentences of the study file (``study.Sentences``)."""


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of a paper, or an additional one of this project."""

    name: str
    """Name of the exhibit, its files and its page, for example table1."""
    title: str
    groups: Sequence[str]
    """Run groups that it reads: of its own study, or of another one as ``lrec2022.B``."""
    build: Callable[[Any], Sequence[Block]]
    """``build(results)`` with a ``report.results.Results``."""
    label: str = ""
    """The paper's own name of it: Figures 5.4-5.5; default: ``name`` in words."""
    meaning: str = ""
    """What a reader learns from it, in one or two sentences."""
    answer: Callable[[Any], StudyAnswer | None] | None = None
    """``answer(results)``: the overview's entry of its study; None if runs are missing."""
    numbers: Callable[[Any], Mapping[str, str]] | None = None
    """``numbers(results)``: those that its finding may name (``study.Sentences.findings``)."""
    statistics: bool = False
    """Whether it shows dataset sizes, for which the study's datasets are then built."""

    def reads(self, study_id: str) -> list[tuple[str, str]]:
        """Return the (study, run group) pairs that it reads as an exhibit of ``study_id``."""
        parts = (group.rpartition(".") for group in self.groups)
        return [(owner or study_id, group) for owner, _, group in parts]

    def rows_of(self, rows: pd.DataFrame, study_id: str) -> pd.Series:
        """Return which tidy rows belong to the run groups that it reads."""
        names = [".".join(pair) for pair in self.reads(study_id)]
        return (rows["study"] + "." + rows["group"]).isin(names)
