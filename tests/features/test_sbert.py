"""Means of sentence vectors."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from text_graphs import text_graph

from private_graphs.core.errors import UserError
from private_graphs.datasets.views import PAPER, RELEASED
from private_graphs.documents.vectors import ModelVectors
from private_graphs.features.bert_files import check_sizes
from private_graphs.features.make import FeatureOptions, make_features
from private_graphs.features.sbert import SentenceEncoder
from private_graphs.features.tiny import tiny_sentence_bert


def sentence_means(graph, view, **options):
    return make_features(graph, "sbert", view, FeatureOptions(**options))


COLUMNS = {"a": ["psa", None, "kolo hory", " ", "psa"], "b": ["mačku", "", "a", None, "psa"]}


@pytest.fixture(scope="module")
def folder(labelled, tmp_path_factory):
    """A tiny sentence model on disk."""
    pytest.importorskip("sentence_transformers")
    return tiny_sentence_bert(labelled, RELEASED, tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("view", [RELEASED, PAPER], ids=lambda view: view.name)
def test_same_as_one_text_at_a_time(view, folder, no_network, tmp_path):
    graph = text_graph(COLUMNS)
    options = {"model": folder, "device": "cpu", "cache": tmp_path}
    found = sentence_means(graph, view, **options).values
    model = SentenceEncoder(folder, "cpu").model
    for node, row in enumerate(found):
        texts = [graph.column(name)[node] for name in COLUMNS]
        if view is PAPER:
            texts = [text for text in texts if text.strip()]
        vectors = [model.encode(text, show_progress_bar=False) for text in texts]
        expected = np.mean(vectors, axis=0) if vectors else np.zeros(len(row))
        np.testing.assert_allclose(row, expected, atol=1e-5)
    np.testing.assert_allclose(sentence_means(graph, view, **options).values, found, atol=1e-6)


def test_a_folder_without_a_model_is_refused(folder, tmp_path):
    with pytest.raises(UserError, match=r"modules\.json is missing"):
        SentenceEncoder(tmp_path, "cpu")
    (tmp_path / "modules.json").write_text("[{]")
    with pytest.raises(UserError, match="modules.json: is no list of parts"):
        SentenceEncoder(tmp_path, "cpu")


def test_weights_in_parts_in_another_format_or_shared_by_layers_are_weights(tmp_path):
    config = {"num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072,
              "vocab_size": 30_000, "max_position_embeddings": 512}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="config.json: declares 108,"):
        check_sizes(tmp_path / "config.json")
    for name, size in (("model-00001-of-00002.safetensors", 10**8), ("onnx/model.onnx", 10**7)):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
        os.truncate(file, size)  # a hole: no byte of it is on the disk
        assert check_sizes(tmp_path / "config.json") == config
        file.unlink()


def edited(file: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Return a damage of a model's folder: the content of a JSON file is another one."""

    def damage(folder: Path) -> None:
        for path in folder.rglob(file):
            content = json.loads(path.read_text())
            path.write_text(json.dumps(change(content) or content))

    return damage


def without(*parts: str) -> Callable[[Path], None]:
    """Return a damage of a model's folder: weights whose names have these parts are gone."""

    def damage(folder: Path) -> None:
        for path in folder.glob("*.safetensors"):
            kept = {name: weight for name, weight in load_file(path).items()
                    if not any(part in name for part in parts)}  # fmt: skip
            save_file(kept, path, metadata={"format": "pt"})

    return damage


def fast(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Return a damage of tokenizer.json, which the library reads as it stands."""

    def damage(folder: Path) -> None:
        edited("tokenizer.json", change)(folder)
        edited("tokenizer_config.json", lambda content: content.update(
            tokenizer_class="PreTrainedTokenizerFast"))(folder)  # fmt: skip

    return damage


PANICS = {"type": "Split", "pattern": {"Regex": "^(([a-z ,.?])+)+!!$"}, "behavior": "Isolated",
          "invert": False}  # fmt: skip
GROWING = {"type": "Sequence", "normalizers": [
    {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 28}  # fmt: skip
DAMAGES = {
    "layers": (edited("config.json", lambda content: content.get("num_hidden_layers")
                      and content.update(num_hidden_layers=5000)), "config.json: declares"),
    "width": (edited("config.json", lambda content: "embedding_dimension" in content
                     and content.update(embedding_dimension=10**9)),
              "1_Pooling/config.json: its sizes ask for 1,000,000,000 numbers"),
    "dense": (edited("config.json", lambda content: "out_features" in content
                     and content.update(out_features=10**9)), "2_Dense/config.json: its sizes ask"),
    "more layers": (edited("sentence_bert_config.json",
                           lambda content: content | {"config_kwargs": {"num_hidden_layers": 3}}),
                    "config_kwargs: would read or draw other weights"),
    "other words": (edited("sentence_bert_config.json",
                           lambda content: content | {"tokenizer_name_or_path": "/elsewhere"}),
                    "tokenizer_name_or_path: would read or draw"),
    "adapter": (lambda folder: (folder / "adapter_config.json").write_text('{"a": 1}'), "a: would"),
    "part elsewhere": (lambda folder: (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "../model.safetensors"}}'), "names '../model.safetensors'"),
    "part without a hash": (lambda folder: (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "weights.dat"}}'), "names 'weights.dat'; expected .safetens"),
    "weights without a hash": (edited("config.json", lambda content: "vocab_size" in content
        and content.update(transformers_weights="w.safetensors")), "transformers_weights is 'w.s"),
    "negative length": (edited("sentence_bert_config.json",
                               lambda content: content | {"max_seq_length": -1}),
                        "fails to read a text"),
    "length 0": (edited("sentence_bert_config.json",
                        lambda content: content | {"max_seq_length": 0}), "fails to read a text"),
    "more places": (edited("sentence_bert_config.json",
                           lambda content: content | {"max_seq_length": 10**6}),
                    "1,000,000 tokens would be read, and the model has vectors for 512 places"),
    "few weights": (without("layer.0", "word_embeddings"), "the weights lack"),
    "one weight": (without("layer.1.attention.self.query.weight"), "the weights lack 1 tensors"),
    "word beyond": (edited("tokenizer.json", lambda content: content["model"]["vocab"].update(
        {"kolo": 10**6})), "numbers up to 1,000,000, and the model vectors for"),
    "no words": (lambda folder: (folder / "tokenizer.json").unlink(), "the tokenizer has . tokens"),
    "few words": (fast(lambda content: content["model"].update(
        vocab={word: at for word, at in content["model"]["vocab"].items() if at < 20})),
        "the tokenizer has 20 tokens"),
    "no tokenizer": (edited("tokenizer.json", lambda _: {"a": 1}), "tokenizer.json: is no token"),
    "long pieces": (fast(lambda content: content["model"].update(
        continuing_subword_prefix="#" * 101)), "tokenizer.json: .*continuing_subword_prefix is ##"),
    "long words": (fast(lambda content: content["model"].update(
        max_input_chars_per_word=10**9)), "tokenizer.json: .*max_input_chars_per_word is 1000000"),
    "chance": (fast(lambda content: content["model"].update(dropout=0.5)), "its dropout reads"),
    "long padding": (edited("tokenizer_config.json", lambda content: content.update(
        pad_token="p" * 2_000_000)), "a special token of 2,000,000 characters"),
    "growth": (fast(lambda content: content.update(normalizer=GROWING)), "longer and longer"),
    "long prefix": (fast(lambda content: content.update(normalizer={"type": "Prepend",
                    "prepend": "w" * 64})), "longer and longer"),
    "panic": (fast(lambda content: content.update(pre_tokenizer=PANICS)), "fails to read a text"),
    "template": (fast(lambda content: content.update(post_processor=[{"id": "[CLS]"}] * 1000)),
                 "thousands of tokens"),
    "chat template": (lambda folder: (folder / "chat_template.jinja").write_text("{{ 'a' }}"),
                      "chat_template.jinja: is a chat template, a program"),
    "chat template by name": (edited("tokenizer_config.json", lambda content: content.update(
        chat_template="a")), "tokenizer_config.json: its key chat_template is a chat template"),
    "attention of its own": (edited("config.json", lambda content: "vocab_size" in content
        and content.update(_attn_implementation="flex_attention")), "_attn_implementation is 'fl"),
    "attention of a part": (edited("config.json", lambda content: "vocab_size" in content
        and content.update(text_config={"attn_implementation": "a/b"})), "expected eager or sdpa"),
    "prompt": (edited("config_sentence_transformers.json", lambda content: content.update(
        prompts={"q": "x " * 10**6}, default_prompt_name="q")), "a prompt has more than 10,000"),
    "number as prompt": (edited("config_sentence_transformers.json", lambda content: content.update(
        prompts={"q": 5})), "config_sentence_transformers.json: prompts is {'q': 5}, expected"),
    "one name": (edited("modules.json", lambda content: [part | {"name": "0"} for part in content]),
                 "modules.json: two parts have one name"),
    "another part": (edited("modules.json", lambda content: [part | {
        "type": "sentence_transformers.models.BoW"} for part in content]), "has the part BoW"),
    "parts without a path": (edited("modules.json", lambda content: [{"name": "0"}]),
                             "modules.json: is no list of parts"),
}  # fmt: skip
"""Name -> damage of a folder, and the words of the error."""


@pytest.mark.parametrize("name", DAMAGES)
def test_a_sentence_model_that_cannot_read_is_refused_before_a_release(folder, tmp_path, name):
    damage, words = DAMAGES[name]
    damage(copy := shutil.copytree(folder, tmp_path / "model"))
    with pytest.raises(UserError, match=f"model.*{words}"):
        _ = ModelVectors.find(str(copy), tmp_path).columns


def test_vectors_of_single_words_fit_their_tokenizer(tmp_path, no_network):
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[UNK]", "one", "two", "three"]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = np.eye(4, dtype=np.float32)
    part = modules.StaticEmbedding(tokenizer, embedding_weights=vectors)
    SentenceTransformer(modules=[part], device="cpu").save(str(tmp_path / "model"))
    found = ModelVectors.find(str(tmp_path / "model"), tmp_path, device="cpu")
    rows = found.rows(["one two", "three", "none"]).toarray()
    np.testing.assert_allclose(rows[:2], [[0, 0.5**0.5, 0.5**0.5, 0], vectors[3]], atol=1e-6)
    save_file({"embedding.weight": vectors[:3]}, tmp_path / "model" / "model.safetensors")
    with pytest.raises(UserError, match="with numbers up to 3, and the model vectors for 3"):
        _ = ModelVectors.find(str(tmp_path / "model"), tmp_path, device="cpu").columns


def test_tokens_that_lack_in_a_sentence_model_are_told(folder, tmp_path):
    assert not ModelVectors.find(str(folder), tmp_path).mismatch
    copy = shutil.copytree(folder, tmp_path / "model")
    fast(
        lambda content: content["model"].update(
            vocab={word: at for word, at in content["model"]["vocab"].items() if at % 20 or at < 20}
        )
    )(copy)
    assert "the tokenizer has" in ModelVectors.find(str(copy), tmp_path).mismatch


def test_a_sentence_model_with_code_of_its_own_or_a_linked_folder_is_refused(folder, tmp_path):
    for number, (file, change, words) in enumerate((
        ("config.json", {"activation_function": "this.s"}, "activation_function is 'this.s'"),
        ("modules.json", "modeling_x.Foo", "needs code of its own, which is never run"),
    )):  # fmt: skip
        copy = shutil.copytree(folder, tmp_path / f"model{number}")
        for path in copy.rglob(file):
            content = json.loads(path.read_text())
            if isinstance(content, list):
                content[-1]["type"] = change
            elif "activation_function" in content:
                content |= change
            path.write_text(json.dumps(content))
        with pytest.raises(UserError, match=f"model{number}.*{words}"):
            _ = ModelVectors.find(str(copy), tmp_path).columns
    copy = shutil.copytree(folder, tmp_path / "linked")
    [inner] = [path.parent for path in copy.rglob("config.json")
               if "activation_function" in path.read_text()]  # fmt: skip
    inner.rename(tmp_path / "elsewhere")
    inner.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=f"{inner}: is a link to a folder"):
        ModelVectors.find(str(copy), tmp_path)
