"""Drawing: one function for each kind of picture, and one that writes the files.

Matplotlib writes one drawing as SVG, PNG and PDF, offline, and equal values give equal bytes. The
panels are placed here, in inches.

Pictures are those of papers: a grid of facets as wide as a page of the site, or one panel in a
third of it, with one legend; the title is the caption below them. A phone shows the parts of a wide
picture (``Picture.boxes``) below each other, and every mark is in one of them. The SVG is what
Matplotlib writes, with real text, no background, and a style sheet with other colours for dark
mode.

A colour has one meaning in all pictures: those of protocols, shades of violet for ε, red for what
an attack refutes; other lines have none of these. A method has one colour wherever it is drawn.
"""

from __future__ import annotations

import math
import re
import textwrap
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from io import BytesIO
from itertools import cycle, pairwise, product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator
from PIL import Image

from private_graphs.core.files import atomic_path
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.words import enumeration, number
from private_graphs.running.exhibit import Chart, Heatmap, Pictures

WIDTH, COLUMN, LINE, TEXT = 10.4, 3.45, 0.17, 9.0
"""Width of a picture with facets and of one panel, and height of a line of text, in inches; text
size in points."""
_GAP, _HANDLE, _MOST = 0.12, 0.34, 4
"""Space between elements, and width of a legend sample, in inches; maximum number of facets in a
row, and of lines that are labelled directly."""

_INK, _SOFT, _GRID, _PAPER = "#1b1d22", "#5c6370", "#d9dce1", "#fefefe"
_REFUTED = "#c21d14"
_PROTOCOLS = {"released": "#b8720a", "paper": "#0b5fa5", "sound": "#0a7d55"}
_NAMED = {"teal": "#12737d", "rose": "#a8527f", "brown": "#6b4a2b", "grey": "#5f6673",
          "olive": "#857812", "navy": "#24355c", "blue": "#4a7d9c"}  # fmt: skip
"""Colours of other named lines (``study.Colour``); markers and dashes differ too, for grey print
and for every eye."""
_MEANINGS = {
    "found by an attack": _NAMED["grey"], "printed": _INK, "proved": _PROTOCOLS["sound"],
    **{PROTOCOLS[name].title: colour for name, colour in _PROTOCOLS.items()},
}  # fmt: skip
"""Colours of lines of any study by what their names hold, where the study names none."""
_BUDGETS = ("#271547", "#391e67", "#4a2786", "#5b30a6", "#6d39c6", "#8459cf", "#9c79d8")
"""Colours of numeric lines, from the smallest number up: shades of one hue."""
_DARK = dict(
    zip(
        (_INK, _SOFT, _GRID, _PAPER, _REFUTED, *_PROTOCOLS.values(), *_NAMED.values(), *_BUDGETS),
        ("#e8eaee", "#a3abb8", "#3a3f49", "#14161a", "#ff7f76", "#f0a531", "#55aede", "#33c793",
         "#6cc5d0", "#e58fc8", "#c9a27c", "#a3abb9", "#d3c65b", "#8f9fe0", "#8fc4e6",
         "#f3ecfd", "#e2d4f9", "#d1bcf5", "#c0a4f2", "#ae8bef", "#9d73eb", "#8c5be8"),
        strict=True,
    )
)  # fmt: skip
"""Colour in dark mode for each colour in light mode."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "*")
"""Markers: their number has no divisor in common with that of the colours, so that an eighth
line differs from the first."""
_DASHES = ("", (5, 1.5), (3, 1.2, 1, 1.2), (1, 1), (7, 1, 1, 1, 1, 1), (2, 2), (9, 2),
           (4, 1, 4, 1, 1, 1))  # fmt: skip
"""Dashes of lines: lengths of strokes and gaps."""
_ACROSS = ((0, (6, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1)), (0, (1, 4)))
"""Dashes of reference lines."""
_UNPROVED = ("published_only", "refuted")
_SPREADS = {"std": "one standard deviation", "ci95": "95 % confidence interval"}

_STYLE = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": TEXT, "text.parse_math": False, "text.hinting": "none", "svg.fonttype": "none",
    "pdf.fonttype": 42, "xtick.color": _SOFT, "ytick.color": _SOFT, "axes.facecolor": "none",
    "image.composite_image": False,  # keeps pixels unchanged
    "lines.linewidth": 1.4, "lines.markersize": 4.8, "lines.markeredgewidth": 1.2,
}  # fmt: skip

_BAR = 7
"""Width of bars, in points."""
_MOST_MARKERS = 40
"""Maximum number of markers of a line: those of hundreds of epochs would hide the curve."""
_BLACK = 1.5 / 255
"""Darkest grey of images: with the gaps they then have 256 colours, and a byte for a pixel."""
_MANY = 400_000
"""Number of values of a grid of images from which it has 16 shades, so that a page stays light."""
_Block = tuple[float, Callable[["Picture", float], None]]
"""A part of a picture: its height in inches, and a function that draws it below a given height."""
_Entry = tuple[Mapping[str, Any], str]
"""A legend sample and its text."""


class Picture(Figure):
    """A drawing, with the parts that a phone shows below each other."""

    boxes: list[tuple[float, float, float, float]]
    """Left, top, width and height of the parts, in inches from the left and the top."""
    marks: list[list[tuple[str, str]]]
    """By set of points: the words and the statement of each."""
    words: str
    """What a screen reader says of it."""


def draw_chart(chart: Chart) -> Picture:
    """Draw ``chart``: facets beside each other, then the legend.

    A reference line is the mean of its column, or a line over ``x`` if the column varies. Markers
    are hollow if the status of a point says that no finite ε is proved, and red where an attack
    refutes the ε. Printed numbers are horizontal bars, in the colour of a line if they belong to
    exactly one. ∞ is separate, at the right. Few lines of a single panel have their names beside
    them.

    Raises:
        ValueError: a logarithmic axis gets a number that is not positive.
    """
    with mpl.rc_context(_STYLE):
        frame = chart.drawn if chart.frame.empty else chart.drawn.dropna(subset=[chart.x])
        if frame.empty:
            return _stack(chart.title, COLUMN, [_text("Nothing has been run yet.", COLUMN)])
        chart = replace(chart, frame=frame)
        places, styles, grid = _places(chart), _styles(chart), _grid(chart)
        entries = _line_entries(chart, frame, styles) if chart.line else []
        single = sum(len(panels) for _, panels in grid) == 1
        width = min(COLUMN * max(len(panels) for _, panels in grid), WIDTH)
        direct = single and len(entries) <= _MOST and not chart.categories
        blocks = []
        for heading, panels in grid:
            bold, *subtitles = heading.split("\n")
            blocks += [_text(bold, COLUMN, color=_INK, weight="bold")] if bold else []
            blocks += [_text(subtitle, COLUMN) for subtitle in subtitles]
            blocks.append(_panels(chart, panels, places, styles, width, entries if direct else ()))
        if not direct:
            blocks.append(_legend(entries, width, chart.line_label))
        blocks.append(_legend(_other_entries(chart), width))
        return _stack(chart.title, width, blocks, _description(chart, grid))


def _grid(chart: Chart) -> list[tuple[str, list[tuple[str, pd.DataFrame]]]]:
    """Return the rows of facets, each with its heading, and the facets with their names.

    A chart with rows and columns is their grid, in which a facet without points stays empty; other
    facets, and those of more columns than fit, are in rows of ``_MOST`` at most. A heading says
    what is known of the lines below it (``Chart.words``).
    """
    most = _MOST - chart.categories  # names of categories stand beside every panel
    rows = [
        ("\n".join(filter(None, (_name(heading), _line_words(chart, part)))), part)
        for heading, part in _facets(chart.frame, chart.row)
    ]
    names = _order(chart.frame[chart.column]) if chart.row and chart.column else []
    if names and (len(rows) > 1 or len(names) <= most):
        return [(heading, [(_name(name), part[part[chart.column] == name]) for name in names])
                for heading, part in rows]  # fmt: skip
    facets = [(", ".join(filter(None, (*heading.split("\n"), _name(name)))), panel)
              for heading, part in rows for name, panel in _facets(part, chart.column)]  # fmt: skip
    size = -(-len(facets) // -(-len(facets) // most))
    return [("", facets[start : start + size]) for start in range(0, len(facets), size)]


def _description(
    chart: Chart, grid: Sequence[tuple[str, Sequence[tuple[str, pd.DataFrame]]]]
) -> str:
    """Return what a picture shows, in sentences for a screen reader."""
    names = [_name(line) for line in _order(chart.frame[chart.line])] if chart.line else []
    panels = [", ".join(filter(None, (heading.partition("\n")[0], name)))
              for heading, row in grid for name, points in row if len(points)]  # fmt: skip
    known = chart.frame[chart.y].dropna()
    ends = f", from {number(known.min(), 3)} to {number(known.max(), 3)}" if len(known) else ""
    lists = [("Panels", filter(None, panels)), ("Lines", names)]
    return ". ".join([f"{chart.axes}{ends}", *(f"{head}: {'; '.join(held)}" for head, held in
                      ((head, list(texts)) for head, texts in lists) if held)]) + "."  # fmt: skip


def _line_words(chart: Chart, rows: pd.DataFrame) -> str:
    """Return what is known of the lines of some rows: ``2 → 3.39, 8 → none``."""
    if not chart.words:
        return ""
    known = rows.dropna(subset=[chart.y])
    words = [f"{_name(line)} {enumeration(list(dict.fromkeys(filter(None, part[chart.words]))))}"
             for line, part in _facets(known, chart.line) if any(part[chart.words])]  # fmt: skip
    return f"{chart.line_label} {'; '.join(words)}".strip() if words else ""


def draw_heatmap(heatmap: Heatmap) -> Figure:
    """Draw a matrix of coloured cells with their numbers, rows from the top."""
    values = np.asarray(heatmap.values, dtype=float)
    n_rows, n_columns = values.shape
    left = _margin(heatmap.rows)
    side = min(0.6, (COLUMN - left) / max(n_columns, 1))
    turned = any(_width(name) > side for name in heatmap.columns)
    below = _margin(heatmap.columns) if turned else LINE + 0.05
    peak = heatmap.most or np.nanmax(values, initial=0.0) or 1.0
    words = [[number(value) if value == round(value, 0) else number(value, 2).lstrip("0")
              for value in row] for row in values]  # fmt: skip
    widest = max((_width(word) for row in words for word in row), default=0.01)

    def paint(figure: Figure, top: float) -> None:
        axis = _axes(figure, left, top - n_rows * side, n_columns * side, n_rows * side)
        import seaborn as sns  # a second, for the few pages that have a heat map

        sns.heatmap(values, ax=axis, cmap="Blues", vmin=0, vmax=peak, cbar=False,
                    rasterized=True, annot=np.array(words), fmt="",
                    annot_kws={"size": TEXT * min(1.0, 0.9 * side / widest)},
                    xticklabels=False, yticklabels=False)  # fmt: skip
        places = (dict(zip(names, np.arange(len(names)) + 0.5, strict=True))
                  for names in (heatmap.columns, heatmap.rows))  # fmt: skip
        _label(axis, *places, rotation=90 * turned)

    with mpl.rc_context(_STYLE):
        heads = [f"{arrow} {name}" for arrow, name in
                 (("↓", heatmap.row_label), ("→", heatmap.column_label)) if name]  # fmt: skip
        labels = [_text("    ".join(heads), COLUMN)] if heads else []
        return _stack(heatmap.title, COLUMN, [*labels, (n_rows * side + below, paint)])


def draw_pictures(pictures: Pictures) -> Picture:
    """Draw a grid of images, with row and column names; in grey images 1 is white."""
    n_rows, n_columns, height, width = pictures.images.shape[:4]
    left = _margin(pictures.rows)
    side = min(0.8, (WIDTH - left) / max(n_columns, 1))
    tall = side * height / width
    heads = [_wrap(name, side) for name in pictures.columns]
    above = LINE * max(map(len, heads), default=0) + 0.05
    grid, extent = _tiled(pictures.images)

    def paint(figure: Picture, top: float) -> None:
        for column, lines in enumerate(heads):
            _write(figure, left + (column + 0.47) * side, top, lines, ha="center")
        low = top - above - n_rows * tall
        axis = _axes(figure, left, low, n_columns * side, n_rows * tall)
        axis.imshow(grid, cmap="gray", vmin=0, vmax=1, interpolation="none", aspect="auto",
                    extent=extent)  # fmt: skip
        for row, name in enumerate(pictures.rows):
            middle = low + (n_rows - row - 0.5) * tall + LINE / 2
            _write(figure, left - 0.08, middle, [name], ha="right")
        axis.set(xlim=(0, n_columns), ylim=(n_rows, 0))

    with mpl.rc_context(_STYLE):
        return _stack(pictures.title, left + n_columns * side + 0.05,
                      [(above + n_rows * tall, paint)])  # fmt: skip


def _tiled(images: np.ndarray) -> tuple[np.ndarray, tuple[float, float, float, float]]:
    """Return the images as one, in red, green, blue and opacity, with gaps between them."""
    if images.ndim == 4:
        images = np.maximum(images, _BLACK)
        images = np.stack([images, images, images, np.ones_like(images)], axis=-1)
    n_rows, n_columns, height, width, _ = images.shape
    gap = max(1, round(width / 16))
    padded = np.pad(images, ((0, 0), (0, 0), (0, gap), (0, gap), (0, 0)))
    whole = padded.transpose(0, 2, 1, 3, 4).reshape(n_rows * (height + gap), -1, 4)
    if whole.size > _MANY:
        whole = np.round(whole * 15) / 15
    return whole, (0, n_columns, n_rows, 0)


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
    return _for_pages(stream.getvalue(), figure) if suffix == "svg" else stream.getvalue()


def _for_pages(data: bytes, figure: Picture) -> bytes:
    """Return an SVG as an image with dark colours, whose title screen readers announce.

    It has a third of the characters that Matplotlib writes. ``data-boxes`` are the parts of a wide
    picture.
    """
    text = _POINTS.sub(lambda match: _told(match, figure), data.decode())
    text = _smaller(text)
    names: dict[str, str] = {}
    text = _STYLE_OF.sub(
        lambda match: f' class="s{names.setdefault(match[1], str(len(names)))}"', text
    )
    light = "".join(f".s{name}{{{style}}}" for style, name in names.items())
    dark = "".join(
        f"{','.join(classes)}{{{paint}:{_DARK[colour]}}}"
        for colour in _DARK for paint in ("fill", "stroke")
        if (classes := [f".s{name}" for style, name in names.items()
                        if f"{paint}:{colour}" in style])
    )  # fmt: skip
    rules = f"{light}@media(prefers-color-scheme:dark){{{dark}}}</style>"
    text = text.replace("</style>", rules, 1)
    wide = figure.get_figwidth() > COLUMN
    boxes = ";".join(" ".join(f"{72 * coord:.1f}" for coord in box) for box in figure.boxes if wide)
    head = f'<svg class="chart" role="img" data-boxes="{boxes}" '
    text = text.replace("</title>", f"</title><desc>{escape(figure.words)}</desc>", 1)
    return text.replace("<svg ", head, 1).encode()


def _told(match: re.Match[str], figure: Picture) -> str:
    """Return a set of points whose marks have their words, and the statement of their numbers."""
    texts = iter(figure.marks[int(match[1])])

    def told(mark: re.Match[str]) -> str:
        words, statement = next(texts)
        about = f' data-statement="{escape(statement)}"' if statement else ""
        return f"{mark[0][:-2]}{about}><title>{escape(words)}</title></use>"

    return _USE.sub(told, match[0])


def _smaller(text: str) -> str:
    """Return an SVG without what draws nothing, and with repeated text once."""
    for pattern, words in _LEFT_OUT:
        text = pattern.sub(words, text)
    text = _SHAPES.sub(lambda match: _DECIMALS.sub(r"\1", match[0]), text)
    text = _PLACES.sub(lambda match: _DIGITS.sub(_one_decimal, match[0]), text)
    text = _STYLE_OF.sub(lambda match: _SPACE_AFTER.sub("", match[0]), text)
    text = _DRAWN_ALIKE.sub(_once, text)
    text = text.replace(_FONT, "").replace(_WHOLE, f'{_WHOLE} style="{_FONT[:-1]}"', 1)
    names: dict[str, str] = {}
    text = _NAMED_SHAPE.sub(lambda match: names.setdefault(match[0], f"m{len(names)}"), text)
    return _IMAGE.sub(_indexed, text)


def _one_decimal(match: re.Match[str]) -> str:
    """Return a number of points with a decimal: a tenth of a point is an eighth of a pixel."""
    return f"{float(match[0]):.1f}".removesuffix(".0")


def _once(match: re.Match[str]) -> str:
    """Return a group of marks, whose style and clipping it has instead of each of them; of strokes
    a single one with all their parts."""
    marks, head = match[1], ""
    for attribute in (_STYLE_OF, _CLIP):
        values = [hit[0] for hit in attribute.finditer(marks)]
        if len(values) == marks.count("/>") and len(set(values)) == 1:
            marks, head = attribute.sub("", marks), head + values[0]
    if "fill:none" in head and not _STROKES.sub("", marks):
        return f'<path d="{"".join(_STROKES.findall(marks))}"{head}/>'
    return f"<g{head}>{marks}</g>"


def _indexed(match: re.Match[str]) -> str:
    """Return an embedded PNG of at most 256 colours with a palette: a byte per pixel, not four."""
    image = Image.open(BytesIO(b64decode(match[0]))).convert("RGBA")
    if image.getcolors(256) is None:
        return match[0]
    pixels = np.asarray(image)
    colours, places = np.unique(pixels.view(np.uint32), return_inverse=True)
    palette = colours.view(np.uint8).reshape(-1, 4)
    indexed = Image.fromarray(places.astype(np.uint8).reshape(pixels.shape[:2]))
    indexed.putpalette(palette[:, :3].tobytes())
    stream = BytesIO()
    indexed.save(stream, "PNG", optimize=True, transparency=palette[:, 3].tobytes())
    return b64encode(stream.getvalue()).decode()


_POINTS = re.compile(r'<g id="points-(\d+)">.*?</g>\s*</g>', re.DOTALL)
_USE = re.compile(r"<use [^>]*/>")
_WHOLE = '<g id="figure_1"'
_FONT = "font-size:9px;font-family:'DejaVu Sans','Verdana',sans-serif;"
"""Font of most texts, which the whole picture has instead."""
_SHAPES = re.compile(r' (?:d|x|y|width|height|transform)="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+|(?<=[MLCQ]) | (?=[MLCQz\"])")
_PLACES = re.compile(r'<path d="[^"]*"| [xy]="[^"]*"')
_DIGITS = re.compile(r"-?\d+\.\d+")
_NAMED_SHAPE = re.compile(r'(?:(?<= id=")|(?<=url\(#)|(?<=href="#))[a-z][0-9a-f]{10}(?=["\)])')
"""Identifiers of markers and clipping, of which Matplotlib makes hashes."""
_SPACE_AFTER = re.compile(r"(?<=[;:,]) ")
_STYLE_OF, _CLIP = re.compile(r' style="([^"]*)"'), re.compile(r' clip-path="[^"]*"')
_STROKES = re.compile(r'<path d="([^"]*)"/>')
_DRAWN_ALIKE = re.compile(r"<g>((?:<(?:path|use) [^>]*/>){2,})</g>")
_IMAGE = re.compile(r'(?<=data:image/png;base64,)[^"]+')
_LEFT_OUT = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"<metadata>.*?</metadata>", ""),
        (r">\s+<", "><"),
        (r"\s*\n\s*", " "),
        (r' transform="rotate\(-0 [^"]*\)"', ""),
        (r'<path [^>]*style="fill: none"/>', ""),
        (r'<g id="(?!figure_1")[^"]*"/>', ""),
        (r'<g id="(?!figure_1")[^"]*"', "<g"),
        (r"<g></g>", ""),
        (r"<g>(<(?:text|path)[^<]*(?:/>|</text>))</g>", r"\1"),
    )
)
"""What pictures do without, with what is there instead."""


# --- the parts of a picture -----------------------------------------------------------------------


def _stack(title: str, width: float, blocks: Sequence[_Block], words: str = "") -> Picture:
    """Return a figure of the blocks below each other, with their total height; no title is seen."""
    figure = Picture(figsize=(width, sum(tall for tall, _ in blocks) + 0.1), label=title)
    figure.boxes, figure.marks, figure.words = [], [], words
    top = figure.get_figheight() - 0.05
    for tall, paint in blocks:
        paint(figure, top)
        top -= tall
    return figure


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    wide, tall = figure.get_size_inches()
    axis = figure.add_axes((left / wide, bottom / tall, width / wide, height / tall))
    axis.set_axis_off()  # _label and _scales draw names and grid in less time
    return axis


def _label(
    axis: Axes, across: Mapping[str, float], down: Mapping[str, float], rotation: float = 0
) -> None:
    """Write names below and to the left of a panel, at their places in its units."""
    box, (wide, tall) = axis.get_position(), axis.figure.get_size_inches()
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    pad = 3 / 72
    for name, x in across.items():
        position = box.x0 + (x - left) / (right - left) * box.width
        axis.figure.text(position, box.y0 - pad / tall, name, ha="center", va="top", color=_SOFT,
                         rotation=rotation)  # fmt: skip
    for name, y in down.items():
        position = box.y0 + (y - low) / (high - low) * box.height
        axis.figure.text(box.x0 - pad / wide, position, name, ha="right", va="center_baseline",
                         color=_SOFT)  # fmt: skip


def _write(figure: Figure, x: float, top: float, lines: Sequence[str], **style: Any) -> None:
    wide, tall = figure.get_size_inches()
    for rank, line in enumerate(lines):
        y = (top - (rank + 0.75) * LINE) / tall
        figure.text(x / wide, y, line, **({"color": _SOFT} | style))


def _part(figure: Picture, left: float, top: float, width: float, height: float) -> None:
    """Keep the place of a part: its top is given from below, as everywhere else."""
    figure.boxes.append((left, figure.get_figheight() - top, width, height))


def _text(words: str, width: float, **style: Any) -> _Block:
    """Return a paragraph."""
    font = {name: value for name, value in style.items() if name != "color"}
    lines = _wrap(words, width - 0.1, **font)
    height = len(lines) * LINE + 0.02

    def paint(figure: Picture, top: float) -> None:
        _part(figure, 0, top, width, height)
        _write(figure, 0.02, top, lines, **style)

    return height, paint


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


def _legend(entries: Sequence[_Entry], width: float, title: str = "") -> _Block:
    """Return legend samples with their texts, in as many columns as there is room for."""
    if not entries:
        return 0.0, lambda figure, top: None
    lines = _flow(entries, title)
    high = -(-len(lines) // int(width / COLUMN))
    height = high * LINE + 0.14

    def paint(figure: Picture, top: float) -> None:
        for column, start in enumerate(range(0, len(lines), high)):
            _samples(figure, column * COLUMN, top, lines[start : start + high])

    return height, paint


_Line = list[tuple[float, Mapping[str, Any] | None, str]]
"""A line of a legend: place, sample if any, and text of its parts."""


def _flow(entries: Sequence[_Entry], title: str) -> list[_Line]:
    """Return the lines of a legend of width ``COLUMN``, with as many entries each as fit."""
    lines: list[_Line] = [[(0.02, None, title)] if title else []]
    x = 0.02 + (_width(title) + _GAP if title else 0.0)
    for style, words in entries:
        first, *texts = _wrap(words, COLUMN - _HANDLE - 0.15)
        wide = _HANDLE + max(map(_width, (first, *texts)))
        if x > 0.02 and x + wide > COLUMN:
            lines.append([])
            x = 0.02
        lines[-1].append((x, style, first))
        lines += [[(x, None, text)] for text in texts]
        x = COLUMN if texts else x + wide + _GAP
    return lines


def _samples(figure: Picture, left: float, top: float, lines: Sequence[_Line]) -> None:
    """Draw the lines of a legend."""
    if not lines:
        return
    _part(figure, left, top, COLUMN, len(lines) * LINE + 0.05)
    wide, tall = figure.get_size_inches()
    for row, line in enumerate(lines):
        down = top - row * LINE
        for x, style, words in line:
            if style is not None:
                ends = np.array([0, 0.5 * _HANDLE - 0.03, _HANDLE - 0.06])
                middle = (down - 0.52 * LINE) / tall
                figure.add_artist(Line2D((left + x + ends) / wide, [middle] * 3,
                                         markevery=[1], **style))  # fmt: skip
            shift = 0.0 if style is None and x == 0.02 and row == 0 else _HANDLE
            _write(figure, left + x + shift, down, [words], color=_INK if shift else _SOFT)


def _line_entries(
    chart: Chart, rows: pd.DataFrame, styles: Mapping[Any, Mapping[str, Any]]
) -> list[_Entry]:
    entries = []
    for line, style in styles.items():
        points = rows[(rows[chart.line] == line) & rows[chart.y].notna()]
        if points.empty:
            continue
        style = {name: value for name, value in style.items() if name != "dashes"} | {
            "linestyle": (0, style["dashes"]) if style["dashes"] else "-"}  # fmt: skip
        if chart.categories or not chart.joined:
            style["linestyle"] = "none"
        if _with_status(points, *_UNPROVED).all():
            style = {**style, "markerfacecolor": _PAPER}
        if line == chart.bars:
            style |= {"linestyle": "-", "marker": "", "linewidth": _BAR, "solid_capstyle": "butt"}
        entries.append((style, _name(line)))
    return entries


def _other_entries(chart: Chart) -> list[_Entry]:
    frame, entries = chart.frame, []
    if chart.printed and frame[chart.printed].notna().any():
        entries.append((_bar(chart, _INK), "printed in the paper"))
    for dashes, (label, column) in zip(cycle(_ACROSS), chart.references.items(), strict=False):
        if frame[column].notna().any():
            style = {"linestyle": dashes} if chart.joined else {"linestyle": "none", "marker": "_"}
            colour = _colour(chart, label) or _SOFT
            entries.append(({"color": colour, "linewidth": 1.2} | style, label))
    if chart.spread and frame[chart.spread].notna().any():
        marker = {"marker": "_" if chart.categories else "|", "markersize": 10, "color": _SOFT}
        entries.append(({"linestyle": "none"} | marker, _SPREADS.get(chart.spread, chart.spread)))
    if _with_status(frame, *_UNPROVED).any():
        hollow = {"marker": "o", "linestyle": "none", "color": _SOFT, "markerfacecolor": _PAPER}
        entries.append((hollow, "hollow: no finite ε is proved"))
    if _with_status(frame, "refuted").any():
        red = {"marker": "o", "linestyle": "none", "color": _REFUTED, "markerfacecolor": _PAPER}
        entries.append((red, "red: an attack refutes the ε"))
    return entries


def _bar(chart: Chart, colour: str) -> dict[str, Any]:
    return {"marker": "|" if chart.categories else "_", "color": colour, "linestyle": "none",
            "markersize": 13, "markeredgewidth": 2.2}  # fmt: skip


def _with_status(rows: pd.DataFrame, *names: str) -> pd.Series:
    """Return which rows have one of these statuses."""
    none = pd.Series(False, index=rows.index)
    return rows["status"].isin(names) if "status" in rows else none


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
    """Return what a picture calls a line, a facet or a category: protocols have names."""
    if not isinstance(value, str):
        return number(value)
    first, *below = value.split("\n")
    return "\n".join([PROTOCOLS[first].title if first in PROTOCOLS else first, *below])


def _styles(chart: Chart) -> dict[Any, dict[str, Any]]:
    """Return the style of every line: protocols have their own, ε have shades of one hue."""
    lines = chart.frame[chart.line] if chart.line else pd.Series([""])
    order = _order(lines)
    if isinstance(lines.dtype, pd.CategoricalDtype):
        order = list(lines.cat.categories)  # the same in charts that lack some lines
    budgets = sorted(filter(None, map(_budget, order))) if any(map(_budget, order)) else []
    styles = {}
    for rank, line in enumerate(order):
        if line in _PROTOCOLS:
            index, colour = [*_PROTOCOLS].index(line), _PROTOCOLS[line]
        elif _budget(line):
            index = budgets.index(_budget(line))
            step = (len(_BUDGETS) - 1) / max(len(budgets) - 1, 1)
            colour = _BUDGETS[round(index * step)]
        else:
            index = rank
            colour = _colour(chart, str(line)) or [*_NAMED.values()][rank % len(_NAMED)]
        styles[line] = {"color": colour, "marker": _MARKERS[index % len(_MARKERS)],
                        "dashes": _DASHES[index % len(_DASHES)]}  # fmt: skip
    return styles


def _colour(chart: Chart, line: str) -> str:
    """Return the colour of the longest of the chart's names that a line's name holds, else of ours;
    empty without one."""
    of_study = {name: _NAMED[colour] for name, colour in chart.colours.items()}
    for colours in (of_study, _MEANINGS):
        held = [name for name in colours if re.search(rf"(?<!\w){re.escape(name)}(?![\w+])", line)]
        if held:
            return colours[max(held, key=len)]
    return ""


def _budget(line: Any) -> float | None:
    """Return the number that a line is named by, as the ε of ``ε = 2``."""
    if not isinstance(line, str):
        return float(line)
    match = re.fullmatch(r"ε = ([\d.]+)", line)
    return float(match[1]) if match else None


def _places(chart: Chart) -> dict[Any, float]:
    """Return the position of every value of ``x``; infinity is separate from the largest."""
    values = _order(chart.frame[chart.x])
    if chart.steps or chart.categories:
        return {value: float(position) for position, value in enumerate(values)}
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
    columns = [frame[name] for name in (chart.printed, *chart.references.values()) if name]
    values = pd.concat([frame[chart.y] - spread, frame[chart.y] + spread, *columns]).dropna()
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5 * abs(low or 1), high + 0.5 * abs(high or 1)
    margin = 0.05 * (high - low)
    scores = pd.concat([frame[chart.y], *columns]).dropna()
    zero = scores.min() >= 0  # the spread may reach below zero; no score does
    ends = (0.0 if zero else low - margin, high + margin)
    ticks = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(*ends)
    return ends, [float(tick) for tick in ticks if ends[0] <= tick <= ends[1]]


def _panels(
    chart: Chart,
    panels: Sequence[tuple[str, pd.DataFrame]],
    places: Mapping[Any, float],
    styles: Mapping[Any, Mapping[str, Any]],
    whole: float,
    direct: Sequence[_Entry],
) -> _Block:
    """Return one row of facets, ``whole`` inches wide; ``direct`` are names beside lines."""
    ends, ticks = _ticks(chart)
    labels = [[number(tick)] for tick in ticks]
    title = LINE if chart.y_label and not chart.categories else 0.0
    names = min(1.2, max((_width(words) for _, words in direct), default=0.0)) + 0.08 * bool(direct)
    slot = (whole - title - names) / max(len(panels), round(whole / COLUMN))
    if chart.categories:
        here = _order(pd.concat([panel for _, panel in panels])[chart.x])
        places = {name: float(position) for position, name in enumerate(here)}
        labels = [_wrap(_name(name), 0.4 * slot) for name in here]
    margin = _margin([line for lines in labels for line in lines])
    starts = [title + rank * slot + margin for rank in range(len(panels))]
    width = slot - margin - _GAP
    tall = 1.4 if len(panels) > 3 else 1.6 if whole > COLUMN else 1.8
    if chart.categories:
        tall = len(labels) * (0.06 + max(LINE * max(map(len, labels)), 0.1 * len(styles)))
    heads = [_wrap(name, width) if name else [] for name, _ in panels]
    head = LINE * max(map(len, heads))
    x_title = chart.y_label if chart.categories else chart.x_label
    feet = _wrap(x_title, width if chart.categories else slot) if x_title else []
    foot = LINE * (1.3 + len(feet))
    height = head + tall + foot + 0.15

    def paint(figure: Picture, top: float) -> None:
        wide, high = figure.get_size_inches()
        if title:
            figure.text(0.6 * LINE / wide, (top - head - 0.5 * tall) / high, chart.y_label,
                        rotation=90, va="center", ha="center", color=_SOFT)  # fmt: skip
        for rank, ((_, panel), start) in enumerate(zip(panels, starts, strict=True)):
            if panel.empty:
                continue
            axis = _axes(figure, start, top - head - tall - 0.04, width, tall)
            _write(figure, start, top, heads[rank], color=_INK)
            _points(axis, chart, panel, places, styles)
            across = _scales(axis, chart, places, ends, ticks, width)
            along = places.values() if chart.categories else ticks
            down = dict(zip(map("\n".join, labels), along, strict=True))
            _label(axis, across, down)
            _write(figure, start + width / 2, top - head - tall - 1.3 * LINE, feet, ha="center")
            first = 0.0 if rank == 0 else start - margin
            _part(figure, first, top, start + width + _GAP + names - first, height)
            if direct:
                _names(axis, chart, panel, places, styles, width, tall)

    return height, paint


def _names(
    axis: Axes,
    chart: Chart,
    rows: pd.DataFrame,
    places: Mapping[Any, float],
    styles: Mapping[Any, Mapping[str, Any]],
    width: float,
    tall: float,
) -> None:
    """Write the names of lines beside their last points, at least a line of text apart."""
    (low, high), (left, right) = axis.get_ylim(), axis.get_xlim()
    rows = rows.assign(place=[places[value] for value in rows[chart.x]])
    last = rows.dropna(subset=[chart.y]).sort_values("place").groupby(chart.line, observed=True)
    step, below = 0.85 * LINE / tall * (high - low), -math.inf
    for row in last.tail(1).sort_values(chart.y).to_dict("records"):
        below = max(row[chart.y], below + step)
        words = " ".join(filter(None, (chart.line_label, _name(row[chart.line]))))
        lines = _wrap(words, 1.2)
        axis.annotate(
            "\n".join(lines),
            (right + 0.06 / width * (right - left), below),
            color=styles[row[chart.line]]["color"],
            va="center",
            annotation_clip=False,
        )
        below += step * (len(lines) - 1)


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
    called = {str(line): _name(line) for line in styles}
    styles = {str(line): style for line, style in styles.items()}
    points = pd.DataFrame({
        "line": lines, "value": rows[chart.x].astype(object),
        "place": [places[value] for value in rows[chart.x]], "score": rows[chart.y],
        "spread": rows[chart.spread] if chart.spread else np.nan,
        "hollow": _with_status(rows, *_UNPROVED), "refuted": _with_status(rows, "refuted"),
        "statement": rows.get("statement_id", pd.Series("", index=rows.index)).fillna(""),
    }).dropna(subset=["line", "score"]).sort_values("place", kind="stable")  # fmt: skip
    for (value, score), line in _printed(chart, rows, lines).items():
        coloured = line in styles and points["line"].nunique() > 1
        xy = ([places[value]], [score])[:: -1 if chart.categories else 1]
        style = _bar(chart, styles[line]["color"] if coloured else _INK)
        axis.add_artist(Line2D(*xy, **style, zorder=2.5, clip_on=False))
    if points.empty:
        return
    known = {name: points[name].to_numpy() for name in points}
    places_of = known["place"] + _shifts(chart, known["line"], known["value"], places, [*styles])
    infinite = known["value"] == math.inf
    around = np.array([known["score"] - known["spread"], known["score"] + known["spread"]])
    bars = np.stack(np.broadcast_arrays(places_of, around), axis=-1).swapaxes(0, 1)
    bars = bars[..., :: -1 if chart.categories else 1]  # (n, 2 ends, 2)

    def draw(indices: np.ndarray, **style: Any) -> None:
        """Draw some of the points."""
        xy = places_of[indices], known["score"][indices]
        axis.add_artist(Line2D(*xy[:: -1 if chart.categories else 1], clip_on=False, **style))

    for line in dict.fromkeys(known["line"]):
        style, indices = styles[line], np.flatnonzero(known["line"] == line)
        axis.add_artist(LineCollection(bars[indices], colors=style["color"], linewidth=1, zorder=2))
        if line == chart.bars:
            reach = [[(0.0, level), (score, level)] for level, score in
                     zip(places_of[indices], known["score"][indices], strict=True)]  # fmt: skip
            axis.add_artist(LineCollection(reach, colors=style["color"], linewidth=_BAR,
                                           capstyle="butt", zorder=1.5))  # fmt: skip
        if chart.joined and not chart.categories:
            dashes = (0, style["dashes"]) if style["dashes"] else "-"
            for part in (indices[~infinite[indices]], indices[infinite[indices]]):
                if len(part) > 1:
                    draw(part, linestyle=dashes, color=style["color"], zorder=3)
        indices = indices[:: 1 + len(indices) // _MOST_MARKERS]
        for hollow, refuted in product((False, True), repeat=2):
            subset = indices[
                (known["hollow"][indices] == hollow) & (known["refuted"][indices] == refuted)
            ]
            if len(subset):
                values = (known[name][subset] for name in ("value", "score", "spread"))
                texts = [_point_words(called[line], *point) for point in zip(*values, strict=True)]
                words = list(zip(texts, known["statement"][subset], strict=True))
                axis.figure.marks.append(words)
                draw(subset, linestyle="none", marker=style["marker"], zorder=4,
                     gid=f"points-{len(axis.figure.marks) - 1}",
                     color=_REFUTED if refuted else style["color"],
                     markerfacecolor=_PAPER if hollow else style["color"])  # fmt: skip


def _point_words(line: str, value: Any, score: float, spread: float) -> str:
    """Return what a point says where a pointer rests on it: ``SGD, 50: 0.323 ± 0.011``."""
    around = "" if np.isnan(spread) else f" ± {number(spread, 3)}"
    place = ", ".join(filter(None, (line, _name(value).partition("\n")[0])))
    return f"{place}: {number(score, 3)}{around}"


def _references(axis: Axes, chart: Chart, rows: pd.DataFrame, places: Mapping[Any, float]) -> None:
    """Draw the mean of each reference column across the panel, or over ``x`` if it varies."""
    for dashes, (label, column) in zip(cycle(_ACROSS), chart.references.items(), strict=False):
        means = rows.groupby(chart.x, observed=True)[column].mean().dropna()
        colour = _colour(chart, label) or _SOFT
        style = {"color": colour, "linestyle": dashes, "linewidth": 1.2, "zorder": 1}
        if len(means) and (chart.categories or means.max() - means.min() < 5e-4):
            (axis.axvline if chart.categories else axis.axhline)(means.mean(), **style)
        else:
            style |= {} if chart.joined else {"linestyle": "none", "marker": "_"}
            axis.add_artist(Line2D([places[value] for value in means.index], means.to_numpy(),
                                   clip_on=False, **style))  # fmt: skip


def _shifts(
    chart: Chart, lines: np.ndarray, values: np.ndarray, places: Mapping[Any, float],
    order: Sequence[str],
) -> np.ndarray:  # fmt: skip
    """Return the shift of each point along the axis that separates the error bars of lines."""
    if chart.bars:  # what is allowed stands on the bar of what is found
        return np.zeros(len(lines))
    ends = sorted(places.values())
    nearest = min((b - a for a, b in pairwise(ends)), default=1.0)
    most = 0.75 * nearest if chart.categories else min(0.4 * nearest, 0.05 * (ends[-1] - ends[0]))
    ranks, shifts = np.array([order.index(line) for line in lines]), np.zeros(len(lines))
    for value in dict.fromkeys(values) if chart.categories else (None,):
        mask = values == value if chart.categories else slice(None)
        names, rank = np.unique(ranks[mask], return_inverse=True)
        shifts[mask] = most * ((rank + 0.5) / len(names) - 0.5)
    return shifts


def _printed(
    chart: Chart, rows: pd.DataFrame, lines: pd.Series
) -> dict[tuple[Any, float], str | None]:
    """Return the line of each printed (x, score); None if it belongs to no line or to several."""
    if not chart.printed:
        return {}
    owners = lines.groupby([rows[chart.x], rows[chart.printed]], observed=True)
    return {xy: group.dropna().iloc[0] if group.nunique() == 1 else None for xy, group in owners}


def _scales(
    axis: Axes,
    chart: Chart,
    places: Mapping[Any, float],
    ends: tuple[float, float],
    ticks: Sequence[float],
    width: float,
) -> dict[str, float]:
    """Set the limits of a panel, draw its grid, and return its names along the axis and where."""
    if chart.categories:
        axis.set(xlim=ends, ylim=(len(places) - 0.5, -0.5))
        names, span = {number(tick): tick for tick in ticks}, ends[1] - ends[0]
    else:
        first, last = min(places.values()), max(places.values())
        margin = 0.07 * (last - first) or 0.5
        axis.set(xlim=(first - margin, last + margin), ylim=ends)
        names = {_name(value): x for value, x in places.items()}
        span = 1.14 * (last - first)
        axis.axhline(ends[0], color=_SOFT, linewidth=0.8, zorder=0)
    # Names that would touch their neighbours are left out, except the last one.
    for step in range(1, len(names) + 1):
        labels = list(names.items())[::-1][::step][::-1]
        sides = [(x / (span or 1) * width, _width(name) / 2 + 0.03) for name, x in labels]
        if all(a + b <= c - d for (a, b), (c, d) in pairwise(sides)):
            break
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    grid = [((left, y), (right, y)) for y in (places.values() if chart.categories else ticks)]
    grid += [((x, low), (x, high)) for _, x in labels] if chart.categories else []
    axis.add_artist(LineCollection(grid, colors=_GRID, linewidth=0.8, zorder=0, clip_on=False))
    return dict(labels)
