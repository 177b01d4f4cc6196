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


@pytest.fixture
def texts(tmp_path, cell, statistics):
    """Tables 2 and of the leak of synthetic profiles, of two kinds of features."""
    place = {"dataset": "pokec_demo", "protocol": "sound"}
    for features in ("bow", "bert"):
        cell(tmp_path, experiment="table2", features=features, view="sound",
             scores={math.inf: [0.8], 2.0: [0.5]}, majority=0.4, **place)  # fmt: skip
        cell(tmp_path, experiment="leak", features=features, view="sound-with-label",
             scores={math.inf: [0.9], 2.0: [0.7]}, **place)  # fmt: skip
    given = [statistics("pokec_demo", synthetic=True, view="sound")]
    write_tables(tmp_path, "lrec2022", tables=["table2", "leak"], statistics=given)
    return tmp_path


def panels(folder, name):
    table = SCORE_TABLES["lrec2022", name]
    titles = {"pokec_demo": "$x$"}
    return draw_scores(read_table(folder / "tables" / f"lrec2022_{name}.csv"), table, titles)


def test_table_2_has_a_panel_per_kind_of_features_with_the_majority_class_in_each(texts):
    figure = panels(texts, "table2")
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == [r"\$x\$, bag of words", r"\$x\$, BERT"]
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["sound", "majority class"]
    for axis in figure.axes:
        (level,) = (line for line in axis.lines if line.get_label() == "majority class")
        assert list(level.get_ydata()) == [0.4, 0.4]


def test_the_leak_shows_both_scores_in_one_panel(texts):
    figure = panels(texts, "leak")
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["without pets", "with pets"]
    for axis in figure.axes:
        heights = [round(float(bar.lines[0].get_ydata()[0]), 2) for bar in axis.containers]
        assert heights == [0.8, 0.9, 0.5, 0.7]


def test_every_table_of_scores_has_one_picture_of_all_datasets(texts):
    wanted = {"table2": ["pokec_demo"], "leak": ["pokec_demo"]}
    names = [path.name for path in write_figures(texts, "lrec2022", wanted)]
    assert names == [f"lrec2022_{each}.{kind}" for each in wanted for kind in ("png", "pdf")]
