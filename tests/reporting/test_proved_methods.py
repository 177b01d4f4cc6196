"""Proved methods: points, frontier, fewer public labels, the table beside Table 1, pictures."""

from __future__ import annotations

import json
import math

import matplotlib.image
import pandas as pd
import pytest

from private_graphs.errors import UserError
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.reporting import method_points as points_module
from private_graphs.reporting.explained import statements_of
from private_graphs.reporting.figures import write_figures
from private_graphs.reporting.formats import read_table
from private_graphs.reporting.method_points import Together, all_runs, method_points, verdict_words
from private_graphs.reporting.method_tables import NAMES
from private_graphs.reporting.published import published_table
from private_graphs.reporting.runs import METHOD_COLUMNS, collect, find_runs
from private_graphs.reporting.tables import write_tables

FEWER = {500: 0.7, 100: 0.6, 20: 0.4, 0: 0.2}


def flat(value, spread=0.0):
    return lambda epsilon, labels, seed: value + spread * (seed % 2)


def by_labels(values):
    return lambda epsilon, labels, seed: values[labels]


def tables(scale, names=NAMES):
    write_tables(scale, "lrec2022", tables=list(names))
    return {name: read_table(scale / "tables" / f"lrec2022_{name}.csv") for name in names}


def page(scale, name):
    return (scale / "tables" / f"lrec2022_{name}.md").read_text()


@pytest.fixture
def text_cells(tmp_path, method_cell):
    """Class sums and a trap (better on the test nodes, worse on the tuning nodes), public only."""
    scale = tmp_path / "full"
    method_cell(scale, "class_sums", "text", flat(0.5), validation=flat(0.6))
    method_cell(scale, "dp_linear", "text", flat(0.9), validation=flat(0.55))
    method_cell(scale, "public_only", "text", by_labels(FEWER))
    return scale


def test_points_are_means_over_the_draws_with_what_is_proved(tmp_path, method_cell):
    scale = tmp_path / "full"
    method_cell(scale, "class_sums", "graph", flat(0.5, 0.1), seeds=2)
    runs, statements = collect(find_runs(scale, "lrec2022", "methods"), METHOD_COLUMNS)
    points = method_points(runs, statements)
    assert len(points) == 7 + 3 * 3
    row = points[(points["epsilon"] == 2) & (points["tuning_labels"] == 100)].iloc[0]
    assert row["mean"] == pytest.approx(0.55)
    assert row["std"] == pytest.approx(math.sqrt(0.005))
    expected = {
        "n_runs": 2, "unit": "node", "relation": "replace", "epsilon_proved": 2.0,
        "epsilon_all_runs": 7.0, "runs_released": 40, "title": "class sums",
        "status": "proved_if_seed_secret",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    without = points[points["epsilon"] == math.inf].iloc[0]
    assert (without["unit"], without["status"]) == ("node", "not_private")
    assert math.isnan(without["epsilon_proved"]) and math.isnan(without["epsilon_all_runs"])


def test_a_seed_twice_and_an_unknown_setting_are_refused(tmp_path, method_cell):
    folder = method_cell(tmp_path / "full", "class_sums", "text", flat(0.5), epsilons=(1.0,))
    runs, statements = collect([folder], METHOD_COLUMNS)
    with pytest.raises(UserError, match="the same seed stands twice at dataset cora"):
        method_points(pd.concat([runs, runs]), statements)
    with pytest.raises(UserError, match="unknown setting cloud; expected text, graph, edges"):
        method_points(runs.assign(setting="cloud"), statements)


def test_the_frontier_has_a_row_for_every_epsilon_and_what_it_is_compared_with(text_cells, cell):
    for optimizer, value in (("sgd", 0.76), ("adam", 0.8)):
        cell(text_cells, protocol="sound", optimizer=optimizer, scores={math.inf: [value, value]})
    frame = tables(text_cells)["frontier"]
    mine = frame[frame["method"] == "class_sums"]
    assert list(mine["epsilon"]) == [0.25, 0.5, 1, 2, 4, 8, math.inf]
    assert set(frame.loc[frame["method"] == "public_only", "epsilon"]) == {0}
    assert (frame.loc[frame["setting"] == "text", "tuning_labels"] == 500).all()
    references = frame[frame["setting"] == "reference"]
    printed = references[references["method"] == "published"]
    table1 = published_table("lrec2022", "table1")
    table1 = table1[(table1["dataset"] == "cora") & (table1["epsilon"] < math.inf)]
    assert sorted(printed["mean"]) == sorted(table1["micro_f1"])
    gcn = references[references["method"] == "gcn"].set_index("title")["mean"]
    assert gcn.to_dict() == {
        "GCN, SGD, full graph, no DP": 0.76,
        "GCN, Adam, full graph, no DP": 0.8,
    }
    assert references[references["method"] == "majority"]["mean"].tolist() == [0.3]
    text = page(text_cells, "frontier")
    assert "| cora | text | node | public only | 0.700 ± 0.000 | – |" in text
    assert "- text: node level; only the tuning set public." in text


def test_rows_without_dp_stand_in_the_line_of_their_method(text_cells):
    tables(text_cells)
    (line,) = [each for each in page(text_cells, "frontier").splitlines() if "class sums" in each]
    assert line.count("0.500 ± 0.000") == 7


def test_the_best_row_is_chosen_by_validation_and_not_by_test(text_cells):
    frame = tables(text_cells)["useful"]
    best = frame[frame["source"] == "best_text"]
    assert list(best["epsilon"]) == [1, 2]
    assert set(best["method"]) == {"class_sums"} and set(best["mean"]) == {0.5}
    assert best["published_difference"].round(4).tolist() == [-0.06, -0.07]


def test_methods_that_fit_tuning_labels_are_never_the_best_row(tmp_path, method_cell):
    scale = tmp_path / "full"
    method_cell(scale, "class_sums", "graph", flat(0.5))
    method_cell(scale, "class_sums_public", "graph", flat(0.9))
    method_cell(scale, "public_only", "graph", by_labels(FEWER))
    found = tables(scale)
    assert set(found["useful"].loc[found["useful"]["source"] == "best_graph", "method"]) == {
        "class_sums"
    }
    assert (found["frontier"]["method"] == "class_sums_public").any()


def test_the_choice_costs_what_all_compared_runs_cost(text_cells):
    best = tables(text_cells)["useful"].set_index("source").loc["best_text"].iloc[0]
    mu = gdp_mu(3.5, 1e-5)
    assert best["runs_compared"] == 80
    assert best["epsilon_all_runs"] == pytest.approx(
        gdp_epsilon(math.hypot(mu, mu), 1e-5), abs=1e-4
    )
    assert best["delta_all_runs"] == 1e-5
    assert f"1.00 \\[all 80 runs: {best['epsilon_all_runs']:.2f}\\]" in page(text_cells, "useful")


def test_without_exact_gaussian_dp_budgets_and_deltas_add_up(tmp_path, method_cell, mechanism):
    scale = tmp_path / "full"
    sampled = mechanism | {"sampling": "poisson(0.1)", "type": "gaussian_sum"}
    method_cell(scale, "gcn", "graph", flat(0.5))
    method_cell(scale, "gcn_poisson", "graph", flat(0.4), mechanisms=[sampled])
    best = tables(scale)["useful"].set_index("source").loc["best_graph"].iloc[0]
    assert (best["epsilon_all_runs"], best["delta_all_runs"]) == (7.0, 2e-5)
    assert "[all 80 runs: 7.00 at δ = 2e-5" in page(scale, "useful")


def test_together_needs_a_proof_of_every_part():
    part = Together(1.0, 1e-5, 10, gaussian=True)
    assert all_runs([part]) == part
    assert all_runs([part, Together(None, 1e-5, 5)]).epsilon is None
    both = all_runs([part, Together(2.0, 1e-5, 5)])
    assert (both.epsilon, both.delta, both.runs) == (pytest.approx(3.0), 2e-5, 15)


def test_a_private_choice_of_tuning_nodes_leaves_the_composition_exact(mechanism):
    choice = mechanism | {"type": "exponential", "sampling": "none"}
    said = {"mechanisms": [mechanism, choice]}
    assert points_module.is_gaussian(said, choice=True)
    assert not points_module.is_gaussian(said)


def test_the_gcn_of_a_protocol_is_chosen_by_validation(text_cells, cell):
    for optimizer, splits, score in (("sgd", 1, 0.2), ("adam", 1, 0.3), ("adam", 10, 0.25)):
        folder = cell(text_cells, protocol="sound", optimizer=optimizer, splits=splits,
                      scores={2.0: [score, score]})  # fmt: skip
        runs = pd.read_parquet(folder / "runs.parquet")
        runs.assign(validation_micro_f1=1 - score).to_parquet(folder / "runs.parquet")
    row = tables(text_cells)["useful"].set_index("source").loc[["sound_gcn"]]
    assert row["title"].tolist() == ["SGD, full graph"] and row["mean"].tolist() == [0.2]
    assert row["runs_compared"].tolist() == [9]


def test_the_sentences_say_what_beats_the_paper_and_what_does_not(text_cells):
    tables(text_cells)
    text = page(text_cells, "useful")
    assert (
        "- cora: ε = 1: The paper prints 0.56, without a proof. Above it: nothing private, no "
        "public graph (public only) 0.700 (+0.140). Not above it: best proved, no public graph "
        "(class sums) 0.500 (-0.060). Best proved, no public graph stays below the row that reads "
        "nothing private (0.500 and 0.700)."
    ) in text


def test_a_dataset_that_the_paper_does_not_have_is_told_so(tmp_path, method_cell):
    method_cell(tmp_path / "demo", "class_sums", "text", flat(0.5), dataset="synthetic-npz",
                tuning_nodes=60, fewer=(20, 0))  # fmt: skip
    found = tables(tmp_path / "demo")
    assert "The paper prints no score for this dataset and ε." in page(tmp_path / "demo", "useful")
    assert set(found["useful"]["source"]) == {"best_text", "majority"}
    assert found["labels"]["labels_100_mean"].isna().all()
    assert found["labels"]["labels_all_above_public"].isna().all()


def test_private_rows_above_the_public_one_are_marked(text_cells):
    frame = tables(text_cells)["labels"]
    row = frame[(frame["method"] == "class_sums") & (frame["epsilon"] == 2)].iloc[0]
    marks = {name: row[f"labels_{name}_above_public"] for name in ("all", "100", "20", "0")}
    assert marks == {"all": False, "100": False, "20": True, "0": True}
    assert row["chosen"] and not frame[frame["method"] == "dp_linear"]["chosen"].any()
    public = frame[frame["method"] == "public_only"].iloc[0]
    assert [public[f"labels_{name}_mean"] for name in marks] == list(FEWER.values())
    line = "| cora | text | node | class sums | 2 | 0.500 ± 0.000 | 0.500 ± 0.000 | "
    assert f"{line}**0.500 ± 0.000** | **0.500 ± 0.000** |" in page(text_cells, "labels")
    tex = (text_cells / "tables" / "lrec2022_labels.tex").read_text()
    assert r"\textbf{0.500 $\pm$ 0.000}" in tex


def test_a_difference_within_a_standard_error_is_no_mark(tmp_path, method_cell):
    scale = tmp_path / "full"
    method_cell(scale, "class_sums", "text", flat(0.69, 0.04), fewer=())
    method_cell(scale, "public_only", "text", flat(0.70, 0.02), fewer=())
    frame = tables(scale)["labels"]
    assert not frame["labels_all_above_public"].any()  # 0.71 and 0.71
    assert "with all 500 tuning labels public, neither wins at every ε" in page(scale, "labels")


def test_a_sentence_says_where_private_data_wins(text_cells):
    tables(text_cells)
    assert (
        "- cora: node level, only the tuning set public: with all 500 tuning labels public, "
        "“public only” wins at every ε from 0.25 to 8; with 100 public labels, “public only” wins "
        "at every ε from 1 to 4; with 20 public labels, private training wins at every ε from 1 to "
        "4; with no public label, private training wins at every ε from 1 to 4."
    ) in page(text_cells, "labels")


def test_verdicts_in_words():
    verdicts = {0.5: "public", 1.0: "public", 2.0: "even", 4.0: "private", 8.0: "private"}
    assert verdict_words(verdicts, "text only") == (
        "private training wins from ε = 4 on, “text only” wins up to ε = 1, neither wins at ε = 2"
    )
    assert verdict_words({1.0: "private"}, "") == "private training wins at ε = 1"
    mixed = {1.0: "private", 2.0: "public", 4.0: "private"}
    assert verdict_words(mixed, "it").startswith("private training wins at ε = 1, 4, “it” wins")


def test_kinds_of_features_are_compared_among_themselves(tmp_path, method_cell):
    scale = tmp_path / "full"
    for kind, value in (("bow", 0.4), ("bert", 0.6)):
        method_cell(scale, "class_sums", "text", flat(value), features=kind, dataset="pokec")
    frame = tables(scale)["useful"]
    best = frame[frame["source"] == "best_text"].set_index("features_kind")["mean"]
    assert best.groupby(level=0).first().to_dict() == {"bow": 0.4, "bert": 0.6}


def test_tables_without_finished_methods_say_how_to_make_them(tmp_path, cell):
    cell(tmp_path / "full", scores={2.0: [0.5]})
    with pytest.raises(UserError, match="no finished cell of experiment frontier; make some"):
        write_tables(tmp_path / "full", "lrec2022", tables=["frontier"])


def test_each_dataset_has_pictures_of_frontier_and_labels(text_cells, method_cell, statistics):
    method_cell(text_cells, "edge_votes", "edges", flat(0.5), dataset="pubmed")
    write_tables(text_cells, "lrec2022", tables=list(NAMES), statistics=[statistics("cora")])
    paths = write_figures(text_cells, "lrec2022", {"frontier": ["cora", "pubmed"]})
    assert [path.name for path in paths] == [
        "lrec2022_frontier_cora.png", "lrec2022_frontier_cora.pdf",
        "lrec2022_labels_cora.png", "lrec2022_labels_cora.pdf",
        "lrec2022_frontier_pubmed.png", "lrec2022_frontier_pubmed.pdf",
    ]  # fmt: skip
    before = [path.read_bytes() for path in paths]
    write_figures(text_cells, "lrec2022", {"frontier": ["cora", "pubmed"]})
    assert [path.read_bytes() for path in paths] == before
    assert matplotlib.image.imread(paths[0]).std() > 0.05
    with pytest.raises(UserError, match="no point of 'citeseer'; found cora, pubmed"):
        write_figures(text_cells, "lrec2022", {"frontier": ["citeseer"]})


def test_a_method_run_is_explained(text_cells):
    folder = text_cells / "methods/lrec2022/frontier/cora/raw/class_sums/text"
    found = statements_of(folder)
    assert len(found) == len(json.loads((folder / "statement.json").read_text())) == 16
    assert all(isinstance(each.statement, PrivacyStatement) for each in found)
    assert found[0].belongs_to == (
        "cora, class sums, node level, only the tuning set public, ε = 0.25, all 500 tuning labels "
        "public, 10 runs of experiment frontier"
    )
    name = found[-1].statement.statement_id
    assert [each.statement.statement_id for each in statements_of(folder, name)] == [name]
