"""The benchmark of BERT embeddings in a small shape: its corpus, its table, its profile."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest


@pytest.fixture
def benchmark(root, monkeypatch):
    """The module of the command, with a model of another shape."""
    import embedding

    small = {"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
    monkeypatch.setattr(embedding, "SHAPE", {**embedding.SHAPE, **small, "intermediate_size": 96})
    monkeypatch.setattr(embedding, "PIECE_LETTERS", "abcdefgh")
    return embedding


def test_generated_texts_have_the_profile_and_two_pieces_per_word(benchmark, tmp_path):
    texts = benchmark.corpus(100, np.random.default_rng(0))
    assert len(texts.filled) + texts.empty == 100 * benchmark.COLUMNS
    assert (len(texts.filled), len(set(texts.filled)), texts.empty) == (1826, 1260, 3074)
    assert np.mean([len(text.split()) for text in texts.distinct]) == pytest.approx(7.9, abs=0.2)
    assert np.mean([len(text.split()) for text in texts.filled]) == pytest.approx(6.2, abs=0.2)
    benchmark.write_model(tmp_path)
    tokenizer = benchmark.BertEncoder(tmp_path, "cpu").tokenizer
    for text in texts.distinct[::100]:
        pieces = tokenizer.tokenize(text)
        assert len(pieces) == benchmark.PIECES_PER_WORD * len(text.split())
        assert "[UNK]" not in pieces


def test_the_command_prints_a_table_and_writes_json(benchmark, monkeypatch, capsys, tmp_path):
    out = tmp_path / "found.json"
    arguments = ["--users", "3", "--rounds", "1", "--sample", "5", "--threads", "1", "--layers"]
    monkeypatch.setattr(sys, "argv", ["embedding.py", *arguments, "1", "--json", str(out)])
    benchmark.main()
    printed = capsys.readouterr().out
    assert "one text at a time, all columns (the authors' code)" in printed
    assert "Printed by `python benchmarks/embedding.py --users 3" in printed
    assert (
        "| genuine excerpt, 100 users: filled | 4,900 | 1,826 | 1,260 | 6.2 | 4 | 14 |" in printed
    )
    assert "| generated, 3 users: distinct | 147 | 55 | 38 | " in printed
    found = json.loads(out.read_text())
    filled = found["wall"]["ratio_filled"]
    assert f"Against the filled columns alone it is {filled:.1f} x; the rest" in printed
    assert "the 92 empty columns, which the authors' loop" in printed
    assert ("No GPU was used: figures of one need one" in printed) == (found["gpu"] is None)
    assert found["difference"] <= benchmark.TOLERANCE and found["wall"]["ratio_all"] > 0


def test_what_is_said_about_the_excerpt_is_what_it_measures(benchmark, mirror):
    found = benchmark.profile(mirror / "pokec")
    assert (found["columns"], found["filled"], found["distinct"]) == (4900, 1826, 1260)
    at = [found["percents"].index(percent) for percent in (50, 90, 99, 100)]
    for name, (count, mean, *words) in benchmark.EXCERPT.items():
        lengths = found[f"words_{name}"]
        assert count == found[name] and mean == pytest.approx(lengths["mean"], abs=0.05)
        assert words == [round(lengths["percentiles"][i]) for i in at]
