"""Cells of tables that somebody opens in a spreadsheet."""

from __future__ import annotations

import csv
import io
import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from private_graphs.core.spreadsheets import cell, table_text

NUMBERS = ("-5", "+3.5", "-1,5")
PIECES = st.lists(st.sampled_from(
    ["=1+1", "+A1", "-A1", "@SUM", "\uff1d1", "\uff0bA", "\uff0dA", "\uff20A", "\ufe66A", "-5", "x",
     "\0", "\x07",
     ",", ";", "|", ":", "\t", " ", "\xa0", "\ufeff", '"', "'", "\n", "\r"]
), max_size=6).map("".join)  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_stay_numbers(number):
    assert cell(number) == number


def test_two_ids_are_no_one_cell():
    ids = [
        "\t=1",
        "'\t=1",
        "=1",
        "'=1",
        "''=1",
        "a;=1",
        "a;'=1",
        "-5",
        "'-5",
        'a;"=1',
        "a;'\"=1",
        "a;\"'=1",
        "a =1",
        "a '=1",
        "a|=1",
        "a|'=1",
    ]
    assert len({cell(name) for name in ids}) == len(ids)


@given(PIECES)
def test_no_cell_is_a_formula_whatever_separator_a_program_reads_with(text):
    """In the whole cell, and in each part of it when the quotes were lost on the way."""
    written = table_text(["id", "score"], [(text, 0.5)])
    head = table_text([f"score {text}"], [])
    assert next(csv.reader(io.StringIO(head))) == [cell(f"score {text}")], "a class is in a header"
    assert list(csv.reader(io.StringIO(written)))[1] == [cell(text), "0.5"]
    assert written.splitlines()[0] == '"id","score"' and written.endswith('",0.5\n')
    for separator in ",;|\t :":
        # as a program reads the file, quotes in it included, and where these were lost on the way
        parts = csv.reader(io.StringIO(written.partition("\n")[2]), delimiter=separator)
        for part in [*cell(text).split(separator), *itertools.chain(*parts)]:
            begins = unicodedata.normalize("NFKC", part.lstrip(' \0\x07"\xa0\ufeff'))
            formula = begins.startswith(("=", "+", "@", "-")) and begins not in "-5"
            assert not formula, part
