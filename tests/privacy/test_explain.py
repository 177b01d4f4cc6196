"""A statement in plain words: complete, computed, and never more than what is stated."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from private_graphs.privacy.events import Event, FullBatch, NoisyGradients
from private_graphs.privacy.explain import (
    _UNITS,
    TEXTS,
    answers,
    at_least,
    at_most,
    belief,
    belief_percent,
    explain,
    terminal,
)
from private_graphs.privacy.prices import FileRows
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.privacy.statements import (
    VACUOUS_EPSILON,
    About,
    Audit,
    Inference,
    PrivacyStatement,
    Relation,
    Selection,
    Unit,
    build_statement,
)
from private_graphs.report.statement import card, headline, reason, strongly
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


def _of_method(chosen: Selection, *, events: tuple[Event, ...] = (), **changes) -> PrivacyStatement:
    """A statement as that of a proved method is built."""
    fields = {
        "about": ABOUT, "file": ALONE, "events": events,
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


FREE = Selection(n_configs=9, data="hits on 541 public validation labels")


def _chosen(together: float | None = 14.8888, **changes: object) -> PrivacyStatement:
    chosen = Selection(**{"n_configs": 6, "data": "public scores", "cost": "x", **changes})
    return _statement(selection=chosen, n_runs_released=30, epsilon_all_runs=together)


def _known() -> dict[str, PrivacyStatement]:
    """Statements of every kind, whose words are written down."""
    gcn = NoisyGradients("gradient_global", 1.0, 89.167, 500, 500, FullBatch())
    edges = {"unit": "edge_undirected", "relation": "add_remove"}
    proved_too = {"epsilon_proved": 3.38016, "epsilon_all_runs": 3.38016}
    return {
        "proved": _statement(),
        "with a kept seed": _statement(noise_source="seeded"),
        "vacuous": _statement(epsilon_proved=109.337, vacuous=True, epsilon_all_runs=109.337),
        "published": _unproved(),
        "published and vacuous": _unproved(epsilon_published=136.5, vacuous=True),
        "the authors print less than nothing": _unproved(authors_accountant_epsilon=-0.148),
        "refuted": _unproved(status="refuted", audit=_audit(3.28139)),
        "refuted beside a proof": _statement(
            status="refuted", epsilon_published=1.9958, audit=_audit(2.5), **proved_too
        ),
        "not private": _statement(
            status="not_private", epsilon_proved=None, epsilon_all_runs=None, epsilon_target=None
        ),
        "one node": _statement(n_units=1),
        **{f"unit {each}": _statement(unit=each, n_units=900) for each in get_args(Unit)},
        **{f"relation {each}": _statement(relation=each) for each in get_args(Relation)},
        **{f"inference {each}": _statement(inference=each) for each in get_args(Inference)},
        "chosen by public scores": _chosen(),
        "chosen by private scores": _chosen(public=False),
        "chosen, and nothing is proved": _chosen(None),
        "a GCN, five runs": _of_method(FIXED, events=(gcn,), n_runs_released=5, one_run=False),
        "a free choice in a run": _of_method(FREE, events=(_sums(),)),
        "a free choice, delta too large": _of_method(FREE, events=(_sums(),), n_units=10**5),
        "no private data, a choice": _of_method(FREE),
        "no private data, one run": _of_method(FIXED, n_runs_released=1),
        "rounds to zero": _statement(
            epsilon_proved=0.0, mechanisms=_of_method(FIXED, events=(_sums(),)).mechanisms
        ),
        "edges": _of_method(FREE, events=(_sums(**edges),), **edges, n_units=5300),
        "a file of many rows": _statement(n_rows_counted=160, epsilon_of_file=73.75),
        "a file that proves nothing": _statement(
            n_rows_counted=3, epsilon_of_file=None, proof_of_file="none: no grid."
        ),
        "a file with rows without DP": _statement(n_rows_not_counted=10),
    }  # fmt: skip


GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "explained.md"


def _told() -> str:
    """The first statement in words; of each other one the parts that differ."""
    first, *others = _known().items()
    usual = explain(first[1])
    lines = ["# Statements in words", f"## {first[0]}", paragraph(first[1])]
    for name, statement in others:
        parts = explain(statement)
        lines += [f"## {name}", *(f"{each}: {parts[each]}" for each in TEXTS
                                  if parts[each] != usual[each])]  # fmt: skip
    return "\n\n".join(lines) + "\n"


def test_known_statements_have_the_words_that_were_read_and_written_down() -> None:
    """Read the difference; if it is meant: python tests/privacy/test_explain.py"""
    assert _told() == GOLDEN.read_text(encoding="utf-8")


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
        status=status, audit=audit, **claim, inference=draw(st.sampled_from(get_args(Inference))),
        n_units=draw(st.integers(1, 10**7)), epsilon_proved=proved, epsilon_all_runs=together,
        epsilon_published=published, published_formula=draw(st.none() | words),
        authors_accountant_epsilon=draw(st.none() | st.floats(-10, 100)),
        vacuous=shown is not None and shown > VACUOUS_EPSILON,
        n_runs_released=draw(st.integers(n_configs, 100)),
        noise_source=draw(st.sampled_from(["seeded", "os_entropy"])),
        selection=Selection(n_configs=n_configs, data=draw(words), public=draw(st.booleans())),
        public_facts=tuple(draw(st.lists(words, max_size=3))),
        assumptions=tuple(draw(st.lists(words, max_size=3))), preprocessing=draw(words),
    )  # fmt: skip


@settings(max_examples=60)
@given(made())
def test_every_statement_has_words_without_a_trace_of_code(statement: PrivacyStatement) -> None:
    parts, text = explain(statement), paragraph(statement)
    assert _UNITS[statement.unit][2] in text
    if statement.epsilon_proved is not None:
        assert f"ε = {at_most(statement.epsilon_proved)}" in text
        assert f"δ = {at_most(statement.delta)}" in text
        assert ("next to no promise" in parts["strength"]) == statement.vacuous
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


@settings(max_examples=60)
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
        assert ("too large to mean anything" in line.text) == statement.vacuous
        assert ("if the seed" in line.text) == (statement.noise_source == "seeded")
        assert ("not the predictions" in line.text) == (statement.inference == "leaks")
        many = statement.n_runs_released > 1
        assert (f"ε = {at_most(statement.epsilon_all_runs)}. " in f"{line.text} ") or not many


def test_the_card_of_a_statement_rounds_budgets_up_and_lower_bounds_down() -> None:
    statement = _statement(epsilon_proved=2.000001, epsilon_published=1.5, status="refuted",
                           audit=_audit(1.99999))  # fmt: skip
    heads = [head for head, _ in card(answers(statement))]
    assert heads == ["Protected", "From whom", "May fail", "Not covered"]
    assert reason(statement) == "mu = 1."
    for budget in ("One run: ε = 2.001", "shows ε ≥ 1.999", "Claimed: ε = 1.5;"):
        assert budget in strongly(answers(statement, 1.5))
    assert "ε = 2 (the published formula gives 1.5);" in strongly(answers(statement, 2.0))


if __name__ == "__main__":
    GOLDEN.write_text(_told(), encoding="utf-8")
