"""Drawing: one function for each kind of picture, and one that writes the files.

seaborn draws lines, markers and heatmaps inside panels; Matplotlib writes one drawing as SVG, PNG
and PDF, offline, and equal values give equal bytes. The panels are placed here, in inches.

Pictures are narrow and tall: a phone shows them at full width with text of 12 px, a paper sets them
in one column. Titles and legends are stacked above and below the panels, so that they take no space
from them. The SVG is what Matplotlib writes, with real text, no background, and a style sheet with
other colours for dark mode.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from io import BytesIO
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from private_graphs.files import atomic_path
from private_graphs.report.exhibit import Chart, Heatmap, Pictures
from private_graphs.report.words import number

WIDTH, LINE, TEXT = 3.5, 0.17, 9.0
"""Width of every picture and height of a line of text, in inches; text size in points."""
_GAP, _HANDLE = 0.12, 0.34
"""Space between elements, and width of a legend sample, in inches."""

_INK, _SOFT, _GRID, _PAPER = "#1b1d22", "#5c6370", "#d9dce1", "#fefefe"
_SEEN = [sns.color_palette("colorblind")[place] for place in (0, 3, 2, 4, 1, 5, 7)]
"""The colour-blind palette without colours that are too light for lines."""
_NAMED = tuple(mpl.colors.to_hex(0.88 * np.array(colour)) for colour in _SEEN)
"""Colours of named lines, darker than the palette for contrast with white; markers and dashes
differ too, for grey print and for every eye."""
_RANKED = ("#440154", "#414487", "#2a788e", "#1f9a78", "#5f9a1c", "#9a8a00", "#8a8f98")
"""Colours of numeric lines, from the largest number down."""
_DARK = dict(
    zip(
        (_INK, _SOFT, _GRID, _PAPER, *_NAMED, *_RANKED),
        ("#e8eaee", "#a3abb8", "#3a3f49", "#14161a", *map(mpl.colors.to_hex, _SEEN),
         "#fde725", "#8fdc5f", "#2fc79b", "#55aede", "#b39bf0", "#e58fc8", "#9aa2af"),
        strict=True,
    )
)  # fmt: skip
"""Colour in dark mode for each colour in light mode."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "*")
"""Markers: their number has no divisor in common with that of the colours, so that an eighth
line differs from the first."""
_DASHES = ("", (5, 1.5), (3, 1.2, 1, 1.2), (1, 1), (7, 1, 1, 1, 1, 1), (2, 2), (9, 2),
           (4, 1, 4, 1, 1, 1))  # fmt: skip
"""Dashes of lines, in seaborn's format."""
_ACROSS = ((0, (6, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1)), (0, (1, 4)))
"""Dashes of reference lines."""
_PLACES = {"paper": 0, "released": 1, "sound": 2}
"""Style index of protocols, the same in all pictures."""
_UNPROVED = ("published_only", "refuted")
_SPREADS = {"std": "one standard deviation", "ci95": "95 % confidence interval"}

_STYLE = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": TEXT, "text.parse_math": False, "text.hinting": "none", "svg.fonttype": "none",
    "pdf.fonttype": 42, "xtick.color": _SOFT, "ytick.color": _SOFT, "axes.facecolor": "none",
    "image.composite_image": False,  # keeps pixels unchanged
    "lines.linewidth": 1.4, "lines.markersize": 4.8, "lines.markeredgewidth": 1.2,
}  # fmt: skip

_MOST_MARKERS = 40
"""Maximum number of markers of a line: those of hundreds of epochs would hide the curve."""
_Block = tuple[float, Callable[[Figure, float], None]]
"""A part of a picture: its height in inches, and a function that draws it below a given height."""
_Entry = tuple[Mapping[str, Any], str]
"""A legend sample and its text."""


def draw_chart(chart: Chart) -> Figure:
    """Draw ``chart``: facets below and beside each other, then the legend.

    A reference line is the mean of its column, or a line over ``x`` if the column varies. Markers
    are hollow if the status of a point says that no finite ε is proved. Printed numbers are
    horizontal bars, in the colour of a line if they belong to exactly one. ∞ is separate, at the
    right.

    Raises:
        ValueError: a logarithmic axis gets a number that is not positive.
    """
    with mpl.rc_context(_STYLE):
        frame = chart.drawn if chart.frame.empty else chart.drawn.dropna(subset=[chart.x])
        if frame.empty:
            return _stack(chart.title, [_text("Nothing has been run yet.")])
        chart = replace(chart, frame=frame)
        places, styles = _places(chart), _styles(chart)
        ends = ("", chart.y_label) if chart.categories else (chart.y_label, chart.x_label)
        blocks = _axis_words("↑", ends[0], "→", ends[1])
        for name, rows in _facets(frame, chart.row):
            if chart.row:
                bold, *others = _name(name).split("\n")
                blocks += [_text(bold, color=_INK, weight="bold"), *map(_text, others)]
            blocks.append(_panels(chart, rows, places, styles))
            if chart.words:
                blocks.append(_legend(_line_entries(chart, rows, styles), chart.line_label))
        if chart.line and not chart.words:
            blocks.append(_legend(_line_entries(chart, frame, styles), chart.line_label))
        return _stack(chart.title, [*blocks, _legend(_other_entries(chart))])


def draw_heatmap(heatmap: Heatmap) -> Figure:
    """Draw a matrix of coloured cells with their numbers, rows from the top."""
    values = np.asarray(heatmap.values, dtype=float)
    n_rows, n_columns = values.shape
    left = _margin(heatmap.rows)
    side = min(0.6, (WIDTH - left) / max(n_columns, 1))
    turned = any(_width(name) > side for name in heatmap.columns)
    below = _margin(heatmap.columns) if turned else LINE + 0.05
    peak = heatmap.most or np.nanmax(values, initial=0.0) or 1.0
    words = [[number(value) if value == round(value, 0) else number(value, 2).lstrip("0")
              for value in row] for row in values]  # fmt: skip
    widest = max((_width(word) for row in words for word in row), default=0.01)

    def paint(figure: Figure, top: float) -> None:
        axis = _axes(figure, left, top - n_rows * side, n_columns * side, n_rows * side)
        sns.heatmap(values, ax=axis, cmap="Blues", vmin=0, vmax=peak, cbar=False,
                    linewidths=0.3, linecolor="face",  # no gap between cells
                    annot=np.array(words), fmt="",
                    annot_kws={"size": TEXT * min(1.0, 0.9 * side / widest)},
                    xticklabels=heatmap.columns, yticklabels=heatmap.rows)  # fmt: skip
        axis.tick_params(axis="x", length=0, rotation=90 * turned)
        axis.tick_params(axis="y", length=0, rotation=0)

    with mpl.rc_context(_STYLE):
        labels = _axis_words("↓", heatmap.row_label, "→", heatmap.column_label)
        return _stack(heatmap.title, [*labels, (n_rows * side + below, paint)])


def draw_pictures(pictures: Pictures) -> Figure:
    """Draw a grid of images, with row and column names; in grey images 1 is white."""
    n_rows, n_columns, height, width = pictures.images.shape[:4]
    left = _margin(pictures.rows)
    side = min(0.8, (WIDTH - left) / max(n_columns, 1))
    tall = side * height / width
    heads = [_wrap(name, side) for name in pictures.columns]
    above = LINE * max(map(len, heads), default=0) + 0.05

    def paint(figure: Figure, top: float) -> None:
        for column, lines in enumerate(heads):
            _write(figure, left + (column + 0.47) * side, top, lines, ha="center")
        low = top - above - n_rows * tall
        axis = _axes(figure, left, low, n_columns * side, n_rows * tall)
        for row, name in enumerate(pictures.rows):
            middle = low + (n_rows - row - 0.5) * tall + LINE / 2
            _write(figure, left - 0.08, middle, [name], ha="right")
            for column in range(n_columns):
                axis.imshow(pictures.images[row, column], cmap="gray", vmin=0, vmax=1,
                            interpolation="none", aspect="auto",
                            extent=(column, column + 0.94, row + 1, row + 0.06))  # fmt: skip
        axis.set(xticks=[], yticks=[], xlim=(0, n_columns), ylim=(n_rows, 0))

    with mpl.rc_context(_STYLE):
        return _stack(pictures.title, [(above + n_rows * tall, paint)])


def save(figure: Figure, stem: Path, forms: Collection[str] = ("svg", "png", "pdf")) -> list[Path]:
    """Write the requested forms ``<stem>.svg``, ``.png`` and ``.pdf``; return the paths.

    Equal figures give equal bytes: the files contain no date and no version, and the identifiers of
    shapes depend only on the file's name and the drawing.
    """
    written = []
    for suffix in _NOTHING:
        if suffix in forms:
            written.append(stem.with_name(f"{stem.name}.{suffix}"))
            with atomic_path(written[-1]) as temporary:
                temporary.write_bytes(drawn(figure, stem.name, suffix))
    return written


_NOTHING = {
    "svg": ("Date", "Creator", "Format", "Type"),
    "png": ("Software",),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
"""Matplotlib metadata of each file kind that is left out."""


def drawn(figure: Figure, name: str, suffix: str = "svg") -> bytes:
    """Return the file of a figure; ``name`` determines the identifiers of shapes in an SVG."""
    stream = BytesIO()
    about = {"Title": figure.get_label(), **dict.fromkeys(_NOTHING[suffix])}
    with mpl.rc_context(_STYLE | {"svg.hashsalt": name}):
        figure.savefig(stream, format=suffix, dpi=200, transparent=suffix == "svg", metadata=about)
    return _for_pages(stream.getvalue()) if suffix == "svg" else stream.getvalue()


def _for_pages(data: bytes) -> bytes:
    """Return an SVG as an image with dark colours, whose title screen readers announce."""
    text = data.decode()
    dark = "".join(
        f'[style*="{paint}: {colour}"]{{{paint}:{_DARK[colour]}!important}}'
        for colour in _DARK for paint in ("fill", "stroke") if f"{paint}: {colour}" in text
    )  # fmt: skip
    text = text.replace("</style>", f"@media(prefers-color-scheme:dark){{{dark}}}</style>", 1)
    return text.replace("<svg ", '<svg class="chart" role="img" ', 1).encode()


# --- the parts of a picture -----------------------------------------------------------------------


def _stack(title: str, blocks: Sequence[_Block]) -> Figure:
    """Return a figure of ``title`` and the blocks below each other, with their total height."""
    blocks = [_text(title, color=_INK, weight="bold", size=10.0), *blocks]
    figure = Figure(figsize=(WIDTH, sum(tall for tall, _ in blocks) + 0.1), label=title)
    top = figure.get_figheight() - 0.05
    for tall, paint in blocks:
        paint(figure, top)
        top -= tall
    return figure


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    whole = figure.get_figheight()
    axis = figure.add_axes((left / WIDTH, bottom / whole, width / WIDTH, height / whole))
    axis.spines[:].set_visible(False)
    return axis


def _write(figure: Figure, x: float, top: float, lines: Sequence[str], **style: Any) -> None:
    for rank, line in enumerate(lines):
        y = (top - (rank + 0.75) * LINE) / figure.get_figheight()
        figure.text(x / WIDTH, y, line, **({"color": _SOFT} | style))


def _text(words: str, **style: Any) -> _Block:
    """Return a paragraph."""
    font = {name: value for name, value in style.items() if name != "color"}
    lines = _wrap(words, WIDTH - 0.1, **font)
    height = len(lines) * LINE + 0.02
    return height, lambda figure, top: _write(figure, 0.02, top, lines, **style)


def _axis_words(*parts: str) -> list[_Block]:
    """Return the meaning of the axes, as a paragraph above the panels: arrow, text, arrow, text."""
    words = [f"{arrow} {name}" for arrow, name in zip(parts[::2], parts[1::2], strict=True) if name]
    return [_text("    ".join(words))] if words else []


@cache
def _width(words: str, **font: Any) -> float:
    prop = FontProperties(family="DejaVu Sans", **({"size": TEXT} | font))
    return text_to_path.get_text_width_height_descent(words, prop, False)[0] / 72


def _wrap(words: str, width: float, **font: Any) -> list[str]:
    """Wrap ``words`` to lines of at most ``width`` inches."""
    lines = [words]
    for size in range(len(words), 0, -1):
        if all(_width(line, **font) <= width for line in lines):
            break
        lines = textwrap.wrap(words, size)
    return lines


def _margin(names: Sequence[str]) -> float:
    return max((_width(name) for name in names), default=0.0) + 0.1


def _legend(entries: Sequence[_Entry], title: str = "") -> _Block:
    """Return legend samples with their texts, as many per line as fit."""
    places, y = [], 0.0
    x = 0.02 + (_width(title) + _GAP if title else 0.0)
    for style, words in entries:
        lines = _wrap(words, WIDTH - _HANDLE - 0.1)
        wide = _HANDLE + max(map(_width, lines))
        if x > 0.02 and x + wide > WIDTH:
            x, y = 0.02, y + LINE
        places.append((x, y, style, lines))
        x, y = x + wide + _GAP, y + LINE * (len(lines) - 1)

    def paint(figure: Figure, top: float) -> None:
        _write(figure, 0.02, top, [title])
        for left, down, style, lines in places:
            ends = np.array([left, left + 0.5 * _HANDLE - 0.03, left + _HANDLE - 0.06]) / WIDTH
            middle = (top - down - 0.52 * LINE) / figure.get_figheight()
            figure.add_artist(Line2D(ends, [middle] * 3, markevery=[1], **style))
            _write(figure, left + _HANDLE, top - down, lines, color=_INK)

    return (y + LINE + 0.14 if entries else 0.0), paint


def _line_entries(
    chart: Chart, rows: pd.DataFrame, styles: Mapping[Any, Mapping[str, Any]]
) -> list[_Entry]:
    entries = []
    for line, style in styles.items():
        mine = rows[(rows[chart.line] == line) & rows[chart.y].notna()]
        if mine.empty:
            continue
        words = " ".join(filter(None, dict.fromkeys(mine[chart.words]))) if chart.words else ""
        if chart.categories:
            style = {"color": style["color"], "marker": style["marker"], "linestyle": "none"}
        if _hollow(mine).all():
            style = {**style, "markerfacecolor": _PAPER}
        entries.append((style, f"{_name(line)} {words}".strip()))
    return entries


def _other_entries(chart: Chart) -> list[_Entry]:
    frame, entries = chart.frame, []
    if chart.printed and frame[chart.printed].notna().any():
        entries.append((_bar(chart, _INK), "printed in the paper"))
    for dashes, (label, column) in zip(cycle(_ACROSS), chart.references.items(), strict=False):
        if frame[column].notna().any():
            entries.append(({"color": _SOFT, "linestyle": dashes, "linewidth": 1.2}, label))
    if chart.spread and frame[chart.spread].notna().any():
        marker = {"marker": "_" if chart.categories else "|", "markersize": 10, "color": _SOFT}
        entries.append(({"linestyle": "none"} | marker, _SPREADS.get(chart.spread, chart.spread)))
    if _hollow(frame).any():
        hollow = {"marker": "o", "linestyle": "none", "color": _SOFT, "markerfacecolor": _PAPER}
        entries.append((hollow, "hollow: no finite ε is proved"))
    return entries


def _bar(chart: Chart, colour: str) -> dict[str, Any]:
    return {"marker": "|" if chart.categories else "_", "color": colour, "linestyle": "none",
            "markersize": 13, "markeredgewidth": 2.2}  # fmt: skip


def _hollow(rows: pd.DataFrame) -> pd.Series:
    none = pd.Series(False, index=rows.index)
    return rows["status"].isin(_UNPROVED) if "status" in rows else none


# --- the panels of a chart ------------------------------------------------------------------------


def _order(values: pd.Series) -> list[Any]:
    """Return the values in the order of their categories, by size, or by first occurrence."""
    values = values.dropna()
    if isinstance(values.dtype, pd.CategoricalDtype):
        return [name for name in values.cat.categories if (values == name).any()]
    names = list(dict.fromkeys(values))
    return names if any(isinstance(name, str) for name in names) else sorted(names)


def _facets(frame: pd.DataFrame, column: str) -> Iterator[tuple[Any, pd.DataFrame]]:
    for name in _order(frame[column]) if column else [""]:
        yield name, frame[frame[column] == name] if column else frame


def _name(value: Any) -> str:
    return value if isinstance(value, str) else number(value)


def _styles(chart: Chart) -> dict[Any, dict[str, Any]]:
    """Return the style of every line: numbers by rank (largest first), names by position."""
    lines = chart.frame[chart.line] if chart.line else pd.Series([""])
    order = _order(lines)
    if isinstance(lines.dtype, pd.CategoricalDtype):
        order = list(lines.cat.categories)  # the same in charts that lack some lines
    ranked = not any(isinstance(line, str) for line in order)
    colours = _RANKED if ranked else _NAMED
    styles = {}
    for rank, line in enumerate(reversed(order) if ranked else order):
        place = _PLACES.get(line, rank)
        styles[line] = {"color": colours[place % len(colours)],
                        "marker": _MARKERS[place % len(_MARKERS)],
                        "dashes": _DASHES[place % len(_DASHES)]}  # fmt: skip
    return styles


def _places(chart: Chart) -> dict[Any, float]:
    """Return the position of every value of ``x``; infinity is separate from the largest."""
    values = _order(chart.frame[chart.x])
    if chart.steps or chart.categories:
        return {value: float(place) for place, value in enumerate(values)}
    finite = [value for value in values if math.isfinite(value)]
    if chart.log_x and min(finite, default=1) <= 0:
        raise ValueError(
            f"{chart.title}: column {chart.x!r}: found {min(finite):g}, expected positive numbers "
            "on a logarithmic axis; draw it as a reference line"
        )
    places = {value: math.log2(value) if chart.log_x else float(value) for value in finite}
    if len(values) > len(finite):
        ends = list(places.values()) or [0.0]
        places[math.inf] = ends[-1] + (1.5 if chart.log_x else 0.2 * (ends[-1] - ends[0]) or 1.0)
    return places


def _ticks(chart: Chart) -> tuple[tuple[float, float], list[float]]:
    """Return the limits and ticks of the value axis."""
    frame = chart.frame
    spread = frame[chart.spread].fillna(0) if chart.spread else 0.0
    others = [frame[name] for name in (chart.printed, *chart.references.values()) if name]
    values = pd.concat([frame[chart.y] - spread, frame[chart.y] + spread, *others]).dropna()
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5 * abs(low or 1), high + 0.5 * abs(high or 1)
    margin = 0.05 * (high - low)
    scores = pd.concat([frame[chart.y], *others]).dropna()
    zero = low < 0.25 * high and scores.min() >= 0  # the spread reaches below zero, no score does
    ends = (0.0 if zero else low - margin, high + margin)
    ticks = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(*ends)
    return ends, [float(tick) for tick in ticks if ends[0] <= tick <= ends[1]]


def _panels(
    chart: Chart,
    rows: pd.DataFrame,
    places: Mapping[Any, float],
    styles: Mapping[Any, Mapping[str, Any]],
) -> _Block:
    """Return one row of facets."""
    columns = _order(chart.frame[chart.column]) if chart.column else [None]
    ends, ticks = _ticks(chart)
    labels = [[number(tick)] for tick in ticks]
    if chart.categories:
        here = _order(rows[chart.x])
        places = {name: float(place) for place, name in enumerate(here)}
        labels = [_wrap(_name(name), 0.42 * WIDTH) for name in here]
    left = _margin([line for lines in labels for line in lines])
    width = (WIDTH - left - 0.12 + _GAP) / len(columns) - _GAP
    tall = max(1.3, 0.6 * width)
    if chart.categories:
        tall = len(labels) * (0.06 + max(LINE * max(map(len, labels)), 0.1 * len(styles)))
    head = LINE if chart.column else 0.0

    def paint(figure: Figure, top: float) -> None:
        for rank, column in enumerate(columns):
            start = left + rank * (width + _GAP)
            axis = _axes(figure, start, top - head - tall - 0.04, width, tall)
            if chart.column:
                _write(figure, start, top, [_name(column)])
            mine = rows[rows[chart.column] == column] if chart.column else rows
            _points(axis, chart, mine, places, styles)
            _scales(axis, chart, places, ends, ticks, width)
            shown = ["\n".join(lines) if rank == 0 else "" for lines in labels]
            axis.set_yticks(list(places.values()) if chart.categories else ticks, shown)

    return head + tall + LINE + 0.2, paint


def _points(
    axis: Axes,
    chart: Chart,
    rows: pd.DataFrame,
    places: Mapping[Any, float],
    styles: Mapping[Any, Mapping[str, Any]],
) -> None:
    """Draw the marks of one panel, from the back: references, spreads, lines, printed, points."""
    _references(axis, chart, rows, places)
    lines = rows[chart.line] if chart.line else pd.Series("", index=rows.index)
    lines = lines.astype(object).map(str, na_action="ignore")  # else a numeric scale
    styles = {str(line): style for line, style in styles.items()}
    points = pd.DataFrame({
        "line": lines, "value": rows[chart.x].astype(object),
        "place": [places[value] for value in rows[chart.x]], "score": rows[chart.y],
        "spread": rows[chart.spread] if chart.spread else np.nan, "hollow": _hollow(rows),
    }).dropna(subset=["line", "score"]).sort_values("place", kind="stable")  # fmt: skip
    for (value, score), line in _printed(chart, rows, lines).items():
        own = line in styles and points["line"].nunique() > 1
        place = ([places[value]], [score])[:: -1 if chart.categories else 1]
        style = _bar(chart, styles[line]["color"] if own else _INK)
        axis.plot(*place, **style, zorder=2.5, clip_on=False)
    if points.empty:
        return
    points["infinite"] = points["value"] == math.inf
    points["place"] += _shifts(chart, points, places, [*styles])
    look = {name: {line: style[name] for line, style in styles.items()}
            for name in ("color", "marker", "dashes")}  # fmt: skip
    (x, y), bars = ("place", "score"), axis.vlines
    if chart.categories:
        (x, y), bars = (y, x), axis.hlines
    low, high = points["score"] - points["spread"], points["score"] + points["spread"]
    bars(points["place"], low, high, color=points["line"].map(look["color"]), linewidth=1, zorder=2)
    drawn = {"x": x, "y": y, "hue": "line", "style": "line", "palette": look["color"],
             "estimator": None, "legend": False, "ax": axis, "clip_on": False}  # fmt: skip
    if not chart.categories:
        sns.lineplot(points, units="infinite", dashes=look["dashes"], zorder=3, **drawn)
    every = points.groupby("line")["place"]
    shown = points[every.cumcount() % (1 + every.transform("size") // _MOST_MARKERS) == 0]
    for hollow, some in shown.groupby("hollow"):
        sns.lineplot(some, markers=look["marker"], dashes=False, linestyle="none", zorder=4,
                     markeredgecolor="auto", markerfacecolor=_PAPER if hollow else "auto",
                     markeredgewidth=mpl.rcParams["lines.markeredgewidth"], **drawn)  # fmt: skip


def _references(axis: Axes, chart: Chart, rows: pd.DataFrame, places: Mapping[Any, float]) -> None:
    """Draw the mean of each reference column across the panel, or over ``x`` if it varies."""
    for dashes, column in zip(cycle(_ACROSS), chart.references.values(), strict=False):
        means = rows.groupby(chart.x, observed=True)[column].mean().dropna()
        style = {"color": _SOFT, "linestyle": dashes, "linewidth": 1.2, "zorder": 1}
        if len(means) and (chart.categories or means.max() - means.min() < 5e-4):
            (axis.axvline if chart.categories else axis.axhline)(means.mean(), **style)
        else:
            axis.plot([places[value] for value in means.index], means, clip_on=False, **style)


def _shifts(
    chart: Chart, points: pd.DataFrame, places: Mapping[Any, float], order: Sequence[str]
) -> pd.Series:
    """Return the horizontal shift of each point that separates the error bars of lines."""
    ends = sorted(places.values())
    nearest = min((b - a for a, b in pairwise(ends)), default=1.0)
    most = 0.75 * nearest if chart.categories else min(0.4 * nearest, 0.05 * (ends[-1] - ends[0]))
    beside = points["value"] if chart.categories else pd.Series(0, index=points.index)
    ranks = points["line"].map(order.index).groupby(beside)
    return most * ((ranks.rank("dense") - 0.5) / ranks.transform("nunique") - 0.5)


def _printed(
    chart: Chart, rows: pd.DataFrame, lines: pd.Series
) -> dict[tuple[Any, float], str | None]:
    """Return the line of each printed (x, score); None if it belongs to no line or to several."""
    if not chart.printed:
        return {}
    owners = lines.groupby([rows[chart.x], rows[chart.printed]], observed=True)
    return {place: own.dropna().iloc[0] if own.nunique() == 1 else None for place, own in owners}


def _scales(
    axis: Axes,
    chart: Chart,
    places: Mapping[Any, float],
    ends: tuple[float, float],
    ticks: Sequence[float],
    width: float,
) -> None:
    axis.tick_params(length=0, pad=3)
    axis.set(xlabel="", ylabel="")
    if chart.categories:
        axis.set(xlim=ends, ylim=(len(places) - 0.5, -0.5))
        names, span = {number(tick): tick for tick in ticks}, ends[1] - ends[0]
    else:
        first, last = min(places.values()), max(places.values())
        margin = 0.07 * (last - first) or 0.5
        axis.set(xlim=(first - margin, last + margin), ylim=ends)
        names = {_name(value): place for value, place in places.items()}
        span = 1.14 * (last - first)
        axis.axhline(ends[0], color=_SOFT, linewidth=0.8, zorder=0)
    axis.grid(axis="both" if chart.categories else "y", color=_GRID, linewidth=0.8, zorder=0)
    axis.set_axisbelow(True)
    # Names that would touch their neighbours are left out, except the last one.
    for every in range(1, len(names) + 1):
        kept = list(names.items())[::-1][::every][::-1]
        sides = [(place / (span or 1) * width, _width(name) / 2 + 0.03) for name, place in kept]
        if all(a + b <= c - d for (a, b), (c, d) in pairwise(sides)):
            break
    axis.set_xticks([place for _, place in kept], [name for name, _ in kept])
