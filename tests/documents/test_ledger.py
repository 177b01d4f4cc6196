"""The ledger as a filter: what is refused and left, whose it is, what others have spent."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from command_line import refused
from document_tables import CLASSES, declared, linked, public_rows, rows_of, write
from dp_accounting import gaussian_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st

import private_graphs
from private_graphs.core.errors import UsageError, UserError
from private_graphs.documents.accounts import Account, Cost, People, documents_account, over_budget
from private_graphs.documents.allowance import allowance
from private_graphs.documents.ledger import BudgetLedger
from private_graphs.documents.release import METHODS, training_of
from private_graphs.documents.spending import add_spending, plan_releases, spent_on
from private_graphs.documents.tables import TRAINING
from private_graphs.documents.unit_sums import PublicTexts, mu_of
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.rounding import at_most

DELTA = 1e-5
MU = gdp_mu(1, DELTA)
ONE = People(np.array([1], np.uint64), np.array([1], np.uint64), np.zeros(1, np.int64),
             np.array([TRAINING], np.uint8))  # fmt: skip


def charged(mus: list[float]) -> Account:
    """The account of one document after releases of these μ."""
    return Account(((sum(mu**2 for mu in mus), 0.0, 0.0),), DELTA)


MUS = st.lists(st.floats(0.01, 0.3), min_size=1, max_size=8)


@given(MUS, st.floats(0.05, 30))
def test_the_ledger_is_the_filter_of_gaussian_privacy_rounded_up(mus, budget):
    """Against dp-accounting: never below, and above by no more than what is rounded."""
    together = math.sqrt(math.fsum(mu**2 for mu in mus))
    exact = gaussian_mechanism.get_epsilon_gaussian(1 / together, DELTA, tol=1e-13)
    account = charged(mus)
    assert exact - 1e-12 <= account.spent <= exact * (1 + 1e-10) + 1e-10
    if abs(exact - budget) > 1e-9 * budget:
        assert over_budget(account, budget) == (exact > budget)


@settings(max_examples=25)
@given(MUS, st.integers(1, 12), st.sampled_from([1e-4, 1e-5, 1e-9]))
def test_what_is_left_fits_and_not_much_more_would(mus, releases, delta):
    account = charged(mus)
    budget = account.spent + 1
    left = allowance(account, budget, delta, releases)
    for share, fits in ((1.0, True), (1.02, False)):
        more = [gdp_mu(share * left, delta)] * releases
        assert over_budget(charged([*mus, *more]), budget) != fits


@pytest.mark.parametrize("method", METHODS)
def test_planned_releases_of_every_method_are_all_admitted(method):
    """With the noise that they would have, on its lattice; one for the whole budget, too."""
    for number, budget in ((1, 4.0), (1, 0.1), (12, 4.0)):
        nothing = documents_account([], ONE, DELTA, (TRAINING,))
        epsilon = allowance(nothing, budget, DELTA, number)
        assert number > 1 or epsilon == budget
        queries = training_of(method).of(PublicTexts(), 999, 7, epsilon, DELTA, "document").queries
        distance = sum(query.total_variation for query in queries)
        after = Account(((number * mu_of(queries) ** 2, number * distance, 0.0),), DELTA)
        assert not over_budget(after, budget)
        assert after.spent > 0.99 * budget


def test_all_together_is_what_counts_not_the_sum(run, data, tmp_path):
    """2 was refused after 2, although both are 2.96 of 4."""
    declared("x", write(tmp_path / "n.csv", rows_of(60)), budget=4, delta=DELTA)
    assert run("classify", "x", "--epsilon", 2, "--out", "A").code == 0
    plan = run("ledger", "plan", "x", "--releases", 2, "--json").json
    assert plan["epsilon"] > 1.7
    answer = run("ledger", "x")
    assert "one more release may ask for 3.2" in answer.out
    for out in ("B", "C"):
        code = run("classify", "x", "--epsilon", plan["epsilon"], "--out", out).code
        assert code == 0, out
    assert 3.99 < private_graphs.ledger("x").spent <= 4
    refused(run("classify", "x", "--epsilon", 0.5, "--out", "D"), 3, "over the budget")
    refused(run("ledger", "plan", "x", "--releases", 0), 2, "releases")
    declared("y", tmp_path / "n.csv", budget=None)
    refused(run("ledger", "plan", "y", "--releases", 3), 2, "has no budget")


@pytest.mark.parametrize("then", ["", "p9"])
@pytest.mark.parametrize("count", [1, 3])
def test_what_was_spent_tells_documents_that_had_another_unit_and_the_statement_says_so(
    data, tmp_path, then, count
):
    """Neighbours by one person's documents today: 1 spent before, as the release that is given away
    says, becomes 2.155 and 4.746 by documents that were without a person's id."""
    rows, before = rows_of(60), rows_of(60)
    for row, earlier in zip(rows[2 : 2 + count], before[2 : 2 + count], strict=True):
        row["who"], earlier["who"] = "p0", then
    told = []
    for out, table in (("A", before), ("B", rows)):
        path = write(tmp_path / f"{out}.csv", table)
        declared(out.lower(), path, unit="who", budget=None, delta=DELTA)
        result = private_graphs.classify(out.lower(), epsilon=1, out=out)
        told.append([fact for fact in result.statement["public_facts"] if "how many" in fact])
    units = 1 + (1 if then else count)
    assert result.spent_before == pytest.approx(gdp_epsilon(units * MU, DELTA), abs=2e-3)
    assert told[0] == [] and "as far as what was spent before tells it" in told[1][0]


def test_what_was_spent_on_one_person_is_told_by_the_id(run, data, tmp_path):
    rows = rows_of(60)
    declared("x", write(tmp_path / "n.csv", rows), unit="who", budget=None, delta=DELTA)
    private_graphs.classify("x", epsilon=1, out="A")
    declared("y", write(tmp_path / "m.csv", rows[:20]), budget=None, delta=DELTA)
    private_graphs.classify("y", epsilon=1, out="B")  # by document: p1 has d2 and d3
    person, document = spent_on("p1")
    assert len(person.releases) == 2 and person.spent == pytest.approx(
        gdp_epsilon(math.sqrt(1 + 2**2) * MU, DELTA), abs=2e-3
    )
    assert document.delta is None and "in no release" in document.lines()[0]
    _, document = spent_on("d2")
    assert len(document.releases) == 2 and document.spent == pytest.approx(1.4656, abs=2e-3)
    sides = {row["side"] for row in document.releases}
    assert sides <= {"trained", "tested"}
    person, _ = spent_on("p25")  # in one of them
    assert len(person.releases) == 1 and person.spent == pytest.approx(1, abs=2e-3)
    declared("z", tmp_path / "m.csv", budget=None, delta=DELTA)
    (data.parent / "declared" / "z.json").write_bytes(b"")
    answer = run("ledger", "--id", "p25")
    assert answer.code == 0 and "(without what the tables of z would add)" in answer.out
    (data.parent / "declared" / "z.json").unlink()
    (tmp_path / "n.csv").unlink()  # who was taken out of all tables, by the ledger alone
    answer = run("ledger", "--id", "p25")
    assert "person 'p25': spent" in answer.out and "tables of x" in answer.out, answer.err
    found = run("ledger", "--id", "p25", "--json").json
    assert [each["kind"] for each in found] == ["person", "document"]


def test_who_was_published_is_not_said_to_have_spent_little(data, tmp_path):
    rows = [*rows_of(60), *({**row, "id": f"q{row['id']}"} for row in public_rows(40))]
    declared("x", write(tmp_path / "n.csv", rows), public="open", budget=None)
    private_graphs.classify("x", epsilon=1, out="A")
    _, document = spent_on("qd1")
    assert math.isinf(document.spent) and "protected nothing" in document.lines()[0]


def test_of_a_person_whose_document_was_published_nothing_is_proved(data, tmp_path):
    rows = [row | {"who": f"w{number % 30}", "open": "yes" if number < 30 else "no"}
            for number, row in enumerate(rows_of(60))]  # fmt: skip
    nodes = write(tmp_path / "n.csv", rows)
    declared("y", nodes, unit="who", budget=3)
    declared("x", nodes, public="open", budget=None)
    private_graphs.classify("x", epsilon=1, out="A")
    person, _ = spent_on("w7")  # it trained on a document of this person, and published another
    assert "since a release published documents of it without noise" in person.lines()[0]
    for result in (private_graphs.ledger("y"), plan_releases("y", 2)):
        words = result.lines()[0]
        assert "without bound (documents of it are public" in words and "may ask" not in words


def test_spending_of_other_tools_counts_and_is_told(run, data, tmp_path):
    declared("x", write(tmp_path / "n.csv", rows_of(60)), budget=1.5, delta=DELTA)
    words = "Opacus, a topic model of May"
    answer = run("ledger", "add", "x", "--mu", 0.134, "--sentence", words)
    assert answer.code == 0 and words in answer.out, answer.err
    assert private_graphs.ledger("x").spent == pytest.approx(1, abs=1e-3), "removed and added"
    refused(run("classify", "x", "--epsilon", 1.1, "--out", "A"), 3, "over the budget")
    private_graphs.classify("x", epsilon=1, out="A")
    add_spending("x", words, epsilon=3, relation="replace")
    book = private_graphs.ledger("x")
    assert book.spent > 4 and book.left == 0, "it is spent, whatever the budget is"
    lines = (data.parent / "ledgers" / "releases.jsonl").read_text().splitlines()
    assert sum(json.loads(line).get("sentence") == words for line in lines) == 2


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_all_documents_of_a_person_count_together_in_another_tool(data, share):
    """It knows no documents that train or test: counted by sides, ten cost less than ten."""
    rows = [row | {"who": "anna" if number < 10 else row["id"]}
            for number, row in enumerate(rows_of(200))]  # fmt: skip
    nodes = write(Path("n.csv"), rows)
    declared("docs", nodes, delta=DELTA, test_share=share)
    add_spending("docs", "tool", mu=0.1, relation="replace")
    declared("pers", nodes, delta=DELTA, unit="who", max_per_unit=10, budget=4.3)
    [person, _] = spent_on("anna")
    assert person.spent == pytest.approx(gdp_epsilon(10 * 0.1, DELTA), rel=1e-6)
    with pytest.raises(UserError, match="over the budget"):
        private_graphs.classify("pers", epsilon=0.1, out="R")
    add_spending("docs", "more", epsilon=0.2, delta=1e-8, relation="replace")
    [person, _] = spent_on("anna")
    group = Cost.of_pure(0.2, 1e-8).of_group(10)
    both = Account(((1.0 + group.mu**2, 0.0, group.failure),), DELTA)
    assert person.spent == pytest.approx(both.spent, rel=1e-6)


@given(st.floats(0.01, 8), st.floats(0.01, 8))
def test_a_pure_guarantee_is_no_more_private_than_its_mu(epsilon, level):
    """Its errors (α, β) are never below those of the Gaussian: f_ε >= G_μ (docs/privacy.md §16)."""
    from scipy.special import ndtr, ndtri

    mu = Cost.of_pure(epsilon).mu
    alpha = ndtr(-level)
    pure = max(0.0, 1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha))
    assert pure >= ndtr(-ndtri(alpha) - mu) - 1e-12
    corner = 1 / (1 + math.exp(epsilon))
    assert ndtr(-ndtri(corner) - mu) == pytest.approx(corner), "and no larger μ is needed"


def test_failures_of_other_tools_take_their_part_of_delta(data, tmp_path):
    declared("x", write(tmp_path / "n.csv", rows_of(60)), delta=1e-4)
    for wrong, words in (
        (dict(epsilon=1, delta=1e-4), "below|less than"), (dict(), "give --mu"),
        (dict(mu=1, epsilon=1), "one of them"), (dict(epsilon=-1), "above 0"),
        (dict(mu=1, delta=1e-6), "leave it out"), (dict(mu=1e308), "at most 1e\\+06"),
        (dict(epsilon=1, delta=-1e-9), "at least 0"), (dict(epsilon=1e307), "at most"),
        (dict(mu=float("nan")), "above 0"), (dict(mu=1, relation="add-remove"), "add_remove or"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            add_spending("x", "words", **wrong)
    assert not (data.parent / "ledgers" / "releases.jsonl").exists()
    # of a unit that is replaced: twice epsilon, and (1 + e^epsilon) delta
    found = Cost.of_pure(1.0, 1e-6).of_group(2)
    assert found.failure == pytest.approx(1e-6 * (1 + math.e))
    assert found.mu >= Cost.of_pure(2.0).mu
    spent = add_spending("x", "words", epsilon=1, delta=1e-6, relation="replace").spent
    alone = Account(((Cost.of_pure(1.0).mu ** 2, 0.0, 0.0),), 1e-4 - 1e-6).spent
    assert spent == pytest.approx(alone, rel=1e-9)
    plan = plan_releases("x", 2)
    assert plan.epsilon == 0 and "does not allow 2 further releases" in repr(plan), "it is over"
    declared("x", tmp_path / "n.csv", delta=1e-6, budget=9)
    with pytest.raises(UserError, match="spent inf of 9 at delta 1e-06, since .* larger --delta"):
        private_graphs.classify("x", epsilon=0.1, out="R")


# --- links that one release protects and another one reads -------------------------------------


def _declared_links(folder: Path, shared: int = 60) -> dict[str, object]:
    """Declare ``e``, which protects links of 60 public documents, and ``mix``, which has ``shared``
    of them beside private ones and reads links among public documents."""
    rows, where = public_rows(60), {"data": folder / "raw", "budget": 3, "classes": CLASSES}
    folder.mkdir()
    edges = linked(folder / "e.csv", rows)
    declared("e", write(folder / "n.csv", rows), public="open", edges=edges, max_edges=500, **where)
    public = rows[:shared] + public_rows(90)[60:]
    table = write(folder / "m.csv", [*public, *rows_of(200)[90:]])
    declared("mix", table, public="open", edges=edges, unknown_edges="drop", **where)
    return where


@pytest.mark.parametrize("order", [("e", "mix"), ("mix", "e")])
def test_no_link_is_protected_by_one_release_and_published_by_another(tmp_path, order):
    where = _declared_links(tmp_path / "both")
    data = where["data"]

    def release(name: str, out: str, data: Path = data):
        scenario = "edges" if name == "e" else "text"
        return private_graphs.classify(name, epsilon=1, scenario=scenario, out=tmp_path / out,
                                       data=data)  # fmt: skip

    release(order[0], "first")
    words = {
        "e": "published the links among 60 public documents",
        "mix": "protected each link among 60 public documents, .* leave --edges out",
    }[order[1]]
    with pytest.raises(UserError, match=words):
        release(order[1], "second")
    folder = tmp_path / "both"
    if order[1] == "mix":
        with pytest.raises(UserError, match=words):
            declared("mix", folder / "m.csv", public="open", edges=folder / "e.csv",
                     unknown_edges="drop", **where)  # fmt: skip
        declared("mix", folder / "m.csv", public="open", **where)
        release("mix", "second")
        assert private_graphs.explain(tmp_path / "first", tmp_path / "second").links[0] > 1
        assert private_graphs.ledger("mix", data=data).links < 3
    else:
        [_, document] = spent_on("d0", data=data)
        assert math.isinf(document.links) and "links of it were published" in repr(document)
        assert "links among public documents published" in repr(
            private_graphs.ledger("mix", data=data)
        )
        other = _declared_links(tmp_path / "other")
        release("e", "second", other["data"])
        release("e", "third", other["data"])
        answer = private_graphs.explain(tmp_path / "second", tmp_path / "third")
        assert answer.epsilon > 1 and "All together, for one link that is in each: ε = " in (
            answer.lines()[0])  # fmt: skip
        answer = private_graphs.explain(tmp_path / "first", tmp_path / "second")
        assert answer.links[0] is None and "reads links among public documents" in answer.lines()[0]


@pytest.mark.parametrize("order", [("e", "mix"), ("mix", "e")])
def test_one_common_document_has_no_link_of_both(tmp_path, order):
    data = _declared_links(tmp_path / "one", shared=1)["data"]
    for name in order:
        private_graphs.classify(name, epsilon=1, scenario="edges" if name == "e" else "text",
                                out=tmp_path / name, data=data)  # fmt: skip
    assert private_graphs.ledger("e", data=data).links < 2


# --- persons whose documents are not all in today's table -------------------------------------


def _release(name: str, rows: list[dict[str, str]], epsilon: float, **given) -> float:
    """Declare documents with a budget of 2 and release them; return what is spent."""
    given = {"budget": 2, "test_share": 0.0} | given
    declared(name, write(Path(f"{name}.csv"), rows), **given)
    return private_graphs.classify(name, epsilon=epsilon, out=f"out-{name}").spent


def test_a_release_that_is_entered_while_another_is_planned_tells_no_numbers(data):
    """What it had spent is a number of documents of a person, which its statement did not name."""
    nodes, others = write(Path("n.csv"), rows_of(120)), []
    declared("docs", nodes, budget=20)
    declared("pers", nodes, budget=20, unit="who")

    def say(line):
        if line.startswith("the ledger in") and not others:
            others.append(private_graphs.classify("docs", epsilon=0.5, out="D"))

    with pytest.raises(UsageError, match="another release of these ids was charged meanwhile"):
        private_graphs.classify("pers", epsilon=0.5, out="P", say=say)
    assert [entry.graph for entry in BudgetLedger(data).entries()] == ["docs"]
    private_graphs.classify("pers", epsilon=0.5, out="P", say=say)
    [statement] = json.loads(Path("P/release/statement.json").read_text()).values()
    assert any("how many documents" in fact for fact in statement["public_facts"])


def test_a_person_keeps_the_documents_that_an_earlier_release_says_are_theirs(data):
    rows = rows_of(120)
    _release("pers", rows, 1.2, unit="who")
    assert _release("docs", rows[0::2], 0.5) < 2  # of each person the first of two documents
    before = private_graphs.ledger("pers").spent
    assert before > 1.3
    declared("pers2", write(Path("odd.csv"), rows[1::2]), budget=2, test_share=0.0, unit="who")
    assert private_graphs.ledger("pers2").spent == before
    with pytest.raises(UserError, match="over the budget"):
        private_graphs.classify("pers2", epsilon=1.5, out="R")
    [person, document] = spent_on("p1")
    assert person.spent == pytest.approx(before) and document.spent == 0
    for name in ("pers", "docs", "pers2"):  # they withdraw
        write(Path(f"{'odd' if name == 'pers2' else name}.csv"), rows[10:])
    assert spent_on("p1")[0].spent == pytest.approx(before)


def test_a_folder_without_a_release_does_not_say_that_nothing_was_spent(data, tmp_path):
    declared("x", write(Path("n.csv"), rows_of(60)))
    for folder in (data, tmp_path / "wrong" / "raw"):
        with pytest.raises(UsageError, match="no release in it.*--data"):
            spent_on("d0", data=folder)
    assert not (tmp_path / "wrong").exists()


def test_a_release_by_document_counts_for_persons_that_the_ledger_knows(data):
    rows = rows_of(120)
    _release("pers", rows, 1.2, unit="who")
    spent = _release("docs", rows, 0.4)
    assert spent == pytest.approx(private_graphs.ledger("pers").spent)
    assert spent_on("d0")[1].spent < spent, "a document by itself has spent less"
    [statement] = private_graphs.explain("out-docs").statements
    assert "for one person that is in each, and whose documents were no other person's" in (
        private_graphs.explain("out-pers", "out-pers").lines()[0])  # fmt: skip
    assert any("how many documents a person has" in each for each in statement["public_facts"])
    for page in (Path("out-docs/release/README.md").read_text(), *map(repr, (
        private_graphs.ledger("docs"), private_graphs.plan_releases("docs", 2),
        private_graphs.classify("docs", epsilon=0.1, dry_run=True),
    ))):  # fmt: skip
        assert "most used document or person" in page
    with pytest.raises(UserError, match="over the budget"):
        _release("more", rows[:40], 1)


def test_somebody_with_several_documents_has_what_the_page_says_and_no_less(data):
    """At such an ε the distance of lattice noise counts, and another proof is the better one."""
    rows = [row | {"who": f"p{number // 10}"} for number, row in enumerate(rows_of(60))]
    _release("docs", rows, 4, budget=None)
    page = Path("out-docs/release/README.md").read_text()
    groups = dict(re.findall(r"(\d+) documents: ε = ([\d.]+)", page))
    declared("pers", write(Path("docs.csv"), rows), unit="who", delta=1e-3, budget=None)
    [statement] = private_graphs.explain("out-docs").statements
    person = spent_on("p0")[0]
    assert person.delta == statement["delta"] and [*groups] == ["2", "5", "10"]
    assert at_most(person.spent) == groups["10"]
    square = (10 * gdp_mu(4, person.delta)) ** 2
    assert float(groups["10"]) > gdp_epsilon(square**0.5, person.delta)


@pytest.mark.parametrize("units", [(None, "who"), ("who", None)])
def test_what_is_left_counts_all_units_of_a_person(data, units):
    """Where persons and documents mix, a further release holds a person several times."""
    rows = [row | {"who": f"p{number // 6}"} for number, row in enumerate(rows_of(120))]
    nodes = write(Path("n.csv"), rows)
    declared("one", nodes, unit=units[0], delta=1e-4, test_share=0.2, budget=8)
    private_graphs.classify("one", epsilon=0.5, out="A")
    declared("x", nodes, unit=units[1], delta=1e-4, test_share=0.2, budget=8)
    left = private_graphs.ledger("x").left
    planned = plan_releases("x", 2).epsilon
    after = private_graphs.classify("x", epsilon=left, dry_run=True)
    assert 0 < planned < left and 7.5 < after.spent <= 8
    for out in ("B", "C"):
        assert private_graphs.classify("x", epsilon=planned, out=out).spent <= 8
    with pytest.raises(UserError, match="over the budget"):
        private_graphs.classify("x", epsilon=0.2, out="D")


def test_documents_that_had_another_person_are_a_condition_of_explain(data):
    rows = rows_of(120)
    _release("one", rows, 0.5, unit="who")
    moved = [row | {"who": "p1"} if row["id"] == "d0" else row for row in rows]
    _release("two", moved, 0.5, unit="who")
    answer = private_graphs.explain("out-one", "out-two")
    assert "whose documents were no other person's, nor without one, in another: ε" in (
        answer.lines()[0])  # fmt: skip
    unmoved, mover = spent_on("p7")[0], spent_on("p1")[0]
    assert unmoved.spent <= answer.epsilon * 1.001 < mover.spent


def test_an_answer_that_nothing_is_proved_does_not_say_public(data):
    rows = [row | {"who": f"p{number // 6}"} for number, row in enumerate(rows_of(60))]
    declared("x", write(Path("n.csv"), rows), delta=1e-4)
    add_spending("x", "tool", epsilon=0.5, delta=1e-5)
    declared("y", Path("n.csv"), delta=1e-4, unit="who")
    person, _ = spent_on("p1")
    assert math.isinf(person.spent) and "nothing is proved at delta 0.0001" in repr(person)


def test_a_public_file_does_not_publish_documents_of_protected_persons(data):
    rows = rows_of(120)
    Path("pf").mkdir()
    public = [row | {"id": f"z{row['id']}"} for row in rows[:40]] + rows_of(200)[160:]
    write(Path("pf", "p.csv"), public)
    given = dict(budget=4, unit="who", public_files="pf", classes=CLASSES)
    one = declared("one", write(Path("one.csv"), rows), **given)
    assert one.public == 40 and any("private all the same" in each for each in one.warnings)
    declared("m", write(Path("m.csv"), rows[:100]), budget=4, unit="who")
    private_graphs.classify("m", epsilon=1, out="m")
    with pytest.raises(UserError, match="protected 20 public whos"):
        declared("n", write(Path("n.csv"), rows_of(160)[120:]), **given)


def test_persons_of_two_columns_are_no_one_unit(data):
    rows = [row | {"family": row["who"][:-1]} for row in rows_of(120)]
    for name, unit in (("pat", "who"), ("fam", "family"), ("again", "who")):
        _release(name, rows, 0.2, unit=unit, budget=20)
    answer = private_graphs.explain("out-pat", "out-fam")
    assert answer.epsilon is None and "units differ" in answer.lines()[0]
    assert private_graphs.explain("out-pat", "out-again").epsilon > 0.2


def test_an_entry_that_was_interrupted_is_found_in_another_order_and_never_entered_twice(
    data, monkeypatch
):
    rows = rows_of(60)
    declared("x", write(Path("n.csv"), rows), budget=4)
    with monkeypatch.context() as patched:
        patched.setattr(BudgetLedger, "finish", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            add_spending("x", "Opacus", mu=0.5)
    write(Path("n.csv"), [*rows, *rows_of(61)[60:]])
    with pytest.raises(UsageError, match="was interrupted, .* another --sentence"):
        add_spending("x", "Opacus", mu=0.5)
    write(Path("n.csv"), rows[::-1])
    add_spending("x", "Opacus", mu=0.5)
    assert [row["state"] for row in private_graphs.ledger("x").releases] == ["finished"]
