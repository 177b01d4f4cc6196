"""Figures of curves: one panel row per protocol, one line per ε or optimizer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D

from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting.curves import OPTIMIZERS, Curves
from private_graphs.reporting.formats import number
from private_graphs.reporting.readable import (
    OPTIMIZER_TITLES,
    leaks,
    position_title,
    proved_range,
    proved_units,
    together_range,
)

GRID_STYLE = ("whitegrid", {"grid.color": "#e6e6e6", "axes.edgecolor": "#888888"})
"""Arguments of seaborn's ``axes_style`` for every figure."""

MAJORITY_STYLE: dict[str, Any] = {
    "color": "#555555", "linestyle": (0, (5, 3)), "linewidth": 1.1, "zorder": 1,
}  # fmt: skip
"""The line at the score of always predicting the majority class."""

# Grey print keeps lightness, marker and dashes; each alone tells the lines apart.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
_DASHES = ("-", (0, (5, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1, 1)), (0, (7, 1, 1, 1, 1, 1)),
           (0, (2, 2)), (0, (9, 2)), (0, (4, 1, 4, 1, 1, 1)))  # fmt: skip
_LIGHTEST = 0.78
"""Where the colour map ends: lighter lines would be faint on white."""

_USUAL_BUDGETS = 5
_LINE_WORDS = {"linewidth": 1.7, "markersize": 6, "markeredgewidth": 0.8}
_PUBLISHED = {
    "markersize": 11, "markerfacecolor": "none", "markeredgecolor": "black",
    "markeredgewidth": 1.3, "linestyle": "none",
}  # fmt: skip


@dataclass(frozen=True)
class _Panels:
    """What the panels of one picture share."""

    curves: Curves
    column: str
    """Column of the points that tells the lines of a panel apart: epsilon or optimizer."""
    lines: tuple[Any, ...]
    positions: tuple[float, ...]
    styles: Mapping[Any, Mapping[str, Any]]

    def place(self, position: float, line: Any) -> float:
        """Return where a point stands; lines stand a little apart so that bars can be read."""
        step = 0.11 if self.curves.x == "splits" else 0.6
        shift = (self.lines.index(line) - (len(self.lines) - 1) / 2) * step
        if self.curves.x == "splits":
            return self.positions.index(position) + shift
        return 100 * position + shift


def line_styles(lines: Sequence[Any], usual: int = 1) -> dict[Any, dict[str, Any]]:
    """Return colour, marker and dashes of each line; the last line is the darkest.

    Styles count from the end and suppose ``usual`` lines or more, so that a large ε looks alike in
    figures with more or fewer lines.
    """
    colours = mpl.colormaps["viridis"]
    steps = max(len(lines), usual, 2) - 1
    found = {}
    for rank, line in enumerate(reversed(lines)):
        colour = mpl.colors.to_hex(colours(_LIGHTEST * rank / steps))
        found[line] = {
            "color": colour,
            "marker": _MARKERS[rank % len(_MARKERS)],
            "linestyle": _DASHES[rank % len(_DASHES)],
        }
    return found


def draw_curves(frame: pd.DataFrame, curves: Curves, dataset: str) -> Figure:
    """Return a figure of ``frame``, the points of one dataset whose title is ``dataset``.

    A panel row per protocol that has points; with DP a column per optimizer and a line per ε, else
    a line per optimizer. Bars are one standard deviation over the seeds; black outlines are
    published values, in the shape of their line; ε proved for one run, and for all runs behind a
    point together, stands beside each row.
    """
    panels = _panels(frame, curves)
    order = list(panels.lines)
    protocols = [each for each in PROTOCOLS if each in set(frame["protocol"])]
    columns = [[each] for each in _optimizers(frame)] if curves.private else [order]
    with sns.axes_style(*GRID_STYLE):
        width, beside = (3.9 * len(columns), 2.7) if curves.private else (6.6, 1.5)
        figure = Figure(
            figsize=(width + beside, 1.45 + 2.45 * len(protocols)), layout="constrained"
        )
        grid = GridSpec(
            len(protocols), len(columns) + 1, figure=figure,
            width_ratios=[width / len(columns)] * len(columns) + [beside],
        )  # fmt: skip
        first = None
        for row, protocol in enumerate(protocols):
            there = frame[frame["protocol"] == protocol]
            for place, optimizers in enumerate(columns):
                axis = figure.add_subplot(grid[row, place], sharex=first, sharey=first)
                first = first or axis
                title = protocol
                if curves.private:
                    title += f", {OPTIMIZER_TITLES[optimizers[0]]}"
                _panel(axis, there[there["optimizer"].isin(optimizers)], panels, title)
                last_row = row == len(protocols) - 1
                _axis_words(axis, panels, bottom=last_row, left=place == 0)
            _row_legend(figure.add_subplot(grid[row, -1]), there, panels)
    figure.suptitle(
        f"{curves.label} on {plain(dataset)}\n{curves.title}", x=0.01, ha="left",
        fontsize=12, fontweight="bold",
    )  # fmt: skip
    _common_legend(figure, frame)
    return figure


def _panels(frame: pd.DataFrame, curves: Curves) -> _Panels:
    if curves.private:
        column, lines = "epsilon", sorted(frame["epsilon"].unique())
        styles = line_styles(lines, _USUAL_BUDGETS)
    else:
        column, lines = "optimizer", _optimizers(frame)
        # All of them, so that one looks the same where the other was not run.
        styles = line_styles(OPTIMIZERS, usual=3)
    positions = tuple(sorted(frame[curves.x].unique()))
    return _Panels(curves, column, tuple(lines), positions, styles)


def _optimizers(frame: pd.DataFrame) -> list[str]:
    return [each for each in OPTIMIZERS if each in set(frame["optimizer"])]


def _panel(axis: Axes, points: pd.DataFrame, panels: _Panels, title: str) -> None:
    axis.set_title(title, loc="left", fontweight="bold", fontsize=10)
    for line, rows in points.groupby(panels.column, sort=True):
        rows = rows.sort_values(panels.curves.x)
        style = panels.styles[line]
        x = [panels.place(each, line) for each in rows[panels.curves.x]]
        _, caps, _ = axis.errorbar(
            x, rows["mean"], yerr=rows["std"].fillna(0), elinewidth=1, capsize=2, zorder=3,
            markeredgecolor="white", label=_line_name(line), **_LINE_WORDS, **style,
        )  # fmt: skip
        for cap in caps:
            cap.set_markeredgecolor(style["color"])
        printed = rows["published"].notna().to_numpy()
        if printed.any():
            axis.plot(
                [place for place, known in zip(x, printed, strict=True) if known],
                rows["published"][printed], marker=style["marker"], zorder=4, label="published",
                **_PUBLISHED,
            )  # fmt: skip
    _majority(axis, points, panels)


def _majority(axis: Axes, points: pd.DataFrame, panels: _Panels) -> None:
    levels = points.groupby(panels.curves.x)["majority_mean"].mean().dropna()
    if levels.empty:
        return
    if math.isclose(levels.min(), levels.max(), abs_tol=5e-4):
        axis.axhline(levels.mean(), label="majority class", **MAJORITY_STYLE)
        return
    middle = [
        panels.positions.index(each) if panels.curves.x == "splits" else 100 * each
        for each in levels.index
    ]
    axis.plot(middle, levels, label="majority class", **MAJORITY_STYLE)


def _axis_words(axis: Axes, panels: _Panels, *, bottom: bool, left: bool) -> None:
    axis.set_ylim(0, 1)
    names = [position_title(panels.curves.x, each) for each in panels.positions]
    if panels.curves.x == "splits":
        places, margin = list(range(len(names))), 0.5
    else:
        places, margin = [100 * each for each in panels.positions], 5.0
    axis.set_xticks(places, names)
    axis.set_xlim(places[0] - margin, places[-1] + margin)
    axis.tick_params(axis="x", length=3, color="#888888", bottom=True)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="both", labelsize=9, labelbottom=bottom, labelleft=left)
    if bottom:
        axis.set_xlabel(panels.curves.x_label, fontsize=9.5)
    if left:
        axis.set_ylabel("test micro-F1", fontsize=9.5)
    axis.grid(axis="x", visible=False)
    sns.despine(ax=axis, left=True)


def _row_legend(axis: Axes, points: pd.DataFrame, panels: _Panels) -> None:
    """List the lines of a panel row beside it, with ε proved for each."""
    axis.set_axis_off()
    handles, names = [], []
    for line in reversed(panels.lines):
        rows = points[points[panels.column] == line]
        if rows.empty:
            continue
        style = panels.styles[line]
        handles.append(Line2D([], [], markeredgecolor="white", **_LINE_WORDS, **style))
        words = _line_name(line)
        names.append(f"{words}: {_proved(rows)}" if panels.curves.private else words)
    axis.legend(
        handles, names, title=_privacy_title(points, panels), loc="center left", frameon=False,
        fontsize=9, title_fontsize=9, alignment="left", borderpad=0, borderaxespad=0,
        handlelength=3.2, labelspacing=0.45,
    )  # fmt: skip


def _proved(rows: pd.DataFrame) -> str:
    words = proved_range(rows)
    first = f"proved {words}" if words[0].isdigit() else words
    return "\n".join(each for each in (first, together_range(rows)) if each)


def _privacy_title(points: pd.DataFrame, panels: _Panels) -> str:
    if not panels.curves.private:
        return "No DP: no ε"
    proved = points[points["epsilon_proved"].notna()]
    if proved.empty:
        return "No finite ε is proved"
    title = [f"ε proved per {proved_units(points)} and run"]
    if leaks(points):
        title.append("(model only; predictions leak)")
    changing = proved.groupby("epsilon")["epsilon_proved"].agg(lambda each: each.max() / each.min())
    if panels.curves.x == "splits" and changing.max() > 1.05:
        low, high = (f"{int(each)}" for each in (panels.positions[0], panels.positions[-1]))
        title.append(f"from {low} to {high} subgraphs")
    return "\n".join(title)


def _common_legend(figure: Figure, frame: pd.DataFrame) -> None:
    handles: list[Line2D] = []
    names: list[str] = []
    if frame["published"].notna().any():
        handles.append(Line2D([], [], marker="o", **_PUBLISHED))
        names.append("published (outline of the line's marker)")
    if frame["majority_mean"].notna().any():
        handles.append(Line2D([], [], **MAJORITY_STYLE))
        names.append("majority class")
    if frame["std"].notna().any():
        bar = {"marker": "|", "markersize": 11, "markeredgewidth": 1}
        handles.append(Line2D([], [], linestyle="none", color="#333333", **bar))
        names.append("one standard deviation over the seeds")
    if handles:
        figure.legend(
            handles, names, loc="outside lower left", ncols=len(handles), frameon=False,
            fontsize=9, columnspacing=1.8,
        )  # fmt: skip


def _line_name(line: Any) -> str:
    return OPTIMIZER_TITLES[line] if isinstance(line, str) else f"ε = {number(line)}"


def plain(text: str) -> str:
    """Return ``text`` with its dollar signs escaped: matplotlib reads mathematics between them."""
    return text.replace("$", r"\$")
