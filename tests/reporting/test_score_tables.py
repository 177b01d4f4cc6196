"""Table 2 and what the label column is worth: by hand, with cells that were not run, escaped."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from private_graphs.errors import UserError
from private_graphs.reporting.formats import read_table
from private_graphs.reporting.published import published_table
from private_graphs.reporting.readable import printed_elsewhere
from private_graphs.reporting.readable import score_table as readable_scores
from private_graphs.reporting.runs import collect, find_runs
from private_graphs.reporting.score_tables import (
    SCORE_TABLES,
    SOURCE_COLUMNS,
    score_table,
    score_tables_of,
)
from private_graphs.reporting.tables import write_tables

TABLE2, LEAK = (SCORE_TABLES["lrec2022", name] for name in ("table2", "leak"))
KEY = ["dataset", "features_kind", "setting", "optimizer", "epsilon"]


def train(cell, folder, features="bow", protocol="sound", dataset="pokec", leak=False, **changes):
    """Write a finished cell of Table 2, or of the experiment that keeps the label column."""
    place = {"experiment": "table2", "view": protocol}
    if leak:
        place = {"experiment": "leak", "view": "sound-with-label"}
    given = {"scores": {2.0: [0.5, 0.6]}} | changes
    return cell(folder, dataset=dataset, features=features, protocol=protocol, **place, **given)


def frame_of(folder, table=TABLE2) -> pd.DataFrame:
    runs, statements = collect(find_runs(folder, "lrec2022"))
    published = None if table is LEAK else published_table("lrec2022", table.name)
    return score_table(table, runs, statements, published)


def row_of(frame, features, optimizer="sgd", epsilon=2.0, dataset="pokec") -> pd.Series:
    found = frame[(frame.dataset == dataset) & (frame.features_kind == features)]
    found = found[(found.optimizer == optimizer) & (found.epsilon == epsilon)]
    assert len(found) == 1
    return found.iloc[0]


# --- table 2 ---


def test_every_published_score_stands_beside_pokec(tmp_path, cell):
    train(cell, tmp_path)
    frame = frame_of(tmp_path)
    published = published_table("lrec2022", "table2")
    assert len(published) == 30 == frame["published"].notna().sum()
    for each in published.itertuples():
        assert row_of(frame, each.features, each.optimizer, each.epsilon).published == (
            each.micro_f1
        )
    row = row_of(frame, "bow")
    assert (row.published, row.sound_mean) == (0.62, pytest.approx(0.55))
    assert row.sound_epsilon_proved == 2.0


def test_nothing_published_stands_beside_another_dataset(tmp_path, cell):
    train(cell, tmp_path, dataset="pokec_demo")
    frame = frame_of(tmp_path)
    assert frame["published"].isna().all() and set(frame.dataset) == {"pokec_demo"}
    rows = readable_scores(frame, TABLE2).rows
    assert [row[5] for row in rows] == ["–"] * len(rows)


def test_rows_are_sorted_by_features_epsilon_and_optimizer_below_the_baselines(tmp_path, cell):
    for features in ("bert", "sbert", "fasttext", "bow", "another"):
        for optimizer in ("adam", "sgd"):
            scores = {5.0: [0.5], math.inf: [0.8], 2.0: [0.4]}
            train(cell, tmp_path, features, optimizer=optimizer, dataset="mine", scores=scores)
    frame = frame_of(tmp_path)
    assert list(frame.setting[:2]) == ["majority", "random"]
    kinds = ["", "bow", "fasttext", "bert", "sbert", "another"]
    assert list(dict.fromkeys(frame.features_kind)) == kinds
    bow = frame[frame.features_kind == "bow"]
    assert list(zip(bow.epsilon, bow.optimizer, strict=True)) == [
        (math.inf, "sgd"), (math.inf, "adam"), (2, "sgd"), (2, "adam"), (5, "sgd"), (5, "adam"),
    ]  # fmt: skip


def test_baselines_stand_once_for_a_dataset_and_in_each_of_its_groups(tmp_path, cell):
    for features in ("bow", "bert"):
        train(cell, tmp_path, features, dataset="mine", majority=0.5)
    frame = frame_of(tmp_path)
    (majority,) = frame[frame.setting == "majority"].to_dict("records")
    assert (majority["sound_mean"], majority["sound_seeds"]) == (0.5, 2)
    groups = list(TABLE2.groups(frame))
    assert [names["features_kind"] for names, _ in groups] == ["bow", "bert"]
    assert [list(rows.setting) for _, rows in groups] == [["majority", "random", "dp_full"]] * 2


def test_table_2_is_not_filled_by_cells_with_the_label_column(tmp_path, cell):
    train(cell, tmp_path, leak=True)
    train(cell, tmp_path, scores={2.0: [0.1]})
    assert row_of(frame_of(tmp_path), "bow").sound_mean == 0.1


def test_runs_from_before_there_were_views_have_their_rows(tmp_path, cell):
    path = train(cell, tmp_path) / "runs.parquet"
    pd.read_parquet(path).drop(columns="view").to_parquet(path)
    assert row_of(frame_of(tmp_path), "bow").sound_mean == pytest.approx(0.55)


def test_the_papers_numbers_for_another_page_are_all_there():
    table = printed_elsewhere(TABLE2, published_table("lrec2022", "table2"))
    names = [name for _, name in table.columns]
    assert names == ["features", "optimizer", "no DP", "ε = 2", "ε = 5", "ε = 10", "ε = 137"]
    assert table.rows[0] == ("bag of words", "SGD", "0.88", "0.62", "0.62", "0.62", "0.63")
    assert table.rows[-1] == ("BERT", "Adam", "0.84", "0.66", "0.75", "0.75", "0.75")
    assert table.caption == "The paper, on Pokec"


# --- what the label column is worth ---


def test_the_gain_is_of_sound_with_the_column_over_sound_without(tmp_path, cell):
    train(cell, tmp_path, scores={2.0: [0.5, 0.7], math.inf: [0.8, 0.8]})
    train(cell, tmp_path, protocol="paper", scores={2.0: [0.1, 0.1]})
    train(cell, tmp_path, leak=True, scores={2.0: [0.6, 0.9], math.inf: [0.7, 0.7]})
    frame = frame_of(tmp_path, LEAK)
    row = row_of(frame, "bow")
    assert (row.without_mean, row.with_mean) == (pytest.approx(0.6), pytest.approx(0.75))
    assert row.difference_points == pytest.approx(15)
    assert row_of(frame, "bow", epsilon=math.inf).difference_points == pytest.approx(-10)
    assert row.with_epsilon_proved == 2.0 and row.without_statement_id == row.with_statement_id
    assert [each[5] for each in readable_scores(frame, LEAK).rows] == ["-10.0", "+15.0"]


def test_only_cells_that_saw_the_column_count_as_with_it(tmp_path, cell):
    train(cell, tmp_path)
    cell(tmp_path, experiment="leak", dataset="pokec", features="bow", protocol="sound",
         view="sound", scores={2.0: [0.9]})  # fmt: skip
    frame = frame_of(tmp_path, LEAK)
    assert pd.isna(row_of(frame, "bow").difference_points)


@pytest.mark.parametrize("leak", [True, False])
def test_a_gain_without_one_of_its_cells_is_blank(tmp_path, cell, leak):
    train(cell, tmp_path, "bert", leak=True)  # so that the experiment is not empty
    train(cell, tmp_path, "bow", leak=leak)
    row = row_of(frame_of(tmp_path, LEAK), "bow")
    assert pd.isna(row.difference_points)
    assert pd.isna(row.without_mean) == leak and pd.isna(row.with_mean) != leak


def test_datasets_without_a_cell_of_the_leak_are_not_in_its_table(tmp_path, cell):
    train(cell, tmp_path, leak=True)
    train(cell, tmp_path, dataset="mine")
    assert set(frame_of(tmp_path, LEAK).dataset) == {"pokec"}


# --- files ---


def test_written_files_have_the_documented_columns_and_come_back(tmp_path, cell):
    train(cell, tmp_path)
    train(cell, tmp_path, leak=True)
    paths = write_tables(tmp_path, "lrec2022", tables=["table2", "leak"])
    assert [path.name for path in paths] == [
        f"lrec2022_{name}.{kind}" for name in ("table2", "leak") for kind in ("csv", "md", "tex")
    ]
    table2, leak = (read_table(paths[place]) for place in (0, 3))
    for frame, table, lead in ((table2, TABLE2, "published"), (leak, LEAK, "difference_points")):
        assert list(frame.columns) == list(table.columns)
        assert list(table.columns)[:7] == [*KEY, "splits", lead]
    assert {f"{side}_{name}" for side in ("with", "without") for name in SOURCE_COLUMNS} < set(
        leak.columns
    )
    assert list(leak.features_kind) == ["bow"] and list(leak.difference_points) == [0.0]
    text = paths[4].read_text()
    assert "pets is the label's own definition" in text


def test_a_table_without_a_finished_cell_says_what_to_do(tmp_path, cell):
    train(cell, tmp_path)
    with pytest.raises(UserError, match="no finished cell of experiment leak.*experiments=leak"):
        write_tables(tmp_path, "lrec2022", tables=["leak"])


def test_every_table_of_scores_is_named_after_an_experiment_that_fills_it():
    for table in score_tables_of("lrec2022"):
        assert table.name in {source.experiment for source in table.sources}
        assert not table.difference or len(table.sources) == 2
    assert score_tables_of("nobody") == ()
