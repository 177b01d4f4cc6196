"""Tables in three formats: rounding, escaping, reading back."""

from __future__ import annotations

import math

import pandas as pd

from private_graphs.reporting.formats import (
    Readable,
    csv_text,
    markdown,
    number,
    read_table,
    tex,
    write_table,
)

FRAME = pd.DataFrame(
    {
        "dataset": ["cora", "cora"],
        "epsilon": [math.inf, 2.0],
        "published": [0.88, None],
        "paper_mean": [0.123456, None],
        "paper_epsilon_proved": [None, 3.38014753],
        "paper_vacuous": [False, None],
        "paper_noise_multiplier": [112.0, 34.696],
        "paper_statement_id": ["123e45678901", "000000000012"],
    }
)
PLAIN = Readable("Caption", (("", "a"), ("g", "b"), ("g", "c")), (("1", "2", "3"),), ("note",))


def test_csv_keeps_four_decimals_of_scores_and_budgets_and_every_noise_digit():
    assert csv_text(FRAME).splitlines()[1:] == [
        "cora,inf,0.88,0.1235,,false,112,123e45678901",
        "cora,2,,,3.3801,,34.696,000000000012",
    ]


def test_a_written_table_reads_back_with_statement_ids_as_text(tmp_path):
    write_table(FRAME, PLAIN, tmp_path / "table")
    back = read_table(tmp_path / "table.csv")
    assert list(back["paper_statement_id"]) == ["123e45678901", "000000000012"]
    assert math.isinf(back["epsilon"][0]) and math.isnan(back["published"][1])
    assert back["paper_vacuous"][0] is False


def test_write_table_names_the_three_files(tmp_path):
    paths = write_table(FRAME, PLAIN, tmp_path / "tables" / "s_table1")
    assert [path.name for path in paths] == ["s_table1.csv", "s_table1.md", "s_table1.tex"]
    assert all(path.is_file() for path in paths)


def test_markdown_has_one_heading_row_and_escapes_what_would_break_a_cell():
    hostile = Readable("C", (("", "a"), ("g", "b")), (("x|y\nz", "<script>_"),))
    lines = markdown(hostile).splitlines()
    assert lines[2:] == ["| a | g b |", "| --- | --- |", r"| x\|y z | &lt;script&gt;\_ |"]


def test_tex_groups_columns_under_booktabs_rules():
    text = tex(PLAIN)
    assert r" & \multicolumn{2}{c}{g} \\" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert r"1 & 2 & 3 \\" in text


def test_tex_escapes_every_special_character():
    hostile = Readable("ε ≤ 2", (("", "a"),), ((r"\input{x} 50% $a_b^c ~ #1 & <>",),))
    text = tex(hostile)
    assert r"\caption{$\varepsilon$ $\leq$ 2}" in text
    cell = (
        r"\textbackslash{}input\{x\} 50\% \$a\_b\textasciicircum{}c \textasciitilde{} \#1 \& "
        r"\textless{}\textgreater{} \\"
    )
    assert cell in text


def test_number_shows_infinity_and_absence():
    assert [number(math.inf), number(None), number(math.nan), number(1e-5), number(0.5, 2)] == [
        "∞", "–", "–", "1e-5", "0.50",
    ]  # fmt: skip
