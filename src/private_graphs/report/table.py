"""Table writers: CSV for programs; Markdown and HTML for people.

HTML has no end tags of cells and rows, which it implies: a page is a tenth smaller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.core.markup import markdown_text, on_one_line
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.words import missing
from private_graphs.running.exhibit import NOTHING, Cell, Column, LayoutCell, Line, Table
from private_graphs.tasks.tasks import SCENARIOS

FILTERS = ("dataset", "protocol")
"""Row columns by which a page can be filtered."""

_SPREAD = re.compile(r"(\S+) ± (\S+)")
_NONE: Mapping[str, float] = {}
_MANY = 10
"""Number of columns from which a paper's layout is set in smaller letters."""
_WIDE = 12
"""Number of columns up to which any other table is set in letters of full size."""
_LONG = 18
"""Length in letters from which a page may break the text of a cell into lines; ``_SENTENCE``: from
which it keeps a cell wide enough for words."""
_SENTENCE = 28


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
    return markdown_titled(table.title, lines, notes_of(table))


def notes_of(table: Table) -> list[str]:
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
    share the cells of the previous column, and those with ``above`` are headings over the rows of a
    body of its own. All text is escaped.
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
    above = [index for index, column in enumerate(table.columns) if column.above]
    places = [index for index, column in enumerate(table.columns)
              if column.head != table.panel and not column.above]  # fmt: skip
    places = [index for index in places if not table.columns[index].sparse
              or any(line[index] != Cell() for _, line in rows)]  # fmt: skip
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
    kind = f"sortable{' stacked' * table.stacked}{' many' * (len(stacks) > _WIDE)}"
    lines = [
        f'<table class="{kind}"{_data(common)}>',
        f"<caption><span>{escape(caption)}</span></caption>",
        "<thead>",
    ]
    lines += [f"<tr>{heads}" for heads in _heads(table, stacks) if heads]
    lines += ["</thead>", "<tbody>"]
    heading = ""
    for (_, line), values in zip(rows, filters, strict=True):
        words = " · ".join(_heading(table.columns[index], line[index]) for index in above)
        if words != heading:
            heading = words
            lines += ["</tbody>", "<tbody>"] if lines[-1] != "<tbody>" else []
            lines.append(f'<tr class="head"><th scope="rowgroup" colspan="{len(stacks)}">'
                         f"{escape(words)}")  # fmt: skip
        first, *columns = ([line[index] for index in stack] for stack in stacks)
        heads = [f' data-head="{escape(name)}"' * table.stacked for name in names]
        plain = {
            (table.columns[index].head, line[index].text) for index, *more in stacks if not more
        }
        data = _data({name: value for name, value in values.items()
                      if name not in common and (name, value) not in plain})  # fmt: skip
        texts = (f"{_wraps(stack)}>{_lines(stack, statements, largest)}" for stack in columns)
        lines.append(
            f'<tr{data}><th scope="row"{_wraps(first)}>{_lines(first, statements, largest)}'
            + "".join(f"<td{head}{text}" for head, text in zip(heads, texts, strict=True))
        )
    return "".join([*lines, "</tbody></table>"])


def _heading(column: Column, cell: Cell) -> str:
    """Return the part of a heading for a column: a number has the name of its column."""
    return f"{column.head} {cell.text}" if cell.text[:1].isdigit() else cell.text


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
            first += "".join(f'<th scope="col"{{span}}>{escape(head)}' for head in heads)
        elif len(heads) == 1:
            first += (f'<th scope="col" data-group="{escape(group)}"{{span}}>{escape(group)}'
                      f"<small>{escape(heads[0])}</small>")  # fmt: skip
        else:
            first += f'<th scope="colgroup" colspan="{len(heads)}">{escape(group)}'
            second += "".join(f'<th scope="col">{escape(head)}' for head in heads)
    return first.replace("{span}", ' rowspan="2"' if second else ""), second


def _wraps(stack: Sequence[Cell]) -> str:
    """Return the class of a cell whose text may be broken."""
    longest = max(len(cell.text) for cell in stack)
    if longest > _LONG:
        return ' class="wraps long"' if longest > _SENTENCE else ' class="wraps"'
    return ""


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
    if tone == "published":
        return f"<b>{text}</b>"
    kind = f"e {tone}" * bool(tone) + useless
    return f'<span class="{kind.strip()}">{text}</span>' if kind else text


def layout_html(table: Table, statements: Link = str, largest: Largest = _NONE) -> str:
    """Return a table in its paper's layout; its lines are as the cells of ``html``."""
    layout = table.layout
    grouped = any(group for group, _, _ in layout.columns)
    first, second = "", ""
    for group, members in groupby(layout.columns, key=lambda column: column[0]):
        heads = [f'{escape(head)}{f"<small>{escape(note)}</small>" if note else ""}'
                 for _, head, note in members]  # fmt: skip
        if group:
            first += f'<th scope="colgroup" colspan="{len(heads)}">{escape(group)}'
            second += "".join(f'<th scope="col">{head}' for head in heads)
        else:
            span = ' rowspan="2"' * grouped
            # an empty heading would be read aloud as one
            first += "".join(f'<th scope="col"{span}>{head}' if head
                             else f"<td{span}>" for head in heads)  # fmt: skip
    lines = [
        f'<table class="paper{" many" * (len(layout.columns) > _MANY)}">',
        f"<caption><span>{escape(table.title)}</span></caption>",
        f"<thead><tr>{first}{f'<tr>{second}' * grouped}</thead>",
        "<tbody>",
    ]
    for row in layout.rows:
        block = ' class="block"' if row[0] is not None else ""
        entries = (_entry(entry, statements, largest) for entry in row if entry is not None)
        lines.append(f"<tr{block}>{''.join(entries)}")
    return "".join([*lines, "</tbody></table>"])


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
