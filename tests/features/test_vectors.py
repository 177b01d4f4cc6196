"""Declared documents that a public model reads in place of words."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import private_graphs
from private_graphs.core.errors import UserError
from private_graphs.datasets.views import RELEASED
from private_graphs.documents.vectors import ModelVectors, _halves
from private_graphs.features.bert import BertEncoder
from private_graphs.features.tiny import tiny_sentence_bert


@pytest.fixture(scope="module")
def models(bert_folder, labelled, tmp_path_factory) -> dict[str, Path]:
    """A small model of each kind."""
    fasttext = pytest.importorskip("fasttext")
    pytest.importorskip("sentence_transformers")
    folder = tmp_path_factory.mktemp("vectors")
    words = folder / "words.txt"
    words.write_text("chain pedal wheel\nrose soil hedge\n" * 20)
    file = folder / "words.bin"
    trained = fasttext.train_unsupervised(str(words), dim=8, minCount=1, bucket=50, verbose=0)
    trained.save_model(str(file))
    sentences = tiny_sentence_bert(labelled, RELEASED, bert_folder.parent)
    return {"bert": bert_folder, "sbert": sentences, "fasttext": file}


LONG = " ".join(f"kolo{number % 7} hory" for number in range(700))
TEXTS = ["psa kolo", "", "hory a mačku", LONG, LONG[:-1] + "x", "chain", "字" * 900]


@pytest.mark.parametrize("kind", ["bert", "sbert", "fasttext"])
def test_a_row_is_a_function_of_its_own_text_to_the_bit(models, kind, no_network, tmp_path):
    found = ModelVectors.find(str(models[kind]), tmp_path, device="cpu")
    together = found.rows(TEXTS).toarray()
    for place, text in enumerate(TEXTS):
        alone = ModelVectors(found.name, found.digest, found.path, "cpu").rows([text]).toarray()
        np.testing.assert_array_equal(together[place], alone[0])
        assert np.linalg.norm(alone) <= 1 + 1e-12
    assert not together[1].any() and together[0].any() and together[3].any()
    count, longest = found.longer(TEXTS)
    assert (count, longest) == ((0, 0) if kind == "fasttext" else (3, 512))
    copy = shutil.copytree if models[kind].is_dir() else shutil.copy
    assert ModelVectors.find(str(copy(models[kind], tmp_path / f"m{models[kind].suffix}")),
                             tmp_path).digest == found.digest  # fmt: skip
    if kind == "bert":  # the library would read the parts
        (tmp_path / "m" / "model.safetensors").rename(tmp_path / "m" / "pytorch_model.bin")
        (tmp_path / "m" / "model.safetensors.index.json").write_text("{}")
        with pytest.raises(UserError, match="pytorch_model.bin: is a pickle"):
            ModelVectors.find(str(tmp_path / "m"), tmp_path)
    if kind == "sbert":  # words of SentencePiece
        (tmp_path / "m" / "sentencepiece.bpe.model").write_bytes(b"words")
        assert ModelVectors.find(str(tmp_path / "m"), tmp_path).digest != found.digest


def test_a_long_text_is_the_mean_over_windows_that_are_read_to_the_end(bert_folder, tmp_path):
    vectors = ModelVectors.find(str(bert_folder), tmp_path, device="cpu")
    encoder = BertEncoder(bert_folder, "cpu")
    halves = _halves(LONG)
    assert "".join(halves) == LONG and abs(len(halves[0]) - len(halves[1])) < 20
    windows = [part for half in halves for part in (_halves(half))]
    sizes = np.array([len(encoder.tokenizer(each)["input_ids"]) for each in windows])
    assert (sizes <= 512).all() and sizes.sum() > 1400
    mean = sizes @ encoder.encode(windows)["words"].astype(np.float64)
    [row] = vectors.rows([LONG]).toarray()
    np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-6)
    cut = encoder.encode([LONG])["words"][0]
    assert np.abs(row - cut / np.linalg.norm(cut)).max() > 1e-4


def table(path: Path, size: int) -> Path:
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "body", "topic"])
        for number in range(size):
            kind = number % 2
            body = ("chain pedal wheel", "rose soil hedge")[kind] if number else LONG
            writer.writerow([f"d{number}", body, ("bikes", "gardens")[kind]])
    return path


@pytest.mark.parametrize(("kind", "method"), [("bert", "class_sums"), ("fasttext", "dp_linear")])
def test_a_release_names_its_model_and_needs_it_to_predict(
    models, kind, method, run, tmp_path, monkeypatch, no_network
):
    monkeypatch.chdir(tmp_path)
    nodes, model = table(tmp_path / "n.csv", 80), models[kind]
    answer = run("declare", "x", "--nodes", nodes, "--text", "body", "--label", "topic",
                 "--classes", "bikes,gardens", "--model", model)  # fmt: skip
    assert answer.code == 0, answer.err
    assert ("1 document longer than the 512 tokens" in answer.err) == (kind == "bert")
    result = private_graphs.classify("x", epsilon=20, method=method, out="R")
    assert result.statement["features"] == f"vectors of {model.name}"
    digest = json.loads(Path("data/declared/x.json").read_text())["model_sha256"]
    assert digest in result.statement["preprocessing"]
    shared = b"".join(each.read_bytes() for each in Path("R/release").iterdir())
    assert digest.encode() in shared and str(model.parent).encode() not in shared
    shutil.copytree("R/release", "given-away")
    predict = ("predict", "given-away", "--nodes", nodes, "--out", "p.csv", "--label", "topic")
    answer = run(*predict)
    assert answer.code == 1 and "not at hand: give its folder or file with --model" in answer.err
    answer = run(*predict, "--model", models["sbert"])
    assert answer.code == 1 and "another model than the one that read" in answer.err
    answer = run(*predict, "--model", model, "--json")
    assert answer.code == 0 and answer.json["accuracy"] > 0.9, answer.err
    [name] = private_graphs.load("given-away", model=model).predict(["rose hedge soil"])
    assert name == "gardens"


def test_a_model_that_changed_or_is_none_is_refused_before_anything_is_spent(
    models, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    nodes = table(tmp_path / "n.csv", 40)
    given = dict(nodes=nodes, text="body", label="topic", classes=("bikes", "gardens"))
    file = shutil.copy(models["fasttext"], tmp_path / "words.bin")
    private_graphs.declare("x", **given, model=file)
    Path(file).write_bytes(models["fasttext"].read_bytes() + b"x")
    with pytest.raises(UserError, match="another model"):
        private_graphs.classify("x", epsilon=1, out="R")
    assert not Path("data/ledgers/releases.jsonl").exists()
    with pytest.raises(UserError, match="no such model; expected a folder"):
        private_graphs.declare("y", **given, model="nowhere")
    with pytest.raises(UserError, match="leave --vocabulary out"):
        private_graphs.declare("y", **given, model=models["fasttext"], vocabulary=nodes)
