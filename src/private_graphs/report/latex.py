"""Tables as LaTeX: a ``longtable`` of fixed column widths each, which needs one run of LaTeX.

Widths are estimates on the safe side: letters of Computer Modern are narrower than is counted here.
A table that is too wide for the line has its longest cells broken into lines, then smaller letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from private_graphs.core.markup import on_one_line
from private_graphs.report.table import cells, notes_of
from private_graphs.running.exhibit import NOTHING, Layout, LayoutCell, Table

LINE = 750.0
"""Width of a line in points: landscape A4 with margins of 1.5 cm."""
PACKAGES = "array,booktabs,longtable"
"""LaTeX packages that a table needs."""
_SIZES = {"footnotesize": 8.0, "scriptsize": 7.0, "tiny": 5.0}
"""Letters of a table from the largest, in points."""
_SMALL = {"footnotesize": "scriptsize", "scriptsize": "tiny", "tiny": "tiny"}
_GAP = 6.0
"""Space between columns in points."""
_TOGETHER = 12
"""Largest number of lines of a block of rows that stands on one page."""
_MARKS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#",
    "_": r"\_\allowbreak{}", "/": r"/\allowbreak{}", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}", "–": "--", "—": "---",
    "’": "'", "‘": "`", "“": "``", "”": "''", "†": r"\textdagger{}", "‡": r"\textdaggerdbl{}",
    "…": r"\dots{}", "§": r"\S{}", "‰": r"\textperthousand{}",

}  # fmt: skip
_FORMULAS = {
    "±": r"\pm", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx", "∞": r"\infty",
    "·": r"\cdot", "×": r"\times", "÷": r"\div", "−": "-", "√": r"\surd", "✓": r"\surd",
    "✗": r"\times", "→": r"\to", "←": r"\gets", "↑": r"\uparrow", "↓": r"\downarrow",
    "∈": r"\in", "∑": r"\sum", "′": "'", "ℓ": r"\ell", "°": r"{}^\circ",
    **{mark: f"{{}}^{digit}" for digit, mark in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{mark: f"{{}}_{digit}" for digit, mark in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{mark: rf"\{name}" for mark, name in zip(
        "αβγδεζηθικλμνξπρσςτυφχψωΓΔΘΛΞΠΣΥΦΨΩϵ",
        ("alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma "
         "varsigma tau upsilon varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon "
         "Phi Psi Omega epsilon").split(), strict=True)},
    "µ": r"\mu",
}  # fmt: skip
_PLAIN = re.compile(r"[ -~À-ÖØ-öø-ſ]")
"""Letters that LaTeX knows: ASCII, and Latin letters with accents (font encoding T1)."""
_STRUCK = r"\providecommand{\struck}[1]{\setbox0\hbox{#1}\rlap{\rule[.5ex]{\wd0}{.6pt}}\box0}"
"""LaTeX command that strikes a number through; no package has to be there."""


def tex_text(text: str) -> str:
    """Return ``text`` escaped for LaTeX, on one line.

    A character that LaTeX's fonts do not have, as in the name of a reader's own graph, is its
    number: ``[U+6587]``.
    """
    return "".join(map(_mark, on_one_line(text)))


def unknown(text: str) -> set[str]:
    """Return the characters of a text for which ``tex_text`` has nothing better than a number."""
    return {mark for mark in on_one_line(text) if _mark(mark).startswith("[U+")}


def _mark(mark: str) -> str:
    if mark in _FORMULAS:
        return f"${_FORMULAS[mark]}$"
    known = _MARKS.get(mark)
    return known or (mark if _PLAIN.fullmatch(mark) else f"[U+{ord(mark):04X}]")


def height(table: Table) -> int:
    """Return the number of lines of a table's rows, if none of them is broken."""
    return sum(map(_tall, table.layout.rows)) if table.layout else len(table.shown)


def tex(table: Table) -> str:
    """Return a table with its head on every page and its notes below, left-aligned.

    All text is escaped.
    """
    layout = table.layout
    if layout:
        heads, lines = layout.columns, list(_layout_lines(layout))
    else:
        heads = [(column.group, column.head, "") for column in table.columns]
        lines = [(False, [[cell.text] for cell in row]) for row in cells(table)]
    size, widths = _widths(heads, [entries for _, entries in lines])
    groups, names, small = zip(*heads, strict=True)
    head = [r"\toprule", *_groups(groups, widths), _row(map(tex_text, names))]
    head += [_row(_small(note, size) for note in small)] if any(small) else []
    head.append(r"\midrule")
    body = list(_layout_rows(layout, size)) if layout else [
        _row(tex_text(text) for [text] in entries) for _, entries in lines]  # fmt: skip
    column = r">{\raggedright\arraybackslash}"
    spec = "".join(rf"{column}p{{{width / LINE:.4f}\linewidth}}" for width in widths)
    title = tex_text(table.title)
    return "\n".join([
        rf"% needs \usepackage{{{PACKAGES}}}", *([_STRUCK] if layout else []),
        rf"\begingroup\{size}\setlength{{\tabcolsep}}{{{_GAP / 2:g}pt}}\LTcapwidth=\linewidth",
        r"\LTleft=0pt \LTright=\fill \LTpre=4pt \LTpost=4pt \emergencystretch=2em",
        rf"\begin{{longtable}}{{@{{}}{spec}@{{}}}}",
        rf"\caption{{{title}}}\\", *head, r"\endfirsthead",
        rf"\caption[]{{{title} (continued)}}\\", *head, r"\endhead",
        r"\bottomrule", r"\endfoot",
        *body,
        r"\end{longtable}",
        *(rf"\noindent\parbox{{\linewidth}}{{\raggedright\scriptsize {tex_text(note)}}}\par"
          for note in notes_of(table)),
        r"\endgroup", "",
    ])  # fmt: skip


def _row(texts: Iterable[str], end: str = r"\\") -> str:
    return f"{' & '.join(texts)} {end}"


def _small(text: str, size: str) -> str:
    return rf"\{_SMALL[size]} {tex_text(text)}" if text else ""


# --- widths ---------------------------------------------------------------------------------------


def _ems(text: str) -> float:
    """Return the width of a text, in the height of its letters."""
    return sum(0.85 if mark.isupper() or mark in "±≤≥∞→×√✓✗†mw—%" else 0.56 for mark in text)


def _widths(
    heads: Sequence[tuple[str, str, str]], lines: Sequence[Sequence[Sequence[str]]]
) -> tuple[str, list[float]]:
    """Return the size of letters, and the width of every column in points.

    ``lines`` are the texts of every column, by row.
    """
    columns = [
        [*(text for text in head[1:] if text), *(text for row in lines for text in row[place])]
        for place, head in enumerate(heads)
    ]
    whole = [max(map(_ems, texts), default=0.0) + 0.3 for texts in columns]
    words = [[_ems(word) for text in texts for word in re.split(r"(?<=[_/])|\s", text)]
             for texts in columns]  # fmt: skip
    least = [max(lengths, default=0.0) + 0.3 for lengths in words]
    room = 0.99 * LINE - _GAP * (len(heads) - 1)
    size = next((name for name, points in _SIZES.items() if points * sum(least) <= room), "tiny")
    points = _SIZES[size]
    return size, [points * width for width in _filled(whole, least, room / points)]


def _filled(whole: Sequence[float], least: Sequence[float], room: float) -> list[float]:
    """Return widths up to ``whole`` that fill the room: the longest cells are broken first."""
    if sum(whole) <= room:
        return list(whole)
    low, high = 0.0, max(whole)
    for _ in range(40):  # the common limit of the columns that are broken
        limit = (low + high) / 2
        taken = sum(max(b, min(a, limit)) for a, b in zip(whole, least, strict=True))
        low, high = (limit, high) if taken <= room else (low, limit)
    return [max(b, min(a, low)) for a, b in zip(whole, least, strict=True)]


def _groups(columns: Sequence[str], widths: Sequence[float]) -> list[str]:
    heads, rules, start = [], [], 1
    for group, members in groupby(columns):
        span = len(list(members))
        wide = sum(widths[start - 1 : start - 1 + span]) + _GAP * (span - 1)
        spec = rf">{{\raggedright\arraybackslash}}p{{{wide / LINE:.4f}\linewidth}}"
        name = rf"\multicolumn{{{span}}}{{{spec}}}{{{tex_text(group)}}}"
        heads.append(name if group else " & ".join([""] * span))
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + span - 1}}}")
        start += span
    return [_row(heads), " ".join(rules)] if rules else []


# --- the layout of a paper ------------------------------------------------------------------------


def _tall(row: Sequence[LayoutCell | None]) -> int:
    return 1 + max(len(entry.lines) for entry in row if entry is not None)


def _layout_lines(layout: Layout) -> Iterator[tuple[bool, list[list[str]]]]:
    """Yield the texts of every row by column."""
    for row in layout.rows:
        yield row[0] is not None, [
            [] if entry is None else
            [f"{entry.text} {entry.note}", *(line.text for line in entry.lines)] for entry in row
        ]  # fmt: skip


def _layout_rows(layout: Layout, size: str) -> Iterator[str]:
    """Yield rows of a layout: a line of printed numbers, then one for each line of ours.

    A page ends between blocks of rows, or between rows where a block is long.
    """
    starts = [place for place, row in enumerate(layout.rows) if row[0] is not None]
    ends = [*starts[1:], len(layout.rows)]
    for start, end in zip(starts, ends, strict=True):
        block = layout.rows[start:end]
        short = sum(map(_tall, block)) <= _TOGETHER
        if start:
            yield r"\addlinespace"
        for rank, row in enumerate(block, 1):
            tall = _tall(row)
            for line in range(tall):
                texts = (_entry(entry, size) if line == 0 else _below(entry, line - 1, size)
                         for entry in row)  # fmt: skip
                stays = line + 1 < tall or (short and rank < len(block))
                yield _row(texts, r"\\*" if stays else r"\\")


def _below(entry: LayoutCell | None, line: int, size: str) -> str:
    known = entry is not None and line < len(entry.lines)
    return _small(entry.lines[line].text, size) if known else ""


def _entry(entry: LayoutCell | None, size: str) -> str:
    if entry is None:
        return ""
    text = tex_text(entry.text)
    if entry.text not in ("", NOTHING) and not entry.heading:
        text = rf"\textbf{{{text}}}"
        text = rf"\struck{{{text}}}" if entry.refuted else text
    return " ".join(filter(None, (text, _small(entry.note, size))))
