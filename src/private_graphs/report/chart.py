"""Drawing: one function for each kind of picture, and one that writes the files.

All pictures are drawn with matplotlib and nothing else. It writes one drawing as SVG, PNG and PDF,
offline, and equal values give equal bytes; grammars of graphics (Altair, Vega) need a JavaScript
engine for that, and seaborn would add a second vocabulary for what a loop over facets does.

Pictures are narrow and tall: a phone shows them at full width with text of 12 px, a paper sets them
in one column. Titles and legends are stacked above and below the panels, so nothing shrinks for
them. The SVG has no background, real text, and other colours where the reader prefers dark pages.
"""

from __future__ import annotations

import math
import re
import textwrap
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from io import BytesIO
from itertools import cycle, groupby, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator
from PIL import Image

from private_graphs.files import atomic_path
from private_graphs.report.exhibit import Chart, Heatmap, Pictures
from private_graphs.report.words import number

WIDTH, LINE, TEXT = 3.5, 0.17, 9.0
"""Width of every picture and height of a line of text, in inches; size of text in points."""
_GAP, _HANDLE = 0.12, 0.34
"""Space between things, and width of a sample in a legend, in inches."""

_INK, _SOFT, _GRID, _PAPER = "#1b1d22", "#5c6370", "#d9dce1", "#ffffff"
_NAMED = ("#1f66c2", "#c75f00", "#13733f", "#7b3fa0", "#8a6d00", "#0b7d86", "#b3261e", "#5b6470")
"""Colours of lines with names; shapes and dashes differ too, for grey print and for every eye."""
_RANKED = ("#440154", "#414487", "#2a788e", "#1f9a78", "#5f9a1c", "#9a8a00", "#8a8f98")
"""Colours of lines with numbers, from the largest number down."""
_DARK = dict(
    zip(
        (_INK, _SOFT, _GRID, _PAPER, *_NAMED, *_RANKED),
        ("#e8eaee", "#a3abb8", "#3a3f49", "#14161a", "#7ab2ff", "#ff9d4d", "#4fcf8d", "#c79bf0",
         "#dcbf4a", "#45c8d1", "#ff8a80", "#aab3c0", "#fde725", "#8fdc5f", "#2fc79b", "#55aede",
         "#b39bf0", "#e58fc8", "#9aa2af"),
        strict=True,
    )
)  # fmt: skip
"""What stands for a colour on a dark page."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "*")
"""Their number has no divisor with that of the colours: a ninth line is no copy of the first."""
_DASHES = ("-", (0, (5, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1, 1)), (0, (7, 1, 1, 1, 1, 1)),
           (0, (2, 2)), (0, (9, 2)), (0, (4, 1, 4, 1, 1, 1)))  # fmt: skip
_ACROSS = ((0, (6, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1)), (0, (1, 4)))
"""Dashes of reference lines."""
_PLACES = {"paper": 0, "released": 1, "sound": 2}
"""Protocols look alike in all pictures."""
_UNPROVED = ("published_only", "refuted")
_SPREADS = {"std": "one standard deviation", "ci95": "95 % confidence interval"}

_FONT = "font-family: 'DejaVu Sans', 'Verdana', sans-serif"
_HREF = "{http://www.w3.org/1999/xlink}href"
_DIGITS = re.compile(r"-?\d+\.\d+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ACROSS_LINE = re.compile(r"^M(\S+) (\S+)L(\S+) \2$")
_UPRIGHT_LINE = re.compile(r"^M(\S+) (\S+)L\1 (\S+)$")
_NEAR = 0.01
"""Points by which a line may leave its clip and be as good as inside."""
_UNTURNED = re.compile(r"rotate\(-?0 [^)]*\)")

_STYLE = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": TEXT, "text.parse_math": False, "text.hinting": "none", "svg.fonttype": "none",
    "pdf.fonttype": 42, "xtick.color": _SOFT, "ytick.color": _SOFT, "axes.facecolor": "none",
    "image.composite_image": False,  # pixels stay what they are
    "lines.linewidth": 1.4, "lines.markersize": 4.8, "lines.markeredgewidth": 1.2,
}  # fmt: skip

_MOST_MARKERS = 40
"""Of a line: the markers of a curve of hundreds of epochs would hide it."""
_Block = tuple[float, Callable[[Figure, float], None]]
"""A part of a picture: its height in inches, and what draws it below a height of the figure."""
_Entry = tuple[Mapping[str, Any], str]
"""A sample of a legend and its words."""


def draw_chart(chart: Chart) -> Figure:
    """Return the picture of ``chart``: facets below and beside each other, then what they mean.

    A reference line is the mean of its column, or a line over ``x`` where that varies. Markers are
    hollow where the status of a point says that no finite ε is proved. Printed numbers are bars
    across, in the colour of a line where they belong to one alone. ∞ stands apart, at the right.

    Raises ValueError for a number that a logarithmic axis cannot have.
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
    """Return a matrix of coloured cells with their numbers, rows from the top."""
    values = np.asarray(heatmap.values, dtype=float)
    n_rows, n_columns = values.shape
    left = _margin(heatmap.rows)
    side = min(0.6, (WIDTH - left) / max(n_columns, 1))
    turned = any(_width(name) > side for name in heatmap.columns)
    below = _margin(heatmap.columns) if turned else LINE + 0.05
    peak = heatmap.most or np.nanmax(values, initial=0.0) or 1.0

    def paint(figure: Figure, top: float) -> None:
        axis = _axes(figure, left, top - n_rows * side, n_columns * side, n_rows * side)
        for (row, column), value in np.ndenumerate(values):
            share = 0.0 if math.isnan(value) else max(value, 0.0) / peak
            colour = mpl.colormaps["Blues"](0.05 + 0.9 * share)
            axis.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="none"))
            words = number(value) if value == round(value, 0) else number(value, 2).lstrip("0")
            size = TEXT * min(1.0, 0.9 * side / max(_width(words), 0.01))
            # The cell keeps its colour on dark pages, so its number does too.
            axis.text(column + 0.5, row + 0.5, words, ha="center", va="center_baseline", size=size,
                      color="#fefefe" if share > 0.55 else "#0c0d10")  # fmt: skip
        axis.set(xlim=(0, n_columns), ylim=(n_rows, 0))
        axis.set_xticks(np.arange(n_columns) + 0.5, heatmap.columns, rotation=90 * turned)
        axis.set_yticks(np.arange(n_rows) + 0.5, heatmap.rows)
        axis.tick_params(length=0)

    with mpl.rc_context(_STYLE):
        words = _axis_words("↓", heatmap.row_label, "→", heatmap.column_label)
        return _stack(heatmap.title, [*words, (n_rows * side + below, paint)])


def draw_pictures(pictures: Pictures) -> Figure:
    """Return a grid of images, with the names of rows and columns; in grey 1 is white."""
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
    """Write those of ``<stem>.svg``, ``.png`` and ``.pdf`` that are asked for; return the paths.

    Equal figures give equal bytes: no date, no version, and identifiers that depend on the name
    of the file and on what is drawn alone, so that several SVGs can stand in one page.
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
"""What files of a kind would say, and is left out."""


def drawn(figure: Figure, name: str, suffix: str = "svg") -> bytes:
    """Return the file of a figure; ``name`` is where the identifiers of an SVG begin."""
    stream = BytesIO()
    with mpl.rc_context(_STYLE | {"svg.hashsalt": name}):
        figure.savefig(stream, format=suffix, dpi=200, transparent=suffix == "svg",
                       metadata=dict.fromkeys(_NOTHING[suffix]))  # fmt: skip
    return _for_pages(stream.getvalue(), figure) if suffix == "svg" else stream.getvalue()


def _for_pages(data: bytes, figure: Figure) -> bytes:
    """Return an SVG with a title and dark colours, without identifiers that nothing refers to."""
    space = "http://www.w3.org/2000/svg"
    ElementTree.register_namespace("", space)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(data)
    values = {value for item in root.iter() for value in item.attrib.values()}
    used = {name for value in values for name in re.findall(r"#([^)]+)", value)}
    for item in root.iter():
        if item.get("id") not in used:
            item.attrib.pop("id", None)
    for shape in root.iterfind(f".//{{{space}}}defs/{{{space}}}path"):
        shape.attrib.pop("style", None)  # where it is used it has a style, and rules reach that
    for image in root.iter(f"{{{space}}}image"):
        image.set(_HREF, _smaller(image.get(_HREF)))
    _unclip(root, space)
    _shrink(root, space)
    styles = _classed(root)
    _gather(root, space, styles)
    dark = [
        f"svg .{name}{{{paint}:{_DARK[colour]}}}"
        for name, style in styles.items()
        for paint, colour in re.findall(r"(fill|stroke):(#\w{6})", style)
        if colour in _DARK
    ]
    root.find(f".//{{{space}}}style").text = (
        "svg.chart *{stroke-linejoin:round;stroke-linecap:butt}"
        f"svg.chart text{{{_FONT}}}"
        + "".join(f"svg .{name}{{{style}}}" for name, style in styles.items())
        + f"@media(prefers-color-scheme:dark){{{''.join(dark)}}}"
    )
    root.attrib |= {"class": "chart", "role": "img"}
    title = ElementTree.Element(f"{{{space}}}title")
    title.text = figure.get_label()
    root.insert(0, title)
    return ElementTree.tostring(root, encoding="unicode").encode() + b"\n"


def _smaller(address: str) -> str:
    """Return the data address of a PNG, with one byte a pixel where it is grey: Matplotlib always
    writes four."""
    kind, _, text = address.partition(",")
    picture = Image.open(BytesIO(b64decode(text)))
    red, green, blue, opaque = picture.convert("RGBA").split()
    grey = red == green == blue and opaque.getextrema() == (255, 255)
    stream = BytesIO()
    (red if grey else picture).save(stream, "PNG", optimize=True)
    return f"{kind},{b64encode(stream.getvalue()).decode()}"


def _classed(root: ElementTree.Element) -> dict[str, str]:
    """Move the styles of elements into classes, which are named after them; return these."""
    styles = {}
    for item in root.iter():
        if style := item.attrib.pop("style", None):
            style = re.sub(r"\s*([:;])\s*", r"\1", style)
            name = f"s{sha256(style.encode()).hexdigest()[:7]}"
            styles[name] = style
            item.set("class", name)
    return styles


def _gather(root: ElementTree.Element, space: str, styles: Mapping[str, str]) -> None:
    """Make one path of lines beside each other that look alike, and groups of marks and words."""
    path, group, use, text = (f"{{{space}}}{tag}" for tag in ("path", "g", "use", "text"))
    for parent in [*root.iter()]:
        runs = groupby(parent, lambda item: (item.tag, item.get("class"), len(item.attrib)))
        gathered = []
        for (tag, name, count), run in runs:
            items = [*run]
            lines = tag == path and count == 2 and "fill:none" in styles.get(name, "")
            if len(items) > 1 and lines:
                items[0].set("d", "".join(item.get("d") for item in items))
                items = items[:1]
            elif len(items) > 1 and tag in (use, text) and name:
                whole = ElementTree.Element(group, {"class": name})
                for item in items:
                    item.attrib.pop("class")
                whole[:] = items
                items = [whole]
            gathered += items
        parent[:] = gathered
    for mark in root.iter(use):
        mark.set("href", mark.attrib.pop(_HREF))


def _shrink(root: ElementTree.Element, space: str) -> None:
    """Take away what shows nothing: spaces, groups of one or none, digits below 0.01 pt."""
    group = f"{{{space}}}g"
    for item in root.iter():
        item.text, item.tail = (text and text.strip() for text in (item.text, item.tail))
        for name in {"d", "x", "y", "transform", "points"} & set(item.attrib):
            value = _UNTURNED.sub("", _DIGITS.sub(_hundredths, item.attrib[name]))
            value = " ".join(value.split())
            if name == "d":
                value = re.sub(" ?([A-Za-z]) ?", r"\1", value)
                value = _ACROSS_LINE.sub(r"M\1 \2H\3", _UPRIGHT_LINE.sub(r"M\1 \2V\3", value))
            item.attrib[name] = value
        item.attrib = {
            name: value.replace(f"{_FONT}; ", "") if name == "style" else value
            for name, value in item.attrib.items()
            if (name, value) != ("transform", "")
        }
    for parent in [*root.iter()]:
        flat = []
        for child in parent:
            flat += [*_bare(child, group)]
        parent[:] = flat


def _unclip(root: ElementTree.Element, space: str) -> None:
    """Take away the clip of lines that lie inside it, and clips that nothing needs then."""
    clips = {
        f"url(#{clip.get('id')})": [float(box.get(name)) for name in ("x", "y", "width", "height")]
        for clip in root.iter(f"{{{space}}}clipPath")
        for box in clip.iter(f"{{{space}}}rect")
    }
    for line in root.iter(f"{{{space}}}path"):
        box = clips.get(line.get("clip-path", ""))
        if box is None or line.get("transform"):
            continue
        points = np.array(_NUMBER.findall(line.get("d") or ""), float).reshape(-1, 2)
        low, high = np.array(box[:2]) - _NEAR, np.add(box[:2], box[2:]) + _NEAR
        if ((low <= points) & (points <= high)).all():
            line.attrib.pop("clip-path")
    used = {item.get("clip-path") for item in root.iter()}
    for parent in root.iter(f"{{{space}}}defs"):
        for clip in parent.findall(f"{{{space}}}clipPath"):
            if f"url(#{clip.get('id')})" not in used:
                parent.remove(clip)


def _bare(item: ElementTree.Element, group: str) -> Iterator[ElementTree.Element]:
    """Yield an element, or in place of a group without attributes what is in it."""
    if item.tag != group or item.attrib:
        yield item
        return
    for child in item:
        yield from _bare(child, group)


def _hundredths(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


# --- the parts of a picture -----------------------------------------------------------------------


def _stack(title: str, blocks: Sequence[_Block]) -> Figure:
    """Return a figure of ``title`` and the blocks below each other, as high as they are."""
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
    """Return what the axes mean, as a paragraph above the panels: arrow, words, arrow, words."""
    words = [f"{arrow} {name}" for arrow, name in zip(parts[::2], parts[1::2], strict=True) if name]
    return [_text("    ".join(words))] if words else []


@cache
def _width(words: str, **font: Any) -> float:
    prop = FontProperties(family="DejaVu Sans", **({"size": TEXT} | font))
    return text_to_path.get_text_width_height_descent(words, prop, False)[0] / 72


def _wrap(words: str, width: float, **font: Any) -> list[str]:
    """Return ``words`` in lines of at most ``width`` inches."""
    lines = [words]
    for size in range(len(words), 0, -1):
        if all(_width(line, **font) <= width for line in lines):
            break
        lines = textwrap.wrap(words, size)
    return lines


def _margin(names: Sequence[str]) -> float:
    return max((_width(name) for name in names), default=0.0) + 0.1


def _legend(entries: Sequence[_Entry], title: str = "") -> _Block:
    """Return samples with their words, as many in a line as there is room for."""
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
        if _hollow(mine).all():
            style = {**style, "markerfacecolor": _PAPER}
        if chart.categories:
            style = {**style, "linestyle": "none"}
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
    """Return the values in the order of their categories, by size, or as they first come."""
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
    """Return how every line looks: numbers have a rank from the largest down, names a place."""
    lines = chart.frame[chart.line] if chart.line else pd.Series([""])
    order = _order(lines)
    if isinstance(lines.dtype, pd.CategoricalDtype):
        order = list(lines.cat.categories)  # the same in charts that lack some
    ranked = not any(isinstance(line, str) for line in order)
    colours = _RANKED if ranked else _NAMED
    styles = {}
    for rank, line in enumerate(reversed(order) if ranked else order):
        place = _PLACES.get(line, rank)
        colour, dashes = colours[place % len(colours)], _DASHES[place % len(_DASHES)]
        styles[line] = {"color": colour, "marker": _MARKERS[place % len(_MARKERS)],
                        "markerfacecolor": colour, "linestyle": dashes}  # fmt: skip
    return styles


def _places(chart: Chart) -> dict[Any, float]:
    """Return where every value of ``x`` stands; infinity stands apart from the largest."""
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
    """Return the ends of the axis of values, and the ticks between them."""
    frame = chart.frame
    spread = frame[chart.spread].fillna(0) if chart.spread else 0.0
    others = [frame[name] for name in (chart.printed, *chart.references.values()) if name]
    values = pd.concat([frame[chart.y] - spread, frame[chart.y] + spread, *others]).dropna()
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5 * abs(low or 1), high + 0.5 * abs(high or 1)
    margin = 0.05 * (high - low)
    scores = pd.concat([frame[chart.y], *others]).dropna()
    zero = low < 0.25 * high and scores.min() >= 0  # a deviation reaches below it, no score does
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
    def draw(x: Sequence[float], y: Sequence[float], **style: Any) -> None:
        if len(x):
            axis.plot(*((y, x) if chart.categories else (x, y)), **style, clip_on=False)

    for dashes, column in zip(cycle(_ACROSS), chart.references.values(), strict=False):
        means = rows.groupby(chart.x, observed=True)[column].mean().dropna()
        style = {"color": _SOFT, "linestyle": dashes, "linewidth": 1.2, "zorder": 1}
        if len(means) and (chart.categories or means.max() - means.min() < 5e-4):
            (axis.axvline if chart.categories else axis.axhline)(means.mean(), **style)
        elif len(means):
            draw([places[value] for value in means.index], means, **style)
    lines = rows[chart.line] if chart.line else pd.Series("", index=rows.index)
    names = [line for line in styles if (lines == line).any()]
    # Lines stand a little apart, so that bars can be told from each other.
    ends = sorted(places.values())
    nearest = min((b - a for a, b in pairwise(ends)), default=1.0)
    most = 0.75 * nearest if chart.categories else min(0.4 * nearest, 0.05 * (ends[-1] - ends[0]))
    shifts = {}
    for value in places:
        used = set(lines[rows[chart.x] == value]) if chart.categories else names
        beside = [line for line in names if line in used]
        for rank, line in enumerate(beside):
            shifts[value, line] = most * ((rank + 0.5) / len(beside) - 0.5)
    for line in names:
        mine, style = rows[(lines == line) & rows[chart.y].notna()], styles[line]
        mine = mine.assign(place=[places[value] + shifts[value, line] for value in mine[chart.x]])
        mine = mine.sort_values("place", kind="stable")
        if chart.spread:
            bars = [mine[chart.y] - mine[chart.spread], mine[chart.y] + mine[chart.spread]]
            across = axis.hlines if chart.categories else axis.vlines
            across(mine["place"], *bars, color=style["color"], linewidth=1, zorder=2)
        apart = mine["place"] > places.get(math.inf, math.inf) - most
        for part in () if chart.categories else (mine[~apart], mine[apart]):
            draw(part["place"], part[chart.y], **{**style, "marker": ""}, zorder=3)
        shown = mine.iloc[:: 1 + len(mine) // _MOST_MARKERS]
        hollow = _hollow(shown)
        for part, fill in ((shown[~hollow], style["markerfacecolor"]), (shown[hollow], _PAPER)):
            look = {**style, "linestyle": "none", "markerfacecolor": fill, "gid": _name(line)}
            draw(part["place"], part[chart.y], **look, zorder=4)
    printed = [chart.x, chart.printed] if chart.printed else []
    for (value, score), group in rows.groupby(printed, observed=True) if printed else ():
        owners = [line for line in lines[group.index].dropna().unique() if line in styles]
        colour = styles[owners[0]]["color"] if len(owners) == 1 < len(names) else _INK
        draw([places[value]], [score], **_bar(chart, colour), zorder=2.5)


def _scales(
    axis: Axes,
    chart: Chart,
    places: Mapping[Any, float],
    ends: tuple[float, float],
    ticks: Sequence[float],
    width: float,
) -> None:
    axis.tick_params(length=0, pad=3)
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
    # Names that would touch their neighbours are left out, never the last one.
    for every in range(1, len(names) + 1):
        kept = list(names.items())[::-1][::every][::-1]
        sides = [(place / (span or 1) * width, _width(name) / 2 + 0.03) for name, place in kept]
        if all(a + b <= c - d for (a, b), (c, d) in pairwise(sides)):
            break
    axis.set_xticks([place for _, place in kept], [name for name, _ in kept])
