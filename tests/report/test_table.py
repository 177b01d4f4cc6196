"""The four writers of a table: nothing in a cell can break the table around it."""

from __future__ import annotations

import csv as reader
import io
import re
import unicodedata

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from markup import Cells

from private_graphs.report import table as tables
from private_graphs.report.latex import tex
from private_graphs.running.exhibit import Cell, Column, Table

HOSTILE = st.text(
    st.sampled_from(list("ab |\\`*_[]<>&\"'{}$%#~^\n\t\r±ε∞–")) | st.characters(codec="utf-8"),
    max_size=12,
)


def table(texts: list[str], title: str = "a title") -> Table:
    columns = [
        Column("name", lambda row: Cell(row["text"], "0123456789ab", "proved")),
        Column("score", lambda row: "1", "group"),
        Column("other", lambda row: "2", "group"),
    ]
    return Table(title, pd.DataFrame({"text": texts}), columns, notes=(title,))


def flat(text: str) -> str:
    """White space, controls and marks that turn the direction of text are one space."""
    turns = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    return " ".join("".join(
        " " if unicodedata.category(mark) == "Cc" or mark in turns else mark for mark in text
    ).split())  # fmt: skip


@given(st.lists(HOSTILE, min_size=1, max_size=3), HOSTILE)
def test_html_holds_every_text_and_no_tag_of_it(texts, title):
    parser = Cells("".join(tables.html(table(texts, title), "../{}.html".format)))
    assert parser.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "a", "span"}
    assert parser.texts[::3] == [flat(text) for text in texts]


def test_rows_name_what_they_are_filtered_by_in_one_order():
    """As a set they stood in the order of hashes, other ones in each process."""
    frame = pd.DataFrame({name: [f"{name} {row}" for row in range(9)] for name in tables.FILTERS})
    (text,) = tables.html(Table("", frame, [Column("row", lambda row: "1")]))
    for row in re.findall(r"<tr (data-.*?)>", text):
        assert re.findall(r"data-(\w+)", row) == list(tables.FILTERS)


@given(st.lists(HOSTILE, min_size=1, max_size=3), HOSTILE)
def test_markdown_has_a_line_per_row_with_all_its_columns(texts, title):
    lines = tables.markdown(table(texts, title)).split("\n")
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 2 + len(texts)
    for row in rows:
        assert len(re.split(r"(?<!\\)(?:\\\\)*\|", row)) == 5
        assert "<" not in row and ">" not in row


@given(st.lists(HOSTILE, min_size=1, max_size=3), HOSTILE)
def test_latex_escapes_what_it_reads_as_commands(texts, title):
    text = tex(table(texts, title))
    body = text[text.index(r"\endfoot") : text.index(r"\end{longtable}")]
    for line in body.splitlines()[1:]:
        assert line.endswith(r" & 1 & 2 \\")
        cell = line.removesuffix(r" & 1 & 2 \\")
        plain = re.sub(
            r"\$[^$]+\$|\[U[+][0-9A-F]+\]|\\allowbreak\{\}|\\S\{\}|\\text[a-z]+\{\}|\\[&%$#_{}-]|\\dots\{\}",
            "",
            cell,
        )
        assert not set(plain) & set("\\&%$#_{}~^")


def test_csv_tells_missing_from_infinite_and_keeps_flags():
    frame = pd.DataFrame(
        {"epsilon": [np.inf, 2.0, np.nan], "flag": pd.array([True, None, False], "boolean"),
         "count": pd.array([1, None, 3], "Int64"), "text": ['a "b", c', None, ""]}
    )  # fmt: skip
    rows = list(reader.reader(io.StringIO(tables.csv(frame))))
    assert rows == [["epsilon", "flag", "count", "text"], ["inf", "true", "1", 'a "b", c'],
                    ["2", "", "", ""], ["", "false", "3", ""]]  # fmt: skip


def test_panels_are_tables_of_their_own_and_lines_stand_for_the_frame():
    frame = pd.DataFrame({"dataset": ["a", "b", "a"], "x": [1, 2, 3]})
    columns = [Column("dataset", lambda row: row["dataset"]),
               Column("x", lambda row: str(row["x"]))]  # fmt: skip
    first, second = tables.html(Table("title", frame, columns, panel="dataset"))
    for text, name, count in ((first, "a", 2), (second, "b", 1)):
        assert f"<caption><span>title: {name}</span></caption>" in text
        assert text.count('<th scope="row">') == count
        assert re.findall("<(.*?) data-dataset=(.*?)>", text) == [
            ('table class="sortable"', f'"{name}"')]  # fmt: skip
        assert '<th scope="col">dataset' not in text
    seen = Table("title", frame, columns, lines=frame[:1])
    assert "".join(tables.html(seen)).count("<td>") == 1
    assert tables.csv(seen.frame).count("\n") == 4


def test_a_column_above_heads_the_rows_that_share_its_text_and_takes_no_width():
    frame = pd.DataFrame({"unit": ["edge", "edge", "node"], "epsilon": ["1", "2", "2"],
                          "method": ["a", "b", "c"]})  # fmt: skip
    columns = [Column(name, lambda row, name=name: row[name], above=name != "method")
               for name in frame]  # fmt: skip
    [text] = tables.html(Table("title", frame, [*columns, Column("score", lambda row: ".5")]))
    heads = re.findall(r'<tr class="head"><th scope="rowgroup" colspan="2">(.*?)<tr>', text)
    assert heads == ["edge · epsilon 1", "edge · epsilon 2", "node · epsilon 2"]
    assert text.count("<tbody>") == text.count("</tbody>") == 3
    assert re.findall(r'<th scope="col">(.*?)(?=<)', text) == ["method", "score"]
    assert "unit" in tables.markdown(Table("title", frame, columns)), "files keep the column"
