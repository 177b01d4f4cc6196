"""Links of declared documents: public ones vote, private ones are not read."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import refused
from document_tables import CLASSES, WORDS, declared, rows_of, write
from scipy.special import softmax

import private_graphs
from private_graphs.core.errors import UsageError, UserError
from private_graphs.core.streams import Streams
from private_graphs.documents import release as releases
from private_graphs.documents.accounts import Account
from private_graphs.documents.answers import REGRESSION, SUMS
from private_graphs.documents.declaration import needed
from private_graphs.documents.ledger import BudgetLedger
from private_graphs.documents.link_tables import read_links
from private_graphs.documents.model import ReleasedModel
from private_graphs.documents.neighbours import LinkFacts, PublicNeighbours, count_votes
from private_graphs.documents.plans import lines_of
from private_graphs.documents.release import classify
from private_graphs.documents.rivals import FOLDS, PublicDocuments, public_quality
from private_graphs.documents.tables import read_documents
from private_graphs.documents.unit_sums import Terms
from private_graphs.mechanisms.door import Door
from private_graphs.mechanisms.replay import replay


def tables(size: int = 120, private: int = 60) -> tuple[list[dict], list[tuple[str, str]]]:
    """Documents, the first ones private, and links within a class among the public ones."""
    rows = [row | {"open": "" if number < private else "yes"}
            for number, row in enumerate(rows_of(size))]  # fmt: skip
    links = []
    for name in CLASSES:
        ids = [row["id"] for row in rows[private:] if row["topic"] == name]
        links += list(zip(ids, ids[1:], strict=False)) + list(zip(ids, ids[3:], strict=False))
    return rows, links


def written(path: Path, links) -> Path:
    return write(path, [{"source": one, "target": two} for one, two in links])


def classes_in(path: Path | str) -> dict[str, str]:
    with open(path, encoding="utf-8", newline="") as stream:
        return {row["id"]: row["class"] for row in csv.DictReader(stream)}


def test_public_neighbours_vote_on_new_documents(run, data, tmp_path):
    rows, links = tables()
    by_class = {name: [row["id"] for row in rows[60:] if row["topic"] == name] for name in CLASSES}
    own = [(rows[number]["id"], other) for number in range(3) for other in by_class["radios"][:4]]
    rows[:3] = [row | {"body": "the again", "topic": ""} for row in rows[:3]]
    declared("x", write(tmp_path / "n.csv", rows), public="open", classes=(), budget=None,
             edges=written(tmp_path / "e.csv", [*links, *own]))  # fmt: skip
    inner = declared("y", tmp_path / "n.csv", public="open", classes=(), budget=None,
                     edges=written(tmp_path / "own.csv", [("d3", "d5"), ("d5", "d7")]))  # fmt: skip
    assert inner.dropped["link between private documents"] == 2
    assert "no link joins two public documents: no release reads a link" in inner.warnings
    told = run("classify", "x", "--epsilon", 8, "--out", "R")
    assert f"links: {len(links)} links among public documents, 100 % within a class" in told.out
    model = private_graphs.load("R/release")
    assert set(model.neighbours.ids) == {row["id"] for row in rows[60:]} and "5" in {
        json.loads(_about(Path("R/release/model.safetensors")))["format"]}  # fmt: skip
    names = [f"new{number}" for number in range(4)]
    new = write(tmp_path / "new.csv", [{"id": name, "body": "the again"} for name in names])
    ends = [(names[0], by_class["gardens"][0]), (by_class["gardens"][1], names[0]),
            (names[1], by_class["bikes"][0]), (names[2], names[0]), ("d3", names[3]),
            (names[1], by_class["bikes"][0])]  # fmt: skip
    edges = written(tmp_path / "l.csv", ends)
    found = private_graphs.predict("R/release", nodes=new, edges=edges, out="p.csv")
    assert found.classes[:2] == ["gardens", "bikes"] and found.linked == 2
    alone = private_graphs.predict("R/release", nodes=new)
    assert found.classes[2:] == alone.classes[2:], "neither new nor private documents vote"
    votes, _ = model.neighbours.read(edges, "source", "target").of(names)
    odds = dict(zip(model.classes, model.neighbours.odds.max(axis=0), strict=True))
    expected = np.array([[2 * odds[name] * (name == "gardens") for name in model.classes],
                         [odds[name] * (name == "bikes") for name in model.classes]])  # fmt: skip
    assert np.allclose(votes[:2], expected), "a link that is given twice is one link"
    assert not votes[2:].any()
    told = run("predict", "R/release", "--nodes", new, "--out", "q.csv", "--edges", edges)
    assert "2 of 4 documents with a link to a public one, which votes; the other 2" in told.out
    assert "3 lines of links not used: given twice, or without a public" in told.out
    more = written(tmp_path / "more.csv", [*ends, *links[:1], ("d70", "d70"), ("gone", "d70")])
    assert private_graphs.predict("R/release", nodes=new, edges=more).idle_links == 6
    assert not private_graphs.predict("R/release", nodes="n.csv", edges="e.csv").idle_links
    assert "function of its text and links" in told.out
    assert Path("q.csv").read_bytes() == Path("p.csv").read_bytes()
    told = run("predict", "R/release", "--nodes", new, "--out", "q.csv")
    assert "by their words alone: give links" in told.out
    run("predict", "R/release", "--nodes", "n.csv", "--out", "all.csv", "--edges", "e.csv")
    both = classes_in("R/private/predictions.csv") | classes_in("R/release/predictions.csv")
    assert classes_in("all.csv") == both
    assert {both[f"d{number}"] for number in range(3)} == {"radios"}


def _about(path: Path) -> str:
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        return file.metadata()["private_graphs"]


def test_a_release_without_public_links_takes_none(run, data, tmp_path):
    rows, links = tables()
    nodes = write(tmp_path / "n.csv", rows)
    private = written(tmp_path / "e.csv", [("d1", "d2"), ("d3", "d70")])
    given = dict(public="open", classes=(), budget=None)
    for name, more in (("wordy", {}), ("linked", {"edges": private})):
        declared(name, nodes, **given, **more)
        result = classify(name, epsilon=1, out=name)
        assert result.linked is None and result.quality.without_links is None
        with pytest.raises(UsageError, match="without links among public documents"):
            private_graphs.predict(f"{name}/release", nodes=nodes, edges=private)
    model = Path("linked/release/model.safetensors")
    assert b"neighbour" not in model.read_bytes() and '"2"' not in _about(model)
    mixed = [(one, two) for (one, _), (_, two) in zip(links, links[40:], strict=False)]
    declared("mixed", nodes, **given, edges=written(tmp_path / "m.csv", mixed))
    told = run("classify", "mixed", "--epsilon", 1, "--out", "M")
    assert "links are not used" in told.out and "without links" not in told.out
    with pytest.raises(UsageError, match="do not tell classes apart"):
        private_graphs.predict("M/release", nodes=nodes, edges=private)


@pytest.fixture
def whole(data, tmp_path) -> ReleasedModel:
    """The model of a release with public links, in the folder ``R``; ``other`` is an empty one."""
    rows, links = tables()
    edges = written(tmp_path / "e.csv", links)
    declared("x", write(tmp_path / "n.csv", rows), public="open", classes=(), edges=edges)
    classify("x", epsilon=1, out="R")
    (tmp_path / "other").mkdir()
    return private_graphs.load("R/release")


def test_damaged_neighbours_are_refused(whole, tmp_path):
    ids, odds = whole.neighbours.ids, whole.neighbours.odds
    alike = (
        ids[1].replace("d", "\uff44"),
        *ids[1:],
    )  # votes go by what is seen
    for names, votes in ((ids, odds[1:]), (ids, odds[:, 1:]), (ids, odds * np.nan), (ids, odds[0]),
                         (ids, odds.astype(int)), (alike, odds)):  # fmt: skip
        damaged = replace(whole, neighbours=PublicNeighbours(names, votes))
        damaged.save(tmp_path / "other" / "model.safetensors")
        with pytest.raises(UserError, match="cannot be read as a released model"):
            private_graphs.load(tmp_path / "other")


def test_neighbours_of_an_earlier_version_vote_for_their_class_alone(whole, tmp_path):
    from safetensors.numpy import load_file, save_file

    tensors = load_file("R/release/model.safetensors")
    about = json.loads(_about(Path("R/release/model.safetensors"))) | {"format": "4"}
    tensors |= {"neighbour_classes": whole.neighbours.odds.argmax(axis=1),
                "odds": whole.neighbours.odds.max(axis=0)}  # fmt: skip
    old = tmp_path / "other" / "model.safetensors"
    for labels, fits in ((tensors["neighbour_classes"], True), (tensors["odds"], False),
                         (tensors["neighbour_classes"] + 3, False)):  # fmt: skip
        save_file(tensors | {"neighbour_classes": labels}, old,
                  metadata={"private_graphs": json.dumps(about)})  # fmt: skip
        if fits:
            assert (private_graphs.load(old).neighbours.odds == whole.neighbours.odds).all()
        else:
            with pytest.raises(UserError, match="classes of public neighbours"):
                private_graphs.load(old)


def _facts(ends: np.ndarray, n_classes: int = 4) -> LinkFacts:
    """Facts of links between documents of known classes ``ends`` (2, links)."""
    beliefs = np.eye(n_classes)[ends.ravel()]
    return LinkFacts.of(beliefs, np.arange(ends.size).reshape(2, -1))


def _odds(facts: LinkFacts) -> np.ndarray:
    return facts.odds(np.eye(len(facts.shares))).diagonal()


def test_links_by_chance_tell_nothing_and_odds_are_those_of_the_model():
    generator = np.random.default_rng(0)
    shares = np.array([0.7, 0.2, 0.06, 0.04])
    ends = generator.choice(4, (2, 50_000), p=shares)
    assert _facts(ends).chance == pytest.approx((shares**2).sum(), abs=0.01)
    assert max(_odds(_facts(ends))) < 0.3, "0.7 of one class join that class by chance"
    alike = generator.random(50_000) < 0.5
    ends[1, alike] = ends[0, alike]
    facts = _facts(ends)
    assert facts.tie == pytest.approx(0.5, abs=0.01)
    for name, odds in enumerate(_odds(facts)):  # by counting: odds of c with a neighbour in c
        linked = np.hstack([ends[0, ends[1] == name], ends[1, ends[0] == name]]) == name
        others = np.hstack([ends[0, ends[1] != name], ends[1, ends[0] != name]]) == name
        ratio = linked.mean() / (1 - linked.mean()) * (1 - shares[name]) / shares[name]
        assert odds == pytest.approx(np.log(ratio), abs=0.1) and others.any()
    assert _facts(np.zeros((2, 0), int)).tie == 0
    few = _odds(_facts(np.array([[0, 1], [0, 1]])))
    assert 0 < max(few) < max(_odds(_facts(np.array([[0, 1] * 50] * 2))))
    assert _facts(np.array([[0, 1, 2], [1, 2, 0]])).tie == 0


def test_documents_without_a_class_vote_by_what_a_release_says_of_them():
    """Beliefs that are probabilities give the tie that classes would; known classes stay."""
    generator = np.random.default_rng(1)
    classes = np.repeat(np.arange(3), 2000)
    links = generator.integers(0, 6000, (2, 40_000))
    alike = generator.random(40_000) < 0.6
    links[1, alike] = 2000 * (links[0, alike] // 2000) + generator.integers(0, 2000, alike.sum())
    scores = 1.5 * np.eye(3)[classes] + generator.gumbel(size=(6000, 3))
    calibrated = 1.5 * np.eye(3)[scores.argmax(axis=1)]  # what an answer is worth, about
    facts = LinkFacts.of(softmax(calibrated, axis=1), links)
    assert facts.tie == pytest.approx(0.6, abs=0.1)
    assert facts.same < LinkFacts.of(np.eye(3)[classes], links).same
    labels = np.where(generator.random(6000) < 0.5, classes, -1)
    result = count_votes(calibrated, labels, links)
    blind = labels < 0
    right = (result.scores.argmax(axis=1) == classes)[blind].mean()
    assert right > (calibrated.argmax(axis=1) == classes)[blind].mean() + 0.15
    known = result.facts.odds(np.eye(3)[labels])
    assert (result.odds[~blind] == known[~blind]).all(), "a class is known, whatever scores say"
    other = count_votes(np.where(blind[:, None], calibrated, -calibrated), labels, links)
    assert (other.odds == result.odds).all(), "scores of documents with a class are not read"
    assert not count_votes(calibrated, labels, links[:, :0]).odds.any()


def test_public_documents_without_a_class_vote_on_new_ones(run, data, tmp_path):
    rows, links = tables(150, 50)
    for number, row in enumerate(rows[50:]):
        row["topic"] = row["topic"] if number % 3 == 0 else ""
    declared("x", write(tmp_path / "n.csv", rows), public="open", classes=CLASSES, budget=None,
             edges=written(tmp_path / "e.csv", links))  # fmt: skip
    assert "an end without a class: what they tell follows" in run(
        "classify", "x", "--epsilon", 8, "--dry-run").out  # fmt: skip
    told = run("classify", "x", "--epsilon", 8, "--out", "R")
    assert f"links: {len(links)} links among public documents" in told.out
    voters = private_graphs.load("R/release").neighbours
    assert set(voters.ids) == {row["id"] for row in rows[50:]}
    unlabelled = np.array([row["topic"] == "" for row in rows[50:]])
    places = [voters.ids.index(row["id"]) for row in rows[50:]]
    assert (np.count_nonzero(voters.odds[places], axis=1)[~unlabelled] == 1).all()
    assert (voters.odds[places][unlabelled] > 0).all()
    new = write(tmp_path / "new.csv", [{"id": "new", "body": "the again"}])
    name = rows_of(150)[51]["topic"]
    ends = [("new", row["id"]) for row, true in zip(rows[50:], rows_of(150)[50:], strict=True)
            if true["topic"] == name and row["topic"] == ""]  # fmt: skip
    found = private_graphs.predict("R/release", nodes=new, edges=written(tmp_path / "l.csv", ends))
    assert found.classes == [name] and found.linked == 1


def test_a_replayed_release_reads_no_link_of_a_private_document(data, tmp_path):
    """Neighbours have another document, with other links: what leaves follows from the tape."""
    rows, links = tables(90, 45)
    nodes, edges = tmp_path / "n.csv", tmp_path / "e.csv"
    declared("x", write(nodes, rows), public="open", classes=(), edges=written(edges, links))
    other = [rows[0] | {"body": "dial coil", "topic": next(
        name for name in CLASSES if name != rows[0]["topic"])}, *rows[1:]]  # fmt: skip
    alike = [("d0", row["id"]) for row in rows[1:] if row["topic"] == rows[0]["topic"]]
    private = [(f"d{number}", f"d{number + 1}") for number in range(0, 40, 2)]

    nothing = Account((), 1e-5)

    def released(tables, watch):
        write(nodes, tables[0])
        written(edges, [*links, *tables[1]])
        spec = needed("x", data)
        docs = read_documents(spec)
        plan = releases.planned_release(spec, docs, BudgetLedger(data), 4, "word_sums")
        free = plan.free_rows()
        drawn = plan.drawn(free, Door.of([Streams.of({"test": 1})], watch))
        lines = lines_of(plan, nothing, nothing, free), plan.trees(), plan.room
        return {"model": drawn.model.content(), "quality": drawn.quality, "sizes": drawn.sizes,
                "plan": lines, "linked": repr(plan.facts)}  # fmt: skip

    neighbours = [(other, [*private[1:], *alike])]
    found = replay(released, (rows, private), neighbours, made_up=True, files=False)
    assert found.passed, found.differs
    assert 0.5 < found.largest_ratio <= 1


def test_no_label_answers_about_its_own_fold(data, tmp_path):
    rows, links = tables(120, 20)
    declared("x", write(tmp_path / "n.csv", rows), public="open", classes=(),
             edges=written(tmp_path / "e.csv", links))  # fmt: skip
    spec = needed("x", data)
    docs = read_documents(spec)
    public = PublicDocuments.of(docs, read_links(spec, docs.ids)[0])
    assert set(public.folds) == set(range(FOLDS))

    def scores(taught: Terms, texts):
        assert len(taught.labels) < 100, "a fold is left out"
        return np.tile(np.bincount(taught.labels, minlength=3), (len(texts), 1)) / 100

    alone, linked = public.answers(scores)
    assert (alone != linked).any(axis=1).mean() > 0.9
    for fold in range(FOLDS):
        asked = public.folds == fold
        labels = np.where(asked, (public.terms.labels + 1) % 3, public.terms.labels)
        others = replace(public, terms=replace(public.terms, labels=labels)).answers(scores)
        for before, after in zip((alone, linked), others, strict=True):
            assert (before[asked] == after[asked]).all()
            assert (before[~asked] != after[~asked]).any()


def test_a_release_is_worth_it_only_against_every_public_model():
    labels = np.arange(300) % 3
    test = Terms([""] * 300, labels, np.arange(300))

    def right(share: int) -> np.ndarray:
        return np.where(np.arange(300) % 100 < share, labels, (labels + 1) % 3)

    verdicts = {}
    for sums, regression in ((50, 50), (50, 75), (50, 95), (95, 50), (75, 50)):
        free = {SUMS: right(sums), REGRESSION: right(regression)}
        quality = public_quality(CLASSES, test, right(75), 0, free)
        assert (quality.public_alone, quality.public_regression) == (sums / 100, regression / 100)
        verdicts[sums, regression] = quality.verdict
        best = max((regression, REGRESSION), (sums, SUMS))[1]
        assert best in quality.sentence
    assert [*verdicts.values()] == ["gain", "none", "loss", "loss", "none"]


def test_public_models_learn_from_all_public_documents(run, data, tmp_path):
    """Words of a class stand in few documents: who knows a half of them knows less."""
    rows, _ = tables(150, 50)
    for number, row in enumerate(rows[50:]):
        row["body"] = f"the {WORDS[row['topic']].split()[number % 3]} again"
    declared("x", write(tmp_path / "n.csv", rows), public="open", classes=())
    told = run("classify", "x", "--epsilon", 1, "--dry-run")
    assert f"with {SUMS}, " in told.out and f"with {REGRESSION}" in told.out
    quality = classify("x", epsilon=1, out="R").quality
    assert (quality.tested, quality.public_regression, quality.public_alone) == (100, 1.0, 1.0)
    assert quality.verdict in ("none", "loss")
    page = Path("R/release/README.md").read_text()
    assert REGRESSION in page and "a fifth of which each time is answered without it" in page
    answer = run("classify", "x", "--epsilon", 0.1, "--out", "S")
    assert f"{REGRESSION} 1.000" in answer.out


def test_odd_tables_of_links_are_named(run, whole, tmp_path):
    new = write(tmp_path / "new.csv", [{"id": "d60\u200b", "body": "x"}, {"id": "b", "body": "y"}])
    bad = write(tmp_path / "bad.csv", [{"a": "x", "b": "y"}])
    predict = ("predict", "R/release", "--nodes", new, "--out", "p.csv", "--edges")
    refused(run(*predict, bad), 1, "bad.csv", "source")
    assert run(*predict, written(bad, [("b", "\u200bd60")]), "--json").json["linked"] == 1
    write(bad, [{"a": "d60", "b": "d61"}, {"a": "", "b": "d61"}, {"a": "d60", "b": "d60"}])
    named = run(*predict, bad, "--source", "a", "--target", "b", "--json")
    assert named.json["linked"] == 1, "a public document that is asked has its own links"
