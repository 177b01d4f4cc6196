"""Tables 1, 3 and 5: values by hand, published values joined, narrowed runs, documented columns."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from private_graphs.errors import UserError
from private_graphs.privacy.accountants import price
from private_graphs.privacy.events import FullBatch, NoisyGradients
from private_graphs.reporting.formats import read_table
from private_graphs.reporting.published import published_table
from private_graphs.reporting.readable import score_table as readable_scores
from private_graphs.reporting.readable import table5 as readable5
from private_graphs.reporting.runs import collect, find_runs
from private_graphs.reporting.score_tables import SCORE_TABLES, SOURCE_COLUMNS, score_table
from private_graphs.reporting.tables import read_statistics, table3, table5, write_tables

TABLE1 = SCORE_TABLES["lrec2022", "table1"]

PAPER_EPOCHS = {"sgd": 2000, "adam": 500}


def frame_of(folder) -> pd.DataFrame:
    runs, statements = collect(find_runs(folder, "lrec2022"))
    return score_table(TABLE1, runs, statements, published_table("lrec2022", "table1"))


def row_of(frame: pd.DataFrame, *key) -> pd.Series:
    dataset, setting, optimizer, epsilon = key
    found = frame[(frame.dataset == dataset) & (frame.setting == setting)]
    found = found[found.optimizer == optimizer]
    same = found.epsilon.isna() if epsilon is None else found.epsilon == epsilon
    assert same.sum() == 1
    return found[same].iloc[0]


# --- table 1 ---


def test_mean_and_deviation_are_over_the_seeds_of_the_selected_rate(tmp_path, cell):
    cell(tmp_path, optimizer="adam", scores={2.0: [0.5, 0.6, 0.7]}, rates=(0.1, 1.0, 10.0))
    row = row_of(frame_of(tmp_path), "cora", "dp_full", "adam", 2.0)
    assert row.paper_mean == pytest.approx(0.6)
    assert row.paper_std == pytest.approx(0.1)  # sqrt((.01 + 0 + .01)/2)
    assert (row.paper_lr, row.paper_seeds, row.paper_epochs) == (10.0, 3, 2000)
    assert row.paper_epsilon_proved == 3.3802
    assert (row.paper_unit, row.paper_status) == ("node", "proved_if_seed_secret")


def test_one_seed_has_no_deviation(tmp_path, cell):
    cell(tmp_path, scores={2.0: [0.5]})
    assert math.isnan(row_of(frame_of(tmp_path), "cora", "dp_full", "sgd", 2.0).paper_std)


def test_every_published_row_of_a_trained_dataset_is_there_and_no_other(tmp_path, cell):
    cell(tmp_path, scores={2.0: [0.5]})
    frame = frame_of(tmp_path)
    published = published_table("lrec2022", "table1")
    for each in published[published.dataset == "cora"].itertuples():
        epsilon = None if math.isnan(each.epsilon) else each.epsilon
        row = row_of(frame, "cora", each.setting, each.optimizer, epsilon)
        assert row.published == each.micro_f1
    assert set(frame.dataset) == {"cora"}


def test_an_unpublished_setting_has_a_row_with_nothing_published(tmp_path, cell):
    cell(tmp_path, scores={1.0: [0.5]})
    assert math.isnan(row_of(frame_of(tmp_path), "cora", "dp_full", "sgd", 1.0).published)


def test_splits_and_privacy_decide_the_setting(tmp_path, cell):
    cell(tmp_path, splits=10, scores={1.0: [0.5]})
    cell(tmp_path, splits=1, scores={math.inf: [0.8], 2.0: [0.4]})
    frame = frame_of(tmp_path)
    assert row_of(frame, "cora", "dp_split", "sgd", 1.0).splits == 10
    assert row_of(frame, "cora", "dp_full", "sgd", 2.0).paper_mean == 0.4
    free = row_of(frame, "cora", "non_private", "sgd", math.inf)
    assert free.paper_mean == 0.8 and free.paper_status == "not_private"
    assert pd.isna(free.paper_epsilon_proved) and pd.isna(free.paper_noise_multiplier)


def test_baselines_count_every_seed_once(tmp_path, cell):
    cell(tmp_path, scores={math.inf: [0.8, 0.8, 0.8], 2.0: [0.4, 0.4, 0.4]}, majority=0.319)
    frame = frame_of(tmp_path)
    majority = row_of(frame, "cora", "majority", "", None)
    assert majority.paper_mean == pytest.approx(0.319) and majority.published == 0.32
    random = row_of(frame, "cora", "random", "", None)
    assert (random.paper_mean, random.paper_seeds) == (pytest.approx(0.15), 3)
    assert random.paper_std == pytest.approx(0.01)


def test_rows_are_sorted_by_dataset_setting_epsilon_and_optimizer(tmp_path, cell):
    for dataset in ("cora", "citeseer"):
        for optimizer in ("adam", "sgd"):
            cell(tmp_path, dataset=dataset, optimizer=optimizer, scores={2.0: [0.5], 1.0: [0.4]})
    frame = frame_of(tmp_path)
    full = frame[(frame.setting == "dp_full") & (frame.dataset == "cora")]
    assert list(zip(full.epsilon, full.optimizer, strict=True)) == [
        (1.0, "sgd"), (1.0, "adam"), (2.0, "sgd"), (2.0, "adam"),
    ]  # fmt: skip
    assert list(dict.fromkeys(frame.dataset)) == ["citeseer", "cora"]
    assert frame.setting.iloc[0] == "majority"


def test_a_narrowed_run_leaves_the_other_protocols_blank(tmp_path, cell):
    cell(tmp_path, protocol="sound", scores={2.0: [0.5]})
    frame = frame_of(tmp_path)
    for protocol in ("released", "paper"):
        assert frame[[f"{protocol}_{name}" for name in SOURCE_COLUMNS]].isna().all(axis=None)
    row = next(
        row
        for row in readable_scores(frame, TABLE1).rows
        if row[2:4] == ("SGD", "2") and "full" in row[1]
    )
    assert row[5:] == ("–", "–", "–", "–", "0.500", "2.00 per node")


def test_the_authors_accountant_stands_in_the_released_column_where_it_differs(tmp_path, cell):
    cell(tmp_path, protocol="released", scores={2.0: [0.5]}, authors_accountant_epsilon=-0.148)
    frame = frame_of(tmp_path)
    assert row_of(frame, "cora", "dp_full", "sgd", 2.0).released_authors_epsilon == -0.148
    words = [row[6] for row in readable_scores(frame, TABLE1).rows if row[5] == "0.500"]
    assert words == ["none, authors’ accountant: -0.15"]


def test_a_large_epsilon_is_called_vacuous(tmp_path, cell):
    cell(tmp_path, scores={137.0: [0.5]}, epsilon_proved=344.451, vacuous=True)
    words = [
        row[8] for row in readable_scores(frame_of(tmp_path), TABLE1).rows if row[7] == "0.500"
    ]
    assert words == ["344.45 per node, model only, vacuous"]


def test_two_cells_for_one_place_are_an_error_that_names_both(tmp_path, cell):
    folder = cell(tmp_path, scores={2.0: [0.5]})
    other = folder.with_name("f0.5")
    folder.rename(other)
    cell(tmp_path, scores={2.0: [0.4]})
    with pytest.raises(UserError, match=r"several values of cell.*s1/f0\.5.*s1/f1"):
        frame_of(tmp_path)


# --- table 3 ---


def test_table3_has_the_printed_noise_and_what_it_proves():
    frame = table3(published_table("lrec2022", "table3"), PAPER_EPOCHS, [2, 5, 10, 137], 1e-5)
    assert len(frame) == 8
    sgd = frame[frame.optimizer == "sgd"].set_index("epsilon")
    assert list(sgd.published_noise_multiplier) == [112, 48, 26, 4]
    assert list(sgd.published_epsilon) == [2.0, 4.91, 9.75, 136.51]
    for protocol in ("released", "paper"):
        assert list(sgd[f"{protocol}_noise_multiplier"]) == [112, 48, 26, 4]
        formula = [1.995762, 4.906752, 9.754802, 136.512925]
        assert list(sgd[f"{protocol}_epsilon_published"]) == pytest.approx(formula, abs=1e-6)
    assert sgd.released_epsilon_proved.isna().all()
    proved = [3.38015, 9.16598, 19.94126, 344.45102]
    assert list(sgd.paper_epsilon_proved) == pytest.approx(proved, abs=1e-5)


def test_table3_sound_proves_at_most_what_is_asked():
    frame = table3(published_table("lrec2022", "table3"), PAPER_EPOCHS, [2, 137], 1e-5)
    targets = frame.epsilon.replace(137, 136.51)
    assert (frame.sound_epsilon_proved <= targets).all()
    assert (frame.sound_epsilon_proved > 0.999 * targets).all()
    adam = frame[(frame.optimizer == "adam") & (frame.epsilon == 2)].iloc[0]
    assert adam.sound_noise_multiplier == pytest.approx(89.166, abs=0.0015)


def test_table3_proves_what_the_accountant_says_of_the_same_event():
    frame = table3(published_table("lrec2022", "table3"), {"sgd": 2000}, [2], 1e-5)
    event = NoisyGradients("gradient_global", 1.0, 112.0, 2000, 2000, FullBatch())
    assert frame.paper_epsilon_proved[0] == price(event, "node", "replace", 1e-5).epsilon


def test_table3_shows_nothing_published_for_other_settings():
    frame = table3(published_table("lrec2022", "table3"), {"sgd": 100}, [2, 3], 1e-5)
    assert frame.published_noise_multiplier.isna().all()


# --- table 5 ---


def test_table5_sets_ours_beside_the_published_sizes(statistics):
    ours = [statistics("cora"), statistics("synthetic-npz", synthetic=True)]
    frame = table5(ours, published_table("lrec2022", "table5"))
    cora, synthetic = frame.to_dict("records")
    assert (cora["published_train_size"], cora["train_size"]) == (1208, 1208)
    assert (cora["published_test_size"], cora["test_size"]) == (1000, 1000)
    assert (cora["published_classes"], cora["classes"]) == (7, 7)
    assert math.isnan(synthetic["published_classes"]) and synthetic["synthetic"]


def test_table5_has_a_row_for_every_view_that_was_built(tmp_path, statistics):
    builds = [statistics("reddit", view=view, nodes=n) for view, n in (("sound", 3), ("paper", 2))]
    builds += [statistics("cora")]
    write_tables(tmp_path, "lrec2022", tables=["table5"], statistics=builds)
    frame = read_table(tmp_path / "tables" / "lrec2022_table5.csv")
    assert list(zip(frame.dataset, frame.view, frame.nodes, strict=True)) == [
        ("cora", "", 2708), ("reddit", "paper", 2), ("reddit", "sound", 3),
    ]  # fmt: skip
    assert list(frame.published_test_size) == [1000, 5643, 5643]
    assert list(read_statistics(tmp_path)) == ["cora", "reddit"]


def test_table5_says_how_a_dataset_was_read_and_counts_raw_rows(statistics):
    pokec = statistics("pokec", view="sound", features_kind="bow", edge_entries=32782)
    table = readable5(table5([pokec], published_table("lrec2022", "table5")))
    assert table.rows[0][1] == "real, read as sound, bag of words"
    assert "5278 (32782 raw rows)" in table.rows[0]
    assert any("32,782 edges for Pokec" in note for note in table.notes)


def test_the_sizes_of_reddit_are_explained_where_reddit_is(statistics):
    published = published_table("lrec2022", "table5")
    for name in ("reddit", "cora"):
        table = readable5(table5([statistics(name)], published))
        assert any("8,026" in note and "2,383" in note for note in table.notes) == (
            name == "reddit"
        )
        assert not any("raw rows" in note for note in table.notes)


# --- files ---


def test_written_csv_files_have_the_documented_columns(tmp_path, cell, statistics):
    cell(tmp_path, scores={2.0: [0.5, 0.6]})
    written = write_tables(
        tmp_path, "lrec2022", statistics=[statistics()], epochs={"sgd": 2000}, epsilons=[2]
    )
    names = {path.name for path in written}
    assert names == {f"lrec2022_table{n}.{kind}" for n in "135" for kind in ("csv", "md", "tex")}
    frame = read_table(tmp_path / "tables" / "lrec2022_table1.csv")
    expected = ["dataset", "setting", "optimizer", "epsilon", "splits", "published"]
    for protocol in ("released", "paper", "sound"):
        expected += [f"{protocol}_{name}" for name in SOURCE_COLUMNS]
        expected += ["released_authors_epsilon"] if protocol == "released" else []
    assert list(frame.columns) == expected
    columns = read_table(tmp_path / "tables" / "lrec2022_table3.csv").columns
    wanted = ("noise_multiplier", "epsilon_published", "epsilon_proved", "unit")
    assert {f"{p}_{name}" for p in ("released", "paper", "sound") for name in wanted} <= set(
        columns
    )


def test_a_narrower_run_keeps_earlier_cells_and_datasets(tmp_path, cell, statistics):
    cell(tmp_path, dataset="cora", scores={2.0: [0.5]})
    write_tables(tmp_path, "lrec2022", tables=["table1", "table5"], statistics=[statistics("cora")])
    cell(tmp_path, dataset="citeseer", scores={2.0: [0.4]})
    write_tables(
        tmp_path, "lrec2022", tables=["table1", "table5"], statistics=[statistics("citeseer")]
    )
    for name in ("table1", "table5"):
        frame = read_table(tmp_path / "tables" / f"lrec2022_{name}.csv")
        assert set(frame.dataset) == {"cora", "citeseer"}


def test_table1_without_a_finished_cell_says_what_to_do(tmp_path):
    with pytest.raises(
        UserError,
        match="no finished cell of experiment table1; train some first .*experiments=table1",
    ):
        write_tables(tmp_path, "lrec2022", tables=["table1"])
