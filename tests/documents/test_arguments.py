"""What has a value type, is empty or has no effect is refused before anything is read or spent."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas
import pytest
from command_line import refused
from document_tables import declared, public_rows, rows_of, write

import private_graphs
from private_graphs.core.errors import UsageError, UserError
from private_graphs.documents import predict, tables

WRONG = [
    ("classify", {"epsilon": value}) for value in ("1", None, True, [1], 1j)
] + [
    ("classify", {"epsilon": 1, "out": "o"} | value) for value in (
        {"dry_run": None}, {"dry_run": 0}, {"force": "no"}, {"contact": 5}, {"device": "tpu"},
        {"device": "cuda"}, {"say": 5}, {"data": b"x"}, {"out": ""}, {"out": 5}, {"method": ["x"]},
        {"out": "half\ud800"})
] + [
    ("add_spending", {"sentence": "s", "mu": 0.1} | value) for value in (
        {"mu": True}, {"mu": "x"}, {"sentence": None}, {"delta": None}, {"relation": "both"})
] + [
    ("declare", {"nodes": "n.csv", "text": "body", "label": "topic", "classes": "a,b"} | value)
    for value in (
        {"nodes": 5}, {"nodes": [{"body": "private"}]}, {"edges": np.ones(2)},
        {"text": b"body"}, {"text": [5]}, {"text": {"body": 1}}, {"label": b"topic"},
        {"classes": None}, {"classes": {"a", "b"}}, {"budget": "3"}, {"budget": True},
        {"budget": 1e308},
        {"drop_empty": "no"}, {"source": ""},
        {"encoding": None}, {"source": "a"}, {"unknown_edges": "drop"}, {"max_edges": 5},
        {"max_per_unit": 3})
] + [
    ("plan_releases", {"releases": value}) for value in (2.5, "3", True, None, 10**30)
]  # fmt: skip


@pytest.mark.parametrize(("verb", "options"), WRONG)
def test_what_has_a_wrong_type_or_no_effect_is_refused_and_spends_nothing(data, verb, options):
    declared("x", write(Path("n.csv"), rows_of(30)), budget=3)
    with pytest.raises(UsageError, match="--") as refusal:
        getattr(private_graphs, verb)("x", **options)
    assert "private" not in str(refusal.value)
    assert private_graphs.ledger("x").releases == []
    assert sorted(os.listdir()) == ["data", "n.csv"]


def test_numbers_and_columns_of_libraries_are_taken(data):
    columns = np.array(["body"])
    declaration = declared(
        "x", write(Path("n.csv"), rows_of(30)), text=columns, budget=np.float64(3)
    )
    assert declaration.budget == 3
    assert private_graphs.plan_releases("x", np.int64(2)).releases == 2
    assert private_graphs.epsilon(np.float32(2), np.int64(1)) > 0
    with pytest.raises(UsageError, match="epsilon: --noise-multiplier is '2'; expected float"):
        private_graphs.epsilon("2", 1)


@pytest.mark.parametrize("options", [
    {"model": "words"}, {"label": ""}, {"out": ""}, {"source": "a"}, {"data": 5}, {"shares": [0.1]},
    {"nodes": ["n.csv"]}, {"encoding": None}, {"progress": None}])  # fmt: skip
def test_an_option_of_predict_that_has_no_effect_is_refused(data, options):
    declared("x", write(Path("n.csv"), rows_of(60)), budget=3)
    private_graphs.classify("x", epsilon=1, out="o")
    with pytest.raises(UsageError, match=f"--{next(iter(options))}"):
        private_graphs.predict("o", **({"nodes": "n.csv", "out": "p.csv"} | options))
    assert not Path("p.csv").exists()
    for folders in ((), (5,), (b"o",)):
        with pytest.raises(UsageError, match="explain"):
            private_graphs.explain(*folders)
    for seed in (-1, 2.5, None):
        with pytest.raises(UsageError, match="--seed"):
            private_graphs.attack("o", seed=seed)


def test_an_encoding_is_for_tables_that_have_one_and_a_test_share_for_private_tests(data):
    table = pandas.read_csv(write(Path("n.csv"), rows_of(60)), dtype=str)
    table.to_parquet("n.parquet")
    for nodes in ("n.parquet", table):
        with pytest.raises(UsageError, match="--encoding: has no effect: no CSV file is read"):
            declared("x", nodes, encoding="latin-1")
    Path("words.txt").write_text("word\n")
    declared("x", "n.parquet", encoding="latin-1", vocabulary="words.txt")
    declared("x", "n.csv", encoding="latin-1")
    private_graphs.classify("x", epsilon=1, out="o")
    with pytest.raises(UsageError, match="--encoding: has no effect"):
        private_graphs.predict("o", nodes="n.parquet", encoding="latin-1")
    public = write(Path("p.csv"), public_rows(60))
    with pytest.raises(UsageError, match="--test-share: has no effect: public documents test"):
        declared("y", public, public="open", test_share=0.1)


def test_what_no_release_could_use_is_refused(data):
    empty = write(Path("n.csv"), [row | {"body": ""} for row in rows_of(60)])
    with pytest.raises(UserError, match="no document has a text"):
        declared("x", empty, drop_empty=True)
    public = [row | {"topic": "l" * 1001} for row in public_rows(30)] + public_rows(60)[30:]
    with pytest.raises(UserError, match="a class has a name of 1,001 characters"):
        declared("x", write(Path("n.csv"), public + rows_of(90)[60:]), public="open", classes=())


@pytest.mark.parametrize(("change", "words"), [
    ({"body": "!? ..."}, "60 documents without a letter or digit"),
    ({}, "no document tests: no release will say"),
    ({"note": " "}, "'note' has no text in any row"),
    ({"id": "D1"}, "1 value of 'id' unlike another one only in case"),
    ({"who": "P1"}, "1 value of 'who' unlike another one only in case")])  # fmt: skip
def test_what_a_release_could_learn_little_from_is_told(data, change, words):
    rows = rows_of(60)
    alone = {"id", "who"} & {*change}
    rows = [rows[0] | change, *rows[1:]] if alone else [row | change for row in rows]
    given = {"test_share": 1e-9} | ({"unit": "who"} if alone else {})
    given["text"] = ["body", *({"note"} & {*change})]
    warnings = declared("x", write(Path("n.csv"), rows), **given).warnings
    assert any(words in each for each in warnings)


def test_a_table_that_changes_while_it_is_declared_has_changed(run, data, monkeypatch):
    real = tables.read_documents

    def reading(*given):
        found = real(*given)
        write(Path("n.csv"), rows_of(80))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(tables, "read_documents", reading)
        assert declared("x", write(Path("n.csv"), rows_of(60)), budget=3).protected == 60
    assert "n.csv has changed" in run("classify", "x", "--epsilon", 1, "--dry-run").err


@pytest.mark.parametrize("words", [
    ("declare", "x", "--nodes", "n.csv", "--text", "body", "--text=topic", "--label", "topic"),
    ("predict", "R", "--nodes", "n.csv", "--out", "p.csv", "--nodes", "m.csv"),
    ("ledger", "show", "x", "--id", "a", "--id", "b"),
], ids=lambda words: words[0])  # fmt: skip
def test_an_option_that_is_given_twice_is_refused(run, data, words):
    """The library of the command line takes the last value in silence."""
    twice = next(word for word in words if word[:2] == "--" and str(words).count(word) > 1)
    refused(run(*words), 2, f"{twice}: is given twice")
    assert list(Path().glob("*.csv")) == []


def test_the_table_itself_is_no_public_list_of_words(data):
    nodes = write(Path("n.csv"), rows_of(60))
    Path("words.txt").symlink_to("n.csv")
    with pytest.raises(UsageError, match="--vocabulary: words.txt is the table of --nodes"):
        declared("x", nodes, vocabulary="words.txt")


def test_an_empty_word_of_the_command_line_is_refused(run, data):
    for options in (("--out", ""), ("--out=",)):
        answer = run("classify", "x", "--epsilon", 1, *options)
        refused(answer, 2, "--out", "an empty word")


def test_a_working_folder_that_is_gone_is_named(run, data, monkeypatch):
    Path("gone").mkdir()
    monkeypatch.chdir("gone")
    Path("../gone").rmdir()
    refused(run("ledger"), 1, "the folder that this command runs in: cannot be found")


@pytest.mark.parametrize(("error", "code", "words"), [
    (ModuleNotFoundError("No module named 'scipy.x'"), 1, "a library of this installation"),
    (SystemExit(143), 143, "interrupted")])  # fmt: skip
def test_what_ends_a_command_is_said(run, data, monkeypatch, error, code, words):
    def end(*_, **__):
        raise error

    monkeypatch.setattr(predict, "load", end)
    write(Path("n.csv"), rows_of(3))
    refused(run("predict", "o", "--nodes", "n.csv", "--out", "p.csv"), code, words)
