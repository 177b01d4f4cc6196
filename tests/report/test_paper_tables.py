"""Tables in their paper's layout: no printed number is lost, and every form has the same cells."""

from __future__ import annotations

import math
import re

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markup import Cells

from private_graphs.core.markup import markdown_text
from private_graphs.report import table as tables
from private_graphs.report.latex import tex, tex_text
from private_graphs.report.layout import (
    NOT_PRINTED,
    NOT_RUN,
    ONLY_PRINTED,
    LayoutColumn,
    laid_out,
    score_lines,
)
from private_graphs.running.exhibit import Layout, LayoutCell, Line, Table

ROWS = [{"graph": graph, "epsilon": epsilon} for graph in "abc" for epsilon in (1, 2)]
POINT = {
    "mean": 0.5, "std": 0.0104, "epsilon": 2.0, "inference": "leaks", "statement_id": "0a",
    "epsilon_proved": math.nan, "audit_epsilon_lower": None, "status": "published_only",
}  # fmt: skip


def laid(printed: dict, lines: dict) -> Layout:
    """Return a layout: a number per graph, then two per graph and ε."""
    places = [
        LayoutColumn("", lambda row: row["graph"], heading=True, per=("graph",)),
        LayoutColumn("Maj.", lambda row: (row["graph"], "majority"), per=("graph",)),
        LayoutColumn("ε", lambda row: f"{row['epsilon']}", heading=True),
        *(LayoutColumn(head, lambda row, head=head: (row["graph"], row["epsilon"], head), "DP")
          for head in ("SGD", "Adam")),
    ]  # fmt: skip
    return laid_out(ROWS, places, printed, lines)


def table(layout: Layout) -> Table:
    return Table("title", pd.DataFrame({"x": [1]}), [], layout=layout)


def entries(layout: Layout) -> list[LayoutCell]:
    return [entry for row in layout.rows for entry in row if entry is not None]


def squeezed(text: str) -> str:
    """Return a text without white space, which forms set in their own way."""
    return "".join(text.split())


def wanted(layout: Layout) -> list[str]:
    """Return the whole text of every cell."""
    return [squeezed(f"{each.text}{each.note}{''.join(line.text for line in each.lines)}")
            for each in entries(layout)]  # fmt: skip


WORDS = st.text(st.sampled_from(list("ab|\\`*_<>&\"'{}$%#~^\nε±✗ ")), min_size=1, max_size=6)


@settings(max_examples=40)
@given(WORDS, WORDS, WORDS, st.booleans())
def test_all_forms_have_the_same_escaped_cells(number, score, name, refuted):
    key = ("a", 1, "SGD")
    number, score, name = (squeezed(each) or "0" for each in (number, score, name))
    printed = {key: LayoutCell(number, name, refuted=refuted)}
    layout = laid(printed, {key: [Line(name, score, score)]})
    body = Cells(tables.layout_html(table(layout), "../{}.html".format))
    assert [squeezed(cell) for cell in body.texts] == wanted(layout)
    assert body.struck == [number] * refuted

    rows = [line for line in tables.markdown(table(layout)).splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(ROWS)
    cells = [re.split(r"(?<!\\)(?:\\\\)*\|", row)[1:-1] for row in rows]
    assert {len(row) for row in cells} == {5}
    found = cells[2][3].strip()
    assert found.startswith("~~**" if refuted else "**")
    assert markdown_text(number) in found and found.endswith(
        f"<br>{markdown_text(layout.rows[0][3].lines[0].text)}"
    )

    text = tex(table(layout))
    body = text[text.index(r"\endfoot") : text.index(r"\end{longtable}")]
    assert body.count(tex_text(layout.rows[0][3].lines[0].text)) == 1
    assert (r"\struck{\textbf{" + tex_text(number) in body) == refuted
    lines = [line for line in body.splitlines()[1:] if line != r"\addlinespace"]
    assert len(lines) == len(ROWS) + 1
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {4}


def test_a_printed_number_without_a_place_is_an_error():
    with pytest.raises(ValueError, match="without a place.*'SGD'"):
        laid({("a", 3, "SGD"): LayoutCell(".5")}, {})


def test_no_page_ends_within_a_short_block_of_rows_and_the_head_is_on_every_page():
    lines = [Line("code", f".{place:02d}") for place in range(3)]
    text = tex(table(laid({}, {("a", epsilon, "SGD"): lines for epsilon in (1, 2)})))
    rows = text[text.index(r"\endfoot") : text.index(r"\end{longtable}")].splitlines()[1:]
    first = [line.endswith(r"\\*") for line in rows[: rows.index(r"\addlinespace")]]
    assert first == [True] * 7 + [False]
    assert text.count(r"\toprule") == 2 and r"\caption[]{title (continued)}" in text
    assert [text.count(line.text) for line in lines] == [2] * 3


def test_what_is_not_run_and_what_the_paper_does_not_print_is_said():
    printed = {(graph, 1, "SGD"): LayoutCell(f".{graph}") for graph in "ab"}
    layout = laid(
        printed | {("a", "majority"): LayoutCell(".3"), ("b", 2, "SGD"): LayoutCell(".7")},
        {
            ("b", 1, "SGD"): [Line("code", ".5")],
            ("c", 2, "SGD"): [Line("code", ".6")],
        },
    )
    assert [row[0] and row[0].note for row in layout.rows] == [
        ONLY_PRINTED, None, "", None, NOT_PRINTED, None,
    ]  # fmt: skip
    texts = [[entry and entry.text for entry in row[1:]] for row in layout.rows]
    assert texts[0] == [".3", "1", ".a", ""], "Adam is in no cell of the paper"
    assert texts[3] == [None, "2", ".7", ""]
    assert texts[4] == ["", "1", "", ""], "c is not in the paper"
    assert layout.rows[3][3].note == NOT_RUN and not layout.rows[3][3].muted
    assert all(entry is None or entry.muted for row in layout.rows[:2] for entry in row)
    assert layout.rows[0][1].rows == 2 and layout.columns[4] == ("DP", "Adam", NOT_PRINTED)
    assert dict(layout.key)[".3"] == "printed in the paper"
    assert {"code", NOT_RUN, NOT_PRINTED} <= dict(layout.key).keys()


def test_lines_say_what_is_proved_refuted_or_open_and_link_to_the_statement():
    points = [
        {**POINT, "protocol": "sound", "epsilon_proved": 1.9999, "inference": "inductive_disjoint",
         "status": "proved_if_seed_secret"},
        {**POINT, "protocol": "paper", "epsilon_proved": 3.3801, "status": "proved"},
        {**POINT, "protocol": "released", "status": "refuted", "audit_epsilon_lower": 4.789},
        {**POINT, "protocol": "released"},
        {**POINT, "protocol": "released", "status": "not_private", "epsilon": math.inf},
    ]  # fmt: skip
    lines = score_lines(points, lambda row: 0)[0]
    assert [line.text for line in lines] == [
        "code .500 ± .010 ε>4.78 ✗", "code .500 ± .010 ε none", "code .500 ± .010",
        "text .500 ± .010 ε 3.39†", "fixed .500 ± .010 ε 2.00 ✓",
    ]  # fmt: skip
    tones = ["refuted", "none", "", "e10", "e3"]
    assert [line.epsilon.tone for line in lines] == tones
    assert {line.epsilon.statement for line in lines} == {"0a"}
    above = {**POINT, "protocol": "paper", "epsilon_proved": 2.004, "status": "proved"}
    assert score_lines([above], lambda row: 0)[0][0].epsilon.text == "ε 2.01†"
    page = tables.layout_html(table(laid({}, {("a", 1, "SGD"): lines})), "../{}.html".format)
    assert page.count('href="../0a.html"') == len(lines)
