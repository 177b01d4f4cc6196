"""Privacy statements: status rules, honesty about selection, safe JSON, identity."""

from __future__ import annotations

import itertools
import math

import pytest
from pydantic import ValidationError

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.calibration import gdp_noise
from private_graphs.privacy.events import (
    FullBatch,
    NoisyGradients,
    Poisson,
    Sampling,
    Shuffled,
    Unnoised,
)
from private_graphs.privacy.prices import (
    FileRows,
    SearchRuns,
    price_file,
    price_runs,
    proved_by,
)
from private_graphs.privacy.queries import ExponentialChoice, GaussianQuery, LaplaceQuery
from private_graphs.privacy.statement_checks import check_row, with_audit
from private_graphs.privacy.statements import (
    About,
    Audit,
    PrivacyStatement,
    Selection,
    build_statement,
)

DELTA = 1e-5
ABOUT = About(
    study="study", dataset="cora", features="raw", method="gcn", scenario="nodes", protocol="sound",
    data_fingerprint="da7a",
)  # fmt: skip


def _event(
    sampling: Sampling | None = None, noise: float | None = None, **changes: object
) -> NoisyGradients:
    sampling = sampling or FullBatch()
    releases = 500 * getattr(sampling, "parts", 1) if isinstance(sampling, Shuffled) else 500
    fields = {"clipping": "gradient_global", "clip_norm": 1.0, "releases": releases}
    noise = gdp_noise(2, 500, DELTA, "replace") if noise is None else noise
    fields |= {"noise_multiplier": noise, "epochs": 500, "sampling": sampling}
    return NoisyGradients(**{**fields, **changes})


def _statement(**changes: object) -> PrivacyStatement:
    arguments = {
        "events": [_event()], "unit": "node", "relation": "replace", "delta": DELTA,
        "n_units": 1208, "epsilon_published": 1.5, "published_formula": "moments accountant",
        "n_runs_released": 5, "about": ABOUT,
        "file": FileRows(5.00136, "all 5 private rows compose", 5, 0), "noise_source": "seeded",
        "inference": "inductive_disjoint", "selection": Selection(n_configs=1, data="none"),
        "preprocessing": "none", "public_facts": ["number of nodes"],
        "assumptions": ["validation nodes are public"], "private": True, "epsilon_target": 2.0,
    }  # fmt: skip
    return build_statement(**{**arguments, **changes})


def _audit(**changes: object) -> Audit:
    fields = {"design": "canary", "unit": "node", "relation": "replace", "delta": DELTA}
    fields |= {"runs": 2000, "epsilon_lower": 1.0, "confidence": 0.999}
    return Audit(**{**fields, **changes})


def test_a_clipped_run_is_proved() -> None:
    statement = _statement()
    assert statement.status == "proved_if_seed_secret"
    assert _statement(noise_source="os_entropy").status == "proved"
    assert statement.epsilon_proved == pytest.approx(2.0, abs=1e-4)
    assert statement.epsilon_proved <= 2.0
    assert statement.epsilon_second_route == pytest.approx(statement.epsilon_proved, abs=2e-4)
    assert statement.epsilon_all_runs == pytest.approx(5.00136, abs=2e-4)
    assert statement.accountant.startswith("exact Gaussian DP (scipy ")
    assert not statement.vacuous
    [mechanism] = statement.mechanisms
    assert (mechanism.sensitivity, mechanism.count, mechanism.sampling) == (2.0, 500, "none")


def test_an_unclipped_run_is_published_only() -> None:
    statement = _statement(events=[_event(Shuffled(10), 34.696, clipping="none")])
    assert statement.status == "published_only"
    assert statement.epsilon_proved is None
    assert statement.epsilon_all_runs is None
    assert statement.epsilon_published == 1.5
    assert statement.mechanisms[0].sensitivity is None
    assert "nothing is clipped" in statement.proof


def test_a_run_without_noise_is_not_private() -> None:
    statement = _statement(private=False, events=[], epsilon_published=None)
    assert statement.status == "not_private"
    assert statement.epsilon_proved is None
    assert statement.mechanisms == ()
    assert statement.assumptions == ("validation nodes are public",)
    assert statement.selection.cost == "none: the run is not private"


def test_large_delta_is_never_proved() -> None:
    statement = _statement(n_units=100_000)
    assert statement.status == "published_only"
    assert statement.epsilon_proved is None
    assert statement.proof.startswith("none: delta x units = 1 is not below 1")


@pytest.mark.parametrize(
    ("changes", "vacuous"),
    [
        ({"events": [_event(noise=2.0)]}, True),
        ({"events": [_event(noise=2.0, clipping="none")], "epsilon_published": 136.5}, True),
        ({"events": [_event(noise=2.0, clipping="none")], "epsilon_published": 2.0}, False),
        ({"epsilon_published": 136.5}, False),
    ],
)
def test_a_guarantee_above_twenty_is_flagged_vacuous(changes: dict, vacuous: bool) -> None:
    assert _statement(**changes).vacuous is vacuous


@pytest.mark.parametrize(("own", "other"), [(5, 30), (1, 1), (3, 0)])
def test_a_choice_among_other_runs_composes_both_with_their_own_noise(own: int, other: int) -> None:
    event, searched = _event(Shuffled(10), 60.0), _event(Shuffled(10), 90.0)
    others = [SearchRuns(events=(searched,), n_runs=other)] if other else []
    chosen = Selection(n_configs=6 if other > 5 else 1, data="public validation nodes")
    statement = _statement(
        events=[event], others=others, n_runs_released=own, selection=chosen
    )  # fmt: skip
    mu, mu_searched = (2 * math.sqrt(500) / noise for noise in (60.0, 90.0))
    together = math.sqrt(own * mu**2 + other * mu_searched**2)
    assert statement.epsilon_all_runs == pytest.approx(gdp_epsilon(together, DELTA), rel=1e-9)
    assert statement.epsilon_proved == pytest.approx(gdp_epsilon(mu, DELTA), rel=1e-9)
    assert statement.n_runs_released == own + other
    assert len(statement.mechanisms) == 1


def test_a_status_that_does_not_follow_is_detected() -> None:
    content = _statement().model_dump(mode="json")
    with pytest.raises(ValidationError, match="the other fields give proved_if_seed_secret"):
        PrivacyStatement.model_validate({**content, "status": "proved"})


@pytest.mark.parametrize("field", [*About.model_fields, "package_version", "epsilon_of_file"])
def test_every_part_of_the_claim_is_in_the_identifier(field: str) -> None:
    content = _statement().model_dump(mode="json")
    changed = {**content, field: 0.5 if field == "epsilon_of_file" else "other"}
    with pytest.raises(ValidationError, match="changed after it was written"):
        PrivacyStatement.model_validate(changed)
    renewed = PrivacyStatement.model_validate({**changed, "statement_id": ""})
    assert renewed.statement_id != content["statement_id"]


ROW = {
    **ABOUT.model_dump(),
    "replica_id": "0123", "inference": "inductive_disjoint", "noise_source": "seeded",
    "unit": "node", "relation": "replace", "delta": DELTA, "epsilon": 2.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": "reddit"}, {"method": "edge_votes"}, {"protocol": "paper"}, {"study": "x"},
        {"epsilon_proved": 0.1}, {"epsilon_proved": math.nan}, {"delta": 1e-9}, {"unit": "graph"},
        {"relation": "zero_out"}, {"data_fingerprint": "0"}, {"features": "bow"},
        {"scenario": "text"}, {"noise_source": "os_entropy"}, {"epsilon": 0.1},
        {"epsilon_claimed": 0.5}, {"n_configurations": 7},
    ],
)  # fmt: skip
def test_a_row_that_its_statement_is_not_about_is_named_with_it(changes: dict) -> None:
    statement = _statement()
    row = ROW | {"epsilon_proved": statement.epsilon_proved}
    check_row(row, statement)
    [column] = changes
    with pytest.raises(UserError, match=rf"row 0123 .*{statement.statement_id}.*{column} "):
        check_row(row | changes, statement)


def test_a_row_without_dp_needs_no_unit() -> None:
    plain = _statement(events=[], private=False, epsilon_target=None, epsilon_published=None)
    nothing = {"unit": None, "delta": math.nan, "epsilon_proved": math.nan, "epsilon": math.inf}
    check_row(ROW | nothing, plain)
    with pytest.raises(UserError, match="epsilon_proved"):
        check_row(ROW | {"epsilon_proved": 2.0}, plain)


CLAIM = ("node", "replace", DELTA, 1208)


def test_the_rows_of_a_file_compose_whatever_their_budgets() -> None:
    first, second = _event(), _event(noise=30.0)
    groups = [SearchRuns((first,), 3), SearchRuns((second,), 2), SearchRuns((first,), 4)]
    found = price_file(CLAIM, tuple(groups), 8)
    mu = math.sqrt(500 * 4 * (7 / first.noise_multiplier**2 + 2 / 30.0**2))
    assert found.epsilon == pytest.approx(gdp_epsilon(mu, DELTA), rel=1e-9)
    assert (found.counted, found.not_counted) == (9, 8)
    statement = _statement(file=found)
    assert (statement.epsilon_of_file, statement.n_rows_counted) == (found.epsilon, 9)
    assert statement.n_rows_not_counted == 8


@pytest.mark.parametrize(
    ("groups", "epsilon", "words"),
    [
        ([], None, "no row"),
        ([SearchRuns((), 3)], 0.0, "nothing private is read"),
        ([SearchRuns((_event(),), 1), SearchRuns((_event(clipping="none"),), 1)], None, "some of"),
        ([SearchRuns((_event(Poisson(0.1), 0.01, releases=5000),), 9)], None, "no finite epsilon"),
    ],
)
def test_a_file_without_a_proof_says_why(groups: list, epsilon: float | None, words: str) -> None:
    found = price_file(CLAIM, tuple(groups), 1)
    assert found.epsilon == epsilon and words in found.proof


def test_choices_about_other_units_count_where_every_row_makes_them() -> None:
    cheap = _event(noise=1e5)
    chosen = [SearchRuns((cheap,), 4, (_choice(1.0),))]
    assert price_file(CLAIM, tuple(chosen), 0).epsilon > 1
    assert price_file(CLAIM, (*chosen, SearchRuns((cheap,), 1)), 0).epsilon < 0.1


def test_the_costliest_of_units_that_a_file_or_a_budget_reads_is_chosen_after_composing(
    monkeypatch,
) -> None:
    """Which part costs most depends on what it is composed with."""
    about = {"unit": "node", "relation": "replace", "count": 1, "reason": "test"}
    drowned = GaussianQuery(**about, sensitivity=1.0, noise_std=4.0)
    choices = LaplaceQuery(**about, sensitivity=1.0, scale=1.1)
    smooth = GaussianQuery(**about, sensitivity=1.0, noise_std=4.5)
    runs = (SearchRuns((choices,), 1, (drowned,)), SearchRuns((smooth,), 2, (choices,)))
    ways = itertools.product((choices, drowned), (smooth, choices), (smooth, choices))
    every = [proved_by(way, CLAIM)[1] for way in ways]
    assert price_file(CLAIM, runs, 0).epsilon == pytest.approx(max(every), abs=1e-4)
    sides = ((choices, smooth, smooth), (drowned, choices, choices))
    assert max(every) > max(proved_by(side, CLAIM)[1] for side in sides) + 1e-3

    found = price_runs(
        CLAIM, [SearchRuns((drowned,), 2), SearchRuns((smooth,), 1)], True, [choices]
    )
    ways = itertools.product((drowned, choices), (drowned, choices), (smooth, choices))
    every = [proved_by(way, CLAIM)[1] for way in ways]
    assert found.together == pytest.approx(max(every), abs=1e-4)
    assert found.proved == max(proved_by([each], CLAIM)[1] for each in (drowned, choices))

    monkeypatch.setattr("private_graphs.privacy.choices.MOST_WAYS", 1)
    price_file.cache_clear()
    whole = price_file(CLAIM, runs, 0).epsilon  # too many ways: a unit pays for all parts
    everything = [choices, drowned, *[smooth, choices] * 2]
    assert whole == pytest.approx(proved_by(everything, CLAIM)[1], abs=1e-4) and whole > max(every)
    price_file.cache_clear()


def _edge_statement(**changes: object) -> PrivacyStatement:
    event = GaussianQuery(
        unit="edge_undirected", relation="add_remove", count=3, reason="votes", sensitivity=1.0,
        noise_std=math.sqrt(3) / gdp_mu(2, DELTA),
    )  # fmt: skip
    claim = {"unit": "edge_undirected", "relation": "add_remove", "events": [event]}
    return _statement(**{**claim, "n_units": 5500, "inference": "noisy_rows", **changes})


def test_at_edge_level_what_holds_for_a_moved_edge_stands_beside() -> None:
    statement = _edge_statement()
    [also] = statement.also_proved
    assert statement.epsilon_proved == pytest.approx(2.0)
    assert also.relation == "replace" and also.epsilon == pytest.approx(4.393, abs=1e-3)
    assert _statement().also_proved == ()


def test_an_audit_above_the_published_value_refutes_it() -> None:
    plain = _statement(events=[_event(clipping="none")])
    found = with_audit(plain, _audit(relation="zero_out", epsilon_lower=3.28))
    assert (plain.status, found.status) == ("published_only", "refuted")
    assert plain.statement_id == found.statement_id
    assert with_audit(_statement(), _audit()).status == "proved_if_seed_secret"


@pytest.mark.parametrize(
    ("audit", "message"),
    [
        ({"delta": 1e-6}, "cannot be compared"),
        ({"unit": "graph"}, "cannot be compared"),
        ({"confidence": 0.95}, "cannot be compared"),
        ({"epsilon_lower": 2.5}, "breaks its proof"),
    ],
)
def test_an_audit_that_does_not_fit_is_neither_taken_nor_read(audit: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        with_audit(_statement(), _audit(**audit))
    content = with_audit(_statement(), _audit()).model_dump(mode="json")
    assert PrivacyStatement.model_validate(content).audit is not None
    with pytest.raises(UserError, match="audit"):
        PrivacyStatement.model_validate({**content, "audit": {**content["audit"], **audit}})


def test_an_audit_of_a_stronger_relation_says_nothing_of_a_weaker_claim() -> None:
    of_edges = _audit(unit="edge_undirected", relation="add_remove")
    assert with_audit(_edge_statement(), of_edges).audit == of_edges
    with pytest.raises(UserError, match="cannot be compared"):
        with_audit(_edge_statement(), of_edges.model_copy(update={"relation": "replace"}))


def _choice(epsilon: float) -> ExponentialChoice:
    return ExponentialChoice(
        unit="node", relation="replace", count=1, reason="hits", sensitivity=1, scale=2 / epsilon
    )


@pytest.mark.parametrize(("choice", "proved"), [(1.0, 1.9999), (3.0, 3.0)])
def test_mechanisms_about_other_units_cost_the_larger_of_the_two(
    choice: float, proved: float
) -> None:
    alone = _statement()
    both = _statement(apart=[_choice(choice)], one_run=True, n_runs_released=1)
    assert both.epsilon_proved == pytest.approx(max(alone.epsilon_proved, choice), abs=1e-4)
    assert both.epsilon_proved == pytest.approx(proved, abs=1e-3)
    assert len(both.mechanisms) == len(alone.mechanisms) + 1
    assert "no other mechanism reads" in both.proof


def test_a_run_that_reads_nothing_private_has_epsilon_zero() -> None:
    statement = _statement(events=[], reads_private=False, one_run=True, n_runs_released=3)
    assert statement.status == "proved"
    assert statement.epsilon_proved == statement.epsilon_all_runs == 0.0
    assert not statement.mechanisms and not statement.vacuous
    with pytest.raises(UserError, match="nothing private"):
        _statement(reads_private=False)


def test_what_other_units_cost_counts_in_one_run_and_in_all():
    def query(mu):
        return GaussianQuery(
            unit="node", relation="replace", count=1, reason="test", clipping="row",
            sensitivity=mu, noise_std=1.0,
        )  # fmt: skip

    claim, runs = ("node", "replace", 1e-5, 10), [SearchRuns((query(0.1),), 4)]
    found = price_runs(claim, runs, True, [query(0.3)])
    assert found.proved == pytest.approx(gdp_epsilon(0.3, 1e-5))
    assert found.together == pytest.approx(gdp_epsilon(0.6, 1e-5))
    more = price_runs(claim, [*runs, SearchRuns((query(0.2),), 5)], True, [query(0.3)])
    assert more.together == pytest.approx(gdp_epsilon(0.9, 1e-5)), "of runs with other events too"
    unproved = price_runs(claim, runs, True, [Unnoised("read")])
    assert unproved.proved is None and unproved.together is None
