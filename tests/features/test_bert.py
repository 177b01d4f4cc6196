"""Batched BERT vectors against one text at a time, and what is kept between runs."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from text_graphs import text_graph

from private_graphs.core.errors import UserError
from private_graphs.datasets.views import PAPER, RELEASED, SOUND
from private_graphs.documents.vectors import ModelVectors
from private_graphs.features import embedding
from private_graphs.features.bert import BertEncoder
from private_graphs.features.bert_cpu import PackedBert, packed_bert
from private_graphs.features.bert_files import load_model, load_tokenizer
from private_graphs.features.make import FeatureOptions, make_features

WORDS = ["psa", "mačku", "kolo", "xyz", "hory", "!", "a"]


def some_texts() -> list[str]:
    """Short and long, empty, of white space, repeated, and longer than the model reads."""
    generator = np.random.default_rng(3)
    texts = [" ".join(generator.choice(WORDS, i % 40)) for i in range(60)]
    return ["", "   ", "psa", "psa", "psa " * 700, "psa mačku " * 120, *texts]


def bert_means(graph, view, **options):
    return make_features(graph, "bert", view, FeatureOptions(**options))


def one_at_a_time(encoder: BertEncoder, text: str) -> tuple[np.ndarray, np.ndarray]:
    """The authors' recipe for one text, and the same without special tokens."""
    tokens = encoder.tokenizer(text, return_tensors="pt", truncation=True, max_length=512)
    with torch.no_grad():
        hidden = encoder.model(**tokens)[0]  # (1, tokens, width)
    words = hidden[:, 1:-1]
    masked = words.mean(dim=1) if words.shape[1] else torch.zeros(1, hidden.shape[2])
    return torch.mean(hidden, dim=1)[0].numpy(), masked[0].numpy()


@pytest.mark.parametrize("budget", [1, 64, 5000])
@pytest.mark.parametrize("way", ["packed", "padded"])
def test_batches_equal_one_text_at_a_time(way, budget, bert_folder):
    encoder = BertEncoder(bert_folder, "cpu", budget)
    assert encoder.packed is not None
    if way == "padded":
        encoder.packed = None
    texts = some_texts()
    found = encoder.encode(texts)
    for i, text in enumerate(texts):
        counted, masked = one_at_a_time(encoder, text)
        np.testing.assert_allclose(found["all_tokens"][i], counted, atol=1e-5)
        np.testing.assert_allclose(found["words"][i], masked, atol=1e-5)
    assert found["filled"].tolist() == [bool(text.strip()) for text in texts]


def test_texts_that_are_cut_or_unknown_are_counted_and_the_bound_is_told(bert_folder):
    encoder = BertEncoder(bert_folder, "cpu")
    longest = ["a " * (encoder.longest - 2), "a " * (encoder.longest - 1), "a " * 5000]
    lost = encoder.lost(["", "psa", "psa \u6f22", *longest])
    assert (lost["texts"], lost["texts_cut"], lost["texts_unknown"]) == (6, 2, 1)
    graph = text_graph({"one": ["psa " * 600, "psa", "kolo", "hory"]})
    made = bert_means(graph, SOUND, model=bert_folder, device="cpu")
    assert made.counts["texts_cut"] == 1
    assert any("first 512 tokens" in sentence for sentence in made.preprocessing)


@pytest.mark.parametrize("part", ["weight", "not finite"])
def test_packed_states_that_differ_are_not_used(part, bert_folder, monkeypatch):
    call = PackedBert.__call__
    wrong = {"weight": lambda states: states * 1.001, "not finite": lambda states: states * np.nan}
    monkeypatch.setattr(PackedBert, "__call__", lambda *each: wrong[part](call(*each)))
    assert packed_bert(load_model(bert_folder), 512) is None


@pytest.mark.parametrize("view", [RELEASED, PAPER, SOUND])
def test_pooling_is_the_authors_recipe_or_leaves_out_special_tokens_and_empty_columns(
    view, bert_folder
):
    columns = {"a": ["psa", None, "kolo hory", "  ", None], "b": ["mačku !", "", "a", None, "psa"]}
    graph = text_graph(columns)
    found = bert_means(graph, view, model=bert_folder, device="cpu").values
    encoder, masks = BertEncoder(bert_folder, "cpu"), view is not RELEASED
    for node, row in enumerate(found):
        texts = [graph.column(name)[node] for name in columns]
        vectors = [
            one_at_a_time(encoder, text)[masks] for text in texts if text.strip() or not masks
        ]
        expected = np.mean(vectors, axis=0) if vectors else np.zeros(encoder.width)
        np.testing.assert_allclose(row, expected, atol=1e-5)


WAYS = ["packed", "padded", "padded bf16"]


def encoder_of(way: str, folder) -> BertEncoder:
    """An encoder on the CPU; bf16 is what a GPU computes in."""
    encoder = BertEncoder(folder, "cpu")
    assert encoder.packed is not None
    if way != "packed":
        encoder.packed = None
    if way == "padded bf16":
        encoder.model.to(torch.bfloat16)
    return encoder


@pytest.mark.parametrize("way", WAYS)
def test_a_private_text_changes_the_row_of_its_own_node_alone(way, bert_folder, monkeypatch):
    import private_graphs.features.bert as module

    class Way(BertEncoder):
        def __new__(cls, folder, device):
            return encoder_of(way, folder)

    monkeypatch.setattr(module, "BertEncoder", Way)
    texts = some_texts()[2:]
    columns = {"a": texts, "b": texts[::-1], "c": texts[7:] + texts[:7]}
    before = bert_means(text_graph(columns), SOUND, model=bert_folder, device="cpu").values
    for other in (None, "hory " * 90, "xyz"):
        columns["b"] = [other, *texts[::-1][1:]]
        after = bert_means(text_graph(columns), SOUND, model=bert_folder, device="cpu").values
        np.testing.assert_array_equal(after[1:], before[1:])
        assert (after[0] != before[0]).any()


class Killed(Exception):
    """Stands for a run that is killed."""


def counting(monkeypatch, stop_after: int | None = None) -> list[str]:
    """Note each text that reaches the model; optionally stop after so many calls."""
    seen: list[str] = []
    calls = [0]
    encode = BertEncoder.encode

    def noted(self, texts):
        if calls[0] == stop_after:
            raise Killed
        calls[0] += 1
        seen.extend(texts)
        return encode(self, texts)

    monkeypatch.setattr(BertEncoder, "encode", noted)
    return seen


def test_equal_texts_are_embedded_once_and_other_views_only_what_is_new(
    bert_folder, tmp_path, monkeypatch
):
    seen = counting(monkeypatch)
    columns = {"a": ["psa", "psa", None, "kolo"], "pets": ["hory", "psa", "xyz", "hory"]}
    only = text_graph({"a": columns["a"]}, public=1)
    reports = []
    options = {"model": bert_folder, "cache": tmp_path, "device": "cpu"}
    bert_means(only, SOUND, **options, progress=lambda done, total: reports.append((done, total)))
    assert sorted(seen) == ["", "kolo", "psa"] and reports == [(3, 3)]
    seen.clear()
    both = text_graph(columns, public=1)
    bert_means(
        both, RELEASED, **options, progress=lambda done, total: reports.append((done, total))
    )
    assert sorted(seen) == ["hory", "xyz"] and reports[1:] == [(3, 5), (5, 5)]
    seen.clear()
    again = bert_means(both, SOUND, **options)
    assert seen == []
    fresh = bert_means(both, SOUND, model=bert_folder, device="cpu")
    np.testing.assert_array_equal(again.values, fresh.values)


def test_a_killed_run_resumes_with_the_missing_texts(bert_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "SHARD_TEXTS", 10)
    graph = text_graph({"a": some_texts()})
    distinct = set(graph.column("a"))
    with monkeypatch.context() as killed:
        before = counting(killed, stop_after=3)
        with pytest.raises(Killed):
            bert_means(graph, SOUND, model=bert_folder, cache=tmp_path, device="cpu")
    assert len(before) == 30
    after = counting(monkeypatch)
    found = bert_means(graph, SOUND, model=bert_folder, cache=tmp_path, device="cpu")
    assert set(after) == distinct - set(before) and len(after) == len(distinct) - 30
    fresh = bert_means(graph, SOUND, model=bert_folder, device="cpu")
    np.testing.assert_array_equal(found.values, fresh.values)


def changed_copy(folder, target):
    """A copy of the model folder."""
    return shutil.copytree(folder, target / "model")


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "model.safetensors"])
def test_a_missing_or_broken_file_is_named(name, bert_folder, tmp_path):
    folder = changed_copy(bert_folder, tmp_path)
    (folder / name).write_bytes(b"\xff\xfe broken")
    with pytest.raises(UserError, match=r"model"):
        BertEncoder(folder, "cpu")
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"{name} missing"):
        BertEncoder(folder, "cpu")


def test_weights_of_another_shape_are_not_drawn_at_random(bert_folder, tmp_path):
    folder = changed_copy(bert_folder, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["num_hidden_layers"] = 3
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"lack 16 tensors, such as encoder\.layer\.2"):
        load_model(folder)


@pytest.mark.parametrize(("change", "words"), [
    ({"num_hidden_layers": 300}, "config.json: declares [0-9,]* weights .num_hidden_layers 300,"),
    ({"hidden_size": 2000}, "config.json: declares"),
    ({"vocab_size": 10**6}, "config.json: declares"),
    ({"max_position_embeddings": 10**6}, "config.json: declares"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0; expected a whole number of at least 1"),
    ({"num_hidden_layers": "2"}, "num_hidden_layers is '2'"),
    ({"num_attention_heads": 0}, "num_attention_heads is 0"),
    ({"num_attention_heads": 7}, "num_attention_heads is 7, which does not divide"),
    ({"type_vocab_size": 10**9}, "type_vocab_size 1,000,000,000"),
    ({"num_hidden_layers": 1}, "tensors of layers that config.json does not have"),
    ({"model_type": "gpt2"}, "model_type is 'gpt2'"),
    ({"num_labels": 10**7}, "num_labels has 10,000,000 labels"),
    ({"is_decoder": True}, "is_decoder is True"),
    ({"add_cross_attention": True}, "add_cross_attention is True"),
    ({"transformers_weights": "other.safetensors"}, "transformers_weights is 'other.safetensors'"),
    ({"hidden_act": "x"}, "it has no 'x', which config.json"),
    ({"layer_norm_eps": math.nan}, "no finite numbers"),
    ({"chunk_size_feed_forward": 7}, "does not fit its weights or words|differ"),
])  # fmt: skip
def test_a_configuration_that_does_not_fit_its_weights_is_named(
    bert_folder, tmp_path, change, words
):
    folder = shutil.copytree(bert_folder, tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(UserError, match=f"{folder}.*({words})"):
        _ = ModelVectors.find(str(folder), tmp_path).columns


def test_a_vocabulary_that_lacks_a_line_is_told(bert_folder, tmp_path):
    assert ModelVectors.find(str(bert_folder), tmp_path).mismatch == ""
    folder = shutil.copytree(bert_folder, tmp_path / "bert")
    lines = (folder / "vocab.txt").read_text().splitlines()
    (folder / "vocab.txt").write_text("\n".join(lines[:-2] + lines[-1:]))
    mismatch = ModelVectors.find(str(folder), tmp_path).mismatch
    assert f"{len(lines) - 1} different tokens, and the model vectors for {len(lines)}" in mismatch


@pytest.mark.parametrize(("settings", "words"), [
    ([1], "is no JSON object"),
    ({"do_lower_case": None}, "do_lower_case is None, expected true or false"),
    ({"strip_accents": "no"}, "strip_accents is 'no', expected true or false"),
])  # fmt: skip
def test_settings_of_words_that_are_none_are_named(bert_folder, tmp_path, settings, words):
    folder = shutil.copytree(bert_folder, tmp_path / "bert")
    (folder / "tokenizer_config.json").write_text(json.dumps({"strip_accents": None}))
    load_tokenizer(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=f"tokenizer_config.json: {words}"):
        load_tokenizer(folder)


def test_an_adapter_of_other_weights_is_refused(bert_folder, tmp_path):
    folder = shutil.copytree(bert_folder, tmp_path / "bert")
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="adapter_config.json: would change the weights"):
        BertEncoder(folder, "cpu")


def test_weights_that_are_a_pickle_are_refused_unless_others_lie_beside_them(bert_folder, tmp_path):
    folder = shutil.copytree(bert_folder, tmp_path / "bert")
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    load_model(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="pytorch_model.bin: is a pickle, which is never read"):
        load_model(folder)


@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38])
def test_weights_that_are_no_finite_numbers_are_refused(bert_folder, tmp_path, value):
    folder = shutil.copytree(bert_folder, tmp_path / "bert")
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    weights[next(key for key in weights if "word_embeddings" in key)][5] = value
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="word_embeddings.weight have values that are no finite"):
        BertEncoder(folder)


def test_weights_with_the_names_of_the_published_files_are_read(bert_folder, tmp_path):
    folder = changed_copy(bert_folder, tmp_path)
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    old = {
        "bert."
        + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array + 0.01
        for name, array in weights.items()
    }
    old["cls.predictions.bias"] = np.zeros(4, dtype=np.float32)
    safetensors.numpy.save_file(old, folder / "model.safetensors", metadata={"format": "pt"})
    found = load_model(folder).state_dict()
    for name, array in weights.items():
        np.testing.assert_allclose(found[name].numpy(), array + 0.01, atol=1e-7)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: none is usable here")
def test_gpu_vectors_are_those_of_the_cpu_up_to_bf16(bert_folder):
    texts = some_texts()
    cpu, gpu = BertEncoder(bert_folder, "cpu"), BertEncoder(bert_folder, "cuda")
    assert cpu.fingerprint != gpu.fingerprint
    here, there = cpu.encode(texts), gpu.encode(texts)
    for name in ("all_tokens", "words"):
        assert there[name].dtype == np.float32
        np.testing.assert_allclose(there[name], here[name], atol=0.05)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: none is usable here")
def test_gpu_vectors_depend_on_their_own_text_alone_bit_for_bit(bert_folder):
    encoder, texts = BertEncoder(bert_folder, "cuda"), some_texts()
    together = encoder.encode(texts)["words"]
    chosen = np.random.default_rng(11).permutation(len(texts))[:17]
    found = encoder.encode([texts[i] for i in chosen])["words"]
    np.testing.assert_array_equal(found, together[chosen])
