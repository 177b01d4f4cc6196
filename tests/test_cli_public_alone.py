"""``train`` under text, graph and edges: a run beside what public data alone give."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from command_line import Outcome, refused
from small_graphs import random_graph, with_parts

from private_graphs.cli import train as cli_train
from private_graphs.cli.comparison import PUBLIC_METHODS, Compared
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.own import declare, remember
from private_graphs.methods import method_named, methods_of
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.running.jobs import Job
from private_graphs.running.result import JobResult

NAME = "synthetic-npz"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("data") / "raw"


@pytest.fixture
def train(run, data):
    """Call ``train`` with class sums on embedded data."""

    def call(*arguments: object) -> Outcome:
        given = () if "--method" in arguments else ("--method", "class_sums")
        return run("train", "--dataset", NAME, "--data", data, *given, *arguments)

    return call


@pytest.fixture(scope="module")
def graph() -> GraphDataset:
    return random_graph(4, nodes=300, train=157, degree=9.0)


def row_of(folder: Path) -> pd.Series:
    rows = pd.read_parquet(folder / "runs.parquet")
    assert len(rows) == 1
    return rows.iloc[0]


def test_one_run_is_compared_with_public_data_alone_and_both_are_kept(train, tmp_path):
    answer = train("--epsilon", 2, "--out", tmp_path / "new")
    assert answer.code == 0, answer.err
    row, free = row_of(tmp_path / "new"), row_of(tmp_path / "new" / "public_only")
    lines = answer.out.splitlines()
    assert lines[0].startswith(f"seed 0: test micro-F1 {row.test_micro_f1:.3f}, validation ")
    assert lines[1] == f"one run; majority {row.majority_micro_f1:.3f}"
    assert f"over {free.test_micro_f1:.3f} of public_only" in lines[3]
    assert "1,000 test nodes" in lines[3] and lines[5].startswith("privacy     Proved: ε = 2")
    assert (row.method, row.scenario, row.epsilon, row.noise_source) == (
        "class_sums", "text", 2.0, "os_entropy",
    )  # fmt: skip
    assert (free.method, free.epsilon) == ("public_only", 0.0)
    for folder in (tmp_path / "new", tmp_path / "new" / "public_only"):
        saved = Job.model_validate_json((folder / "job.json").read_text())
        assert (saved.dataset, saved.name, saved.n_replicas) == (NAME, row_of(folder).job, 1)
        statements = json.loads((folder / "statement.json").read_text())
        assert list(statements) == [row_of(folder).statement_id]
        predictions = safetensors.numpy.load_file(folder / "predictions.safetensors")
        assert predictions["predictions"].shape == (1, 1000)


@pytest.mark.parametrize(
    ("scenario", "method", "free", "unit"),
    [
        ("text", "class_sums", "public_only", "node"),
        ("graph", "class_sums", "public_only", "node"),
        ("edges", "edge_votes", "text_only", "edge_undirected"),
    ],
)
def test_every_scenario_has_numbers_without_private_data(
    train, graph, monkeypatch, scenario, method, free, unit
):
    monkeypatch.setattr(cli_train, "load_data", lambda *_: graph)
    answer = train("--scenario", scenario, "--method", method, "--epsilon", 4, "--json")
    assert answer.code == 0, answer.err
    public = answer.json["public_alone"]
    assert set(public) == {"method", "test_micro_f1", "gain", "standard_error", "verdict"}
    assert public["method"] == free and public["verdict"] in ("gain", "loss", "none")
    (score,) = answer.json["scores"]
    assert public["gain"] == pytest.approx(score["test_micro_f1"] - public["test_micro_f1"])
    statement = PrivacyStatement.model_validate(answer.json["statement"])
    assert (statement.status, statement.unit) == ("proved", unit)
    assert statement.epsilon_proved <= 4.0 and statement.n_runs_released == 1
    alone = train("--scenario", scenario, "--method", free, "--json")
    assert alone.code == 0, alone.err
    assert alone.json["public_alone"] is None
    assert alone.json["scores"][0]["test_micro_f1"] == public["test_micro_f1"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--epsilon", 2, "--method", "edge_votes", "--scenario", "text"),
         ("edge_votes has edges", "text is for class_sums, ")),
        (("--epsilon", 2, "--method", "clas_sums"), ("did you mean 'class_sums'",)),
        (("--scenario", "text"), ("give --epsilon: a number, or inf",)),
        (("--epsilon", 2, "--method", "public_only"), ("reads nothing private; leave the flag",)),
        (("--epsilon", 2, "--max-edges", 9), ("--max-edges: text protects no edge",)),
        (("--epsilon", 2, "--lr", 1), ("--lr: class_sums has no setting",)),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_refused_with_what_to_do(train, flags, words):
    refused(train(*flags), 2, *words)


@pytest.mark.parametrize("name", [NAME, "facebook-yale4", "cora"])
def test_a_dataset_is_no_declared_documents_and_the_command_for_it_is_named(run, tmp_path, name):
    answer = run("classify", name, "--epsilon", 2, "--data", tmp_path / "raw")
    refused(answer, 2, f"'private-graphs train --dataset {name} --method class_sums")
    assert answer.err.count("\n") == 1


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
    edges = root / "examples" / "my_graph" / "edges.csv"
    own = {"nodes": "nodes.csv", "edges": edges, "text": ["title", "body"], "label": "topic"}
    remember(declare({"name": "waiting", **own, "split": "part"}, "test"), "data/own")
    for scenario, method, more in (
        ("text", "dp_linear", ()),
        ("graph", "class_sums", ()),
        ("edges", "edge_votes", ("--max-edges", 9000)),
    ):
        answer = run("train", "--dataset", "waiting", "--scenario", scenario, "--method", method,
                     "--epsilon", 4, "--out", scenario, *more)  # fmt: skip
        assert answer.code == 0, answer.err
        assert f"{150 - waiting.sum()} test nodes" in answer.out
        stored = safetensors.numpy.load_file(f"{scenario}/predictions.safetensors")
        records = stored["test_records"]
        assert list(records) == list(np.flatnonzero(nodes["part"] == "test"))
        classes = np.array(sorted(topics.unique()))
        hits = classes[stored["predictions"][0]] == topics[records]
        assert hits[waiting[records]].mean() > 0.7, "unseen labels"
        row = row_of(Path(scenario))
        assert row.test_micro_f1 == pytest.approx(hits[~waiting[records]].mean())


def result(predictions: list[int]) -> JobResult:
    rows = pd.DataFrame({"method": ["public_only"], "test_micro_f1": np.mean(predictions)})
    return JobResult(rows, {}, np.arange(len(predictions)), np.array([predictions]))


@pytest.mark.parametrize(
    ("private", "public", "verdict", "words"),
    [
        (100, 50, "gain", "worth it (+50.0 points over 0.500 of public_only, standard error 5.0,"),
        (50, 100, "loss", "public data alone, which cost nobody anything (-50.0 points over 1.000"),
        (52, 50, "none", "No clear gain"),
        (50, 52, "none", "over 0.520 of public_only, standard error 1.4, 100 test nodes)"),
        (56, 50, "none", "No clear gain"),
        (58, 50, "gain", "worth it (+8.0 points over 0.500 of public_only, standard error 2.7,"),
    ],
)
def test_a_verdict_needs_a_paired_difference_that_chance_hardly_makes(
    private, public, verdict, words
):
    labels = np.ones(100, dtype=np.int64)
    hits = [result([1] * each + [0] * (100 - each)) for each in (private, public)]
    compared = Compared.of(*hits, labels)
    assert compared.verdict == verdict and words in compared.sentence, compared.sentence
    assert "(the first run: " in replace(compared, several=True).sentence
    assert compared.gain == pytest.approx((private - public) / 100)
    share = abs(private - public) / 100  # of nodes that one of them hits alone
    assert compared.error == pytest.approx(math.sqrt((share - share**2) / 100))


def test_a_verdict_of_equally_good_classifiers_is_rarely_wrong():
    """How often noise alone gives a verdict: at most one time in a hundred, on any number."""
    rng = np.random.default_rng(0)
    for nodes in (3, 9, 40, 200):
        hits = rng.random((2, 2000, nodes)) < 0.6
        apart = np.stack([(one & ~other).sum(axis=1) for one, other in (hits, hits[::-1])])
        pairs, times = np.unique(apart, axis=1, return_counts=True)
        wrong = [Compared(*pair, nodes).verdict != "none" for pair in pairs.T]
        assert np.average(wrong, weights=times) < 0.015, nodes


def test_one_edge_more_or_less_changes_no_claim_and_no_file_tells_how_many_there_are(
    run, graph, monkeypatch, tmp_path
):
    fewer, claims = with_parts(graph, edges=graph.edge_index.T[1:]), []
    for used, out in ((graph, tmp_path / "a"), (fewer, tmp_path / "b")):
        monkeypatch.setattr(cli_train, "load_data", lambda *_, used=used: used)
        answer = run("train", "--dataset", NAME, "--method", "edge_votes", "--epsilon", 2,
                     "--out", out)  # fmt: skip
        assert answer.code == 0, answer.err
        (claim,) = json.loads((out / "statement.json").read_text()).values()
        claims.append({key: value for key, value in claim.items()
                       if key != "statement_id" and "fingerprint" not in key})  # fmt: skip
        for path in out.rglob("*"):
            if path.is_file() and path.suffix != ".safetensors":
                text = pd.read_parquet(path).to_csv() if path.suffix == ".parquet" else (
                    path.read_text())  # fmt: skip
                assert not {str(used.n_edges), f"{used.n_edges:,}"} & {
                    *re.findall(r"[\d,]+", text)
                }, path
    assert claims[0] == claims[1]
    assert claims[0]["n_units"] == 5500, "declared with the dataset, not counted"


def test_delta_is_checked_against_the_declared_bound_and_a_graph_above_it_is_refused(
    run, graph, monkeypatch
):
    monkeypatch.setattr(cli_train, "load_data", lambda *_: graph)
    flags = ("train", "--dataset", NAME, "--method", "edge_votes", "--epsilon", 2)
    refused(run(*flags, "--max-edges", 100_000), 1, "delta x units = 1;")
    answer = run(*flags, "--max-edges", graph.n_edges - 1)
    refused(answer, 1, "more edges than the declared bound", "--max-edges")
    assert f"{graph.n_edges}" not in answer.err and f"{graph.n_edges:,}" not in answer.err
    assert run(*flags, "--max-edges", graph.n_edges).code == 0
    nobody = dataclasses.replace(graph, info=graph.info.model_copy(update={"name": "mine"}))
    monkeypatch.setattr(cli_train, "load_data", lambda *_: nobody)
    monkeypatch.setattr(cli_train, "declared_bound", lambda *_: None)
    refused(run(*flags), 1, "mine", "--max-edges", "without looking at the links")


@pytest.mark.parametrize("scenario", PUBLIC_METHODS)
def test_a_run_is_compared_with_the_first_method_that_reads_nothing_private(scenario):
    free = [name for name in methods_of(scenario) if not method_named(name).reads_private]
    assert PUBLIC_METHODS[scenario] == free[0]
