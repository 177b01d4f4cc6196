"""``private-graphs dataset``, and training on a graph that a configuration described."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import runpy
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_line import refused

from private_graphs.cli import terminal as cli_terminal
from private_graphs.datasets.embedded import unpack
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.own import declare, remember
from private_graphs.datasets.text_graph import build_texts
from private_graphs.datasets.views import VIEWS
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.workflow.verify import write_hashes


@pytest.fixture(scope="module")
def example(root) -> Path:
    return root / "examples" / "my_graph"


@pytest.fixture
def here(tmp_path, monkeypatch, example) -> Path:
    """A working folder of its own with the two tables of the example."""
    for name in ("nodes.csv", "edges.csv"):
        shutil.copy(example / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


OWN = {"nodes": "nodes.csv", "edges": "edges.csv", "text": ["title", "body"], "label": "topic"}


def describe(name: str, **fields) -> None:
    """Keep a graph as a configuration describes it."""
    remember(declare({"name": name, **OWN, **fields}, "test"), "data/own")


@pytest.fixture
def declared(run, here):
    describe("my_graph")
    found = run("dataset", "my_graph")
    assert found.code == 0, found.err
    return found


def test_the_example_is_what_its_script_writes(root, example, tmp_path):
    spec = importlib.util.spec_from_file_location("make", root / "examples" / "make_example.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.write(tmp_path)
    for name in ("nodes.csv", "edges.csv"):
        assert (tmp_path / name).read_bytes() == (example / name).read_bytes()
    assert sum(path.stat().st_size for path in example.iterdir()) <= 500_000


def test_dataset_prints_statistics_as_json_and_keeps_declaration_and_build(declared, here):
    found = declared.json
    assert found["name"] == "my_graph" and found["nodes"] == 1200 and found["classes"] == 3
    assert found["masks"] == {"train": 960, "validation": 120, "test": 120}
    assert found["loops_dropped"] >= 0 and found["duplicates_dropped"] >= 0
    assert (found["features_kind"], found["view"]) == ("bow", "sound")
    assert any("all validation and test nodes" in each for each in found["public_facts"])
    with open(here / "edges.csv", encoding="utf-8") as stream:
        entries = sum(1 for _ in csv.reader(stream)) - 1
    counted = found["loops_dropped"] + found["duplicates_dropped"] - found["one_way_edges"]
    assert entries == counted + 2 * found["edges"]
    assert json.loads((here / "data/own/my_graph.json").read_text())["label"] == "topic"
    built = GraphDataset.load(here / "data/processed/my_graph/bow/sound")
    assert built.fingerprint == found["fingerprint"]
    assert not list((here / "data").rglob("*.partial"))


def test_train_accepts_the_graph_and_prints_scores_and_statement(run, declared):
    flags = ("--epsilon", "2", "--splits", "50", "--lr", "0.01", "--epochs", "3", "--json")
    found = run("train", "--dataset", "my_graph", *flags)
    assert found.code == 0, found.err
    assert 0 <= found.json["scores"][0]["test_micro_f1"] <= 1
    statement = PrivacyStatement.model_validate(found.json["statement"])
    assert statement.epsilon_proved == pytest.approx(2, abs=1e-3)
    people = run("train", "--dataset", "my_graph", *flags[:-1])
    assert people.code == 0 and "test micro-F1" in people.out and "public" in people.out


def test_a_build_is_used_while_the_tables_stay_the_same_and_made_again_after(run, declared, here):
    graph = here / "data/processed/my_graph/bow/sound/graph.safetensors"
    written = graph.stat().st_mtime_ns
    train = ("train", "--dataset", "my_graph", "--epsilon", "inf", "--epochs", "2", "--json")
    run(*train, "--out", "first")
    assert graph.stat().st_mtime_ns == written
    with open("edges.csv", "a", encoding="utf-8") as stream:
        stream.write("post0000,post0001\npost0000,post0002\n")
    run(*train, "--out", "second")
    assert graph.stat().st_mtime_ns != written
    prints = [
        pd.read_parquet(f"{out}/runs.parquet")["data_fingerprint"][0] for out in ("first", "second")
    ]
    assert prints[0] != prints[1]


def test_a_dataset_of_pytorch_geometric_is_kept_and_trained_on(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = unpack("planetoid", tmp_path / "written")[0].parent
    shutil.copytree(written, tmp_path / "data/raw/pyg/Planetoid/synthetic/raw")
    found = run("dataset", "mine", "--pyg", "Planetoid:synthetic")
    assert found.code == 0 and found.json["nodes"] == 2400, found.err
    shutil.rmtree(tmp_path / "data/raw")
    trained = run("train", "--dataset", "mine", "--epsilon", "inf", "--epochs", "2", "--json")
    assert trained.code == 0 and trained.json["scores"], trained.err
    for name in ("cora", "Mine"):
        refused(run("dataset", name, "--pyg", "Planetoid:synthetic"), 2, repr(name))
    refused(run("dataset", "mine", "--pyg", "Planetoid:Cora", "--features", "x"), 2, "--features")


def test_a_graph_in_a_file_is_kept_classified_and_trained_on(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    labels = np.arange(200) % 2
    near = np.triu(draws.random((200, 200)) < np.where(labels[:, None] == labels, 0.05, 0.01), 1)
    np.savez("graph.npz", adj_matrix=near | near.T, labels=labels,
             attr_matrix=labels[:, None] + draws.normal(size=(200, 4)))  # fmt: skip
    found = run("dataset", "mine", "--file", "graph.npz", "--max-edges", "2000")
    assert found.code == 0 and found.json["nodes"] == 200, found.err
    Path("graph.npz").unlink()
    flags = ("--epsilon", "4", "--seed", "0", "--json")
    for method in ("class_sums", "edge_votes"):
        told = run("train", "--dataset", "mine", "--method", method, *flags)
        assert told.code == 0, told.err
    trained = run("train", "--dataset", "mine", "--epsilon", "inf", "--epochs", "2", "--json")
    assert trained.code == 0 and trained.json["scores"], trained.err
    refused(run("dataset", "cora", "--file", "graph.npz"), 2, "'cora'")
    refused(run("dataset", "it", "--file", "graph.npz"), 1, "graph.npz: no such file")
    for idle in (("--pyg", "Planetoid:Cora"), ("--protocol", "paper"), ("--threads", 2)):
        found = run("dataset", "it", "--file", "a.npz", *idle)
        refused(found, 2, ": has no effect: the graph is --")
    refused(run("dataset", "cora", "--max-edges", "9"), 2, "--max-edges is for")


@pytest.mark.parametrize("command", [("train", "--dataset"), ("dataset",)])
def test_every_campus_can_be_named_by_every_command(run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    empty = tmp_path / "mirror"
    empty.mkdir()
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    further = () if command == ("dataset",) else ("--epsilon", "2")
    found = run(*command, "facebook-yale4", *further, "--mirror", str(empty))
    refused(found, 1, "facebook100/Yale4.mat")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min_count": 10000}, "lower --min-count (10,000)"),
        ({"features": "bert", "model": "no/such"}, "no/such: no such model"),
        ({"features": "bert"}, "bert-base-multilingual-cased"),
    ],
)
def test_features_that_cannot_be_made_are_refused(run, here, monkeypatch, fields, message):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    describe("my_graph", **fields)
    refused(run("dataset", "my_graph"), 1, message)


def test_what_looks_like_a_mistake_is_a_warning(run, here):
    (here / "few.csv").write_text(
        "id,body,topic,split\na,one one one,x,train\nb,two,X,train\nc,one,y,val\nd,one,x,test\n"
        "e,one,z,val\n"
    )
    (here / "ends.csv").write_text("source,target\na,b\n")
    files = {"nodes": "few.csv", "edges": "ends.csv", "text": "body", "label": "topic"}
    describe("few", **files, split="split", min_count=1)
    describe("my_graph")
    found = run("dataset", "few")
    warned = [line for line in found.err.splitlines() if line.startswith("warning: ")]
    words = ("1 of 5 nodes", "'y', 'z'", "'X', 'x'", "4 classes of 5 nodes", "only 1 labelled test")
    assert found.code == 0 and len(warned) == len(words), found.err
    assert all(word in line for line, word in zip(warned, words, strict=True))
    assert "warning" not in run("dataset", "my_graph").err, "of the example"


@pytest.fixture
def job_of_the_workflow(root, monkeypatch):
    """Build bow features for ``sound`` as a job of the workflow does."""
    scripts = root / "workflow" / "scripts"
    monkeypatch.syspath_prepend(str(scripts))
    texts = Path("data/processed/my_graph/texts/sound")
    folder = Path("data/processed/my_graph/bow/sound")

    def build() -> GraphDataset:
        build_texts("my_graph", "data/raw", VIEWS["sound"]).save(texts)
        files = [path.name for path in texts.iterdir() if path.name != "manifest.json"]
        write_hashes(texts, files, [])
        for name in ("graph.safetensors", "dataset.json", "statistics.json"):
            (folder / name).unlink(missing_ok=True)  # as Snakemake does before a job
        job = SimpleNamespace(
            wildcards=SimpleNamespace(dataset="my_graph", kind="bow", view="sound"),
            input=SimpleNamespace(texts=str(texts / "text_graph.json"), models=[]),
            output=SimpleNamespace(info=str(folder / "dataset.json")),
            log=["job.log"],
            threads=1,
            config={},
        )
        runpy.run_path(str(scripts / "features.py"), init_globals={"snakemake": job})
        return GraphDataset.load(folder)

    yield build
    sys.modules.pop("job", None)


def test_a_build_that_the_workflow_made_of_another_declaration_is_not_taken_for_ones_own(
    run, declared, here, job_of_the_workflow
):
    declaration = Path("data/own/my_graph.json")
    before = declaration.read_text()
    words = json.loads(before) | {"min_count": 9}
    declaration.write_text(json.dumps(words))
    other = job_of_the_workflow()
    assert other.n_features < declared.json["features"]
    declaration.write_text(before)
    again = run("dataset", "my_graph")
    assert again.json == declared.json
    kept = json.loads((here / "data/processed/my_graph/bow/sound/statistics.json").read_text())
    assert kept["fingerprint"] == again.json["fingerprint"], "statistics are those of the build"


@pytest.mark.parametrize("file", ["graph.safetensors", "dataset.json", "build.json"])
def test_a_build_whose_files_are_not_as_they_were_written_is_made_again(run, declared, file):
    damaged = Path("data/processed/my_graph/bow/sound") / file
    before = damaged.read_bytes()
    damaged.write_bytes(before[:-20] + b"\0" * 20)
    assert run("dataset", "my_graph").json == declared.json
    assert damaged.read_bytes() == before


def test_an_interrupt_ends_training_in_its_threads(run, declared, monkeypatch):
    genuine = cli_terminal.ProgressBar.__call__
    calls = []

    def report(bar, done, total):
        calls.append(done)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        genuine(bar, done, total)

    monkeypatch.setattr(cli_terminal.ProgressBar, "__call__", report)
    before = signal.getsignal(signal.SIGINT)
    flags = ("--epsilon", "2", "--splits", "50", "--lr", "0.01", "--epochs", "3000")
    found = run("train", "--dataset", "my_graph", *flags, "--device", "cpu", "--out", "out")
    assert found.code == 130 and "interrupted; nothing unfinished was saved" in found.err
    assert 2 <= len(calls) < 1000 and list(Path("out").iterdir()) == []
    assert signal.getsignal(signal.SIGINT) is before
