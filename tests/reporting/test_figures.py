"""The figure of Table 1 shows the numbers of the table."""

from __future__ import annotations

import math

import pytest

from private_graphs.errors import UserError
from private_graphs.reporting.figures import draw_scores, write_figures
from private_graphs.reporting.formats import read_table
from private_graphs.reporting.score_tables import SCORE_TABLES
from private_graphs.reporting.tables import write_tables


@pytest.fixture
def table(tmp_path, cell, statistics):
    for protocol in ("released", "sound"):
        cell(tmp_path, protocol=protocol, scores={math.inf: [0.8, 0.9], 2.0: [0.5, 0.6]})
    write_tables(tmp_path, "lrec2022", tables=["table1"], statistics=[statistics()])
    return read_table(tmp_path / "tables" / "lrec2022_table1.csv")


def test_one_panel_per_dataset_with_one_legend_entry_per_kind(table):
    figure = draw_scores(table, SCORE_TABLES["lrec2022", "table1"])
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["cora"]
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["released", "sound", "published", "majority class"]


def test_markers_stand_at_the_means_and_at_the_published_values(table):
    (axis,) = draw_scores(table, SCORE_TABLES["lrec2022", "table1"]).axes
    heights = {
        label: sorted(
            round(float(bar.lines[0].get_ydata()[0]), 4)
            for bar in axis.containers
            if bar.get_label() == label
        )
        for label in ("released", "paper", "sound")
    }
    assert heights == {"released": [0.55, 0.85], "paper": [], "sound": [0.55, 0.85]}
    published = [line for line in axis.lines if line.get_label() == "published"]
    assert sorted(float(line.get_ydata()[0]) for line in published) == [
        0.39, 0.52, 0.55, 0.55, 0.56, 0.57, 0.77, 0.88,
    ]  # fmt: skip


def test_the_figure_is_written_as_png_and_pdf(tmp_path, table):
    paths = write_figures(tmp_path, "lrec2022", {"table1": ["cora"]})
    assert [path.suffix for path in paths] == [".png", ".pdf"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert paths[1].read_bytes().startswith(b"%PDF")


def test_the_same_table_gives_the_same_bytes(tmp_path, table):
    first = [
        path.read_bytes() for path in write_figures(tmp_path, "lrec2022", {"table1": ["cora"]})
    ]
    assert first == [
        path.read_bytes() for path in write_figures(tmp_path, "lrec2022", {"table1": ["cora"]})
    ]


def test_a_figure_without_its_table_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match="write the tables before the figures"):
        write_figures(tmp_path, "lrec2022", {"table1": ["cora"]})
