"""A statement in plain words: complete, computed, and never more than what is stated."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from private_graphs.privacy.events import (
    Event,
    ExponentialChoice,
    FullBatch,
    GaussianQuery,
    NoisyGradients,
)
from private_graphs.privacy.explain import (
    _UNITS,
    BRIEF,
    RELEASES,
    TEXTS,
    at_least,
    at_most,
    belief,
    belief_percent,
    brief,
    explain,
)
from private_graphs.privacy.prices import FileRows
from private_graphs.privacy.statements import (
    VACUOUS_EPSILON,
    About,
    AlsoProved,
    Audit,
    Inference,
    PrivacyStatement,
    Relation,
    Selection,
    Unit,
    build_statement,
)
from private_graphs.report.statement import SECTIONS, headline, mechanisms, sections, terminal
from private_graphs.report.words import strength


def paragraph(statement: PrivacyStatement) -> str:
    """Return the texts of a statement in one piece."""
    parts = explain(statement)
    return " ".join(" ".join(parts[name].split()) for name in TEXTS if parts[name])


ABOUT = About(
    study="study", dataset="cora", features="raw", method="gcn", scenario="nodes", protocol="sound",
    data_fingerprint="da7a",
)  # fmt: skip
ALONE = FileRows(2.0, "alone", 1, 0)
FIXED = Selection(n_configs=1, data="nothing", cost="none")


def _statement(**changes: object) -> PrivacyStatement:
    fields = {
        "status": "proved", "unit": "node", "relation": "replace", "delta": 1e-5, "n_units": 1208,
        "epsilon_target": 2.0, "epsilon_published": None, "published_formula": None,
        "authors_accountant_epsilon": None, "epsilon_proved": 1.99998, "proof": "mu = 1",
        "vacuous": False, "n_runs_released": 1, "epsilon_all_runs": 1.99998,
        "accountant": "exact", "epsilon_second_route": None, "mechanisms": (),
        "noise_source": "os_entropy", "public_facts": ("the number of nodes",),
        "assumptions": ("the divisor is public",), "inference": "inductive_disjoint",
        "selection": FIXED, "preprocessing": "none", "n_rows_counted": 1, "n_rows_not_counted": 0,
        "epsilon_of_file": 1.99998, "proof_of_file": "alone", **ABOUT.model_dump(),
    }  # fmt: skip
    return PrivacyStatement(**{**fields, **changes})


def _unproved(**changes: object) -> PrivacyStatement:
    fields = {"status": "published_only", "epsilon_proved": None, "epsilon_all_runs": None}
    fields |= {"epsilon_published": 1.9958, "published_formula": "moments", "proof": "none: open"}
    return _statement(**{**fields, **changes})


def _audit(lower: float) -> Audit:
    return Audit(
        design="canary", unit="node", relation="replace", delta=1e-5, runs=2000,
        epsilon_lower=lower, confidence=0.999,
    )  # fmt: skip


def test_a_proved_budget_is_told_with_its_numbers_and_what_it_supposes() -> None:
    text = paragraph(_statement())
    for said in ("1,208", "ε = 2", "88.1 %", "0.00001", "0.01208", "the divisor is public",
                 "the number of nodes"):  # fmt: skip
        assert said in text, said
    hashes = [explain(_statement(noise_source=source))["not_covered"]
              for source in ("seeded", "os_entropy")]  # fmt: skip
    assert ["fingerprint" in told for told in hashes] == [True, False]


@pytest.mark.parametrize(
    ("statement", "numbers"),
    [
        (_statement(epsilon_proved=109.337, vacuous=True, epsilon_all_runs=109.337), ["109.4"]),
        (_unproved(), ["1.996"]),
        (_unproved(epsilon_published=136.5, vacuous=True), ["136.5"]),
        (_unproved(status="refuted", audit=_audit(3.28139)), ["3.281", "99.9 %", "refuted"]),
        (_unproved(authors_accountant_epsilon=-0.148), ["-0.148"]),
        (_statement(status="not_private", epsilon_proved=None, epsilon_all_runs=None,
                    epsilon_target=None), []),
    ],
)  # fmt: skip
def test_what_is_not_proved_or_too_large_gives_no_odds(statement, numbers) -> None:
    text = paragraph(statement)
    assert "% sure" not in text
    assert all(number in text for number in numbers)
    if statement.epsilon_proved is None:
        assert explain(statement)["belief_at_most"] is None
    assert ("ε" in text) == bool(numbers)


@pytest.mark.parametrize("status", ["proved", "refuted", "open", "huge", "many"])
def test_the_brief_lists_fit_a_terminal_and_promise_no_more(status) -> None:
    long = tuple(f"assumption {place} of many words that go on and on" for place in range(30))
    told = {
        "proved": _statement(),
        "refuted": _unproved(status="refuted", audit=_audit(3.2814)),
        "open": _unproved(selection=Selection(n_configs=6, data="x", cost="x", public=False)),
        "huge": _statement(epsilon_proved=109.337, vacuous=True, epsilon_all_runs=200.0,
                           n_runs_released=3, n_rows_counted=3),
        "many": _statement(assumptions=long, public_facts=long, proof="p " * 900,
                           n_runs_released=9, n_rows_counted=10, n_rows_not_counted=4),
    }  # fmt: skip
    lines = brief(told[status])
    assert len(lines) <= 24 and all(len(line) <= 80 for line in lines)
    assert [line for line in lines if line[:1] not in "- "] == list(BRIEF)
    text = " ".join(" ".join(lines).split())
    words = {
        "proved": ["one run: ε = 2: a guess of 50 % becomes at most 88.1 %", "1,208 nodes"],
        "refuted": ["Nothing is proved", "ε = 1.996, a claim; an attack shows ε ≥ 3.281"],
        "open": ["Nothing is proved", "chosen on private data: no ε here pays for that"],
        "huge": ["ε = 109.4: next to no promise", "all 3 runs: ε = 200"],
        "many": ["(all of it: --json)", "4 rows without DP in the same file"],
    }
    assert all(word.lower() in text.lower() for word in words[status]), text
    assert ("%" in text) == (status in ("proved", "many"))


def test_a_refuted_claim_beside_a_proof_tells_both() -> None:
    proved = _statement(
        status="refuted", epsilon_published=1.9958, epsilon_proved=3.38016, audit=_audit(2.5),
        epsilon_all_runs=3.38016,
    )  # fmt: skip
    assert "ε = 3.381" in paragraph(proved) and "refuted" in paragraph(proved)


@pytest.mark.parametrize("unit", get_args(Unit))
def test_each_unit_is_named_and_explained(unit: str) -> None:
    for count in (1, 900):
        text = explain(_statement(unit=unit, n_units=count))["who"]
        assert _UNITS[unit][2] in text
        if unit.startswith("edge"):
            assert f"{_UNITS[unit][1]} of the graph (declared: at most {count})" in text
        else:
            assert (_UNITS[unit][0] if count == 1 else f"900 {_UNITS[unit][1]}") in text


def test_each_relation_and_inference_has_words_of_its_own() -> None:
    for name, values in (("relation", get_args(Relation)), ("inference", get_args(Inference))):
        texts = {explain(_statement(**{name: each}))["against"] for each in values}
        assert len(texts) == len(values)


def test_predictions_that_leak_are_not_covered() -> None:
    parts = explain(_statement(inference="leaks"))
    assert "leak" in parts["against"]
    assert "the predictions, which read private nodes" in parts["not_covered"]


def test_a_kept_seed_is_warned_of() -> None:
    assert "whoever knows it" in paragraph(_statement(noise_source="seeded"))
    assert "whoever knows it" not in paragraph(_statement())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "30 runs were made; all of them together keep ε = 14.89"),
        ({}, "chosen among 6 configurations by public scores; as the chosen one it keeps"),
        ({"public": False}, "a further query of the private data, which no number here"),
        ({"together": None}, "nothing is proved for the chosen one"),
    ],
)
def test_the_choice_among_runs_is_charged(changes: dict, words: str) -> None:
    changes = dict(changes)
    together = changes.pop("together", 14.8888)
    chosen = Selection(**{"n_configs": 6, "data": "public scores", "cost": "x", **changes})
    text = paragraph(_statement(selection=chosen, n_runs_released=30, epsilon_all_runs=together))
    assert words in text
    assert "fixed in advance." not in text


def test_a_statement_made_by_pricing_is_explained() -> None:
    event = NoisyGradients("gradient_global", 1.0, 89.167, 500, 500, FullBatch())
    built = build_statement(
        events=[event], unit="node", relation="replace", delta=1e-5, n_units=1208,
        epsilon_published=None, published_formula=None, n_runs_released=5, noise_source="seeded",
        inference="inductive_disjoint", selection=FIXED, preprocessing="none", public_facts=[],
        assumptions=[], private=True, about=ABOUT, file=ALONE,
    )  # fmt: skip
    text = paragraph(built)
    assert "ε = 2:" in text and "all of them together keep ε = 5.002" in text
    assert "n_runs_released" not in text and text.startswith("Protected, from whoever does not")
    assert "Nothing is treated as public" in text
    assert "from whoever does not know the seed" in " ".join(" ".join(brief(built)).split())


def _of_method(
    chosen: Selection, *, events: tuple[Event, ...] = (), apart: tuple[Event, ...] = (), **changes
) -> PrivacyStatement:
    """A statement as that of a proved method is built."""
    fields = {
        "about": ABOUT, "file": ALONE, "events": events, "apart": apart,
        "unit": "node", "relation": "replace", "delta": 1e-5,
        "n_units": 1208, "epsilon_published": None, "published_formula": None,
        "n_runs_released": 10, "noise_source": "seeded", "noise_generator": "numpy",
        "inference": "params_only", "selection": chosen, "preprocessing": "none",
        "public_facts": ["the masks"], "assumptions": ["the constants were set elsewhere"],
        "private": True, "reads_private": bool(events), "one_run": True,
    }  # fmt: skip
    return build_statement(**{**fields, **changes})


def _sums(unit: str = "node", relation: str = "replace") -> GaussianQuery:
    return GaussianQuery(
        unit=unit, relation=relation, count=1, reason="test", sensitivity=1.0, noise_std=3.7304
    )


CHOICE = ExponentialChoice(
    unit="node", relation="replace", count=1, reason="test", sensitivity=1.0, scale=2.0
)
FREE = Selection(n_configs=9, data="hits on 541 public validation labels")
CHARGED = Selection(n_configs=9, data="hits on 541 private validation labels", public=False)


def test_a_free_choice_inside_a_run_leaves_the_budget_of_the_run() -> None:
    statement = _of_method(FREE, events=(_sums(),))
    text = paragraph(statement)
    assert statement.selection.cost.startswith("none: the 9 configurations")
    proved = at_most(statement.epsilon_proved)
    assert f"One run, with the choice of its settings, is proved to keep ε = {proved}:" in text
    assert (
        "chosen among 9 configurations by hits on 541 public validation labels: this reads" in text
    )
    assert "costs nothing" in text and "10 runs were made; all of them together keep" in text
    for wrong in ("as the chosen one", "not that of one run", "further query", "fixed in advance:"):
        assert wrong not in text, wrong
    assert "validation node" not in explain(statement)["who"]


def test_a_charged_choice_is_covered_and_protects_labels_of_tuning_nodes_alone() -> None:
    statement = _of_method(CHARGED, events=(_sums(),), apart=(CHOICE,))
    parts = explain(statement)
    assert statement.selection.cost.startswith("charged")
    assert "the ε of the run covers it" in parts["all_runs_and_selection"]
    assert "the ε of all runs covers training nodes alone" in parts["all_runs_and_selection"]
    assert "the choice of the configuration" not in parts["not_covered"]
    assert "Of a validation node its label alone is protected" in parts["who"]
    assert "further query" not in paragraph(statement)
    unproved = explain(_of_method(CHARGED, events=(_sums(),), apart=(CHOICE,), n_units=10**5))
    assert unproved["epsilon"] is None
    assert "nothing is proved for the chosen ones" in unproved["all_runs_and_selection"]
    alone = explain(_of_method(CHARGED, events=(_sums(),), apart=(CHOICE,), n_runs_released=1))
    assert "training nodes alone" not in alone["all_runs_and_selection"]


@pytest.mark.parametrize("chosen", [FREE, FIXED])
@pytest.mark.parametrize("n_runs", [1, 10])
def test_where_no_private_data_were_used_nobody_was_trained_on(chosen, n_runs) -> None:
    statement = _of_method(chosen, n_runs_released=n_runs)
    text, parts = paragraph(statement), explain(statement)
    assert text.startswith("No private data were used: nothing was read of the 1,208 nodes")
    assert "ε = 0, and δ = 0" in text and parts["epsilon"] == 0 and parts["delta_in_words"] == ""
    assert "This supposes: the constants were set elsewhere." in text
    assert ("all of this is public" in text) == (chosen is FREE)
    for wrong in ("trained on", "seed", "random", "generator", "Gaussian", "even odds", "% sure"):
        assert wrong not in text, wrong


def test_a_budget_that_rounds_to_zero_under_noise_is_no_public_run() -> None:
    text = paragraph(_statement(epsilon_proved=0.0, mechanisms=_of_method(
        FIXED, events=(_sums(),)).mechanisms))  # fmt: skip
    assert "No private data" not in text and "proved to keep ε = 0:" in text


def test_edges_are_told_as_single_edges_below_a_declared_number() -> None:
    statement = _of_method(
        FREE, events=(_sums("edge_undirected", "add_remove"),), unit="edge_undirected",
        relation="add_remove", n_units=5300,
    )  # fmt: skip
    parts = explain(statement)
    assert "the edges of the graph (declared: at most 5,300), each by itself" in parts["who"]
    assert "over at most 5,300 edges" in parts["delta_in_words"]
    assert "not of all edges of a node together" in parts["who"]
    assert "trained on" not in parts["who"]
    assert "exception" not in parts["against"]
    [also] = statement.also_proved
    assert also == AlsoProved(relation="replace", epsilon=also.epsilon)
    assert f"keeps ε = {at_most(also.epsilon)}." in parts["strength"]
    assert also.epsilon > 2 * statement.epsilon_proved


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_rows_counted": 160, "epsilon_of_file": 73.75}, "holds 160 such rows"),
        ({"n_rows_counted": 160, "epsilon_of_file": 73.75}, "keep ε = 73.75"),
        (
            {"n_rows_counted": 3, "epsilon_of_file": None, "proof_of_file": "none: no grid."},
            "for all of them together nothing is proved: no grid.",
        ),
        ({"n_rows_not_counted": 10}, "10 rows without DP: these reveal the data"),
    ],
)
def test_what_else_the_file_holds_is_told(changes: dict, words: str) -> None:
    assert words in explain(_statement(**changes))["all_runs_and_selection"]
    assert "The file" not in paragraph(_statement())


def test_every_inference_has_words_and_noisy_rows_are_covered() -> None:
    assert set(get_args(Inference)) <= set(RELEASES)
    assert "public data, so that all of it is covered alike" in RELEASES["noisy_rows"]


@given(st.floats(0, 1e12, allow_subnormal=False))
def test_rounding_never_promises_more(value: float) -> None:
    assert Decimal(at_most(value)) >= Decimal(repr(value)) >= Decimal(at_least(value))
    assert float(at_most(value)) <= value * 1.002
    assert float(at_least(value)) >= value * 0.998


@given(st.floats(0, VACUOUS_EPSILON))
def test_belief_is_rounded_up_and_stays_below_certainty(epsilon: float) -> None:
    shown = Decimal(belief_percent(epsilon).removesuffix(" %"))
    exact = 1 - 1 / (1 + Decimal(epsilon).exp())
    assert 100 * exact <= shown < 100
    assert float(shown) == pytest.approx(100 * belief(epsilon), abs=0.1 + 1e-9)
    assert belief(epsilon) / (1 - belief(epsilon)) == pytest.approx(math.exp(epsilon), rel=1e-6)


positive = st.floats(1e-6, 1e6)
words = st.text(st.sampled_from("abc xyz"), min_size=1, max_size=20).filter(str.strip)


@st.composite
def made(draw: st.DrawFn) -> PrivacyStatement:
    status = draw(st.sampled_from(["proved", "published_only", "refuted", "not_private"]))
    proved = draw(positive) if status == "proved" else None
    together = None if proved is None else proved * draw(st.floats(1, 10))
    published = draw(positive) if status in ("published_only", "refuted") else None
    shown = proved if proved is not None else published
    claim = {
        "unit": draw(st.sampled_from(get_args(Unit))),
        "relation": draw(st.sampled_from(get_args(Relation))),
        "delta": draw(st.floats(1e-12, 0.5)),
    }
    audit = None
    if status == "refuted":
        audit = _audit(2 * published).model_copy(update=claim)
    elif published is None and status != "not_private":
        lower = draw(st.none() | st.floats(0, min(5.0, proved or 5.0)))
        audit = None if lower is None else _audit(lower).model_copy(update=claim)
    n_configs = draw(st.integers(1, 9))
    return _statement(
        status=status,
        audit=audit,
        **claim,
        inference=draw(st.sampled_from(get_args(Inference))),
        n_units=draw(st.integers(1, 10**7)),
        epsilon_proved=proved,
        epsilon_all_runs=together,
        epsilon_published=published,
        published_formula=draw(st.none() | words),
        authors_accountant_epsilon=draw(st.none() | st.floats(-10, 100)),
        vacuous=shown is not None and shown > VACUOUS_EPSILON,
        n_runs_released=draw(st.integers(n_configs, 100)),
        noise_source=draw(st.sampled_from(["seeded", "os_entropy"])),
        selection=Selection(n_configs=n_configs, data=draw(words), public=draw(st.booleans())),
        public_facts=tuple(draw(st.lists(words, max_size=3))),
        assumptions=tuple(draw(st.lists(words, max_size=3))),
        preprocessing=draw(words),
    )


@settings(max_examples=150, deadline=None)
@given(made())
def test_every_statement_has_words_without_a_trace_of_code(statement: PrivacyStatement) -> None:
    parts, text = explain(statement), paragraph(statement)
    assert _UNITS[statement.unit][2] in text
    if statement.epsilon_proved is not None:
        assert f"ε = {at_most(statement.epsilon_proved)}" in text
        assert f"δ = {at_most(statement.delta)}" in text
        assert ("next to nothing" in parts["strength"]) == statement.vacuous
    else:
        assert "proved to keep" not in text and "% sure" not in text
    for leak in (
        "None",
        "True",
        "False",
        "nan",
        "inf ",
        "()",
        "[",
        "{",
        " '",
        "_",
        "Decimal",
        "  ",
    ):
        assert leak not in text, leak
    assert text.endswith(".") and ".." not in text and ". ." not in text
    assert re.fullmatch(r"[A-Z].*", text)
    for name in TEXTS:
        assert isinstance(parts[name], str)


@settings(max_examples=150, deadline=None)
@given(made())
def test_headline_and_terminal_say_no_more_than_the_statement(statement: PrivacyStatement) -> None:
    line, text = headline(statement), " ".join(terminal(statement).split())
    assert line.text in text and statement.statement_id in text
    assert all(len(row) <= 88 for row in terminal(statement).splitlines())
    if statement.status == "refuted":
        lower = at_least(statement.audit.epsilon_lower)
        assert line.tone == "refuted" and "Proved" not in line.text
        assert "refuted by an audit" in line.text and f"ε ≥ {lower} " in line.text
    elif statement.epsilon_proved is None:
        assert line.tone in ("", "none") and "Proved" not in line.text
    else:
        assert line.tone == strength(statement.epsilon_proved)
        assert f"ε = {at_most(statement.epsilon_proved)} at δ" in line.text
        assert ("vacuous" in line.text) == statement.vacuous
        assert ("if the seed" in line.text) == (statement.noise_source == "seeded")
        assert ("not the predictions" in line.text) == (statement.inference == "leaks")
        many = statement.n_runs_released > 1
        assert (f"ε = {at_most(statement.epsilon_all_runs)}. " in f"{line.text} ") or not many


def test_every_field_of_a_statement_stands_in_one_section_and_budgets_are_rounded_up() -> None:
    named = [name for fields in SECTIONS.values() for name in fields]
    assert sorted([*named, "statement_id", "mechanisms"]) == sorted(PrivacyStatement.model_fields)
    also = (AlsoProved(relation="replace", epsilon=3.000001),)
    statement = _statement(epsilon_proved=2.000001, also_proved=also, audit=_audit(1.99999))
    shown = {name: text for _, fields in sections(statement) for name, text in fields}
    assert shown["ε proved, one run with settings fixed in advance"] == "2.001"
    assert shown["ε proved for other relations"] == ["relation: replace; epsilon: 3.001"]
    assert "epsilon lower: 1.999;" in shown["audit"]
    assert shown["ε aimed at"] == "2" and shown["δ"] == "1e-05"


def test_mechanisms_are_a_row_each() -> None:
    statement = _of_method(CHARGED, events=(_sums(),), apart=(CHOICE,), n_units=10**5)
    table = mechanisms(statement)
    assert len(table.frame) == 2 and "noise multiplier" in [each.head for each in table.columns]
    assert mechanisms(_statement()).frame.empty
