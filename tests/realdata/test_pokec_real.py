"""The genuine first 100 profiles and friendships: read like the slow reader, HTML gone."""

from __future__ import annotations

import re

import numpy as np
import pytest
from pokec_reference import assert_equal, content, lines, read

from private_graphs.datasets.pokec import read_pokec
from private_graphs.datasets.pokec_format import COLUMNS, FIRST_TEXT, LAST_TEXT, MISSING, clean_text
from private_graphs.datasets.views import VIEWS

PER_CLASS = 2
"""There are two cat people among the 100, and 15 dog people."""


@pytest.fixture(scope="module")
def excerpt(mirror):
    names = ("soc-pokec-profiles.head100.txt", "soc-pokec-relationships.head100.txt")
    paths = [mirror / "pokec" / name for name in names]
    absent = [path.name for path in paths if not path.is_file()]
    if absent:
        pytest.skip(f"the mirror has no excerpt of Pokec ({', '.join(absent)})")
    return paths


@pytest.mark.parametrize("view", VIEWS)
def test_the_excerpt_is_read_as_by_the_slow_reader(excerpt, view):
    graph = read_pokec(
        *excerpt,
        VIEWS[view],
        name="pokec",
        per_class=PER_CLASS,
        title="Pokec",
        synthetic=False,
        sources=[],
        licence="as published",
        citation="Takac & Zabovsky, 2012",
        public_facts=[],
        progress=lambda *_: None,
    )
    assert_equal(graph, read(*excerpt, VIEWS[view], PER_CLASS))
    released = view == "released"
    assert graph.info.counts["rows"] == graph.info.counts["edge_rows"] == 100
    assert graph.info.counts["malformed_rows"] == graph.info.counts["malformed_edge_rows"] == 0
    dogs = graph.info.counts["candidates_dog"]
    assert (graph.info.counts["candidates_cat"], dogs) == (2, 14 if released else 15)
    assert np.bincount(graph.labels).tolist() == [PER_CLASS, PER_CLASS]


def test_no_markup_is_left_in_any_text(excerpt):
    rows = [line.split("\t") for line in content(excerpt[0]).decode().split("\n") if line]
    assert {len(row) for row in rows} == {60} and len(rows) == len(lines(excerpt[0])) == 100
    cells = [cell for row in rows for cell in row[FIRST_TEXT : LAST_TEXT + 1]]
    texts = [clean_text(cell) for cell in cells]
    assert [text is None for text in texts] == [cell in MISSING for cell in cells]
    marked = [cell for cell in cells if "<div>" in cell]
    assert len(marked) > 50
    for cell, text in zip(cells, texts, strict=True):
        if text is None:
            continue
        assert not re.search(r"</?(div|a)\b|&[a-z]+;|\u00ad|\s\s", text)
        if "<" not in cell and "&" not in cell:
            assert text == " ".join(cell.split())


def test_texts_are_as_full_as_the_synthetic_ones_claim(excerpt):
    """37 % of the 49 columns filled, 31 % of those repetitions, 6 words on average."""
    rows = [line.split("\t") for line in content(excerpt[0]).decode().split("\n") if line]
    assert len(COLUMNS) == 59
    cells = [cell for row in rows for cell in row[FIRST_TEXT : LAST_TEXT + 1]]
    filled = [cell for cell in cells if cell not in MISSING]
    assert len(filled) / len(cells) == pytest.approx(0.373, abs=0.001)
    assert 1 - len(set(filled)) / len(filled) == pytest.approx(0.309, abs=0.001)
    words = [len(clean_text(cell).split()) for cell in filled]
    assert np.mean(words) == pytest.approx(6.2, abs=0.1)
