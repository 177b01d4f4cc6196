"""Four writers for any table: CSV for programs; Markdown, LaTeX and HTML for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby

import numpy as np
import pandas as pd

from private_graphs.report.exhibit import Cell, Column, Table

_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "σ": r"$\sigma$", "±": r"$\pm$", "≤": r"$\leq$",
    "≥": r"$\geq$", "∞": r"$\infty$", "–": "--", "’": "'", "·": r"$\cdot$", "“": "``", "”": "''",
}  # fmt: skip
_MARKDOWN = {mark: f"\\{mark}" for mark in "\\`*_[]|"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def cells(table: Table) -> Iterator[list[Cell]]:
    """Yield the cells of every row."""
    for row in table.shown.to_dict("records"):
        shown = (column.show(row) for column in table.columns)
        yield [cell if isinstance(cell, Cell) else Cell(cell) for cell in shown]


def csv(frame: pd.DataFrame) -> str:
    """Return a frame as CSV: numbers with ten digits, ``inf`` without DP, nothing where missing."""
    plain = frame.astype("object").where(frame.notna(), None)
    return plain.map(_plain).to_csv(index=False, lineterminator="\n")


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, (float, np.floating)) else str(value)


def markdown(table: Table) -> str:
    """Return a GitHub table with its title above and its notes below."""
    heads = [f"{column.group} {column.head}".strip() for column in table.columns]
    rows = [heads, ["---"] * len(heads), *([cell.text for cell in row] for row in cells(table))]
    lines = [f"| {' | '.join(map(markdown_text, row))} |" for row in rows]
    return markdown_titled(table.title, lines, table.notes)


def markdown_titled(title: str, lines: Sequence[str], notes: Sequence[str]) -> str:
    """Return a bold title, lines of Markdown and a list of notes."""
    parts = [[f"**{markdown_text(title)}**"], lines, [f"- {markdown_text(note)}" for note in notes]]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def markdown_text(text: str) -> str:
    """Return ``text`` as it stands in Markdown, on one line."""
    return _escaped(text, _MARKDOWN)


def tex(table: Table) -> str:
    """Return a ``table*`` environment with a booktabs ``tabular``; all text is escaped."""
    body = [" & ".join(_escaped(cell.text, _TEX) for cell in row) + r" \\" for row in cells(table)]
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table*}",
        r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{_escaped(table.title, _TEX)}}}",
        rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}",
        r"\toprule",
        *_tex_groups(table.columns),
        " & ".join(_escaped(column.head, _TEX) for column in table.columns) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if table.notes:
        lines += ["", r"\smallskip", *(_escaped(note, _TEX) + r"\par" for note in table.notes)]
    return "\n".join([*lines, r"\end{table*}"]) + "\n"


def _tex_groups(columns: Sequence[Column]) -> list[str]:
    heads, rules, start = [], [], 1
    for group, span in _groups(columns):
        name = rf"\multicolumn{{{span}}}{{c}}{{{_escaped(group, _TEX)}}}"
        heads.append(name if group else " & ".join([""] * span))
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + span - 1}}}")
        start += span
    return [" & ".join(heads) + r" \\", " ".join(rules)] if rules else []


def _groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """(group, number of columns) of neighbouring columns of one group."""
    runs = groupby(column.group for column in columns)
    return [(group, len(list(members))) for group, members in runs]


def html(table: Table, statements: str = "") -> str:
    """Return a sortable table; cells link to ``<statements><statement_id>.html``.

    Every value of ``Table.panel`` starts a table of its own. All text is escaped.
    """
    if not table.panel or table.shown.empty:
        return _html(table, table.title, list(cells(table)), statements)
    panels = table.shown[table.panel].map(str)
    rows = list(zip(panels, cells(table), strict=True))
    return "\n".join(
        _html(table, f"{table.title}: {name}", [row for panel, row in rows if panel == name],
              statements)
        for name in dict.fromkeys(panels)
    )  # fmt: skip


def _html(table: Table, caption: str, rows: list[list[Cell]], statements: str) -> str:
    grouped = any(column.group for column in table.columns)
    first, second = [], []
    for group, members in groupby(table.columns, key=lambda column: column.group):
        heads = [escape(column.head) for column in members]
        if group:
            first.append(f'<th scope="colgroup" colspan="{len(heads)}">{escape(group)}</th>')
            second += [f'<th scope="col">{head}</th>' for head in heads]
        else:
            span = ' rowspan="2"' if grouped else ""
            first += [f'<th scope="col"{span}>{head}</th>' for head in heads]
    lines = ['<table class="sortable">', f"<caption>{escape(caption)}</caption>", "<thead>"]
    lines += [f"<tr>{''.join(heads)}</tr>" for heads in (first, second) if heads]
    lines += ["</thead>", "<tbody>"]
    lines += [f"<tr>{''.join(_td(cell, statements) for cell in row)}</tr>" for row in rows]
    return "\n".join([*lines, "</tbody>", "</table>"]) + "\n"


def _td(cell: Cell, statements: str) -> str:
    text = escape(_flat(cell.text))
    if cell.statement:
        text = f'<a href="{escape(f"{statements}{cell.statement}.html")}">{text}</a>'
    return f'<td class="{escape(cell.tone)}">{text}</td>' if cell.tone else f"<td>{text}</td>"


def _escaped(text: str, marks: Mapping[str, str]) -> str:
    return "".join(marks.get(mark, mark) for mark in _flat(text))


def _flat(text: str) -> str:
    return " ".join(str(text).split())
