"""Table writers: CSV for programs; Markdown, LaTeX and HTML for people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.core.markup import escaped, markdown_text, on_one_line
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.words import missing
from private_graphs.running.exhibit import NOTHING, Cell, Layout, LayoutCell, Line, Table
from private_graphs.tasks.tasks import SCENARIOS

FILTERS = ("dataset", "protocol")
"""Row columns by which a page can be filtered."""

_SPREAD = re.compile(r"(\S+) ± (\S+)")
_NONE: Mapping[str, float] = {}
_MANY = 10
"""Number of columns from which a paper's layout is set in smaller letters."""
_LONG = 18
"""Length in letters from which a page may break the text of a cell into lines; ``_SENTENCE``: from
which it keeps a cell wide enough for words."""
_SENTENCE = 28
_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "σ": r"$\sigma$", "±": r"$\pm$", "≤": r"$\leq$",
    "≥": r"$\geq$", "∞": r"$\infty$", "–": "--", "’": "'", "·": r"$\cdot$", "“": "``", "”": "''",
    "✓": r"$\surd$", "✗": r"$\times$", "†": r"\textdagger{}",
}  # fmt: skip


def cells(table: Table) -> Iterator[list[Cell]]:
    """Yield the cells of every row."""
    for row in table.rows:
        entries = (column.show(row) for column in table.columns)
        yield [cell if isinstance(cell, Cell) else Cell(cell) for cell in entries]


def csv(frame: pd.DataFrame) -> str:
    """Return a frame as CSV: seven significant digits, ``inf`` without DP, empty if missing."""
    plain = frame.astype("object").where(frame.notna(), None)
    return plain.map(_plain).to_csv(index=False, lineterminator="\n")


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    return f"{value:.7g}" if isinstance(value, (float, np.floating)) else str(value)


def markdown(table: Table) -> str:
    """Return a GitHub table with its title above and its notes below."""
    if table.layout:
        heads = [" ".join(filter(None, head)) for head in table.layout.columns]
        body = [[_markdown_entry(entry) for entry in row] for row in table.layout.rows]
    else:
        heads = [f"{column.group} {column.head}".strip() for column in table.columns]
        body = [[markdown_text(cell.text) for cell in row] for row in cells(table)]
    rows = [[*map(markdown_text, heads)], ["---"] * len(heads), *body]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return markdown_titled(table.title, lines, _notes(table))


def _notes(table: Table) -> list[str]:
    """Return the notes of a table, those on the marks of its layout first."""
    key = table.layout.key if table.layout else ()
    return [*(f"{mark}: {meaning}" for mark, meaning in key), *table.notes]


def _is_number(entry: LayoutCell) -> bool:
    """Return whether an entry has a printed number."""
    return entry.text not in ("", NOTHING) and not entry.heading


def _markdown_entry(entry: LayoutCell | None) -> str:
    if entry is None:
        return ""
    text = markdown_text(entry.text)
    if _is_number(entry):
        text = f"~~**{text}**~~" if entry.refuted else f"**{text}**"
    first = " ".join(filter(None, (text, markdown_text(entry.note))))
    return "<br>".join(filter(None, (first, *(markdown_text(line.text) for line in entry.lines))))


def markdown_titled(title: str, lines: Sequence[str], notes: Sequence[str]) -> str:
    """Return a bold title, lines of Markdown and a list of notes."""
    parts = [[f"**{markdown_text(title)}**"], lines, [f"- {markdown_text(note)}" for note in notes]]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def tex(table: Table) -> str:
    """Return ``table*`` environments with a booktabs ``tabular`` each, one per page.

    All text is escaped; the notes are below the last one.
    """
    if table.layout:
        heads, head = table.layout.columns, [_STRUCK]
        bodies = [list(_tex_layout(part)) for part in _tex_parts(table.layout)]
    else:
        heads, head = [(column.group, column.head, "") for column in table.columns], []
        rows = [_tex_row(tex_text(cell.text) for cell in row) for row in cells(table)]
        bodies = [rows[i : i + _TALL] for i in range(0, len(rows), _TALL)] or [[]]
    groups, names, small = zip(*heads, strict=True)
    lines = [r"% needs \usepackage{booktabs}", *head]
    for index, body in enumerate(bodies):
        lines += [
            r"\begin{table*}",
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{tex_text(table.title)}{' (continued)' * bool(index)}}}",
            rf"\begin{{tabular}}{{{'l' * len(heads)}}}",
            r"\toprule",
            *_tex_groups(groups),
            _tex_row(map(tex_text, names)),
            *([_tex_row(map(_tex_small, small))] if any(small) else []),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
        ]
        if index + 1 == len(bodies) and (notes := _notes(table)):
            lines += ["", r"\smallskip", *(tex_text(note) + r"\par" for note in notes)]
        lines.append(r"\end{table*}")
    return "\n".join(lines) + "\n"


def _tex_row(texts: Iterable[str]) -> str:
    return " & ".join(texts) + r" \\"


def tex_text(text: str) -> str:
    """Return ``text`` escaped for LaTeX, on one line."""
    return escaped(text, _TEX)


_STRUCK = r"\providecommand{\struck}[1]{\setbox0\hbox{#1}\rlap{\rule[.5ex]{\wd0}{.6pt}}\box0}"
"""LaTeX command that strikes a number through; no package has to be there."""


_TALL = 44
"""Largest number of lines of a table on a page."""


def _tex_parts(layout: Layout) -> Iterator[list[Sequence[LayoutCell | None]]]:
    """Yield the rows of a layout by page; the first row of a page repeats the headings above it."""
    part: list[Sequence[LayoutCell | None]] = []
    above: Sequence[LayoutCell | None] = [None] * len(layout.columns)
    height = 0
    for row in layout.rows:
        above = [old if new is None else new for old, new in zip(above, row, strict=True)]
        tall = _tall(row)
        if height + tall > _TALL and part:
            yield part
            part, height = [], 0
            row = [LayoutCell(old.text, heading=True) if new is None and old.heading else new
                   for old, new in zip(above, row, strict=True)]  # fmt: skip
        part.append(row)
        height += tall
    yield part


def _tall(row: Sequence[LayoutCell | None]) -> int:
    return 1 + max(len(entry.lines) for entry in row if entry is not None)


def _tex_layout(rows: Sequence[Sequence[LayoutCell | None]]) -> Iterator[str]:
    """Yield rows of a layout: a line of printed numbers, then one for each line of ours."""
    for index, row in enumerate(rows):
        if index and row[0] is not None:
            yield r"\addlinespace"
        yield _tex_row(map(_tex_entry, row))
        for line in range(_tall(row) - 1):
            yield _tex_row(_tex_small(entry.lines[line].text)
                           if entry is not None and line < len(entry.lines) else ""
                           for entry in row)  # fmt: skip


def _tex_small(text: str) -> str:
    return rf"\scriptsize {tex_text(text)}" if text else ""


def _tex_entry(entry: LayoutCell | None) -> str:
    if entry is None:
        return ""
    text = tex_text(entry.text)
    if _is_number(entry):
        text = rf"\textbf{{{text}}}"
        text = rf"\struck{{{text}}}" if entry.refuted else text
    return " ".join(filter(None, (text, _tex_small(entry.note))))


def _tex_groups(columns: Sequence[str]) -> list[str]:
    heads, rules, start = [], [], 1
    for group, span in _groups(columns):
        name = rf"\multicolumn{{{span}}}{{c}}{{{tex_text(group)}}}"
        heads.append(name if group else " & ".join([""] * span))
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + span - 1}}}")
        start += span
    return [_tex_row(heads), " ".join(rules)] if rules else []


def _groups(columns: Sequence[str]) -> list[tuple[str, int]]:
    """Return (group, number of columns) for adjacent columns of one group."""
    return [(group, len(list(members))) for group, members in groupby(columns)]


Link = Callable[[str], str]
"""Callable: statement identifier → address."""


Largest = Mapping[str, float]
"""Dataset -> share of its largest class among the test records."""


def html(table: Table, statements: Link = str, largest: Largest = _NONE) -> list[str]:
    """Return tables that a script can sort and filter; cells link to their ``statements``.

    Scores that are no better than the ``largest`` class of their dataset are grey.
    Every value of ``Table.panel`` has its own table, without that column. Columns with ``under``
    share the cells of the previous column. All text is escaped.
    """
    rows = list(zip(table.rows, cells(table), strict=True))
    if not table.panel or not rows:
        return [_html(table, table.title, rows, statements, largest)]
    return [
        _html(table, f"{table.title}: {name}",
              [(row, line) for row, line in rows if str(row[table.panel]) == name], statements,
              largest)
        for name in dict.fromkeys(str(row[table.panel]) for row in table.rows)
    ]  # fmt: skip


def _html(
    table: Table,
    caption: str,
    rows: list[tuple[dict[str, Any], list[Cell]]],
    statements: Link,
    largest: Largest,
) -> str:
    places = [index for index, column in enumerate(table.columns) if column.head != table.panel]
    stacks: list[list[int]] = []
    for index in places:
        if table.columns[index].under:
            stacks[-1].append(index)
        else:
            stacks.append([index])
    leading = [table.columns[stack[0]] for stack in stacks[1:]]
    names = [column.group or column.head for column in leading]
    rows = [
        (
            row,
            [
                replace(cell, text=_named(column.head, cell.text))
                for column, cell in zip(table.columns, line, strict=True)
            ],
        )
        for row, line in rows
    ]
    filters = [{name: _named(name, row[name]) for name in FILTERS if not missing(row.get(name))}
            for row, _ in rows]  # fmt: skip
    common = {name: value for name, value in (filters[0] if filters else {}).items()
              if all(values.get(name) == value for values in filters)}  # fmt: skip
    lines = [
        f'<table class="sortable{" stacked" * table.stacked}"{_data(common)}>',
        f"<caption><span>{escape(caption)}</span></caption>",
        "<thead>",
    ]
    lines += [f"<tr>{heads}</tr>" for heads in _heads(table, stacks) if heads]
    lines += ["</thead>", "<tbody>"]
    for (_, line), values in zip(rows, filters, strict=True):
        first, *columns = ([line[index] for index in stack] for stack in stacks)
        heads = [f' data-head="{escape(name)}"' * table.stacked for name in names]
        data = _data({name: values[name] for name in values if name not in common})
        texts = (f"{_wraps(stack)}>{_lines(stack, statements, largest)}" for stack in columns)
        lines.append(
            f'<tr{data}><th scope="row"{_wraps(first)}>{_lines(first, statements, largest)}</th>'
            + "".join(f"<td{head}{text}</td>" for head, text in zip(heads, texts, strict=True))
            + "</tr>"
        )
    return "\n".join([*lines, "</tbody>", "</table>"])


def _named(column: str, value: Any) -> str:
    """Return what a page calls a value of a column: protocols and scenarios have names."""
    if column == "protocol" and value in PROTOCOLS:
        return PROTOCOLS[value].title
    return SCENARIOS[value].called if column == "scenario" and value in SCENARIOS else str(value)


def _data(values: Mapping[str, str]) -> str:
    return "".join(f' data-{name}="{escape(value)}"' for name, value in values.items())


def _heads(table: Table, stacks: Sequence[Sequence[int]]) -> tuple[str, str]:
    """Return the cells of one or two header rows; a group of one column has one header."""
    first, second = "", ""
    for group, members in groupby(stacks, key=lambda stack: table.columns[stack[0]].group):
        heads = [", ".join(table.columns[index].head for index in stack) for stack in members]
        if not group:
            first += "".join(f'<th scope="col"{{span}}>{escape(head)}</th>' for head in heads)
        elif len(heads) == 1:
            first += (f'<th scope="col" data-group="{escape(group)}"{{span}}>{escape(group)}'
                      f"<small>{escape(heads[0])}</small></th>")  # fmt: skip
        else:
            first += f'<th scope="colgroup" colspan="{len(heads)}">{escape(group)}</th>'
            second += "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    return first.replace("{span}", ' rowspan="2"' if second else ""), second


def _wraps(stack: Sequence[Cell]) -> str:
    """Return the class of a cell whose text may be broken."""
    longest = max(len(cell.text) for cell in stack)
    if longest > _LONG:
        return ' class="wraps long"' if longest > _SENTENCE else ' class="wraps"'
    return ' class="wraps"' if any(_SPREAD.search(cell.text) for cell in stack) else ""


def _lines(stack: Sequence[Cell], statements: Link, largest: Largest) -> str:
    first, *below = stack
    lines = [first, *(cell for cell in below if cell != Cell())]
    return "<br>".join(_line(cell, statements, largest) for cell in lines)


def _useless(accuracy: tuple[str, float] | None, largest: Largest) -> bool:
    """Return whether naming the largest class is as good as a score."""
    return accuracy is not None and accuracy[1] <= largest.get(accuracy[0], -1)


def _line(cell: Cell, statements: Link, largest: Largest) -> str:
    text = _SPREAD.sub("\\1 <small>±\u00a0\\2</small>", escape(on_one_line(cell.text)))
    tone, useless = escape(cell.tone), " useless" * _useless(cell.accuracy, largest)
    if cell.statement:
        address = escape(statements(cell.statement))
        kind = (f"e {tone}" if tone else "soft") + useless
        return f'<a class="{kind}" href="{address}">{text}</a>'
    kind = (tone if tone in ("", "published") else f"e {tone}") + useless
    return f'<span class="{kind.strip()}">{text}</span>' if kind else text


def layout_html(table: Table, statements: Link = str, largest: Largest = _NONE) -> str:
    """Return a table in its paper's layout; its lines are as the cells of ``html``."""
    layout = table.layout
    grouped = any(group for group, _, _ in layout.columns)
    first, second = "", ""
    for group, members in groupby(layout.columns, key=lambda column: column[0]):
        heads = [f'{escape(head)}{f"<small>{escape(note)}</small>" if note else ""}</th>'
                 for _, head, note in members]  # fmt: skip
        if group:
            first += f'<th scope="colgroup" colspan="{len(heads)}">{escape(group)}</th>'
            second += "".join(f'<th scope="col">{head}' for head in heads)
        else:
            span = ' rowspan="2"' * grouped
            first += "".join(f'<th scope="col"{span}>{head}' for head in heads)
    lines = [
        f'<table class="paper{" many" * (len(layout.columns) > _MANY)}">',
        f"<caption><span>{escape(table.title)}</span></caption>",
        f"<thead><tr>{first}</tr>{f'<tr>{second}</tr>' * grouped}</thead>",
        "<tbody>",
    ]
    for row in layout.rows:
        block = ' class="block"' if row[0] is not None else ""
        entries = (_entry(entry, statements, largest) for entry in row if entry is not None)
        lines.append(f"<tr{block}>{''.join(entries)}</tr>")
    return "\n".join([*lines, "</tbody>", "</table>"])


def _entry(entry: LayoutCell, statements: Link, largest: Largest) -> str:
    tag, scope = ("th", ' scope="row"') if entry.heading else ("td", "")
    span = f' rowspan="{entry.rows}"' if entry.rows > 1 else ""
    text = escape(on_one_line(entry.text))
    if _is_number(entry):
        kind = "s" if entry.refuted else "b"
        text = f"<{kind}>{text}</{kind}>"
    note = f"<small>{escape(on_one_line(entry.note))}</small>" if entry.note else ""
    scores = "".join(_score(line, statements, largest) for line in entry.lines)
    return f"<{tag}{scope}{span}{' class=muted' * entry.muted}>{text}{note}{scores}</{tag}>"


def _score(line: Line, statements: Link, largest: Largest) -> str:
    around = f"<small>±{escape(line.spread)}</small>" if line.spread else ""
    label = f"<i>{escape(line.label)}</i> " if line.label else ""
    epsilon, tone = escape(line.epsilon.text), escape(line.epsilon.tone)
    epsilon = f' <b class="{tone}">{epsilon}</b>' if epsilon else ""
    text = f"{label}{escape(line.score)}{around}{epsilon}"
    kind = ' class="useless"' if _useless(line.accuracy, largest) else ""
    if not line.epsilon.statement:
        return f"<div{kind}>{text}</div>"
    return f'<div{kind}><a href="{escape(statements(line.epsilon.statement))}">{text}</a></div>'
