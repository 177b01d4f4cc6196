"""``private-graphs classify``: one run of a proved method, beside what public data alone gives."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from command_line import Outcome, refused

from private_graphs.cells import MethodPlan
from private_graphs.cli_classify import Compared
from private_graphs.methods.names import METHOD_NAMES
from private_graphs.methods.result import CellResult
from private_graphs.privacy.statements import PrivacyStatement

NAME = "synthetic-npz"
FILES = [
    "manifest.json",
    "plan.json",
    "predictions.csv",
    "predictions.safetensors",
    "runs.parquet",
    "statement.json",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("classify") / "raw"


@pytest.fixture
def classify(run, data):
    """Call ``classify`` on embedded data."""

    def call(*arguments: object) -> Outcome:
        return run("classify", NAME, "--data", data, *arguments)

    return call


def row_of(folder: Path) -> pd.Series:
    runs = pd.read_parquet(folder / "runs.parquet")
    assert len(runs) == 1
    return runs.iloc[0]


def test_one_run_is_compared_with_public_data_alone_and_both_are_kept(classify, tmp_path):
    found = classify("--epsilon", 2, "--out", tmp_path / "new")
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    row, free = row_of(tmp_path / "new"), row_of(tmp_path / "new" / "public_only")
    assert lines[0] == (
        f"class_sums        epsilon 2     test micro-F1 {row.test_micro_f1:.3f}, "
        f"validation {row.validation_micro_f1:.3f} on 500 public labels"
    )
    assert lines[1] == (
        f"public_only       epsilon 0     test micro-F1 {free.test_micro_f1:.3f}, "
        "fitted on 500 public validation labels"
    )
    assert lines[2].endswith(f"test micro-F1 {row.majority_micro_f1:.3f}")
    assert "rivate data" in lines[4] and "1,000 test nodes" in lines[4]
    assert any(line.startswith("proved      epsilon 2 per run for node, replace") for line in lines)
    assert (row.method, row.setting, row.epsilon, row.noise_source) == (
        "class_sums", "text", 2.0, "os_entropy",
    )  # fmt: skip
    assert (free.method, free.epsilon) == ("public_only", 0.0)
    for folder in (tmp_path / "new", tmp_path / "new" / "public_only"):
        assert sorted(path.name for path in folder.iterdir() if path.is_file()) == FILES
        plan = MethodPlan.model_validate_json((folder / "plan.json").read_text())
        assert plan.cell.dataset == NAME and plan.n_replicas == 1
        statements = json.loads((folder / "statement.json").read_text())
        assert list(statements) == [row_of(folder).statement_id]
        predictions = safetensors.numpy.load_file(folder / "predictions.safetensors")
        assert predictions["predictions"].shape == (1, 1000)
        table = pd.read_csv(folder / "predictions.csv", dtype={"predicted": str})
        assert (table["node"] == predictions["test_nodes"]).all()
        assert table["predicted"].nunique() == len(np.unique(predictions["predictions"]))


def test_noise_is_fresh_unless_a_seed_is_given(classify, tmp_path):
    for name, flags in {"a": (), "b": (), "c": ("--seed", 3), "d": ("--seed", 3)}.items():
        assert classify("--epsilon", 1, "--out", tmp_path / name, *flags).code == 0
    drawn = {
        name: safetensors.numpy.load_file(tmp_path / name / "predictions.safetensors")
        for name in "abcd"
    }
    same = {
        pair: bool((drawn[pair[0]]["predictions"] == drawn[pair[1]]["predictions"]).all())
        for pair in ("ab", "cd")
    }
    assert same == {"ab": False, "cd": True}
    assert [row_of(tmp_path / each).noise_source for each in "ac"] == ["os_entropy", "seeded"]
    assert [row_of(tmp_path / each).seed for each in "ac"] == [0, 3]


@pytest.mark.parametrize(
    ("setting", "method", "free", "unit"),
    [
        ("text", "class_sums", "public_only", "node"),
        ("graph", "class_sums", "public_only", "node"),
        ("edges", "edge_votes", "text_only", "edge_undirected"),
    ],
)
def test_every_setting_has_a_method_and_a_row_without_private_data(
    classify, setting, method, free, unit
):
    found = classify("--setting", setting, "--epsilon", 4, "--json")
    assert found.code == 0, found.err
    assert [each["method"] for each in found.json["scores"]] == [method, free]
    assert {each["setting"] for each in found.json["scores"]} == {setting}
    private, public = (each["test_micro_f1"] for each in found.json["scores"])
    assert found.json["gain"] == pytest.approx(private - public)
    statement = PrivacyStatement.model_validate(found.json["statement"])
    assert (statement.status, statement.unit) == ("proved", unit)
    assert statement.epsilon_proved <= 4.0 and statement.n_runs_released == 1


@pytest.mark.parametrize("known", [20, 0, 500])
def test_only_the_public_labels_that_are_asked_for_are_known_and_none_is_charged(classify, known):
    found = classify("--epsilon", 2, "--tuning-labels", known, "--json")
    assert found.code == 0, found.err
    assert [each["tuning_labels"] for each in found.json["scores"]] == [known, known]
    private = found.json["scores"][0]
    assert (private["validation_micro_f1"] is None) == (known == 0)
    assert (found.json["majority_micro_f1"] is None) == (known == 0)
    statement = PrivacyStatement.model_validate(found.json["statement"])
    assert statement.selection.public == (known > 0)
    kinds = [each.type for each in statement.mechanisms]
    assert ("exponential" in kinds) == (known == 0)
    said = classify("--epsilon", 2, "--tuning-labels", known).out
    assert ("no public validation label" in said) == (known == 0)


def test_methods_of_public_data_alone_need_no_epsilon_and_are_compared_with_nothing(classify):
    found = classify("--method", "public_only", "--json")
    assert found.code == 0, found.err
    assert [each["epsilon"] for each in found.json["scores"]] == [0.0]
    assert found.json["gain"] is None and found.json["verdict"] is None
    assert "rivate data" not in classify("--method", "public_only").out.partition("privacy")[0]
    refused(
        classify("--method", "public_only", "--epsilon", 2), 2,
        "--epsilon: public_only reads nothing private; leave the flag out",
    )  # fmt: skip


def test_without_dp_the_statement_says_so(classify):
    found = classify("--epsilon", "inf")
    assert found.code == 0 and "not private: no noise was added" in found.out
    assert "class_sums        epsilon inf" in found.out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--epsilon", 2, "--method", "gcn"), ("with --setting text there are class_sums, ",
                                               "gcn needs --setting graph")),
        (("--epsilon", 2, "--method", "edge_votes"), ("edge_votes needs --setting edges",)),
        (("--epsilon", 2, "--method", "clas_sums"), ("did you mean 'class_sums'",)),
        (("--epsilon", 2, "--setting", "edge"), ("--setting is 'edge'", "text, graph, edges")),
        ((), ("give --epsilon: a number, or inf",)),
        (("--epsilon", 0), ("--epsilon is 0",)),
        (("--epsilon", 2, "--delta", 1), ("--delta is 1",)),
        (("--epsilon", 2, "--tuning-labels", 501), ("--tuning-labels is 501; expected 0 to 500",)),
        (("--epsilon", 2, "--tuning-labels", -1), ("--tuning-labels is -1",)),
        (("--epsilon", 2, "--setting", "edges", "--tuning-labels", 5),
         ("all labels but those of the test nodes are public",)),
        (("--epsilon", 2, "--device", "tpu"), ("--device is 'tpu'",)),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_refused_with_what_to_do(classify, flags, words):
    refused(classify(*flags), 2, *words)


def test_a_graph_that_nobody_knows_and_a_delta_that_proves_nothing(run, classify, data):
    refused(run("classify", "nobody", "--epsilon", 2, "--data", data), 2, "unknown dataset")
    refused(classify("--epsilon", 2, "--delta", 0.01), 1, "delta")


def test_documents_without_a_label_are_predicted_and_scores_are_of_the_others(
    run, tmp_path, monkeypatch, root
):
    monkeypatch.chdir(tmp_path)
    nodes = pd.read_csv(root / "examples" / "my_graph" / "nodes.csv")
    nodes["part"] = ["validation", "test", *["train"] * 6] * (len(nodes) // 8)
    waiting = (nodes["part"] == "test") & (nodes.index % 3 == 0)
    topics = nodes["topic"].copy()
    nodes.loc[waiting, "topic"] = None
    nodes.to_csv("nodes.csv", index=False)
    flags = ("--nodes", "nodes.csv", "--edges", root / "examples" / "my_graph" / "edges.csv",
             "--text", "title,body", "--label", "topic", "--split", "part")  # fmt: skip
    assert run("dataset", "waiting", *flags).code == 0
    for setting, method in (
        ("text", "dp_linear"),
        ("graph", "class_sums"),
        ("edges", "edge_votes"),
    ):
        found = run("classify", "waiting", "--setting", setting, "--method", method,
                    "--epsilon", 4, "--out", setting)  # fmt: skip
        assert found.code == 0, found.err
        assert f"{150 - waiting.sum()} test nodes" in found.out
        table = pd.read_csv(f"{setting}/predictions.csv").set_index("node")["predicted"]
        assert list(table.index) == list(np.flatnonzero(nodes["part"] == "test"))
        hits = table == topics[table.index]
        assert hits[waiting[table.index]].mean() > 0.7, "unseen labels"
        row = row_of(Path(setting))
        assert row.test_micro_f1 == pytest.approx(hits[~waiting[table.index]].mean())


def test_help_names_every_method_under_its_settings_and_what_each_setting_protects(run):
    text = " ".join(run("classify", "--help").out.split())
    for setting in ("text", "graph", "edges"):
        assert f"--setting {setting}. Protected: " in text
    for name in METHOD_NAMES:
        assert name in text
    assert text.count("Public: ") == 3


def result(predictions: list[int]) -> CellResult:
    return CellResult(pd.DataFrame(), {}, np.arange(len(predictions)), np.array([predictions]))


@pytest.mark.parametrize(
    ("private", "public", "words"),
    [
        (100, 50, "worth it: they add 50.0 points of test micro-F1 (standard error 5.0, 100 "),
        (50, 100, "not worth it: public data alone are better by 50.0 points"),
        (52, 50, "No clear gain: private data gave 2.0 points of test micro-F1 (standard error "
                 "1.4, 100 test nodes) more than public"),
        (50, 52, "less than public"),
        (50, 50, "gave 0.0 points of test micro-F1 (standard error 0.0, 100 test nodes) more or"),
    ],
)  # fmt: skip
def test_a_verdict_needs_two_standard_errors_of_the_paired_difference(private, public, words):
    labels = np.ones(100, dtype=np.int64)
    hits = [result([1] * each + [0] * (100 - each)) for each in (private, public)]
    compared = Compared.of(*hits, labels)
    assert words in compared.sentence, compared.sentence
    assert compared.gain == pytest.approx((private - public) / 100)
    share = abs(private - public) / 100  # of nodes that one of them hits alone
    assert compared.error == pytest.approx(math.sqrt((share - share**2) / 100))


def test_a_plan_of_no_run_is_refused():
    cell = {"study": "s", "experiment": "e", "dataset": "d", "method": "m", "setting": "text"}
    plan = {"cell": cell, "seeds": (0,), "epsilons": (), "tuning_labels": (3,)}
    assert MethodPlan.model_validate({**plan, "tuning_epsilons": (1,)}).n_replicas == 1
    with pytest.raises(ValueError, match="no run"):
        MethodPlan.model_validate(plan)
