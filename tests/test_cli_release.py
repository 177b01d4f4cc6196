"""What ``private-graphs classify --out`` writes: a release that its statement covers, and the rest.

Neighbouring graphs are put in place of the one that is asked for; what differs between their
releases, noise aside, is a function of private data that no ε pays for.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import refused
from small_graphs import random_graph, with_parts

from private_graphs import cli_classify
from private_graphs.datasets.graph_dataset import GraphDataset

NAME = "synthetic-npz"
RELEASED = {"predictions.csv", "statement.json", "README.md", "manifest.json"}


@pytest.fixture(scope="module")
def graph() -> GraphDataset:
    return random_graph(4, nodes=300, train=157, degree=9.0)


@pytest.fixture
def classify(run, graph, monkeypatch, tmp_path):
    """Call ``classify`` on a graph in place of the embedded one; return the folder of ``--out``."""

    def call(out: str, *flags: object, on: GraphDataset = graph, code: int = 0) -> Path:
        monkeypatch.setattr(cli_classify, "load_graph", lambda *_: on)
        found = run("classify", NAME, *flags, "--out", tmp_path / out)
        assert found.code == code, found.err
        return tmp_path / out

    return call


def texts(folder: Path) -> dict[str, bytes]:
    """Content of every file below ``folder``."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def without_marks(value):
    """JSON without what may differ by noise alone: identifiers and keyed hashes."""
    if isinstance(value, dict):
        return {
            key: without_marks(each)
            for key, each in value.items()
            if key != "statement_id" and "fingerprint" not in key
        }
    return value


def claims(folder: Path) -> list:
    found = json.loads((folder / "release" / "statement.json").read_text())
    return [without_marks(each) for each in found.values()]


def test_a_folder_holds_a_release_and_what_is_not_to_be_shared_and_nothing_else(classify):
    out = classify("out", "--epsilon", 2)
    assert {path.name for path in out.iterdir()} == {"release", "private"}
    assert {path.name for path in (out / "release").iterdir()} == RELEASED
    private = {"README.md", "runs.parquet", "predictions.safetensors", "plan.json"}
    assert private <= {path.name for path in (out / "private").iterdir()}
    assert (out / "private" / "public_only" / "predictions.csv").is_file()
    row = pd.read_parquet(out / "private" / "runs.parquet").iloc[0]
    released = b"".join(texts(out / "release").values()).decode()
    for name in ("test_micro_f1", "validation_micro_f1", "majority_micro_f1", "random_micro_f1"):
        assert f"{row[name]:.3f}" not in released, name
    manifest = json.loads((out / "release" / "manifest.json").read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", manifest["date"]), "a day, no time"
    assert manifest["statement_ids"] == [row["statement_id"]]


def test_without_dp_there_is_nothing_to_share_not_even_of_an_earlier_run(classify):
    out = classify("out", "--epsilon", 2)
    assert (out / "release").is_dir()
    out = classify("out", "--epsilon", "inf")
    assert not (out / "release").exists()
    assert (out / "private" / "predictions.csv").is_file()


def test_a_kept_seed_leaves_nothing_to_share(classify):
    """Its noise can be taken off, and its statement holds the plain hash of all the data."""
    classify("out", "--epsilon", 2)
    out = classify("out", "--epsilon", 2, "--seed", 3)
    assert not (out / "release").exists()
    assert (out / "private" / "predictions.csv").is_file()


@pytest.mark.parametrize("setting", ["text", "graph"])
def test_what_is_released_beside_predictions_does_not_depend_on_private_data(
    classify, graph, setting
):
    """Other labels, texts and links of all private units at once, the same words about them."""
    rng = np.random.default_rng(5)
    train = np.flatnonzero(graph.train_mask)
    moved = np.arange(graph.n_nodes)
    moved[train] = rng.permutation(train)
    other = with_parts(graph, edges=graph.edge_index.T[:-200])
    other = with_parts(other, features=graph.features.to_scipy()[moved].toarray())
    other = dataclasses.replace(other, labels=np.where(graph.train_mask, 0, graph.labels))
    flags = ("--setting", setting, "--epsilon", 1)
    first, second = classify("a", *flags), classify("b", *flags, on=other)
    assert claims(first) == claims(second)
    names = [set(texts(each / "release")) for each in (first, second)]
    assert names[0] == names[1] == RELEASED
    readme = [(each / "release" / "README.md").read_text() for each in (first, second)]
    assert readme[0] == readme[1]
    lines = [
        [line.split(",")[0] for line in (each / "release" / "predictions.csv").open()]
        for each in (first, second)
    ]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("part", ["release", "private"])
def test_nobody_who_knows_all_but_one_label_finds_it_by_hashing(classify, graph, part):
    """K guesses of the label, K hashes of the whole data: none may stand in any file."""
    node = int(np.flatnonzero(graph.train_mask & (graph.labels >= 0))[7])
    guesses = []
    for label in range(graph.n_classes):
        labels = graph.labels.copy()
        labels[node] = label
        guesses.append(dataclasses.replace(graph, labels=labels).fingerprint)
    out = classify("out", "--epsilon", 0.1)
    for name, content in texts(out / part).items():
        if name.endswith(".parquet"):
            content = pd.read_parquet(out / part / name).to_csv().encode()
        assert not [each for each in guesses if each[:12].encode() in content], name


def test_a_released_file_that_was_changed_is_named(classify, run):
    out = classify("out", "--epsilon", 2)
    said = run("explain", out)
    assert said.code == 0 and said.out == run("explain", out / "release").out
    assert "Protected are the 157 nodes" in said.out
    with (out / "release" / "predictions.csv").open("a", encoding="utf-8") as stream:
        stream.write("3,class 1\n")
    for folder in (out, out / "release"):
        refused(run("explain", folder), 1, "predictions.csv", "the file was changed")
    (out / "release" / "predictions.csv").unlink()
    refused(run("explain", out), 1, "predictions.csv", "no such file")


# --- the number of edges ---


def test_one_edge_more_or_less_changes_no_claim_and_no_file_tells_how_many_there_are(
    classify, graph
):
    fewer = with_parts(graph, edges=graph.edge_index.T[1:])
    flags = ("--setting", "edges", "--epsilon", 2)
    with_edge, without = classify("a", *flags), classify("b", *flags, on=fewer)
    assert claims(with_edge) == claims(without)
    (claim,) = claims(with_edge)
    assert claim["n_units"] == 5500, "declared with the dataset, not counted"
    for folder, edges in ((with_edge, graph.n_edges), (without, fewer.n_edges)):
        for name, content in texts(folder).items():
            if name.endswith(".parquet"):
                content = pd.read_parquet(folder / name).to_csv().encode()
            for written in (str(edges), f"{edges:,}"):
                assert written not in re.findall(r"[\d,]+", content.decode("utf-8", "ignore")), name


def test_delta_is_checked_against_the_declared_bound_and_a_graph_above_it_is_refused(
    run, graph, monkeypatch, tmp_path
):
    monkeypatch.setattr(cli_classify, "load_graph", lambda *_: graph)
    flags = ("classify", NAME, "--setting", "edges", "--epsilon", 2)
    refused(run(*flags, "--max-edges", 100_000), 1, "delta x units = 1;")
    found = run(*flags, "--max-edges", graph.n_edges - 1)
    refused(found, 1, "more edges than the declared bound", "--max-edges")
    assert f"{graph.n_edges}" not in found.err and f"{graph.n_edges:,}" not in found.err
    assert run(*flags, "--max-edges", graph.n_edges).code == 0
    nobody = dataclasses.replace(graph, info=graph.info.model_copy(update={"name": "mine"}))
    monkeypatch.setattr(cli_classify, "load_graph", lambda *_: nobody)
    monkeypatch.setattr(cli_classify, "with_bound", lambda plan, _: plan)
    refused(run(*flags), 1, "mine", "--max-edges", "without looking at the links")
