"""``private-graphs classify``: one run of a proved method, beside what public data alone gives.

For what ``--out`` writes, neighbouring graphs are put in place of the one that is asked for; what
differs between their releases, noise aside, is a function of private data that no ε pays for.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from command_line import Outcome, refused
from small_graphs import random_graph, with_parts

from private_graphs.cli import classify as cli_classify
from private_graphs.cli.classify import Compared
from private_graphs.cli.run import PUBLIC_METHODS
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.own import declare, remember
from private_graphs.methods import method_named, methods_of
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.running.jobs import Job
from private_graphs.running.result import JobResult

NAME = "synthetic-npz"
RELEASED = {"predictions.csv", "statement.json", "README.md", "manifest.json"}


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
    rows = pd.read_parquet(folder / "runs.parquet")
    assert len(rows) == 1
    return rows.iloc[0]


# --- runs -------------------------------------------------------------------------------------


def test_one_run_is_compared_with_public_data_alone_and_both_are_kept(classify, tmp_path):
    answer = classify("--epsilon", 2, "--out", tmp_path / "new")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    private = tmp_path / "new" / "private"
    row, free = row_of(private), row_of(private / "public_only")
    for line, part in zip(lines, (row, free), strict=False):
        assert line.startswith(f"{part.method:<18}epsilon {part.epsilon:g}")
        assert f"test micro-F1 {part.test_micro_f1:.3f}" in line and "500" in line
    assert lines[2].endswith(f"test micro-F1 {row.majority_micro_f1:.3f}")
    assert "1,000 test nodes" in lines[4] and lines[6].startswith("privacy     Proved: ε = 2")
    assert (row.method, row.scenario, row.epsilon, row.noise_source) == (
        "class_sums", "text", 2.0, "os_entropy",
    )  # fmt: skip
    assert (free.method, free.epsilon) == ("public_only", 0.0)
    for folder, public in ((private, tmp_path / "new" / "release"), (private / "public_only",) * 2):
        saved = Job.model_validate_json((folder / "job.json").read_text())
        assert (saved.dataset, saved.name, saved.n_replicas) == (NAME, row_of(folder).job, 1)
        statements = json.loads((folder / "statement.json").read_text())
        assert list(statements) == [row_of(folder).statement_id]
        predictions = safetensors.numpy.load_file(folder / "predictions.safetensors")
        assert predictions["predictions"].shape == (1, 1000)
        table = pd.read_csv(public / "predictions.csv", dtype={"predicted": str})
        assert (table["node"] == predictions["test_records"]).all()
        assert table["predicted"].nunique() == len(np.unique(predictions["predictions"]))


def test_noise_is_fresh_unless_a_seed_is_given(classify, tmp_path):
    fresh = ("--method", "dp_linear")  # noise hardly changes the predictions of class sums
    for name, flags in {"a": fresh, "b": fresh, "c": ("--seed", 3), "d": ("--seed", 3)}.items():
        assert classify("--epsilon", 1, "--out", tmp_path / name, *flags).code == 0
    drawn = {
        name: safetensors.numpy.load_file(tmp_path / name / "private" / "predictions.safetensors")
        for name in "abcd"
    }
    same = {
        pair: bool((drawn[pair[0]]["predictions"] == drawn[pair[1]]["predictions"]).all())
        for pair in ("ab", "cd")
    }
    assert same == {"ab": False, "cd": True}
    rows = [row_of(tmp_path / name / "private") for name in "ac"]
    assert [row.noise_source for row in rows] == ["os_entropy", "seeded"]
    assert [row.seed for row in rows] == [0, 3]
    assert math.isnan(rows[0].seconds) and rows[1].seconds > 0, "times of fresh noise are secret"
    # As version 0.1.0 wrote it: what a replica is stays the same under new words.
    assert rows[1].replica_id == "4df6437fc97a3adb"


@pytest.mark.parametrize(
    ("scenario", "method", "free", "unit"),
    [
        ("text", "class_sums", "public_only", "node"),
        ("graph", "class_sums", "public_only", "node"),
        ("edges", "edge_votes", "text_only", "edge_undirected"),
    ],
)
def test_every_scenario_has_a_method_and_a_row_without_private_data(
    classify, scenario, method, free, unit
):
    answer = classify("--scenario", scenario, "--epsilon", 4, "--json")
    assert answer.code == 0, answer.err
    assert set(answer.json) == {
        "scores", "majority_micro_f1", "gain", "standard_error", "verdict", "statement",
    }  # fmt: skip
    assert [score["method"] for score in answer.json["scores"]] == [method, free]
    assert {score["scenario"] for score in answer.json["scores"]} == {scenario}
    private, public = (score["test_micro_f1"] for score in answer.json["scores"])
    assert answer.json["gain"] == pytest.approx(private - public)
    statement = PrivacyStatement.model_validate(answer.json["statement"])
    assert (statement.status, statement.unit) == ("proved", unit)
    assert statement.epsilon_proved <= 4.0 and statement.n_runs_released == 1


@pytest.mark.parametrize("known", [20, 0, 500])
def test_only_the_public_labels_that_are_asked_for_are_known_and_none_is_charged(classify, known):
    answer = classify("--epsilon", 2, "--validation-labels", known, "--json")
    assert answer.code == 0, answer.err
    assert [score["validation_labels"] for score in answer.json["scores"]] == [known, known]
    private = answer.json["scores"][0]
    assert (private["validation_micro_f1"] is None) == (known == 0)
    assert (answer.json["majority_micro_f1"] is None) == (known == 0)
    statement = PrivacyStatement.model_validate(answer.json["statement"])
    assert statement.selection.public
    assert [mechanism.type for mechanism in statement.mechanisms] == ["gaussian"]
    said = classify("--epsilon", 2, "--validation-labels", known).out
    assert ("no public validation label" in said) == (known == 0)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--epsilon", 2, "--method", "edge_votes"), ("--scenario text there are class_sums, ",
                                                      "edge_votes needs --scenario edges")),
        (("--epsilon", 2, "--method", "gcn"), ("gcn needs 'private-graphs train'",)),
        (("--epsilon", 2, "--method", "clas_sums"), ("did you mean 'class_sums'",)),
        ((), ("give --epsilon: a number, or inf",)),
        (("--epsilon", 0), ("--epsilon is 0",)),
        (("--epsilon", 2, "--validation-labels", 501), ("--validation-labels is 501", "0 to 500")),
        (("--epsilon", 2, "--scenario", "edges", "--validation-labels", 5),
         ("--validation-labels: under --scenario edges",)),
        (("--epsilon", 2, "--max-edges", 9), ("--max-edges is for --scenario edges",)),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_refused_with_what_to_do(classify, flags, words):
    refused(classify(*flags), 2, *words)


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
        answer = run("classify", "waiting", "--scenario", scenario, "--method", method,
                     "--epsilon", 4, "--out", scenario, *more)  # fmt: skip
        assert answer.code == 0, answer.err
        assert f"{150 - waiting.sum()} test nodes" in answer.out
        table = pd.read_csv(f"{scenario}/release/predictions.csv").set_index("node")["predicted"]
        assert list(table.index) == list(np.flatnonzero(nodes["part"] == "test"))
        hits = table == topics[table.index]
        assert hits[waiting[table.index]].mean() > 0.7, "unseen labels"
        row = row_of(Path(scenario, "private"))
        assert row.test_micro_f1 == pytest.approx(hits[~waiting[table.index]].mean())


def result(predictions: list[int]) -> JobResult:
    return JobResult(pd.DataFrame(), {}, np.arange(len(predictions)), np.array([predictions]))


@pytest.mark.parametrize(
    ("private", "public", "verdict", "words"),
    [
        (100, 50, "gain", "worth it (+50.0 points of test micro-F1, standard error 5.0, 100 test"),
        (50, 100, "loss", "public data alone, which cost nobody anything (-50.0 points"),
        (52, 50, "none", "No clear gain"),
        (50, 52, "none", "(-2.0 points of test micro-F1, standard error 1.4, 100 test nodes)"),
        (56, 50, "none", "No clear gain"),
        (58, 50, "gain", "worth it (+8.0 points of test micro-F1, standard error 2.7, 100 test"),
    ],
)
def test_a_verdict_needs_a_paired_difference_that_chance_hardly_makes(
    private, public, verdict, words
):
    labels = np.ones(100, dtype=np.int64)
    hits = [result([1] * each + [0] * (100 - each)) for each in (private, public)]
    compared = Compared.of(*hits, labels)
    assert compared.verdict == verdict and words in compared.sentence, compared.sentence
    assert compared.gain == pytest.approx((private - public) / 100)
    share = abs(private - public) / 100  # of nodes that one of them hits alone
    assert compared.error == pytest.approx(math.sqrt((share - share**2) / 100))


def test_a_verdict_of_equally_good_classifiers_is_rarely_wrong():
    """How often noise alone gives a verdict: at most one time in a hundred, on any number."""
    rng = np.random.default_rng(0)
    for nodes in (3, 9, 40, 200):
        hits = rng.random((2, 2000, nodes)) < 0.6
        won, lost = ((one & ~other).sum(axis=1) for one, other in (hits, hits[::-1]))
        wrong = [Compared(*each, nodes).verdict != "none" for each in zip(won, lost, strict=True)]
        assert np.mean(wrong) < 0.015, nodes


# --- what may be shared -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph() -> GraphDataset:
    return random_graph(4, nodes=300, train=157, degree=9.0)


@pytest.fixture
def saved(run, graph, monkeypatch, tmp_path):
    """Call ``classify`` on a graph in place of the embedded one; return the folder of ``--out``."""

    def call(out: str, *flags: object, on: GraphDataset = graph) -> Path:
        monkeypatch.setattr(cli_classify, "load_data", lambda *_: on)
        answer = run("classify", NAME, *flags, "--out", tmp_path / out)
        assert answer.code == 0, answer.err
        return tmp_path / out

    return call


def contents(folder: Path) -> dict[str, bytes]:
    """Content of every file below ``folder``; tables of rows as CSV."""
    return {
        path.relative_to(folder).as_posix(): (
            pd.read_parquet(path).to_csv().encode()
            if path.suffix == ".parquet"
            else path.read_bytes()
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


def without_marks(value):
    """JSON without what may differ by noise alone: identifiers and keyed hashes."""
    if isinstance(value, dict):
        return {
            key: without_marks(part)
            for key, part in value.items()
            if key != "statement_id" and "fingerprint" not in key
        }
    return value


def claims(folder: Path) -> list:
    statements = json.loads((folder / "release" / "statement.json").read_text())
    return [without_marks(statement) for statement in statements.values()]


def test_a_folder_holds_a_release_and_what_is_not_to_be_shared_and_nothing_else(saved):
    out = saved("out", "--epsilon", 2)
    assert {path.name for path in out.iterdir()} == {"release", "private"}
    assert {path.name for path in (out / "release").iterdir()} == RELEASED
    private = {"README.md", "runs.parquet", "predictions.safetensors", "job.json"}
    assert private <= {path.name for path in (out / "private").iterdir()}
    assert (out / "private" / "public_only" / "predictions.csv").is_file()
    row = row_of(out / "private")
    released = b"".join(contents(out / "release").values()).decode()
    for name in ("test_micro_f1", "validation_micro_f1", "majority_micro_f1", "random_micro_f1"):
        assert f"{row[name]:.3f}" not in released, name
    manifest = json.loads((out / "release" / "manifest.json").read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", manifest["date"]), "a day, no time"
    assert manifest["statement_ids"] == [row["statement_id"]]


@pytest.mark.parametrize("flags", [(), ("--seed", 3)])
@pytest.mark.parametrize("earlier", [False, True])
def test_what_is_private_is_its_owners_from_its_creation_on(
    saved, monkeypatch, tmp_path, flags, earlier
):
    private = tmp_path / "out" / "private"
    if earlier:  # of a version that left it open
        (private / "public_only").mkdir(parents=True)
        for path in (private / "job.json", private / "public_only" / "predictions.csv"):
            path.write_text("open to all")
    renamed, replace = [], os.replace

    def replaced(source, target):
        if private in Path(target).parents:
            renamed.append((Path(target).name, stat.S_IMODE(os.stat(source).st_mode)))
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
        replace(source, target)

    monkeypatch.setattr(os, "replace", replaced)
    before = os.umask(0)
    try:
        saved("out", "--epsilon", 2, *flags)
        assert os.umask(0) == 0, "the mask of the process is as it was"
    finally:
        os.umask(before)
    assert {"runs.parquet", "job.json", "README.md"} <= {name for name, _ in renamed}
    assert {mode for _, mode in renamed} == {0o600}
    for path in (private, *private.rglob("*")):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path
    if not flags:
        assert (tmp_path / "out" / "release" / "predictions.csv").stat().st_mode & 0o044 == 0o044


@pytest.mark.parametrize("later", [("--epsilon", "inf"), ("--epsilon", 2, "--seed", 3)])
def test_without_dp_or_with_a_kept_seed_nothing_may_be_shared_not_even_of_an_earlier_run(
    saved, later
):
    """Who has the seed takes the noise off, and the statement holds the plain hash of the data."""
    assert (saved("out", "--epsilon", 2) / "release").is_dir()
    out = saved("out", *later)
    assert not (out / "release").exists()
    assert (out / "private" / "predictions.csv").is_file()


@pytest.mark.parametrize("scenario", ["text", "graph"])
def test_what_is_released_beside_predictions_does_not_depend_on_private_data(
    saved, graph, scenario
):
    """Other labels, texts and links of all private units at once, the same words about them."""
    rng = np.random.default_rng(5)
    train = np.flatnonzero(graph.train_mask)
    moved = np.arange(graph.n_nodes)
    moved[train] = rng.permutation(train)
    other = with_parts(graph, edges=graph.edge_index.T[:-200])
    other = with_parts(other, features=graph.features.to_scipy()[moved].toarray())
    other = dataclasses.replace(other, labels=np.where(graph.train_mask, 0, graph.labels))
    flags = ("--scenario", scenario, "--epsilon", 1)
    first, second = saved("a", *flags), saved("b", *flags, on=other)
    assert claims(first) == claims(second)
    first, second = contents(first / "release"), contents(second / "release")
    assert set(first) == set(second) == RELEASED
    assert first["README.md"] == second["README.md"]
    nodes = [
        [line.split(",")[0] for line in files["predictions.csv"].decode().splitlines()]
        for files in (first, second)
    ]
    assert nodes[0] == nodes[1]


def test_a_released_file_that_was_changed_is_named(saved, run):
    out = saved("out", "--epsilon", 2)
    said = run("explain", out)
    assert said.code == 0 and said.out == run("explain", out / "release").out
    assert "Protected are the 157 nodes" in said.out
    with (out / "release" / "predictions.csv").open("a", encoding="utf-8") as stream:
        stream.write("3,class 1\n")
    for folder in (out, out / "release"):
        refused(run("explain", folder), 1, "predictions.csv", "is not the file")
    (out / "release" / "predictions.csv").unlink()
    refused(run("explain", out), 1, "predictions.csv", "is gone")


def test_one_edge_more_or_less_changes_no_claim_and_no_file_tells_how_many_there_are(saved, graph):
    fewer = with_parts(graph, edges=graph.edge_index.T[1:])
    flags = ("--scenario", "edges", "--epsilon", 2)
    with_edge, without = saved("a", *flags), saved("b", *flags, on=fewer)
    assert claims(with_edge) == claims(without)
    (claim,) = claims(with_edge)
    assert claim["n_units"] == 5500, "declared with the dataset, not counted"
    for folder, edges in ((with_edge, graph.n_edges), (without, fewer.n_edges)):
        for name, content in contents(folder).items():
            numbers = re.findall(r"[\d,]+", content.decode("utf-8", "ignore"))
            assert not {str(edges), f"{edges:,}"} & {*numbers}, name


def test_delta_is_checked_against_the_declared_bound_and_a_graph_above_it_is_refused(
    run, graph, monkeypatch
):
    monkeypatch.setattr(cli_classify, "load_data", lambda *_: graph)
    flags = ("classify", NAME, "--scenario", "edges", "--epsilon", 2)
    refused(run(*flags, "--max-edges", 100_000), 1, "delta x units = 1;")
    answer = run(*flags, "--max-edges", graph.n_edges - 1)
    refused(answer, 1, "more edges than the declared bound", "--max-edges")
    assert f"{graph.n_edges}" not in answer.err and f"{graph.n_edges:,}" not in answer.err
    assert run(*flags, "--max-edges", graph.n_edges).code == 0
    nobody = dataclasses.replace(graph, info=graph.info.model_copy(update={"name": "mine"}))
    monkeypatch.setattr(cli_classify, "load_data", lambda *_: nobody)
    monkeypatch.setattr(cli_classify, "declared_bound", lambda *_: None)
    refused(run(*flags), 1, "mine", "--max-edges", "without looking at the links")


@pytest.mark.parametrize("scenario", PUBLIC_METHODS)
def test_a_run_is_compared_with_the_first_method_that_reads_nothing_private(scenario):
    free = [name for name in methods_of(scenario) if not method_named(name).reads_private]
    assert PUBLIC_METHODS[scenario] == free[0]
