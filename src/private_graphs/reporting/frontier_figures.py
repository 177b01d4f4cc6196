"""Pictures of proved methods: micro-F1 against ε, and against the number of public labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from private_graphs.methods.names import METHOD_NAMES
from private_graphs.methods.problem import SETTINGS
from private_graphs.reporting.curve_figures import (
    GRID_STYLE,
    MAJORITY_STYLE,
    line_styles,
    plain,
)
from private_graphs.reporting.formats import is_missing, number
from private_graphs.reporting.frontier import REFERENCE
from private_graphs.reporting.method_points import setting_words
from private_graphs.reporting.readable import feature_title

# Shapes and dashes differ as well as colours, so that grey print works.
_COLOURS = ("#14532d", "#d9822b", "#3b7dd8", "#7b2d8b", "#b8860b", "#0f9e9e", "#a83232", "#5b6470")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
_DASHES = ("-", (0, (5, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1, 1)), (0, (7, 1, 1, 1, 1, 1)),
           (0, (2, 2)), (0, (9, 2)), (0, (4, 1, 4, 1, 1, 1)))  # fmt: skip
_LINE = {"linewidth": 1.7, "markersize": 6, "markeredgewidth": 0.8}
_PUBLIC = {"color": "black", "linestyle": (0, (6, 2)), "linewidth": 1.5, "zorder": 2}
"""The row that reads nothing private."""
_GCN = tuple(
    {"color": "#8a8a8a", "linestyle": (0, dashes), "linewidth": 1.6, "zorder": 1}
    for dashes in ((1, 1.2), (4, 1.2, 1, 1.2))
)
"""GCNs without DP, in the order of their rows."""
_PRINTED = {"marker": "_", "color": "black", "markersize": 15, "markeredgewidth": 2.2,
            "linestyle": "none", "zorder": 4}  # fmt: skip
_GAP = 1.5
"""Steps of a factor of two between the largest ε and ∞."""


def draw_frontier(frame: pd.DataFrame, dataset: str) -> Figure:
    """Return a figure of ``frame``, the rows of one dataset of the frontier; its title ``dataset``.

    A panel per setting (and a row of panels per kind of features), a line per method over ε with
    bars of one standard deviation over the draws, ∞ apart from them; the row that reads nothing
    private, the majority class and GCNs without DP as lines across; what the paper prints as black
    dashes.
    """
    kinds = list(dict.fromkeys(frame["features_kind"]))
    settings = [name for name in SETTINGS if (frame["setting"] == name).any()]
    styles = _method_styles(frame)
    figure, axes = _canvas(kinds, settings)
    epsilons = sorted(each for each in frame["epsilon"].dropna().unique() if 0 < each < math.inf)
    places = {each: math.log2(each) for each in epsilons}
    places[math.inf] = max(places.values(), default=0.0) + _GAP
    for kind, row in zip(kinds, axes, strict=True):
        here = frame[frame["features_kind"] == kind]
        references = here[here["setting"] == REFERENCE]
        for setting, axis in zip(settings, row, strict=True):
            points = here[here["setting"] == setting]
            _references(axis, references, places, claimed=SETTINGS[setting].unit == "node")
            _lines(axis, points, styles, places)
            _head(axis, setting, kind)
            _epsilon_axis(axis, places)
            _legend(axis, points, styles)
    _heights(frame, axes)
    figure.suptitle(f"Private and useful on {plain(dataset)}", x=0.01, ha="left", fontsize=13,
                    fontweight="bold")  # fmt: skip
    _reference_legend(figure, frame)
    return figure


def draw_labels(frame: pd.DataFrame, dataset: str) -> Figure | None:
    """Return a figure of ``frame``, the rows of one dataset of the table of labels.

    A panel per setting with fewer labels than all, a line per ε of the method with the highest
    validation score, over the number of public tuning labels; black: the row that reads nothing
    private. None where no setting has fewer labels.
    """
    names = [each for each in reversed(_label_columns(frame)) if frame[_mean(each)].notna().any()]
    fewer = frame[[_mean(each) for each in names if each != "all"]].notna().any(axis=1)
    settings = [each for each in SETTINGS if (fewer & (frame["setting"] == each)).any()]
    if not settings:
        return None
    kinds = list(dict.fromkeys(frame["features_kind"]))
    figure, axes = _canvas(kinds, settings, height=3.9)
    styles = line_styles(sorted(each for each in frame["epsilon"].unique() if each > 0), usual=4)
    for kind, row in zip(kinds, axes, strict=True):
        for setting, axis in zip(settings, row, strict=True):
            here = (frame["features_kind"] == kind) & (frame["setting"] == setting)
            _label_lines(axis, frame[here], names, styles)
            _head(axis, setting, kind)
            every = int(frame.loc[here, "tuning_nodes"].max())
            words = [f"all {every}" if each == "all" else each for each in names]
            axis.set_xticks(range(len(names)), words)
            axis.set_xlim(-0.3, len(names) - 0.7)
            axis.set_xlabel("public tuning labels", fontsize=9.5)
            _finish(axis)
    axes[0, 0].set_ylim(0, 1)
    figure.suptitle(f"Fewer public labels on {plain(dataset)}", x=0.01, ha="left", fontsize=13,
                    fontweight="bold")  # fmt: skip
    return figure


def _label_columns(frame: pd.DataFrame) -> list[str]:
    """Return the names of the numbers of labels of a table, the most first."""
    return [
        each.removeprefix("labels_").removesuffix("_mean")
        for each in frame.columns
        if each.startswith("labels_") and each.endswith("_mean")
    ]


def _mean(name: str) -> str:
    return f"labels_{name}_mean"


def _label_lines(
    axis: Axes,
    rows: pd.DataFrame,
    names: Sequence[str],
    styles: Mapping[float, Mapping[str, Any]],
) -> None:
    drawn = [row for row in rows.to_dict("records") if not row["epsilon"] or row["chosen"] is True]
    handles, words = [], []
    for row in sorted(drawn, key=lambda row: -row["epsilon"]):
        there = [each for each in names if not is_missing(row[_mean(each)])]
        style = styles.get(row["epsilon"], {**_PUBLIC, "zorder": 3})
        shift = 0.04 * (list(styles).index(row["epsilon"]) - 1) if row["epsilon"] else 0.0
        known = pd.DataFrame(
            {"mean": [row[_mean(each)] for each in there],
             "std": [row[f"labels_{each}_std"] for each in there]}
        )  # fmt: skip
        given = _LINE | {"zorder": 3, "markeredgecolor": "white"} | style
        _bars(axis, [names.index(each) + shift for each in there], known, given)
        handles.append(Line2D([], [], **given))
        budget = f"ε = {number(row['epsilon'])}"
        words.append(f"{budget}: {plain(row['title'])}")
    axis.legend(
        handles, words, loc="upper left", bbox_to_anchor=(-0.02, -0.2), frameon=False, fontsize=9,
        handlelength=3.4, labelspacing=0.4, borderaxespad=0,
    )  # fmt: skip


def _canvas(
    kinds: Sequence[str], settings: Sequence[str], height: float = 4.6
) -> tuple[Figure, Any]:
    with sns.axes_style(*GRID_STYLE):
        figure = Figure(
            figsize=(max(6.4, 3.9 * len(settings)), 1.3 + height * len(kinds)), layout="constrained"
        )
        axes = figure.subplots(len(kinds), len(settings), squeeze=False, sharey=True)
    return figure, axes


def _method_styles(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the style of every method with DP: the same in all panels, and in all pictures."""
    known = [name for name, each in METHOD_NAMES.items() if each.reads_private]
    drawn = frame[(frame["setting"] != REFERENCE) & (frame["epsilon"] > 0)]
    names = known + sorted(set(drawn["method"]) - set(known))
    fitted = set(drawn.loc[drawn["fits_tuning_labels"].eq(True), "method"])
    found = {}
    for place, name in enumerate(names):
        colour, marker = _COLOURS[place % len(_COLOURS)], _MARKERS[place % len(_MARKERS)]
        found[name] = {
            "color": colour,
            "marker": marker,
            "linestyle": _DASHES[place % len(_DASHES)],
            "markerfacecolor": "white" if name in fitted else colour,
            "markeredgecolor": colour if name in fitted or marker in "PX" else "white",
        }
    return found


def _lines(
    axis: Axes,
    points: pd.DataFrame,
    styles: Mapping[str, Mapping[str, Any]],
    places: Mapping[float, float],
) -> None:
    private = points[points["epsilon"] > 0]
    names = list(dict.fromkeys(private["method"]))
    for rank, name in enumerate(names):
        # Lines stand a little apart so that bars can be read.
        shift = 0.07 * (rank - (len(names) - 1) / 2)
        rows = private[private["method"] == name].sort_values("epsilon")
        finite = rows["epsilon"].map(math.isfinite).astype(bool)
        for part in (rows[finite], rows[~finite]):
            if len(part):
                x = [places[each] + shift for each in part["epsilon"]]
                _bars(axis, x, part, styles[name])
    for row in points[points["epsilon"] == 0].to_dict("records"):
        axis.axhline(row["mean"], **_PUBLIC)


def _bars(axis: Axes, x: Sequence[float], rows: pd.DataFrame, style: Mapping[str, Any]) -> None:
    _, caps, _ = axis.errorbar(
        x, rows["mean"], yerr=rows["std"].fillna(0), elinewidth=1, capsize=2,
        **(_LINE | {"zorder": 3} | style),
    )  # fmt: skip
    for cap in caps:
        cap.set_markeredgecolor(style["color"])


def _references(
    axis: Axes, references: pd.DataFrame, places: Mapping[float, float], *, claimed: bool
) -> None:
    """Draw the lines of a panel; ``claimed``: also what the paper prints, at node level."""
    for row in references[references["method"] == "majority"].to_dict("records"):
        axis.axhline(row["mean"], **MAJORITY_STYLE)
    gcns = references[references["method"] == "gcn"].to_dict("records")
    for row, style in zip(gcns, _GCN, strict=False):
        axis.axhline(row["mean"], **style)
    printed = references[references["method"] == "published"]
    printed = printed[printed["epsilon"].isin(list(places))]
    if claimed:
        axis.plot([places[each] for each in printed["epsilon"]], printed["mean"], **_PRINTED)


def _head(axis: Axes, setting: str, kind: str) -> None:
    unit, public = setting_words(setting)
    if kind != "raw":
        unit = f"{unit}, {feature_title(kind)}"
    axis.set_title(plain(public), loc="left", fontsize=9, color="#444444")
    axis.annotate(plain(unit), (0, 1), xytext=(0, 19), xycoords="axes fraction",
                  textcoords="offset points", fontsize=11, fontweight="bold")  # fmt: skip


def _epsilon_axis(axis: Axes, places: Mapping[float, float]) -> None:
    axis.set_xticks(list(places.values()), [number(each) for each in places])
    end = places[math.inf]
    axis.set_xlim(min(places.values()) - 0.4, end + 0.5)
    axis.axvspan(end - _GAP / 2, end + 0.5, color="#f2f2f2", zorder=0, linewidth=0)
    axis.set_xlabel("ε of one run (∞: without DP)", fontsize=9.5)
    _finish(axis)


def _finish(axis: Axes) -> None:
    axis.grid(axis="x", visible=False)
    axis.tick_params(axis="x", length=3, color="#888888", bottom=True, labelsize=9)
    axis.tick_params(axis="y", length=0, labelsize=9, labelleft=True)
    if axis.get_subplotspec().is_first_col():
        axis.set_ylabel("test micro-F1", fontsize=9.5)
    sns.despine(ax=axis, left=True)


def _heights(frame: pd.DataFrame, axes: Any) -> None:
    """Let the panels end at tenths around what they show."""
    spread = frame["std"].fillna(0)
    low, high = (frame["mean"] - spread).min(), (frame["mean"] + spread).max()
    axes[0, 0].set_ylim(
        max(0.0, math.floor(10 * low - 0.2) / 10), min(1.0, math.ceil(10 * high + 0.2) / 10)
    )


def _legend(axis: Axes, points: pd.DataFrame, styles: Mapping[str, Mapping[str, Any]]) -> None:
    """List the methods of a panel below it, the row that reads nothing private last."""
    titles = dict(zip(points["method"], points["title"], strict=True))
    private = list(dict.fromkeys(points.loc[points["epsilon"] > 0, "method"]))
    public = list(dict.fromkeys(points.loc[points["epsilon"] == 0, "method"]))
    handles = [Line2D([], [], **_LINE, **styles[name]) for name in private]
    handles += [Line2D([], [], **_PUBLIC) for _ in public]
    names = [plain(titles[name]) for name in private]
    names += [f"{plain(titles[name])}: ε = 0, nothing private" for name in public]
    axis.legend(
        handles, names, loc="upper left", bbox_to_anchor=(-0.02, -0.17), frameon=False, fontsize=9,
        handlelength=3.4, labelspacing=0.4, borderaxespad=0,
    )  # fmt: skip


def _reference_legend(figure: Figure, frame: pd.DataFrame) -> None:
    references = frame[frame["setting"] == REFERENCE]
    handles: list[Line2D] = []
    names: list[str] = []
    if (references["method"] == "published").any():
        handles.append(Line2D([], [], **_PRINTED))
        names.append("printed by the paper, not proved")
    gcns = list(dict.fromkeys(references.loc[references["method"] == "gcn", "title"]))
    for title, style in zip(gcns, _GCN, strict=False):
        handles.append(Line2D([], [], **style))
        names.append(plain(title))
    if (references["method"] == "majority").any():
        handles.append(Line2D([], [], **MAJORITY_STYLE))
        names.append("majority class")
    if frame["std"].notna().any():
        bar = {"marker": "|", "markersize": 11, "markeredgewidth": 1}
        handles.append(Line2D([], [], linestyle="none", color="#333333", **bar))
        names.append("one standard deviation over the draws")
    figure.legend(handles, names, loc="outside lower left", ncols=3, frameon=False, fontsize=9,
                  columnspacing=1.8, handlelength=3.4)  # fmt: skip
