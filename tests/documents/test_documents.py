"""Documents of an owner: declared, classified within a budget, predicted, explained."""

from __future__ import annotations

import csv
import json
import math
import multiprocessing
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import refused
from document_tables import CLASSES, declared, linked, public_rows, rows_of, write
from scipy.special import ndtr

import private_graphs
from private_graphs.core import entropy, memory
from private_graphs.core.errors import UsageError, UserError
from private_graphs.core.markup import plain_text
from private_graphs.core.streams import Streams
from private_graphs.datasets import typed_tables
from private_graphs.datasets.own import OwnGraph, remember
from private_graphs.documents import (
    answers,
    ledger,
    model_file,
    public_tables,
    rivals,
    unit_means,
    unit_steps,
    unit_sums,
    unit_words,
    vectors,
)
from private_graphs.documents import release as releases
from private_graphs.documents.accounts import (
    PUBLISHED,
    Account,
    Cost,
    documents_account,
    over_budget,
)
from private_graphs.documents.declaration import checked, default_delta, needed
from private_graphs.documents.hashing import HashedWords, PublicWords, tokens
from private_graphs.documents.ledger import BudgetLedger, OverBudget
from private_graphs.documents.link_accounts import links_account
from private_graphs.documents.link_tables import read_links
from private_graphs.documents.links import PlannedVotes
from private_graphs.documents.model import ReleasedModel
from private_graphs.documents.noise import NoiseKey
from private_graphs.documents.plans import lines_of
from private_graphs.documents.release import Quality, classify
from private_graphs.documents.tables import TEST, TRAINING, keyed, read_documents
from private_graphs.documents.vectors import TextReader
from private_graphs.mechanisms.door import Door, ReleaseMismatch
from private_graphs.mechanisms.replay import replay
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu, lattice_epsilon
from private_graphs.privacy.composition import together
from private_graphs.privacy.dp_events import DpEvents
from private_graphs.report.explained import PAGE

# --- the path of an owner -----------------------------------------------------------------------


def test_the_path_from_declare_to_predict_keeps_the_budget(run, root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nodes = root / "examples" / "my_graph" / "nodes.csv"
    flags = ("--nodes", nodes, "--text", "title,body", "--label", "topic", "--classes",
             "bicycles,gardens,radios", "--budget", 1.5)  # fmt: skip
    answer = run("declare", "bar", *flags)
    assert answer.code == 0 and len(answer.out.splitlines()) == 6, answer.err
    assert "nobody" in answer.out and "1e-05" in answer.out
    answer = run("classify", "bar", "--epsilon", 1, "--dry-run")
    assert answer.code == 0 and not Path("data/ledgers/releases.jsonl").exists()
    answer = run("classify", "bar", "--epsilon", 1, "--out", "A")
    assert answer.code == 0 and "standard error" in answer.out, answer.err
    refused(run("classify", "bar", "--epsilon", 1.1, "--out", "B"), 3, "over the budget", "at 1.04")
    answer = run("classify", "barr", "--epsilon", 1)
    refused(answer, 2, "'barr' is not declared in", "did you mean 'bar'?")
    assert run("declare", "bar2", *flags).code == 0
    refused(run("classify", "bar2", "--epsilon", 1.1, "--out", "B"), 3, "releases of 'bar' had")
    assert not Path("B").exists()
    found = run("ledger", "bar", "--json").json
    assert set(found) == {
        "graph", "unit", "delta", "budget", "spent", "links", "left", "releases"
    }  # fmt: skip
    assert 0.99 < found["spent"] <= 1.0 and len(found["releases"]) == 1
    refused(run("classify", "bar", "--epsilon", 0.2, "--out", "A"), 2, "earlier run", "--force")

    assert stat.S_IMODE(Path("A/private").stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in Path("A/private").iterdir()} == {0o600}
    for folder in ("A/private", "data/declared", "data/ledgers"):
        assert Path(folder, ".gitignore").read_text() == "*\n"
    public = Path("A/release/predictions.csv").read_text()
    assert public.startswith('"id","class","score",') and public.count("\n") == 1, "nobody"
    assert len(Path("A/private/predictions.csv").read_text().splitlines()) == 1201
    shutil.copytree("A/release", tmp_path / "elsewhere")
    answer = run("predict", tmp_path / "elsewhere", "--nodes", nodes, "--out", "p.csv", "--label",
                 "topic", "--json")  # fmt: skip
    # the noise is fresh: .636 ± .029 over 60 releases, which fails less than once in 10^9 runs
    assert answer.json["documents"] == 1200 and answer.json["accuracy"] > 0.45
    with open("p.csv") as stream:
        predicted = list(csv.DictReader(stream))
    assert list(predicted[0])[:3] == ["id", "class", "score"] and len(predicted) == 1200
    with open(nodes) as stream:
        texts = [f"{row['title']}\n{row['body']}" for row in csv.DictReader(stream)]
    classes = private_graphs.load("A/release").predict(texts)
    assert [row["class"] for row in predicted] == list(classes)
    explained = run("explain", "A", "A/release/statement.json", "--full")
    assert explained.code == 0 and "All together" in explained.out and "= 0.9999" in explained.out


def assert_explained_as_the_page_says(told: str, page: str) -> None:
    """The sections about the guarantee, word by word, without the formula of the proof."""
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    shown = " ".join(told.split())
    for heading in PAGE:
        assert heading in shown and " ".join(plain_text(sections[heading]).split()) in shown
    assert "\nProof" not in told


def damaged(_) -> None:
    raise UserError("the ledger is damaged")


def test_predicted_classes_are_closed_to_others_and_say_what_they_are(
    run, data, tmp_path, monkeypatch
):
    """They are the bytes of private/predictions.csv: exact functions of protected texts."""
    rows = rows_of(60)
    nodes = write(tmp_path / "n.csv", rows)
    declared("x", nodes, unit="who")
    classify("x", epsilon=1.5, out="R")
    more = [*rows, {"id": "new", "body": "chain", "who": "nobody", "topic": ""}]
    table = write(tmp_path / "more.csv", [*more, rows[0], more[-1]])
    Path("p.csv").write_text('"id","class","score"\n')  # older, and open to all
    for flags in ((), ("--json",)):
        answer = run("predict", "R/release", "--nodes", table, "--out", "p.csv", *flags)
        text = answer.json["warning"] if flags else answer.out
        assert "exact function of its text, which no epsilon covers" in text
        assert "the ledger protects 60 of these 61 ids" in text
        assert stat.S_IMODE(Path("p.csv").stat().st_mode) == 0o600
    assert answer.json["protected"] == 60
    kept = Path("p.csv").read_bytes()
    with monkeypatch.context() as broken:
        broken.setattr(ledger.BudgetLedger, "entries", damaged)
        told = run("predict", "R/release", "--nodes", table, "--out", "q.csv", "--json").json
    assert Path("q.csv").read_bytes() == kept and told["protected"] is None
    assert "are protected is not known: the ledger is damaged" in told["warning"]
    run("predict", "R/release", "--nodes", nodes, "--out", "p.csv")
    told = Path("R/private/predictions.csv").read_text().splitlines()
    assert sorted(Path("p.csv").read_text().splitlines()) == sorted(told)
    elsewhere = ("--data", tmp_path / "other" / "raw")
    answer = run("predict", "R/release", "--nodes", nodes, "--out", "p.csv", *elsewhere)
    assert "no epsilon covers" in answer.out and "ledger" not in answer.out
    assert not (tmp_path / "other").exists(), "a ledger is made by a release alone"
    assert "no epsilon covers" in run("predict", "--help").out


def test_odd_tables_go_unedited_from_declare_to_explain(run, root, data, tmp_path):
    script = root / "examples" / "make_letters.py"
    subprocess.run([sys.executable, script, tmp_path, "--size", "300", "--odd"], check=True)
    departments = "surgery,cardiology,neurology,paediatrics,oncology,orthopaedics,psychiatry"
    flags = ("--nodes", "letters.csv", "--edges", "links.csv", "--text", "title,text", "--label",
             "department", "--unit", "patient", "--classes", departments)  # fmt: skip
    refused(run("declare", "odd", *flags), 1, "no text", "--drop-empty")
    refused(run("declare", "odd", *flags, "--drop-empty"), 1, "id of no document")
    answer = run("declare", "odd", *flags, "--drop-empty", "--unknown-edges", "drop")
    assert answer.code == 0, answer.err
    assert "3 documents without text" in answer.out and "links given twice" in answer.out
    assert "of a document that is dropped" in answer.out
    assert run("classify", "odd", "--epsilon", 2, "--out", "R").code == 0
    assert run("predict", "R/release", "--nodes", "letters.csv", "--out", "p.csv").code == 0
    explained = run("explain", "R/release")
    assert explained.code == 0 and "person" in explained.out
    assert_explained_as_the_page_says(explained.out, Path("R/release/README.md").read_text())
    shown = b"".join(path.read_bytes() for path in Path("R/release").iterdir())
    assert b"L000" not in shown and "Müller".encode() not in shown


def test_ids_that_look_alike_spend_from_one_budget_and_none_is_public_and_private(data, tmp_path):
    rows = rows_of(60)
    rows[0]["who"], rows[3]["who"], rows[5]["who"] = "Ren\u00e9", "Rene\u0301", "P3"
    rows[7]["id"] = "\u00e4"
    found = declared("x", write(tmp_path / "n.csv", rows), unit="who")
    for name in ("document", "link"):  # which pages and ledger say of what is no person
        with pytest.raises(UsageError, match=f"--unit: is '{name}'|unit is '{name}'"):
            declared("x", tmp_path / "n.csv", unit=name)
    assert stat.S_IMODE(found.file.stat().st_mode) == 0o600
    assert found.protected == 32, "Ren\u00e9 is one person in two Unicode forms"
    assert any("only in case" in each for each in found.warnings)
    classify("x", epsilon=1, out="R")
    later = write(tmp_path / "later.csv", [rows[7] | {"id": "a\u0308", "who": "q"}])
    declared("y", later, delta=1e-5)
    with pytest.raises(OverBudget, match="would be"):
        classify("y", epsilon=1, out="S")
    plan = classify("y", epsilon=1, dry_run=True).plan
    assert any(line.startswith("refused") for line in plan)
    (tmp_path / "open").mkdir()
    write(tmp_path / "open" / "a.csv", [rows[1]])
    with pytest.raises(UserError, match="is in n.csv too"):
        declared("z", tmp_path / "n.csv", classes=(), public_files="open")
    rows[15]["id"] = "d\u200b14"
    with pytest.raises(UserError, match="lines 16 and 17: the ids .* look the same"):
        declared("z", write(tmp_path / "n.csv", rows))


def test_what_a_release_protected_is_not_made_public_and_a_larger_budget_is_said(
    data, tmp_path, monkeypatch
):
    train_and_test = ("d4", "d6")
    rows = [row | {"open": "yes" if row["id"] in train_and_test else ""} for row in rows_of(60)]
    nodes = write(tmp_path / "n.csv", rows)
    declared("x", nodes)
    declared("late", nodes, public="open")
    planned = releases.planned_release

    def overtaken(spec, *others):
        plan = planned(spec, *others)
        if spec.name == "late":
            classify("x", epsilon=1, out="R")
        return plan

    with monkeypatch.context() as patch:
        patch.setattr(releases, "planned_release", overtaken)
        with pytest.raises(UserError, match="2 public documents"):
            classify("late", epsilon=0.1, out="S")
    assert [each.graph for each in BudgetLedger(data).entries()] == ["x"]
    with pytest.raises(UserError, match="release of 'x' .* protected 2 public documents .*'d4'"):
        declared("y", nodes, public="open")
    for dry_run in (True, False):
        with pytest.raises(UserError, match="2 public documents"):
            classify("late", epsilon=0.1, out="S", dry_run=dry_run)
    (tmp_path / "open").mkdir()
    write(tmp_path / "open" / "o.csv", rows[:1])
    others = write(tmp_path / "others.csv", rows_of(60, 100))
    with pytest.raises(UserError, match="1 public document .*'d0'"):
        declared("y", others, public_files="open")
    assert declared("y", others).warnings == declared("x", nodes).warnings == ()
    for more in (2, None):
        assert any("budget of 1.5" in each for each in declared("z", nodes, budget=more).warnings)


def test_nobody_is_public_and_no_class_is_read_off_private_labels(data, tmp_path):
    nodes = write(tmp_path / "n.csv", rows_of(40))
    with pytest.raises(UserError, match="--classes"):
        declared("x", nodes, classes=())
    rows = rows_of(40)
    for number, row in enumerate(rows):
        row["open"] = "yes" if number < 9 else "no"
        row["topic"] = "secret" if number == 39 else row["topic"]
    nodes = write(tmp_path / "n.csv", rows, delimiter=";")
    found = declared("x", nodes, classes=(), public="open", unit="who")
    assert "secret" not in found.classes and found.public == 8, "half of p4 is private"
    assert any("count as unlabelled" in each for each in found.warnings)
    result = classify("x", epsilon=1, out="R")
    ids = {
        line.split('"')[1] for line in Path("R/release/predictions.csv").read_text().splitlines()
    }
    assert ids == {"id", *(f"d{number}" for number in range(8))}
    assert result.quality is None or result.quality.verdict == "cannot tell"


def test_what_would_be_spent_for_nothing_or_protect_less_is_said(data, tmp_path):
    rows = [row | {"who": "" if number < 7 else row["who"], "topic": f"{row['topic']}Ö\u200b!"}
            for number, row in enumerate(rows_of(40))]  # fmt: skip
    nodes = write(tmp_path / "n.csv", rows)
    with pytest.raises(UserError, match="'bikesÖ.u200b!'.* did you mean 'bikesÖ"):
        declared("x", nodes)
    rows[0]["topic"] = "bikes"
    found = declared("x", write(nodes, rows), unit="who")
    alone, outside, unused = found.warnings
    assert found.protected == 24 and "7 documents" in alone and "39 labels" in outside
    assert "'gardens', 'radios'" in unused
    unlabelled = write(nodes, [row | {"topic": ""} for row in rows])
    assert len(declared("x", unlabelled).warnings) == 1, "no label at all: all are predicted"


def test_a_name_means_one_thing(data, tmp_path):
    nodes = write(tmp_path / "n.csv", rows_of(20))
    own = {"name": "posts", "nodes": nodes, "edges": nodes, "text": "body", "label": "topic"}
    remember(OwnGraph.model_validate(own), data.parent / "own")
    for name in ("posts", "cora"):
        with pytest.raises(UsageError, match=f"'{name}' is the name of another dataset"):
            declared(name, nodes)


def test_numbers_that_became_decimals_and_too_few_units_are_said(data, tmp_path):
    rows = [row | {"who": f"{number}.0"} for number, row in enumerate(rows_of(20))]
    [warning] = declared("x", write(tmp_path / "n.csv", rows), unit="who").warnings
    assert "'0.0'" in warning and "0 and 0.0 for two people" in warning
    one = next(row for row in rows if keyed("sides", [row["id"]])[0] < 0.2 * 2**64)
    declared("few", write(tmp_path / "few.csv", [one]))
    with pytest.raises(UserError, match="1 document, of whom none trains"):
        classify("few", epsilon=1, out="R")


@pytest.mark.parametrize("name", ["nan", "NULL", "?", "\uff1f"])
def test_persons_who_are_called_like_a_missing_value_are_said(data, tmp_path, name):
    rows = rows_of(60)
    for row in rows[::2]:
        row["who"] = name
    nodes = write(tmp_path / "n.csv", rows)
    found = declared("x", nodes, unit="who", max_per_unit=5)
    assert found.dropped["document beyond 5 of one who"] == 25
    [said] = [each for each in found.warnings if "looks like a missing value" in each]
    assert said.startswith("30 documents with 'who'") and "leave the field empty" in said


def test_fewer_of_many_units_test_and_none_where_the_owner_has_tests(data, tmp_path):
    def tested(size: int, **more) -> set[str]:
        nodes = write(tmp_path / f"{size}.csv", rows_of(size))
        docs = read_documents(checked(dict(
            name="x", nodes=nodes, text=("body",), label="topic", classes=CLASSES, **more
        )))  # fmt: skip
        return {docs.units[unit] for unit in docs.units_on(TEST)}

    few, many = tested(2999), tested(3000)
    assert 0.17 < len(few) / 2999 < 0.23 and 0.08 < len(many) / 3000 < 0.12
    assert {unit for unit in many if unit != "d2999"} <= few, "who still tests did so before"
    assert not tested(3000, test_share=0.0)
    declared("every", write(tmp_path / "n.csv", rows_of(60)), test_share=0)
    result = classify("every", epsilon=1, out="R")
    assert result.quality is None and (tmp_path / "R/release/model.safetensors").is_file()
    with pytest.raises(UsageError, match="--test-share"):
        declared("most", tmp_path / "n.csv", test_share=0.9)


def test_the_delta_follows_from_the_number_of_units():
    assert [default_delta(n) for n in (1, 10, 11, 1200, 40_000)] == [0.1, 0.01, 1e-3, 1e-5, 1e-6]
    assert all(default_delta(n) * 10 * n <= 1 for n in range(1, 2000))


# --- what one unit changes ----------------------------------------------------------------------


def test_a_public_mark_of_a_private_person_decides_nothing(data):
    """Else one document more of one person moved all others from test to training."""
    rows = rows_of(400)
    written = [*rows, {**rows[0], "id": "more", "open": "yes"}]
    sides, pages = [], []
    for name, table in (("base", rows), ("mixed", written)):
        declared(name, write(Path(f"{name}.csv"), table), unit="who", public="open", budget=None)
        sides.append(read_documents(needed(name, data)).sides)
        private_graphs.classify(name, epsilon=1, out=name)
        pages.append(Path(name, "release", "README.md").read_text())
    assert (sides[0] == sides[1]).all() and set(sides[0].tolist()) == {TRAINING, TEST}
    for page in pages:
        assert "Tests: a fifth of the units" in page and "No document is public" in page


def test_what_is_kept_of_a_unit_depends_on_its_own_ids_alone(tmp_path):
    rows = [{"id": f"d{n}", "who": f"p{n % 4}", "body": "a b", "topic": ""} for n in range(40)]
    spec = dict(name="x", text=("body",), label="topic", unit="who", classes=CLASSES)
    kept, sides = {}, {}
    for name, every in {"a": rows, "b": [row for row in rows if row["id"] != "d0"][::-1]}.items():
        spec["nodes"] = write(tmp_path / f"{name}.csv", every)
        docs = read_documents(checked(spec))
        kept[name] = {docs.ids[row] for row in docs.on(TRAINING, TEST)}
        sides[name] = dict(zip(docs.units, docs.sides, strict=True))
    others = {row["id"] for row in rows if row["who"] != "p0"}
    assert kept["a"] & others == kept["b"] & others and len(kept["a"]) == 20
    assert sides["a"] == sides["b"]


SIZES = (unit_sums.PublicTexts(), 10, 3, 1.0, 1e-5, "person")
SUMS, STEPS = unit_means.ClassSums.of(*SIZES), unit_steps.LinearSteps.of(*SIZES)
WORD_SUMS = unit_words.WordSums.of(*SIZES)
NONE = np.zeros(0, np.int64)
OTHERS = [("chain pedal", 0), ("rose soil", 1), ("", -1), ("dial tube coil", 2)]


def terms_of(units: list[list[tuple[str, int]]]) -> unit_sums.Terms:
    flat = [(text, label, place) for place, own in enumerate(units) for text, label in own]
    texts, labels, places = zip(*flat, strict=True)
    return unit_sums.Terms(list(texts), np.array(labels), np.array(places))


@pytest.fixture
def few_steps(monkeypatch):
    monkeypatch.setattr(unit_steps, "STEPS", 4)


@pytest.mark.parametrize("kind", map(releases.training_of, releases.METHODS), ids=releases.METHODS)
def test_a_replaced_unit_moves_the_averaged_sums_by_their_sensitivity_at_most(data, kind):
    training = kind.of(*SIZES)

    def release(units, watch):
        door = Door.of([Streams.of({"test": 1})], watch)
        weights, sizes = training.weights(terms_of(units), unit_sums.Terms([], NONE, NONE), door)
        door.close()
        return {"weights": weights, "sizes": sizes}

    rest = [[each, OTHERS[0]] for each in OTHERS] * 3
    same = [("the same words", 0)] * 5
    neighbours = [
        [[("the same words", 1)], *rest],  # attains sqrt 2
        [[("other", 1), ("words", 2), ("still", 0)], *rest],
        [[("chain " * 5000, 2)] * 40, *rest],
        [[("x", -1)], *rest],
        [[(f"w{n}", n % 3) for n in range(200)], *rest],
    ]
    found = replay(release, [same, *rest], neighbours, made_up=True)
    assert found.passed, found.differs
    assert found.largest_ratio == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("sums", [
    lambda terms: terms.sum(SUMS.features, 3, SUMS.lattice),
    lambda terms: terms.sum(WORD_SUMS.features, 3, WORD_SUMS.lattice, WORD_SUMS.SHARE),
    lambda terms: STEPS.sums(terms).exact(np.linspace(-9, 9, 195).reshape(65, 3)),
], ids=["class_sums", "word_sums", "dp_linear"])  # fmt: skip
def test_a_unit_is_rounded_by_itself(sums, monkeypatch):
    for module in (unit_sums, unit_steps):
        monkeypatch.setattr(module, "_BLOCK", 7)
    units = [[(f"w{n} w{n + place} again", place % 3) for n in range(3)] for place in range(40)]
    alone = sum(sums(terms_of([each])) for each in units)
    np.testing.assert_array_equal(sums(terms_of(units)), alone)
    assert not sums(terms_of([[("x", -1)]])).any(), "a unit without a label adds nothing"


def test_a_unit_has_the_clip_norm_in_a_step_at_most():
    units = [[(f"w{n} again", n % 3)] * (n % 4 + 1) for n in range(40)]
    weights = np.linspace(-9, 9, 195).reshape(65, 3)
    sizes = [
        np.linalg.norm(STEPS.sums(terms_of([each])).exact(times * weights)) / 2.0**36
        for each in units for times in (0, 1, -1)
    ]  # fmt: skip
    assert 0.4999 < max(sizes) <= unit_steps.CLIP_NORM


@pytest.mark.parametrize("kind", map(releases.training_of, releases.METHODS), ids=releases.METHODS)
def test_units_of_every_class_are_counted(kind):
    units = terms_of([[("x", each)] for each in (0,) * 10 + (1,) * 20 + (2,) * 30])
    training = kind.of(unit_sums.PublicTexts(), 60, 3, 100.0, 1e-5, "document")
    door = Door.of([Streams.of({"t": 1})])
    _, sizes = training.weights(units, unit_sums.Terms([], NONE, NONE), door)
    assert sizes == pytest.approx([10, 20, 30], abs=5)


def neighbours_of(rows: list[dict[str, str]], people: list[str]) -> list[list[dict[str, str]]]:
    """Tables in which a person has one document less, or all of it are others: of another class, of
    a class that nobody else has, without a text."""
    found = []
    for who in people:
        last = [row["id"] for row in rows if row["who"] == who][-1]
        found.append([row for row in rows if row["id"] != last])
        for changed in (
            {"body": "dial coil", "topic": "gardens"}, {"body": "xylophone", "topic": "kites"},
            {"body": "", "topic": "bikes"},
        ):  # fmt: skip
            found.append([row | changed if row["who"] == who else row for row in rows])
    return found


def reader(*_) -> TextReader:
    """A public model that reads three words of a text."""

    def encode(texts):
        return np.array([np.bincount([ord(each) % 5 for each in text], minlength=5)
                         for text in texts]).reshape(-1, 5).astype(float)  # fmt: skip

    return TextReader(encode, 5, lambda texts: np.array([len(each.split()) for each in texts]), 3)


@pytest.mark.parametrize(("public", "method"), [
    (False, "word_sums"), (True, "word_sums"), (False, "class_sums"), (False, "dp_linear"),
])  # fmt: skip
def test_a_replayed_release_reads_a_person_through_the_door_alone(
    run, data, tmp_path, public, method, few_steps, monkeypatch
):
    """Neighbours are tables: files, output, exit codes and ledger follow from ids and the tape."""
    rows = [
        row | {"open": "yes" if public and number > 39 else "", "topic": CLASSES[number // 2 % 3]}
        for number, row in enumerate(rows_of(120))  # of each class the same number
    ]
    given = dict(unit="who", classes=(*CLASSES, "kites"), budget=3, drop_empty=True, public="open")
    if method != "word_sums":  # by a model, which reads some texts in parts
        (tmp_path / "m.bin").write_bytes(b"model")
        monkeypatch.setitem(vectors._READERS, "fasttext", reader)
        given |= {"model": tmp_path / "m.bin"}
    classify = ("classify", "x", "--epsilon", 2, "--method", method)
    of, fresh = Door.of, iter(range(10**6))
    monkeypatch.setattr(entropy, "urandom", bytes)  # equal keys and names of releases
    hidden = "private_graphs.documents.release.published_fingerprint"  # by a key that nobody keeps
    monkeypatch.setattr(hidden, lambda _, key: "0" * 2 * len(key))
    monkeypatch.setattr(NoiseKey, "derived", lambda _, purpose: purpose.encode()[:32])  # likewise

    def released(rows, watch):
        monkeypatch.setattr(Door, "of", lambda lanes, *_: of(lanes, watch))
        folder = tmp_path / str(next(fresh))
        folder.mkdir()
        monkeypatch.chdir(folder)
        declared("x", write(Path("n.csv"), rows), **given)  # it returns counts for the owner
        told = run(*classify, "--out", "R")
        assert told.code == 0, told.err
        files = {path.name: path.read_bytes() for path in Path("R/release").iterdir()}
        return {"told": told, "files": files}

    write(Path("n.csv"), rows)
    spec = checked(dict(name="x", text=("body",), label="topic", unit="who", public="open",
                        classes=CLASSES, nodes=Path("n.csv")))  # fmt: skip
    docs = read_documents(spec)
    people = [docs.units[unit].removeprefix("unit\0") for side in (TRAINING, TEST)
              for unit in docs.units_on(side)[:1]]  # fmt: skip
    assert len(people) == (1 if public else 2)
    neighbours = neighbours_of(rows, people)
    if not public:  # where an exact number of documents, or of units, would turn the verdict
        fewest = len(docs.on(TEST) if method == "word_sums" else docs.units_on(TEST))
        monkeypatch.setattr(releases, "FEWEST", fewest)
    some = neighbours if method == "word_sums" else [*neighbours[::3], *neighbours[7:]]
    found = replay(released, rows, some, made_up=True, files=False)
    assert found.passed, found.differs
    assert 0.7 < found.largest_ratio <= 1

    def told(rows):
        write(Path("n.csv"), rows)
        spent = run("ledger", "x", "--json")
        dry, refused = run(*classify, "--dry-run"), run(*classify, "--out", "S")
        assert (spent.code, dry.code, refused.code) == (0, 0, 3)
        # that the file is another one is told to who runs the command, and nothing of what it says
        changed = re.compile("note: n.csv has changed .*\n")
        return [(each.out, changed.sub("", each.err)) for each in (spent, dry, refused)]

    assert len({repr(told(every)) for every in (rows, *neighbours)}) == 1


@pytest.mark.parametrize("method", releases.METHODS)
@pytest.mark.parametrize("public", ["open", None])
def test_a_plan_follows_from_ids_and_is_charged_in_full(data, tmp_path, public, method):
    rows = [row | {"open": "yes" if number > 39 else ""} for number, row in enumerate(rows_of(60))]
    given = dict(name="x", text=("body",), label="topic", classes=CLASSES, public=public)
    plans = []
    for every in (rows, [row | {"topic": ""} for row in rows]):
        spec = checked(given | {"nodes": write(tmp_path / "n.csv", every)})
        docs, ledger = read_documents(spec), BudgetLedger(data)
        plans.append(releases.planned_release(spec, docs, ledger, 100.0, method))
    plan, other = plans
    for read in (lambda plan: plan.queries, lambda plan: getattr(plan.training, "n_units", 0)):
        assert read(plan) == read(other), "columns, noise and caps follow from ids, not from labels"
    priced = [cost for cost in plan.costs.values() if cost is not PUBLISHED]
    assert (len(priced), len(plan.costs)) == ((1, 3) if public else (2, 2))
    for cost in priced:
        entered = lattice_epsilon(cost.mu, cost.distance, plan.delta)[0]
        assert 98 < entered <= 100, "all releases of a side together"


def test_clipping_a_sum_instead_would_break_the_sensitivity():
    """Same text, all classes but one, against the last class alone: 2 sqrt(1 - 1/K)."""
    one, lattice = np.eye(7) - 1 / 7, np.sqrt(1 - 1 / 7)
    summed = one[:6].sum(axis=0)
    clipped = summed * min(1.0, lattice / np.linalg.norm(summed))
    assert np.linalg.norm(clipped - one[6]) == pytest.approx(2 * lattice) and 2 * lattice > 1.8


def test_the_counts_of_a_unit_move_by_sqrt_2_at_most():
    rng = np.random.default_rng(0)
    vectors = []
    for size in (1, 2, 5) * 40:
        labels = rng.integers(-1, 3, size)
        cells = answers.answers_of(rng.integers(0, 3, size), labels, np.zeros(size, int), 3)
        vectors.append(cells.sum(axis=0))
    apart = max(np.linalg.norm(a - b) for a in vectors for b in vectors)
    assert apart == pytest.approx(np.sqrt(2))


def test_answers_by_class_are_those_of_the_documents():
    labels, predicted = np.array([0, 0, 0, 1, 1, 2, 2, -1]), np.array([0, 0, 1, 1, 0, 2, 1, 2])
    cells = answers.answers_of(predicted, labels, np.arange(8), 3)
    found = answers.ClassAnswers.of(cells.sum(axis=0), 0.0)
    np.testing.assert_allclose(found.right, [2, 1, 1])
    np.testing.assert_allclose(found.wrong, [1, 1, 1])
    np.testing.assert_allclose(found.mistaken, [1, 2, 0])
    assert [each.recall for each in found.by_class(CLASSES)] == pytest.approx([2 / 3, 1 / 2, 1 / 2])
    assert found.macro_f1 == pytest.approx(np.mean([4 / 6, 2 / 5, 2 / 3]))
    counts = found.counts(0, 8)
    other = unit_sums.cells_of(predicted, np.zeros(8, int), labels, np.arange(8)).sum(axis=0)
    np.testing.assert_allclose(counts.cells, other)
    noisy = replace(found, noise_std=5.0)
    assert all(each.recall is None for each in noisy.by_class(CLASSES)), "three against the noise"


def test_the_error_of_answers_is_that_of_their_noise():
    rng, exact = np.random.default_rng(0), np.r_[90.0, 60, 30, 10, 40, 20, 30, 30, 10]
    exact[3:] *= np.sqrt(0.5)
    drawn = [answers.ClassAnswers.of(exact + 4 * rng.normal(size=9), 4.0) for _ in range(4000)]
    gains = [(each.counts(0, 999).cells[1] - each.counts(0, 999).cells[2]) for each in drawn]
    assert np.var(gains) == pytest.approx(drawn[0].counts(0, 999).gain_variance, rel=0.1)
    found = np.array([[each.recall for each in one.by_class(CLASSES)] for one in drawn])
    sampled = np.array([90 * 10 / 1e6, 60 * 40 / 1e6, 30 * 20 / 50**3])
    told = np.array([each.error for each in answers.ClassAnswers.of(exact, 4.0).by_class(CLASSES)])
    np.testing.assert_allclose(np.sqrt(found.var(axis=0) + sampled), told, rtol=0.1)


def test_class_sizes_are_told_with_their_noise_and_small_ones_warned_of(
    run, data, tmp_path, monkeypatch
):
    noise = Streams.of({"seed": 1})  # under other noise a small class may look large
    monkeypatch.setattr(NoiseKey, "streams", lambda key, graph: noise)
    rows = [row | {"topic": "kites" if number < 9 else row["topic"]}
            for number, row in enumerate(rows_of(1200))]  # fmt: skip
    nodes = write(tmp_path / "n.csv", rows)
    declared("x", nodes, classes=(*CLASSES, "kites"), unit="who", budget=30)
    answer = run("classify", "x", "--epsilon", 2, "--out", "R")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    [place] = [number for number, line in enumerate(lines) if line.startswith("class sizes")]
    sizes, small = lines[place : place + 2]
    found = dict(each.rsplit(" ", 1) for each in sizes.partition(": ")[2].split(", "))
    assert set(found) == {*CLASSES, "kites"} and small.startswith("cannot be learned")
    assert re.search(r"kites, \d+ ± \d+ whos$", small)
    told = Path("R/release/README.md").read_text()
    assert "Cannot be learned at this epsilon: kites" in told and "acro-F1" in told
    kept = run("classify", "x", "--epsilon", 8, "--out", "S", "--json").json
    counts = {each["name"]: each["units"] for each in kept["sizes"]}
    own = [row["topic"] for row in rows]
    for name in CLASSES:  # documents by person, of whom four fifths train
        assert counts[name] == pytest.approx(0.4 * own.count(name), abs=40)
    assert {each["name"] for each in kept["quality"]["by_class"]} == {*CLASSES, "kites"}
    plan = run("classify", "x", "--epsilon", 1, "--dry-run").out
    assert "at epsilon 1, " in plan and "at epsilon 4; " in plan


def test_rows_are_functions_of_their_own_text_to_the_bit():
    texts = ["alpha beta beta", "beta", "", "東京の天気", "déjà vu " * 40]
    for features in (HashedWords(32), PublicWords.of(["alpha beta", "beta gamma alpha"] * 3, 4)):
        together = features.rows(texts)
        for place, text in enumerate(texts):
            alone = features.rows([text])
            assert (together[place] != alone).nnz == 0
            assert np.square(alone.data).sum() <= 1 + 1e-12
    assert tokens("東京の") == ["東京", "京の"]
    every = "".join(map(chr, range(128)))
    assert [*tokens(every), "é"] == tokens(f"{every} é"), "ASCII is read as any other text"


def test_a_verdict_needs_enough_test_units():
    few = Quality(0.8, 0.2, "a", None, 5, 0.6, 0.285, "cannot tell", False)
    assert few.sentence == "Cannot tell: 5 labelled test units, ± 57 points."


def test_noisy_counts_say_no_more_than_the_public_number_of_test_units(data, tmp_path, monkeypatch):
    declared("x", write(tmp_path / "n.csv", rows_of(400)), budget=100)
    n_tested = int((read_documents(needed("x", data)).sides == TEST).sum())
    assert n_tested > releases.FEWEST, "else no verdict is given whatever the error"
    cells = (500.0, 200.0, 9.0, -20.0, 3.0, 80.0, 1.0, 2.0, 60.0)
    monkeypatch.setattr(Door, "gaussian", at_counts(Door.gaussian, cells))
    quality = classify("x", epsilon=0.1, out="R").quality
    assert quality.tested == n_tested and -1 <= quality.gain <= 1
    assert quality.error > releases.MOST_ERROR and quality.verdict == "cannot tell"
    assert f"about {n_tested} labelled test units" in quality.sentence


def at_counts(gaussian, cells: tuple[float, ...]):
    """Return ``gaussian`` with these answers in place of the counts of test units."""

    def answer(door, *arguments, stream: str = "noise", **more):
        drawn = gaussian(door, *arguments, stream=stream, **more)
        return [np.array(cells)] if stream == "counts" else drawn

    return answer


@pytest.mark.parametrize(("won", "lost", "verdict"), [
    (6, 0, "gain"), (5, 0, "none"), (0, 6, "loss"), (30, 29, "none"), (0, 0, "none"),
])  # fmt: skip
def test_a_verdict_on_public_documents_is_an_exact_paired_test(won, lost, verdict):
    right, only_model, only_other = np.eye(4)[:3]
    cells = np.array([right] * 40 + [only_model] * won + [only_other] * lost)
    assert rivals._exact_verdict(cells) == verdict


# --- the ledger ---------------------------------------------------------------------------------

MU = 0.2680511
"""μ of ε = 1 at δ = 1e-5."""
ABOUT = dict(command="test", graph="g", method="m", delta=1e-5, unit="document", relation="replace")


def most_spent(*given) -> float:
    return documents_account(*given).spent


def most_spent_on_links(*given) -> float:
    return links_account(*given).spent


def people(
    book: BudgetLedger, ids: list[str], units: list[str] | None = None, side: int = TRAINING
):
    named = list(dict.fromkeys(units or ids))
    of = np.array([named.index(each) for each in units or ids])
    return book.people(named, ids, of, np.full(len(named), side), alone=units is None)


def spend(book: BudgetLedger, who, mu: float = MU, budget: float | None = None, asked: float = 1):
    return book.start(who, {TRAINING: Cost(mu)}, budget, asked, **ABOUT)


def test_disjoint_batches_cost_each_unit_its_own_and_a_shared_one_both(data):
    book = BudgetLedger(data)
    first, second = (people(book, [f"{batch}{n}" for n in range(50)]) for batch in "ab")
    both = people(book, [f"c{n}" for n in range(50)] + ["a7"])
    spend(book, first)
    spend(book, second)
    everybody = people(book, [f"{batch}{n}" for batch in "ab" for n in range(50)])
    assert most_spent(book.entries(), everybody, 1e-5, (0,)) == pytest.approx(1, abs=1e-4)
    spend(book, both)
    assert most_spent(book.entries(), everybody, 1e-5, (0,)) == pytest.approx(1.4656, abs=1e-3)
    for delta in (1e-5, 1e-3):  # a larger delta than that of a release makes none cheaper
        assert most_spent(book.entries(), second, delta, (0,)) == pytest.approx(1, abs=1e-4)


def test_the_distances_of_lattice_noise_add_up_in_an_account(data):
    book, cost = BudgetLedger(data), Cost(MU, 1e-7)
    who = people(book, ["a", "b"])
    for _ in range(3):
        book.start(who, {TRAINING: cost}, None, 1, **ABOUT)
    spent = most_spent(book.entries(), who, 1e-5, (TRAINING,))
    expected = lattice_epsilon(3**0.5 * MU, 3e-7, 1e-5)[0]
    assert spent == pytest.approx(expected, rel=1e-9) and expected > gdp_epsilon(3**0.5 * MU, 1e-5)


def test_a_release_is_checked_and_entered_under_one_lock(data):
    seen = []

    class Traced(BudgetLedger):
        @contextmanager
        def _locked(self):
            with super()._locked():
                seen.append("lock")
                yield
                seen.append("free")

        def _append(self, lines, line):
            seen.append("enter")
            super()._append(lines, line)

    book = Traced(data)
    who = people(book, ["a"])
    seen.clear()
    book.start(who, {TRAINING: Cost(MU)}, 1.5, 1, lambda _: seen.append("check"), **ABOUT)
    assert seen == ["lock", "check", "enter", "free"]


def test_a_release_made_meanwhile_is_heeded_under_the_lock(data, tmp_path, monkeypatch):
    """It protected a document that is public in the table that was read before."""
    rows = [row | {"open": "yes" if number > 39 else ""} for number, row in enumerate(rows_of(60))]
    declared("x", write(tmp_path / "n.csv", rows), public="open")
    start = BudgetLedger.start

    def late(book, *given, **more):
        monkeypatch.setattr(BudgetLedger, "start", start)
        spend(book, people(book, ["d50"]))
        return start(book, *given, **more)

    monkeypatch.setattr(BudgetLedger, "start", late)
    with pytest.raises(UserError, match="promised that nobody learns"):
        classify("x", epsilon=1, out="R")
    assert len(BudgetLedger(data).entries()) == 1


def test_what_units_of_earlier_tables_spent_and_what_several_lose_is_told(data, tmp_path):
    declared("x", write(tmp_path / "n.csv", rows_of(60)))
    classify("x", epsilon=1, out="R")
    write(tmp_path / "n.csv", [row | {"id": f"new{row['id']}"} for row in rows_of(60)])
    assert 0.99 < private_graphs.ledger("x").spent <= 1.0
    told = re.search(r"2 documents: ε = ([\d.]+)", Path("R/release/README.md").read_text())
    (statement,) = json.loads(Path("R/release/statement.json").read_text()).values()
    mu = gdp_mu(statement["epsilon_proved"], statement["delta"])
    assert float(told[1]) == pytest.approx(gdp_epsilon(2 * mu, statement["delta"]), abs=1e-3)


def wrongly(drawn, wrong: dict):
    return lambda plan, *given: drawn(replace(plan, **wrong), *given)


def test_another_noise_than_what_was_charged_is_never_released(data, tmp_path, monkeypatch):
    rows = public_rows(60)
    links = dict(edges=linked(tmp_path / "e.csv", rows), public="open", max_edges=500, classes=())
    declared("pages", write(tmp_path / "n.csv", rows), **links)
    declared("x", write(tmp_path / "m.csv", rows_of(60, 100)))
    plans = (PlannedVotes, "edges", {"epsilon": 2.0}), (releases.PlannedRelease, "text", {
        "training": unit_means.ClassSums.of(unit_sums.PublicTexts(), 60, 3, 2.0, 1e-3, "document")
    })  # fmt: skip
    for (kind, scenario, wrong), name in zip(plans, ("pages", "x"), strict=True):
        monkeypatch.setattr(kind, "drawn", wrongly(kind.drawn, wrong))
        with pytest.raises(ReleaseMismatch, match="than the ledger was charged"):
            classify(name, epsilon=1, scenario=scenario, out=name)
        assert not Path(name).exists()


def test_numbers_of_documents_that_the_ledger_tells_are_said_to_be_public(data, tmp_path):
    declared("x", write(tmp_path / "n.csv", rows_of(60)), budget=None)
    facts = []
    for unit in ("who", None, "who"):
        declared("x", tmp_path / "n.csv", unit=unit, budget=None)
        spec = needed("x", data)
        plan = releases.planned_release(
            spec, read_documents(spec), BudgetLedger(data), 1.0, "class_sums"
        )
        facts.append(str(plan.statement("class_sums").public_facts))
        if unit is None:
            classify("x", epsilon=1, out="R")
    assert ["how many documents" in each for each in facts] == [False, False, True]


def test_a_person_pays_for_all_documents_whatever_the_unit_was_called(data):
    book = BudgetLedger(data)
    spend(book, people(book, ["a", "b", "c"]))
    person = people(book, ["a", "b", "c"], ["p", "p", "q"])
    assert most_spent(book.entries(), person, 1e-5, (0,)) == pytest.approx(2.1550, abs=1e-3)
    spend(book, person)
    tested = people(book, ["t"], side=TEST)
    book.start(tested, {TEST: Cost(MU)}, None, 1, **ABOUT)
    assert most_spent(book.entries(), people(book, ["t"]), 1e-5, (0,)) > 0.99, "trains now"
    document = people(book, ["c"])
    assert most_spent(book.entries(), document, 1e-5, (0,)) == pytest.approx(1.4656, abs=1e-3)


def test_a_changed_and_a_lost_line_are_named(data):
    book = BudgetLedger(data)
    for _ in range(3):
        book.finish(spend(book, people(book, ["a"])))
    path = data.parent / "ledgers" / "releases.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    changed = [lines[0], lines[1], lines[2].replace(b'"epsilon":1', b'"epsilon":0'), *lines[3:]]
    for wrong, words in (
        (changed, "line 3 was changed"), (lines[:1] + lines[2:], "line 2 is missing"),
        (lines[:5], "line 6 is missing"),
    ):  # fmt: skip
        path.write_bytes(b"".join(wrong))
        with pytest.raises(UserError, match=words):
            book.entries()
    count = path.with_name("lines")
    for told in (None, b"", b"2", b"x"):  # gone, cut off, of an older copy, damaged
        path.write_bytes(b"".join(lines[:5]))
        count.unlink() if told is None else count.write_bytes(told)
        with pytest.raises(UserError, match="restore both files"):
            book.entries()
    count.write_bytes(b"5")  # killed between the two files
    path.write_bytes(b"".join(lines))
    assert len(book.entries()) == 3
    path.write_bytes(b"".join(lines) + lines[0][:40])  # killed while it wrote: nothing was read
    assert len(book.entries()) == 3
    with pytest.raises(OverBudget):
        spend(book, people(book, ["a"]), budget=1.9)
    spend(book, people(book, ["b"]), budget=1.9)
    assert len(book.entries()) == 4
    assert stat.S_IMODE((data.parent / "ledgers" / "key").stat().st_mode) == 0o600


def test_another_key_and_another_spelling_reset_no_account(data):
    book = BudgetLedger(data)
    spend(book, people(book, ["Müller 1", "b"]))
    for spelt in ("Mu\u0308ller 1", "M\u00ad\u00fcller\u00a01\u200b\U000e0100"):
        assert most_spent(book.entries(), people(book, [spelt]), 1e-5, (0,)) > 0.99
    key = data.parent / "ledgers" / "key"
    right = key.read_bytes()
    for wrong, words in ((right[::-1], "line 1 .* key beside it"), (b"", "restore it")):
        key.write_bytes(wrong)
        with pytest.raises(UserError, match=words):
            spend(book, people(book, ["b"]), budget=1)
    key.write_bytes(right)
    with pytest.raises(OverBudget):
        spend(book, people(book, ["b"]), budget=1)


# --- links --------------------------------------------------------------------------------------


def test_links_find_documents_whose_ids_are_written_in_another_form(data, tmp_path):
    """As in the ledger: composed and decomposed letters, and characters that nobody sees."""
    rows = public_rows(90)
    rows[0]["id"], rows[1]["id"] = "M\u00fcller", "x1"
    ends = ({"source": "Mu\u0308ller", "target": "x\u200b1"}, {"source": "x1", "target": "d2"})
    given = dict(edges=write(tmp_path / "e.csv", ends), public="open", max_edges=9, classes=())
    declared("pages", write(tmp_path / "n.csv", rows), **given)
    spec = needed("pages", data)
    links, lost = read_links(spec, read_documents(spec).ids)
    assert links.tolist() == [[0, 1], [1, 2]] and not any(lost.values())
    (tmp_path / "e.csv").write_text("source,target\n")
    assert "e.csv has no link between two of these documents" in declared(
        "pages", tmp_path / "n.csv", **given).warnings  # fmt: skip


def test_links_have_an_account_and_publish_the_documents(run, data, tmp_path):
    rows = public_rows(90)
    nodes, edges = write(tmp_path / "n.csv", rows), linked(tmp_path / "e.csv", rows)
    given = dict(edges=edges, public="open", max_edges=1000, classes=())
    with pytest.raises(UserError, match="nothing is protected"):
        declared("pages", nodes, **given | {"max_edges": None})
    with pytest.raises(UserError, match="more links than the declared bound"):
        declared("pages", nodes, **given | {"max_edges": 3})
    found = declared("pages", nodes, **given)
    assert (found.protected, found.unit, found.public) == (1000, "link", 90)
    with pytest.raises(UserError, match="add --scenario edges"):
        classify("pages", epsilon=1, out="A")
    blank = [*rows, {**rows[0], "id": "blank", "who": "blank", "body": "", "open": ""}]
    declared("blank", write(tmp_path / "b.csv", blank), public="open", edges=edges, drop_empty=True)
    with pytest.raises(UserError, match="'blank' has 1 private document: nothing"):
        classify("blank", epsilon=1, scenario="edges", out="A")
    result = classify("pages", epsilon=1, scenario="edges", out="A")
    assert result.unit == "link" and result.private is None and not Path("A/private").exists()
    predicted = Path("A/release/predictions.csv").read_text().splitlines()
    assert predicted[0] == '"id","class"' and 30 < len(predicted) < 70, "those that did not train"
    statement = json.loads(Path("A/release/statement.json").read_text())
    [told] = statement.values()
    assert (told["unit"], told["relation"], told["n_units"]) == ("edge_undirected", "add_remove",
                                                                1000)  # fmt: skip
    answer = run("ledger", "pages", "--json").json
    assert answer["spent"] == 0 and 0.99 < answer["links"] <= 1
    assert [each["accounts"] for each in answer["releases"]] == [["links"]]
    refused(run("classify", "pages", "--epsilon", 1.2, "--scenario", "edges", "--out", "B"), 3,
            "over the budget")  # fmt: skip
    with pytest.raises(UserError, match=r"published what it read in 90 private documents .*'d0'"):
        declared("mine", nodes)
    others = write(tmp_path / "others.csv", rows_of(60, 100))
    declared("mine", others, budget=None)
    refused(run("classify", "mine", "--epsilon", 1, "--scenario", "edges", "--out", "B"), 2,
            "'mine' has 60 private documents")  # fmt: skip
    classify("mine", epsilon=1, out="B")
    account = private_graphs.ledger("mine")
    assert 0.99 < account.spent <= 1 and account.links == 0
    answer = run("explain", "A", "B")
    assert "a document that is in each: nothing" in answer.out
    assert "a link whose documents are in each: ε = 1.69" in answer.out


def test_what_a_release_published_is_protected_by_no_later_one(data, tmp_path):
    rows = [row | {"open": "yes" if number < 40 else ""} for number, row in enumerate(rows_of(80))]
    nodes = write(tmp_path / "n.csv", rows)
    declared("x", nodes, public="open")
    declared("late", nodes)
    classify("x", epsilon=1, out="R")
    with pytest.raises(UserError, match="published what it read in 40 private documents"):
        classify("late", epsilon=0.1, out="S")
    with pytest.raises(UserError, match="40 private documents"):
        declared("y", nodes)
    book = BudgetLedger(data)
    [entry] = book.entries()
    known = people(book, [f"d{n}" for n in range(40)])
    assert most_spent([entry], known, 1e-5, (TRAINING,)) == np.inf
    assert declared("y", write(tmp_path / "m.csv", rows[40:])).protected == 40


def test_a_link_pays_for_each_release_that_held_its_documents(data):
    book, published = BudgetLedger(data), dict.fromkeys((TRAINING,), PUBLISHED)

    def release(who, budget=None):
        book.start(who, published, budget, 1, links=Cost(MU), **ABOUT)

    first, second = (people(book, [f"{batch}{n}" for n in range(50)]) for batch in "ab")
    shared = people(book, ["a1", "b2", "c"])
    release(first)
    release(second)
    assert most_spent_on_links(book.entries(), shared, 1e-5) == pytest.approx(1, abs=1e-4)
    release(shared)
    for who in (first, second, shared):
        for delta in (1e-5, 1e-3):  # a larger delta than that of a release makes none cheaper
            spent = most_spent_on_links(book.entries(), who, delta)
            assert spent == pytest.approx(1.4656, abs=1e-3)
        with pytest.raises(OverBudget):
            release(who, budget=1.7)
    spend(book, people(book, ["z"]))
    assert most_spent_on_links(book.entries(), people(book, ["z"]), 1e-5) == 0


def test_a_replayed_release_reads_a_link_through_the_door_alone(data, tmp_path):
    rows = public_rows(60)
    spec = checked(dict(
        name="x", text=("body",), label="topic", public="open", max_edges=500,
        nodes=write(tmp_path / "n.csv", rows), edges=tmp_path / "e.csv",
    ))  # fmt: skip

    def drawn(edges, watch):
        linked(spec.edges, rows, *edges)
        plan = PlannedVotes.of(spec, read_documents(spec), BudgetLedger(data), 1.0)
        free = plan.free_rows()
        found = plan.drawn(free, Door.of([Streams.of({"test": 1})], watch))
        nothing = Account((), 1e-5)
        lines = lines_of(plan, nothing, nothing, free)
        planned = lines, repr((plan.trees(), plan.costs, plan.links))
        return {"predicted": found.predicted, "quality": found.quality, "plan": planned,
                "free": free}  # fmt: skip

    found = replay(
        drawn, (0,), [(1,), (0, [("d0", "d9")]), (0, [("d1", "d2")])], made_up=True, files=False
    )
    assert found.passed, found.differs
    assert 0.1 < found.largest_ratio <= 1


PROCESSES = multiprocessing.get_context("fork")


def racing(out: str, epsilon: float, together) -> None:
    def slowly(*asked):  # without a lock, both have looked before one of them is entered
        answer = over_budget(*asked)
        time.sleep(0.2)
        return answer

    ledger.over_budget = slowly
    together.wait()
    try:
        classify("race", epsilon=epsilon, out=out)
    except OverBudget as error:
        sys.exit(error.exit_code)
    except UsageError:
        sys.exit(2)


def killed() -> None:
    releases.PlannedRelease.drawn = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    classify("race", epsilon=1, out="A")


def exit_codes(*processes) -> list[int]:
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    return [each.exitcode for each in processes]


def test_two_releases_at_once_spend_no_more_than_the_budget(data, tmp_path):
    declared("race", write(tmp_path / "n.csv", rows_of(60)))
    barrier = PROCESSES.Barrier(2)
    codes = exit_codes(*(PROCESSES.Process(target=racing, args=(*each, barrier))
                         for each in (("A", 1.0), ("B", 1.01))))  # fmt: skip
    assert sorted(codes) == [0, OverBudget.exit_code]
    assert [Path(out).exists() for out in "AB"] == [code == 0 for code in codes]
    assert 0.99 < private_graphs.ledger("race").spent <= 1.01


def test_two_releases_at_once_are_not_written_into_one_folder(data, tmp_path):
    declared("race", write(tmp_path / "n.csv", rows_of(60)), budget=9)
    barrier = PROCESSES.Barrier(2)
    codes = exit_codes(*(PROCESSES.Process(target=racing, args=("A", 1.0, barrier))
                         for _ in range(2)))  # fmt: skip
    assert sorted(codes) == [0, 2], "one of the two is refused, and pays nothing"
    assert 0.99 < private_graphs.ledger("race").spent <= 1.0
    assert private_graphs.explain("A").epsilon == pytest.approx(1.0, abs=0.01)


def test_the_refusal_of_a_second_release_leaves_the_folder_to_the_first(tmp_path):
    with releases._reserved(tmp_path / "A"):
        for _ in range(2):  # the second came through where the first had removed the empty folder
            with pytest.raises(UsageError, match="another process"):
                with releases._reserved(tmp_path / "A"):
                    pass
        assert (tmp_path / "A").is_dir()


def test_a_release_that_is_killed_counts_in_full(data, tmp_path):
    declared("race", write(tmp_path / "n.csv", rows_of(60)))
    assert exit_codes(PROCESSES.Process(target=killed)) == [-signal.SIGKILL]
    assert not Path("A/release/manifest.json").exists()
    spent = private_graphs.ledger("race")
    assert 0.99 < spent.spent <= 1.0 and spent.releases[0]["state"] == "started"
    with pytest.raises(OverBudget):
        classify("race", epsilon=1.01, out="B")
    classify("race", epsilon=1, out="A")
    spent = private_graphs.ledger("race")
    assert 0.99 < spent.spent <= 1.0 and spent.releases[0]["state"] == "finished"


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [("--text", "a\nb", "between commas"), ("--classes", "a\nb", "between commas"),
     ("--classes", "a,,b", "without a name"), ("--classes", "a,b,\u200b", "without a name"),
     ("--classes", "\udcff", "UTF-8"), ("--id", "\udcff", "UTF-8"), ("--unit", "", "--unit"),
     ("--public", "", "--public"), ("--vocabulary", ".", "folder"),
     ("--model", "", "an empty word")],
)  # fmt: skip
def test_odd_values_of_declare_are_refused_in_a_sentence(run, data, tmp_path, flag, value, words):
    nodes = write(tmp_path / "n.csv", rows_of(20))
    flags = {"--nodes": nodes, "--text": "body", "--label": "topic", "--classes": "a,b"}
    given = [each for pair in (flags | {flag: value}).items() for each in pair]
    refused(run("declare", "x", *given), 2, words)


def test_a_scenario_that_no_release_has_is_refused(data):
    with pytest.raises(UsageError, match="expected text or edges"):
        classify("nothing", epsilon=1, scenario="typo")


def test_twenty_thousand_classes_are_no_message(run, data, tmp_path):
    nodes, names = write(tmp_path / "n.csv", rows_of(20)), ",".join(map(str, range(20_000)))
    for wrong, words in ((names, "and 19,980 more"), (f"{names},", "without a name"),
                         (f"{names},\udcff", "UTF-8")):  # fmt: skip
        answer = run("declare", "x", "--nodes", nodes, "--text", "body", "--label", "topic",
                     "--classes", wrong)  # fmt: skip
        refused(answer, 1 if wrong is names else 2, words)
        assert len(answer.err) < 2000


def test_a_locale_that_cannot_read_a_name_is_told_from_a_name_that_is_no_text(data, tmp_path):
    folder = tmp_path / "\u00fc"
    folder.mkdir()
    nodes = write(folder / "n.csv", rows_of(60))
    flags = ["--nodes", nodes, "--text", "body", "--label", "topic", "--classes", ",".join(CLASSES)]
    done = subprocess.run(
        [sys.executable, "-m", "private_graphs", "declare", "x", *flags], capture_output=True,
        env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )  # fmt: skip
    assert done.returncode == 2 and b"PYTHONUTF8=1" in done.stderr, done.stderr
    assert b"rename" not in done.stderr


def test_a_gpu_that_nothing_uses_is_refused(run, data, tmp_path):
    declared("x", write(tmp_path / "n.csv", rows_of(60)))
    for device in ("cuda", "auto"):
        answer = run("classify", "x", "--epsilon", 1, "--dry-run", "--device", device)
        used = device == "auto"
        assert answer.code == 2 * (not used) and ("has no effect" in answer.err) != used


@pytest.mark.parametrize("models", [7, 10**7, 10**30])
def test_a_number_of_models_beyond_all_use_is_refused(data, models):
    with pytest.raises(UsageError, match="expected 8 to"):
        private_graphs.attack("nothing", models=models)


def test_labels_that_are_no_class_count_neither_as_right_nor_as_wrong(run, data, tmp_path):
    rows = rows_of(60)
    declared("x", write(tmp_path / "n.csv", rows))
    classify("x", epsilon=1, out="R")
    right = private_graphs.load("R").predict([row["body"] for row in rows])
    table = [row | {"topic": "?" if number % 2 else str(right[number]), "open": "other"}
             for number, row in enumerate(rows)]  # fmt: skip
    new = ("predict", "R/release", "--nodes", write(tmp_path / "new.csv", table), "--out", "p.csv")
    assert run(*new, "--label", "topic", "--json").json["accuracy"] == 1.0
    assert run(*new, "--label", "open", "--json").json["accuracy"] is None
    assert "no label in 'open' is a class" in run(*new, "--label", "open").out


@pytest.mark.parametrize(
    "change",
    [{"id": 3}, {"graph": None}, {"classes": ["a", 1]}, {"text": []}, {"text": "body"},
     {"id": "\ud800"}, {"format": "6"}, None],
)  # fmt: skip
def test_a_model_whose_description_is_damaged_is_refused(data, tmp_path, change):
    import safetensors.numpy
    from safetensors import safe_open

    declared("x", write(tmp_path / "n.csv", rows_of(60)))
    classify("x", epsilon=1, out="R")
    path = tmp_path / "alone" / "model.safetensors"  # without the manifest, which would refuse
    path.parent.mkdir()
    with safe_open("R/release/model.safetensors", "numpy") as file:
        about = json.loads(file.metadata()["private_graphs"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    text = "[" * 100_000 if change is None else json.dumps(about | change)
    safetensors.numpy.save_file(tensors, path, metadata={"private_graphs": text})
    with pytest.raises(UserError, match="cannot be read as a released model"):
        private_graphs.load(path.parent)


# --- files --------------------------------------------------------------------------------------


def test_formula_cells_are_escaped_and_damaged_models_refused(data, tmp_path):
    rows = rows_of(60)
    nodes = write(tmp_path / "n.csv", rows)
    declared("x", nodes)
    classify("x", epsilon=1, out="R")
    new = write(tmp_path / "new.csv", [
        {"id": "=1+1", "body": "chain"}, {"id": "-5", "body": "=cmd()"}, {"id": "d", "body": ""},
        {"id": "n7;=1+1;z", "body": ""}, {"id": "\uff1d1+1", "body": ""},
    ])  # fmt: skip
    found = private_graphs.predict("R/release", nodes=new, out="p.csv")
    assert [line.split('"')[1] for line in Path("p.csv").read_text().splitlines()] == [
        "id", "'=1+1", "-5", "d", "n7;'=1+1;z", "'\uff1d1+1",
    ]  # fmt: skip
    assert set(found.classes) <= {*CLASSES, ""} and found.unknown is None
    with pytest.raises(UserError, match="no known encoding"):
        private_graphs.predict("R/release", nodes=new, encoding="latin1x")
    with pytest.raises(UserError, match="no known encoding"):
        declared("y", new, encoding="latin1x")
    renamed = write(tmp_path / "other.csv", [{"number": "a", "body": "chain"}])
    with pytest.raises(UserError, match="that the model reads: rename yours to 'id'"):
        private_graphs.predict("R/release", nodes=renamed)
    statement = json.loads(Path("R/release/statement.json").read_text())
    assert next(iter(statement.values()))["unit"] == "document"
    from private_graphs.privacy.composition import of_file

    assert of_file(Path("R/release/statement.json"))["epsilon"] > 0
    shutil.copytree("R/release", "damaged")
    Path("damaged/statement.json").write_text(json.dumps(statement))
    with pytest.raises(UserError, match="statement.json: is not the file that was written"):
        of_file(Path("damaged/statement.json"))
    path = Path("R/release/model.safetensors")
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))  # one bit of a weight
    with pytest.raises(UserError, match="is not the file that was written"):
        private_graphs.load("R/release")
    path.write_bytes(right[:-8])
    path.with_name("manifest.json").unlink()
    with pytest.raises(UserError, match="manifest.json: is gone, or this release was never whole"):
        private_graphs.load("R/release")
    path.with_name("statement.json").unlink()
    with pytest.raises(UserError, match="cannot be read as a released model"):
        private_graphs.load("R/release")


@pytest.mark.parametrize(
    ("about", "arrays", "words"),
    [
        ({"columns": 4.0}, {}, "columns 4.0"),
        ({"columns": 0}, {"weights": np.zeros((1, 2))}, "columns 0"),
        ({"columns": 4, "signed": "no"}, {}, "signed 'no'"),
        ({"columns": 4}, {"weights": np.full((5, 2), 1e308)}, "not finite"),
        ({"model": None, "model_sha256": None}, {}, "list of names"),
        ({}, {"word_weights": np.ones(1)}, "for 2 words"),
        ({}, {"word_weights": np.ones((2, 1))}, "for 2 words"),
        ({}, {"centre": np.zeros(1)}, "for 2 words"),
        ({}, {"directions": np.ones((3, 4))}, "for 2 words"),
        ({}, {"directions": np.ones(2)}, "for 2 words"),
        ({}, {"directions": np.full((2, 4), np.nan)}, "not finite"),
        *[({"columns": 4}, {"weights": np.ones((5, 2), kind)}, f"weights of type {kind}")
          for kind in ("int8", "bool", "complex64")],
        ({}, {"centre": np.zeros(2, bool)}, "arrays of words of type bool"),
        ({}, {"words": np.ones(11)}, "words of type float64, expected bytes"),
        ({}, {"words": np.frombuffer(b"chain\nchain", np.uint8)}, "words with a name that stands"),
        ({"columns": 4, "classes": ["a", "a"]}, {}, "classes with a name that stands twice"),
        ({"columns": 4, "classes": ["a", "a\u200b"]}, {}, "classes with a name that stands twice"),
        ({"columns": 4, "classes": ["a", "b" * 1001]}, {}, "a name of 1,001 characters"),
        ({"columns": 4, "more": "x" * 2**24}, {}, "its header is 16,77.*, expected at most 16,77"),
        ({"columns": 4}, {"words": np.zeros(2**25 + 1, np.uint8)}, "its words is 33,554,433"),
        ({"columns": 4}, {f"a{number}": np.zeros(1) for number in range(10)}, "arrays is 11"),
        ({"columns": 4, "text": ["body", "id"]}, {}, "columns with a name that stands twice"),
        ({"columns": 4, "shares": [1, 1], "epsilon": 1}, {}, "shares"),
        ({"columns": 4, "shares": [0.5, 0.5], "epsilon": math.nan}, {}, "epsilon nan"),
        ({"columns": 4}, {"neighbours": np.frombuffer(b'["d", "d"]', np.uint8)}, "stands twice"),
        ({"columns": 4}, {"neighbours": np.frombuffer(b'["d"]', np.uint8), "odds": np.ones(2),
                          "neighbour_classes": np.zeros(1)}, "of type float64"),
        ({"columns": 4}, {"neighbours": np.frombuffer(b'["d"]', np.uint8), "odds": np.ones(2),
                          "neighbour_classes": np.zeros(2, int)}, r"classes of shape \(2,\)"),
    ],
)  # fmt: skip
def test_a_model_whose_parts_do_not_fit_is_refused_before_it_predicts(
    tmp_path, about, arrays, words
):
    import safetensors.numpy

    names = {"format": "3", "graph": "x", "id": "id", "classes": ["a", "b"], "text": ["body"]}
    tensors = {"weights": np.zeros((5, 2))}
    if not about:
        tensors |= {
            "words": np.frombuffer(b"chain\npedal", np.uint8).copy(), "word_weights": np.ones(2),
            "centre": np.zeros(2), "directions": np.ones((2, 4)),
        }  # fmt: skip
    path = tmp_path / "model.safetensors"

    def saved(about, arrays):
        metadata = {"private_graphs": json.dumps(names | about)}
        path.write_bytes(safetensors.numpy.save(tensors | arrays, metadata))
        return path

    if "model" not in about:
        right = about and {"columns": 4}
        assert len(private_graphs.load(saved(right, {})).predict(["chain"])) == 1
    with pytest.raises(UserError, match=words) as error:
        private_graphs.load(saved(about, arrays))
    assert str(path) in str(error.value)


def test_a_model_whose_scores_overflow_or_whose_votes_do_not_fit_is_refused(tmp_path, monkeypatch):
    import safetensors.numpy

    names = {"format": "4", "graph": "x", "id": "id", "classes": ["a", "b"], "text": ["body"],
             "columns": 4}  # fmt: skip
    tensors = {
        "weights": np.full((5, 2), 1e307), "odds": np.ones(2),
        "neighbour_classes": np.zeros(2, int),
        "neighbours": np.frombuffer(b'["d", "e"]', np.uint8).copy(),
    }  # fmt: skip
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors.numpy.save(tensors, {"private_graphs": json.dumps(names)}))
    assert private_graphs.load(path).neighbours.odds.tolist() == [[1, 0], [1, 0]]
    model = replace(private_graphs.load(path), weights=np.full((5, 2), 1.7e308))
    with pytest.raises(UserError, match="'x': its numbers are too large"):
        model.predict(["chain pedal seed"])
    monkeypatch.setattr(model_file, "_MOST_VOTES", 3)
    with pytest.raises(UserError, match="4 votes of neighbours, expected at most 3"):
        private_graphs.load(path)


@pytest.mark.parametrize("name", ["m.bin", "m/model.safetensors", "m/tokenizer.json"])
def test_a_file_of_a_model_beyond_all_use_is_named_and_not_read(tmp_path, monkeypatch, name):
    most = "_MOST_TEXT_BYTES" if name.endswith("json") else "MOST_MODEL_BYTES"
    monkeypatch.setattr(vectors, most, 4)
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    for file in ("config.json", "vocab.txt"):
        (path.parent / file).write_text("{}", encoding="utf-8")
    path.write_bytes(b"model")
    with pytest.raises(UserError, match=re.escape(f"{path}: has 5 bytes, expected at most 4")):
        vectors.ModelVectors.find(str(tmp_path / name.partition("/")[0]), tmp_path)


def test_a_model_whose_vectors_take_too_much_memory_is_refused_before_it_is_paid_for(
    data, tmp_path, monkeypatch
):
    (tmp_path / "m.bin").write_bytes(b"model")
    monkeypatch.setitem(vectors._READERS, "fasttext", reader)
    given = {"model": tmp_path / "m.bin"}
    declared("x", write(tmp_path / "n.csv", rows_of(40)), **given)
    for method in ("class_sums", "dp_linear"):
        with monkeypatch.context() as patched:
            patched.setattr(memory, "_limits", lambda: [(-1, "of a test")])
            with pytest.raises(UserError, match="reading 40 documents as 5 numbers each would .*0"):
                classify("x", epsilon=1, method=method, out="R")
    assert BudgetLedger(data).entries() == []
    classify("x", epsilon=1, out="R")
    monkeypatch.setattr(vectors, "_MOST_WIDTH", 4)
    with pytest.raises(UserError, match="gives 5 numbers for a text, expected at most 4"):
        declared("y", tmp_path / "n.csv", **given)


def test_a_folder_of_public_tables_has_files_and_not_too_many(data, tmp_path, monkeypatch):
    folder, nodes = tmp_path / "open", write(tmp_path / "n.csv", rows_of(40))
    folder.mkdir()
    for name in "ab":
        rows = [row | {"id": f"{name}{row['id']}"} for row in rows_of(20)]
        write(folder / f"{name}.csv", rows)
    os.mkfifo(folder / "c.csv")
    with pytest.raises(UserError, match="c.csv: is a pipe or device, expected a file"):
        declared("x", nodes, public_files=folder)
    (folder / "c.csv").unlink()
    assert declared("x", nodes, public_files=folder).public == 40
    monkeypatch.setattr(public_tables, "_MOST_FILES", 1)
    with pytest.raises(UserError, match="has 2 tables, expected at most 1; put several into one"):
        declared("x", nodes, public_files=folder)


def test_no_declaration_is_written_that_would_not_be_read_again(data, tmp_path):
    many = [f"class {number}" for number in range(2**17)]
    with pytest.raises(UsageError, match="x.json: would have more classes and columns"):
        declared("x", write(tmp_path / "n.csv", rows_of(40)), classes=(*CLASSES, *many))
    assert not (data.parent / "declared" / "x.json").exists()


def test_a_budget_that_somebody_raised_in_a_file_is_told(data, tmp_path):
    declared("x", write(tmp_path / "n.csv", rows_of(40)), budget=3)
    classify("x", epsilon=1, out="R")
    path = tmp_path / "data" / "declared" / "x.json"
    path.write_text(path.read_text().replace('"budget": 3.0', '"budget": 300.0'))
    with pytest.warns(UserWarning, match="had a budget of 3, the new one is 300: more may be"):
        classify("x", epsilon=4, out="S")
    path.write_text(path.read_text().replace('"budget": 300.0', '"budget": []'))
    with pytest.raises(UserError, match="x.json: cannot be read as a declaration .budget: found"):
        classify("x", epsilon=4, out="T")


def test_json_of_more_values_than_any_has_is_refused_before_it_is_parsed(data, tmp_path):
    declared("x", write(tmp_path / "n.csv", rows_of(40)))
    classify("x", epsilon=1, out="R")
    many = b"[" + b"0," * 2**22 + b"0]"
    for path, words in (
        (data.parent / "ledgers" / "releases.jsonl", "releases.jsonl: line 1 was changed"),
        (data.parent / "declared" / "x.json", "x.json: cannot be read as a declaration .has more"),
        (Path("R/ledger.json"), "ledger.json: is damaged"),
        (Path("R/release/manifest.json"), "manifest.json: not a manifest"),
    ):
        content = path.read_bytes()
        path.write_bytes(many + b"\n")
        with pytest.raises(UserError, match=words):
            private_graphs.load("R/release") if "release" in path.parts else classify(
                "x", epsilon=1, out="R")  # fmt: skip
        path.write_bytes(content)
    assert private_graphs.ledger("x").releases[0]["state"] == "finished"


@pytest.mark.parametrize("role", ["edges", "vocabulary"])
def test_a_file_that_grew_beyond_all_use_is_not_read(data, tmp_path, role):
    file = write(tmp_path / "e.csv", [{"source": "d0", "target": "d1"}])
    declared("x", write(tmp_path / "n.csv", rows_of(40)), **{role: file})
    with open(file, "r+b") as stream:
        stream.truncate(2**32 + 1)
    with pytest.raises(UserError, match="e.csv: has 4,294,967,297 bytes, expected at most"):
        classify("x", epsilon=1, out="R")
    path = tmp_path / "data" / "declared" / "x.json"
    path.write_text(path.read_text().replace("e.csv", "e\\u0000.csv"))
    with pytest.raises(UserError, match="has a zero byte; expected the name of a file"):
        classify("x", epsilon=1, out="R")


def test_a_release_for_vectors_of_another_length_is_refused_before_it_predicts(
    data, tmp_path, monkeypatch
):
    (tmp_path / "m.bin").write_bytes(b"model")
    monkeypatch.setitem(vectors._READERS, "fasttext", reader)
    features = vectors.ModelVectors.find("m.bin", tmp_path)
    nodes = write(tmp_path / "n.csv", rows_of(4))
    for columns, fits in ((5, True), (6, False), (4, False)):
        weights = np.zeros((columns + 1, 2))
        ReleasedModel(features, weights, ("a", "b"), ("body",), "id", "x").save(
            tmp_path / "model.safetensors"
        )
        given = dict(nodes=nodes, model="m.bin", out=tmp_path / "p.csv")
        if fits:
            assert len(private_graphs.predict(tmp_path, **given).ids) == 4
            (tmp_path / "p.csv").unlink()
            continue
        with pytest.raises(UserError, match=f"for vectors of {columns} numbers.*vectors of 5; "):
            private_graphs.predict(tmp_path, **given)
        assert not (tmp_path / "p.csv").exists()


def test_a_text_at_which_a_model_fails_gets_no_class(data, tmp_path, monkeypatch):
    def failing(*_):
        whole = reader()
        return replace(whole, encode=lambda texts: np.array(
            [row * (math.nan if "gone" in text else "idle" not in text)
             for text, row in zip(texts, whole.encode(texts), strict=True)]))  # fmt: skip

    (tmp_path / "m.bin").write_bytes(b"model")
    monkeypatch.setitem(vectors._READERS, "fasttext", failing)
    features = vectors.ModelVectors.find("m.bin", tmp_path)
    ReleasedModel(features, np.ones((6, 2)), ("a", "b"), ("body",), "id", "x").save(
        tmp_path / "model.safetensors"
    )
    texts = ["gone", "some", "idle", ""]
    nodes = write(tmp_path / "n.csv", [{"id": f"d{n}", "body": t} for n, t in enumerate(texts)])
    found = private_graphs.predict(tmp_path, nodes=nodes, model="m.bin")
    assert (found.classes, found.empty) == (["", "a", "", ""], 3)


def test_a_text_that_a_model_cannot_read_is_no_release_that_is_paid_for(
    data, tmp_path, monkeypatch
):
    def refusing(*_):
        def encode(texts: list[str]) -> np.ndarray:
            if any("gone" in text for text in texts):
                raise IndexError("no vector of this number")
            return reader().encode(texts)

        return replace(reader(), encode=encode)

    (tmp_path / "m.bin").write_bytes(b"model")
    monkeypatch.setitem(vectors._READERS, "fasttext", refusing)
    rows = rows_of(40)
    rows[3]["body"] = "gone"
    declared("x", write(tmp_path / "n.csv", rows), model="m.bin")
    with pytest.raises(UserError, match="m.bin: fails to read a text .no vector of this number"):
        classify("x", epsilon=0.1, out="S")
    assert not private_graphs.ledger("x").releases and not Path("S").exists()


def test_a_word_that_a_model_cannot_hold_in_memory_is_refused_before_a_charge(
    data, tmp_path, monkeypatch
):
    (tmp_path / "m.bin").write_bytes(b"model")
    model = replace(reader(), count=None, longest=None, letter_bytes=2**40)
    monkeypatch.setitem(vectors._READERS, "fasttext", lambda *_: model)
    rows = rows_of(40)
    declared("x", write(tmp_path / "n.csv", rows), model="m.bin")
    classify("x", epsilon=0.1, out="R")
    rows[3]["body"] = "word " * 14_000 + "w" * 5_000
    declared("x", write(tmp_path / "n.csv", rows), model="m.bin")
    with pytest.raises(UsageError, match="m.bin: reading a word of 5,000 letters would need"):
        classify("x", epsilon=0.1, out="S")
    assert len(private_graphs.ledger("x").releases) == 1


def test_public_files_teach_words_and_leave_the_owner_private(data, tmp_path):
    (tmp_path / "open").mkdir()
    public = [row | {"id": f"o{row['id']}"} for row in rows_of(480)]
    write(tmp_path / "open" / "a.csv", public[1:])
    write(tmp_path / "open" / "B.CSV", public[:1])
    rows = rows_of(80)
    rows[0]["body"] = "xylophone xylophone"
    found = declared("x", write(tmp_path / "n.csv", rows), classes=(), public_files="open")
    assert (found.protected, found.public, found.classes) == (80, 480, CLASSES)
    (tmp_path / "open" / "c.csv.gz").touch()
    write(tmp_path / "open" / ".a.csv", [{**row, "id": f"b{row['id']}"} for row in public])
    (tmp_path / "open" / ".DS_Store").touch()
    (tmp_path / "open" / "d.jsonl").write_text(json.dumps(public[0] | {"id": "d"}))
    found = declared("x", tmp_path / "n.csv", classes=(), public_files="open")
    assert found.public == 481 and "open: not read: '.a.csv', 'c.csv.gz';" in (
        found.warnings[-1])  # fmt: skip
    write(tmp_path / "open" / "a.csv", [{**public[1], "id": "N1"}, *public[2:]])
    write(tmp_path / "n.csv", [{**rows[0], "id": "n1"}, *rows[1:]])
    found = declared("x", tmp_path / "n.csv", classes=(), public_files="open")
    assert any("1 value of 'id' unlike another one only in case" in each
               for each in found.warnings), "of two tables"  # fmt: skip
    twice = write(tmp_path / "open" / "e.csv", public[2:4])
    with pytest.raises(UserError, match=r"the id 'o\w+' is in (a|e).csv too, and would be public"):
        declared("y", tmp_path / "n.csv", classes=(), public_files="open")
    twice.unlink()
    result = classify("x", epsilon=1, method="dp_linear", out="R")
    assert result.quality is not None and result.quality.public_alone is not None
    assert private_graphs.ledger("x").releases[0]["units"] == 80, "the protected ones"
    model = private_graphs.load("R/release")
    assert "xylophone" not in model.features.words and "chain" in model.features.words
    new = write(tmp_path / "new.csv", [{"id": "a", "body": "chain pedal zither wheel"}])
    assert private_graphs.predict("R/release", nodes=new).unknown == 0.25


def test_public_facts_decide_on_the_method(data, tmp_path, monkeypatch):
    rows = [row | {"open": "yes" if number > 39 else ""} for number, row in enumerate(rows_of(560))]
    nodes = write(tmp_path / "n.csv", rows)
    declared("labelled", nodes, public="open")
    blank = [row | {"topic": "" if row["open"] and number > 79 else row["topic"]}
             for number, row in enumerate(rows)]  # fmt: skip
    declared("unlabelled", write(tmp_path / "u.csv", blank), public="open")
    (tmp_path / "m.bin").write_bytes(b"model")
    monkeypatch.setitem(vectors._READERS, "fasttext", reader)
    declared("model", nodes, public="open", model=tmp_path / "m.bin")
    for name, sums, other in (
        ("labelled", "word_sums", "class_sums"), ("unlabelled", "class_sums", "word_sums"),
        ("model", "class_sums", "word_sums"),
    ):  # fmt: skip
        assert classify(name, epsilon=1, dry_run=True).method == sums
        with pytest.raises(UsageError, match=f"{other}.*expected {sums} or dp_linear"):
            classify(name, epsilon=1, method=other, dry_run=True)


def test_a_model_with_signs_keeps_the_format_of_earlier_releases(tmp_path):
    from safetensors import safe_open

    texts, weights = ["chain pedal rose", "dial", ""], np.linspace(-1, 1, 99).reshape(33, 3)
    for signed, written in ((True, "2"), (False, "3")):
        features = HashedWords(32, signed=signed)
        made = ReleasedModel(features, weights, CLASSES, ("body",), "id", "g")
        made.save(tmp_path / "model.safetensors")
        with safe_open(tmp_path / "model.safetensors", "numpy") as file:
            about = json.loads(file.metadata()["private_graphs"])
        assert about["format"] == written and ("signed" in about) == (not signed)
        read = private_graphs.load(tmp_path).predict_proba(texts)
        assert (read == made.predict_proba(texts)).all()


def test_words_outside_a_public_list_are_not_read(data, tmp_path):
    nodes = write(tmp_path / "n.csv", rows_of(160))
    (tmp_path / "words.txt").write_text("Chain pedal\nrose\nsoil\ndial\ntube\n")
    (tmp_path / "other.txt").write_text("xylophone\nbreak, water\n")
    [warning] = declared("x", nodes, vocabulary="other.txt").warnings
    assert "160 documents without a word of other.txt: nothing of them is read" in warning
    assert declared("x", nodes, vocabulary="words.txt").warnings == ()
    classify("x", epsilon=1.5, out="R")
    model = private_graphs.load("R/release")
    assert model.features.words == ("chain", "dial", "pedal", "rose", "soil", "tube")
    alike = model.predict_proba(["chain pedal", "chain hedge pedal coil"])
    assert (alike[0] == alike[1]).all()
    new = write(tmp_path / "new.csv", [{"id": "a", "body": "chain hedge pedal coil"}])
    assert private_graphs.predict("R/release", nodes=new).unknown == 0.5
    (tmp_path / "words.txt").write_text("--")
    with pytest.raises(UserError, match="no word"):
        classify("x", epsilon=0.1, out="S")
    with pytest.raises(UserError, match="leave --vocabulary out"):
        declared("y", nodes, vocabulary="words.txt", public="open")


def test_a_field_that_may_have_swallowed_rows_is_told_and_a_letter_is_not(data, tmp_path):
    lines = [f"{number},chain {number},bikes" for number in range(40)]
    lines[3], lines[30] = '3,"chain,bikes', '30,end",bikes'
    letter = "Dear Sir,\n" + "yes, we came, and saw\n" * 9 + "and left\n" * 9 + "Yours, X"
    for rows, told in ((lines, True), ([*lines[4:30], f'a,"{letter}",bikes'], False)):
        nodes = tmp_path / "n.csv"
        nodes.write_text("id,body,topic\n" + "\n".join(rows) + "\n")
        found = declared("x", nodes)
        assert any("line 5: a field in double quotes" in each for each in found.warnings) == told


@pytest.mark.parametrize("at_once", [64, 2**20])
def test_a_field_that_may_have_swallowed_rows_is_told_by_predict_too(
    run, data, tmp_path, monkeypatch, at_once
):
    declared("x", write(tmp_path / "n.csv", rows_of(60)), budget=3)
    classify("x", epsilon=1, out="R")
    lines = [f"{number},chain {number}" for number in range(40)]
    lines[3], lines[30] = '3,"chain', '30,end"'
    monkeypatch.setattr(typed_tables, "BLOCK_BYTES", at_once)
    for rows, told in ((lines, 1), (lines[4:30], 0)):
        Path("new.csv").write_text("id,body\n" + "\n".join(rows) + "\n")
        answer = run("predict", "R", "--nodes", "new.csv", "--out", "p.csv")
        assert answer.out.count("1 document with a field in double quotes") == told


def test_delta_of_several_releases_is_that_of_all_of_them():
    def statement(unit: str, event: dict) -> SimpleNamespace:
        part = DpEvents(event=event)
        return SimpleNamespace(
            unit=unit, relation="replace", delta=1e-5, epsilon_proved=1.0, epsilon_all_runs=1.0,
            reads_nothing=False, n_runs_released=1, dp_events=(part,),
        )  # fmt: skip

    gaussian = {"class": "GaussianDpEvent", "noise_multiplier": 1 / MU}
    other = {"class": "PoissonSampledDpEvent"}
    one, two, three = (statement(*each) for each in
                       (("person", gaussian), ("person", other), ("edge", other)))  # fmt: skip
    assert together([one, one]) == pytest.approx((1.4656, 1e-5), abs=1e-3)
    assert together([two, two]) == (2.0, 2e-5)
    assert together([one, two])[1] == 2e-5
    assert together([one, three])[0] is None
    added = SimpleNamespace(**vars(one) | {"relation": "add_remove"})
    assert together([one, added])[0] is None, "another relation is another promise"
    parts = statement("person", {"class": "GaussianDpEvent", "noise_multiplier": 100.0})
    steps = {"class": "SelfComposedDpEvent", "event": gaussian, "count": 2}
    parts.dp_events = (*parts.dp_events, *statement("person", steps).dp_events)
    assert together([parts]) == pytest.approx((1.4656, 1e-5), abs=1e-3)
    searched = SimpleNamespace(**vars(one) | {"n_runs_released": 2, "epsilon_all_runs": 5.0})
    assert together([one, searched])[0] == pytest.approx(6, abs=1e-3)


# --- attack on releases like the owner's --------------------------------------------------------


def test_an_attack_is_of_releases_like_that_of_the_folder(data):
    rows = rows_of(120)
    given = dict(unit="who", text=("title", "body"), budget=9)
    rows = [row | {"title": "a", "number": row["id"], "team": row["who"]} for row in rows]
    nodes = write(Path("n.csv"), rows)
    declared("x", nodes, **given)
    private_graphs.classify("x", epsilon=2, out="R")
    for change, words in (
        ({"text": "body"}, "its text columns are title, body, and 'x' is declared with body"),
        ({"unit": None}, "its unit are"), ({"unit": "team"}, "of teams"),
        ({"classes": CLASSES[::-1]}, "its classes"), ({"id": "number"}, "its column of ids"),
    ):  # fmt: skip
        declared("x", nodes, **given | change)
        with pytest.raises(UsageError, match=words):
            private_graphs.attack("R", models=8)
    assert not Path("R/private/leaks.json").exists()
    declared("x", write(nodes, rows[:80]), **given)
    answer = private_graphs.attack("R", models=8)
    assert (answer.released_units, answer.table_units) == (60, 40)
    assert "The release protects 60 whos; these are classifiers of the 40" in repr(answer)


@pytest.mark.long
def test_an_attack_stays_private_and_sees_something_but_no_more_than_is_proved(
    run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = [row | {"body": f"{row['body']} rare{row['id']}"} for row in rows_of(240)]
    declared("bar", write(tmp_path / "n.csv", rows), unit="who", budget=30)
    run("classify", "bar", "--epsilon", 20, "--out", tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out" / "release").iterdir()}
    spent = private_graphs.ledger("bar").spent
    found = run("attack", tmp_path / "out", "--models", 64, "--json").json
    assert {path: path.read_bytes() for path in (tmp_path / "out" / "release").iterdir()} == before
    assert private_graphs.ledger("bar").spent == spent
    file = tmp_path / "out" / "private" / "leaks.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["seen"] == found["seen"]
    assert [each["what"] for each in found["seen"]] == ["sums", "classifier", "rare words"]
    for each in found["seen"]:
        assert each["auc"][1] <= found["auc_allowed"] and each["tpr_01"][1] <= found["tpr_allowed"]
    assert found["seen"][0]["auc"][1] > 0.55
    most = ndtr(gdp_mu(20, found["delta"]) / 2**0.5)
    assert found["auc_allowed"] == pytest.approx(most, abs=1e-3)
    answer = run("attack", tmp_path / "out" / "release", "--models", 8)
    assert answer.code == 0 and "never a bound" in answer.out and "understate" in answer.out
    run("classify", "bar", "--epsilon", 2, "--method", "dp_linear", "--out", tmp_path / "steps")
    both = [json.loads((tmp_path / each / "release" / "statement.json").read_text())
            for each in ("out", "steps")]  # fmt: skip
    hashes = {each["data_fingerprint"] for statements in both for each in statements.values()}
    assert len(hashes) == 2, "a hash that is the same each time confirms a guess of all the data"
    found = run("attack", tmp_path / "steps", "--models", 8, "--json").json
    assert [each["what"] for each in found["seen"]] == ["classifier"] and found["accuracy"] > 0
    most = ndtr(gdp_mu(2, found["delta"]) / 2**0.5)
    assert found["auc_allowed"] == pytest.approx(most, abs=1e-3)
    refused(run("attack", tmp_path / "nowhere"), 1, "nowhere", "classify")
    shutil.copytree(tmp_path / "out" / "release", tmp_path / "given-away" / "release")
    for copy in (tmp_path / "given-away", tmp_path / "given-away" / "release"):
        refused(run("attack", copy, "--models", 8), 2, "given away", "the owner's DIR")
    page = tmp_path / "out" / "release" / "statement.json"
    page.write_text(json.dumps(both[0] | both[1]))  # of two releases, or of a later version
    page.with_name("manifest.json").write_text('{"sha256": {}}')
    refused(run("attack", tmp_path / "out"), 1, str(tmp_path / "out"), "2 statements")


@pytest.mark.parametrize("kind", releases.METHODS)
def test_a_unit_that_is_blanked_moves_a_release_by_what_is_stated(kind):
    """The sums with a unit, and those where it adds nothing, on the lattice of the release."""
    rows = rows_of(80)
    texts, labels = [row["body"] for row in rows], [CLASSES.index(row["topic"]) for row in rows]
    training = releases.training_of(kind).of(unit_sums.PublicTexts(), 80, 3, 1.0, 1e-5, "document")
    for query in training.queries:
        assert query.vanishing < query.sensitivity
    if kind == "dp_linear":
        assert training.queries[1].vanishing == pytest.approx(unit_steps.CLIP_NORM, rel=1e-6)
        return
    [query] = training.queries
    lattice, share = training.lattice, training.SHARE
    term = unit_sums.Terms(texts[:2], np.array(labels[:2]), np.zeros(2, int))
    moved = term.sum(training.features, 3, lattice, share) * lattice.spacing
    assert 0.5 < np.linalg.norm(moved) <= query.vanishing
    one = unit_sums.Terms(texts[:1], np.array(labels[:1]), np.zeros(1, int))
    moved = one.sum(training.features, 3, lattice, share) * lattice.spacing
    assert np.linalg.norm(moved) == pytest.approx(query.vanishing, rel=1e-6), "attained"


def test_the_epsilon_of_a_blanked_unit_is_proved_and_said(run, data, tmp_path):
    declared("x", write(tmp_path / "n.csv", rows_of(60)), delta=1e-5)
    answer = run("classify", "x", "--epsilon", 1, "--out", "A")
    assert "epsilon 1 where a document is replaced, 0.684" in answer.out
    (statement,) = json.loads(Path("A/release/statement.json").read_text()).values()
    [also] = statement["also_proved"]
    assert also["relation"] == "zero_out"
    exact = gdp_epsilon(gdp_mu(1, 1e-5) / 2**0.5, 1e-5)
    assert exact * (1 - 1e-3) < also["epsilon"] <= exact * (1 + 1e-6)
    page = Path("A/release/README.md").read_text()
    assert "ε = 0.684" in page and "Opacus" in page and "ids" in page
    assert "contributes as it is or not at all" in run("explain", "A", "--full").out
