"""The points behind Figures 1-4: means by hand, published values at their places, narrow runs."""

from __future__ import annotations

import math
import shutil

import pandas as pd
import pytest

from private_graphs.config import load_studies, load_study
from private_graphs.errors import UserError
from private_graphs.reporting.claims import claims
from private_graphs.reporting.curves import (
    FIGURES,
    POINT_COLUMNS,
    curves_of,
    experiment_of,
    points,
)
from private_graphs.reporting.formats import read_table
from private_graphs.reporting.readable import curve_points
from private_graphs.reporting.runs import collect, find_runs
from private_graphs.reporting.tables import write_tables

INF = math.inf


def frame_of(folder, name):
    return points(*collect(find_runs(folder, "lrec2022")), load_study("lrec2022"), name)


def published(frame, **place):
    for column, value in place.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    value, where = frame[["published", "published_where"]].iloc[0]
    return None if value is None or math.isnan(value) else (value, where)


def test_a_point_is_the_mean_over_the_seeds_of_the_selected_rate(tmp_path, cell):
    scores = {2.0: [0.5, 0.6, 0.7], 5.0: [0.8]}
    cell(tmp_path, experiment="B", optimizer="adam", scores=scores, rates=(0.1, 10.0))
    frame = frame_of(tmp_path, "figure2")
    assert list(frame.columns) == list(POINT_COLUMNS)
    first, second = frame.to_dict("records")
    assert first["mean"] == pytest.approx(0.6)
    assert first["std"] == pytest.approx(0.1)  # sqrt((.01 + 0 + .01)/2)
    assert (first["seeds"], first["lr"], first["epochs"]) == (3, 10.0, 2000)
    assert (first["epsilon_proved"], first["unit"]) == (3.3802, "node")
    assert first["status"] == "proved_if_seed_secret"
    assert (first["epsilon_all_runs"], first["runs_released"]) == (4.1, 3)
    assert (first["noise_multiplier"], first["n_units"]) == (56.0, 1208)
    assert first["majority_mean"] == pytest.approx(0.32)
    assert first["random_mean"] == pytest.approx(0.15)  # .14, .15, .16
    assert (second["epsilon"], second["mean"]) == (5.0, 0.8) and math.isnan(second["std"])


def test_rows_are_sorted_by_dataset_protocol_optimizer_epsilon_and_position(tmp_path, cell):
    for dataset in ("cora", "citeseer"):
        for protocol in ("sound", "released"):
            for fraction in (1.0, 0.25):
                scores = {5.0: [0.5], 2.0: [0.4]}
                place = {"dataset": dataset, "protocol": protocol, "fraction": fraction}
                cell(tmp_path, experiment="B", **place, scores=scores)
    frame = frame_of(tmp_path, "figure2")
    assert list(dict.fromkeys(frame.dataset)) == ["citeseer", "cora"]
    cora = frame[frame.dataset == "cora"]
    assert list(zip(cora.protocol, cora.epsilon, cora.train_fraction, strict=True)) == [
        (protocol, epsilon, fraction)
        for protocol in ("released", "sound")
        for epsilon in (2.0, 5.0)
        for fraction in (0.25, 1.0)
    ]


def test_figures_3_and_4_share_an_experiment_and_part_it_by_privacy(tmp_path, cell):
    cell(tmp_path, experiment="C", splits=4, scores={INF: [0.8], 1.0: [0.3]})
    without, private = (frame_of(tmp_path, name) for name in ("figure3", "figure4"))
    assert list(without.epsilon) == [INF] and list(without["mean"]) == [0.8]
    assert list(without.status) == ["not_private"] and without.epsilon_proved.isna().all()
    assert list(private.epsilon) == [1.0] and list(private["mean"]) == [0.3]
    assert list(private.splits) == [4]


def test_what_the_text_and_table_1_print_stands_at_its_point_of_figure_1(tmp_path, cell):
    for optimizer in ("sgd", "adam"):
        for fraction in (0.1, 0.5, 1.0):
            place = {"optimizer": optimizer, "fraction": fraction}
            cell(tmp_path, experiment="A", **place, scores={INF: [0.8]})
    frame = frame_of(tmp_path, "figure1")
    assert published(frame, optimizer="sgd", train_fraction=0.1) is None
    half = published(frame, optimizer="sgd", train_fraction=0.5)
    assert half == (0.77, "text on Figure 1")
    assert published(frame, optimizer="sgd", train_fraction=1) == (0.77, "Table 1")
    assert published(frame, optimizer="adam", train_fraction=1) == (0.88, "Table 1")
    assert published(frame, optimizer="adam", train_fraction=0.5) is None


def test_table_1_stands_at_all_data_and_at_1_and_10_splits_under_dp(tmp_path, cell):
    for fraction in (0.25, 1.0):
        scores = {2.0: [0.4], 5.0: [0.5]}
        cell(tmp_path, experiment="B", fraction=fraction, scores=scores)
    for splits in (1, 4, 10):
        scores = {1.0: [0.4], 2.0: [0.5]}
        cell(tmp_path, experiment="C", splits=splits, optimizer="adam", scores=scores)
    by_share, by_splits = (frame_of(tmp_path, name) for name in ("figure2", "figure4"))
    assert published(by_share, train_fraction=1, epsilon=2) == (0.39, "Table 1")
    assert published(by_share, train_fraction=0.25, epsilon=2) is None
    assert published(by_share, train_fraction=1, epsilon=5) is None
    assert published(by_splits, splits=1, epsilon=2) == (0.52, "Table 1")
    assert published(by_splits, splits=10, epsilon=1) == (0.56, "Table 1")
    assert published(by_splits, splits=10, epsilon=2) == (0.57, "Table 1")
    assert published(by_splits, splits=1, epsilon=1) is None
    assert published(by_splits, splits=4, epsilon=2) is None


def test_where_the_text_contradicts_table_1_both_are_named(tmp_path, cell):
    for splits in (1, 100):
        cell(tmp_path, experiment="C", dataset="pubmed", splits=splits, scores={INF: [0.5]})
    frame = frame_of(tmp_path, "figure3")
    assert published(frame, splits=1) == (0.47, "text on Figure 3 (Table 1: 0.49)")
    assert published(frame, splits=100) == (0.79, "text on Figure 3")


def test_only_the_cells_of_its_experiment_are_in_a_figure(tmp_path, cell):
    cell(tmp_path, scores={INF: [0.9], 2.0: [0.9]})
    cell(tmp_path, experiment="selection", scores={2.0: [0.9]})
    cell(tmp_path, experiment="B", scores={2.0: [0.3]})
    assert list(frame_of(tmp_path, "figure2")["mean"]) == [0.3]
    with pytest.raises(UserError, match="Figure 1: no finished cell of experiment A without DP"):
        frame_of(tmp_path, "figure1")


def test_two_cells_that_claim_one_point_are_an_error_that_names_both(tmp_path, cell):
    folder = cell(tmp_path, experiment="B", scores={2.0: [0.5]})
    shutil.copytree(folder, folder.with_name("f0.5"))
    with pytest.raises(
        UserError, match=r"Figure 2 has one point for dataset cora.*values of cell.*f0\.5.*s1/f1"
    ):
        frame_of(tmp_path, "figure2")


def test_every_figure_of_a_study_can_be_drawn_and_has_one_experiment():
    for study in load_studies():
        for scale in study.scales.values():
            for name, experiment in scale.experiments.items():
                if experiment.kind != "training":
                    continue
                for figure in experiment.figures:
                    assert curves_of(study.id, figure).name == figure
                    assert experiment_of(study, figure) == name
    assert [name for study, name in FIGURES if study == "lrec2022"] == [
        "figure1", "figure2", "figure3", "figure4",
    ]  # fmt: skip


def test_an_unknown_figure_is_an_error_that_names_those_there_are():
    with pytest.raises(UserError, match=r"unknown figure 'figur2'.*did you mean 'figure2'"):
        curves_of("lrec2022", "figur2")


def test_the_points_are_written_in_three_formats_and_read_back(tmp_path, cell):
    cell(tmp_path, experiment="C", splits=1, scores={INF: [0.8, 0.9]})
    cell(tmp_path, experiment="C", splits=10, scores={1.0: [0.5, 0.6]})
    paths = write_tables(tmp_path, "lrec2022", tables=["figure3", "figure4"])
    assert {path.name for path in paths} == {
        f"lrec2022_figure{n}.{kind}" for n in "34" for kind in ("csv", "md", "tex")
    }
    frame = read_table(tmp_path / "tables" / "lrec2022_figure4.csv")
    assert list(frame.columns) == list(POINT_COLUMNS)
    (row,) = frame.to_dict("records")
    assert (row["protocol"], row["mean"], row["std"]) == ("paper", 0.55, 0.0707)
    assert (row["published"], row["published_where"]) == (0.55, "Table 1")
    assert row["vacuous"] is False
    (free,) = read_table(tmp_path / "tables" / "lrec2022_figure3.csv").to_dict("records")
    assert free["epsilon"] == INF and free["published"] == 0.77


def test_people_read_a_row_per_line_and_a_column_per_position(tmp_path, cell):
    cell(tmp_path, experiment="B", fraction=0.25, scores={2.0: [0.3, 0.4]})
    cell(tmp_path, experiment="B", fraction=1.0, scores={2.0: [0.5, 0.6], 5.0: [0.5]})
    table = curve_points(frame_of(tmp_path, "figure2"), curves_of("lrec2022", "figure2"))
    assert [name for _, name in table.columns][-2:] == ["25 %", "100 %"]
    assert table.rows == (
        ("cora", "paper", "SGD", "2", "3.38 per node, model only", "0.350 ± 0.071",
         "0.550 ± 0.071 [0.39]"),
        ("cora", "paper", "SGD", "5", "3.38 per node, model only", "–", "0.500"),
    )  # fmt: skip


def test_a_line_whose_budget_changes_has_a_range(tmp_path, cell):
    for splits, proved in ((1, 3.38), (10, 13.4), (100, 65.1)):
        vacuous = proved > 20
        given = {"epsilon_proved": proved, "vacuous": vacuous}
        cell(tmp_path, experiment="C", splits=splits, scores={2.0: [0.5]}, **given)
    table = curve_points(frame_of(tmp_path, "figure4"), curves_of("lrec2022", "figure4"))
    assert table.rows[0][4] == "3.38 to 65.10 per node, model only, vacuous in part"


def test_the_claim_about_splits_stands_beside_what_the_formula_asks_for(tmp_path, cell):
    for splits, noise in ((1, 56.0), (10, 17.7), (100, 5.6)):
        folder = cell(
            tmp_path, experiment="C", optimizer="adam", splits=splits, scores={2.0: [0.5]}
        )
        runs = pd.read_parquet(folder / "runs.parquet").assign(noise_multiplier=noise)
        runs.to_parquet(folder / "runs.parquet")
    curves = curves_of("lrec2022", "figure4")
    (claim,) = claims("lrec2022", curves, frame_of(tmp_path, "figure4"))
    assert claim.startswith(
        "The paper (Section 6.3): privacy bound improvement by splitting, factor 2.7. "
    )
    assert "by a factor of 3.16 at 10, 10.00 at 100, because it takes shuffled visits" in claim
    write_tables(tmp_path, "lrec2022", tables=["figure4"])
    assert claim in (tmp_path / "tables" / "lrec2022_figure4.md").read_text()


def test_without_the_full_graph_or_the_papers_noise_the_claim_has_no_factors(tmp_path, cell):
    cell(tmp_path, experiment="C", splits=10, scores={2.0: [0.5]})
    cell(tmp_path, experiment="C", splits=1, protocol="sound", scores={2.0: [0.5]})
    (claim,) = claims("lrec2022", curves_of("lrec2022", "figure4"), frame_of(tmp_path, "figure4"))
    assert "the more subgraphs there are, because it takes" in claim


def test_figures_without_a_claim_of_their_own_have_none(tmp_path, cell):
    cell(tmp_path, experiment="C", splits=10, scores={INF: [0.5]})
    frame = frame_of(tmp_path, "figure3")
    assert claims("lrec2022", curves_of("lrec2022", "figure3"), frame) == ()
