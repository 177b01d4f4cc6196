"""Verdicts: what an interval decides, that noise decides nothing, and that all is judged."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from golden import results
from hypothesis import given
from hypothesis import strategies as st

from private_graphs.core.errors import UserError
from private_graphs.report.claims import (
    VERDICTS,
    Claim,
    Measured,
    alike,
    choice,
    correlation,
    exact,
    highest,
    interval,
    judged,
    lowest,
    provided,
    read_claims,
    verdict,
    write_claims,
)
from private_graphs.studies import claims_of

CLAIMS = claims_of("lrec2022")
RECORDED = Path(__file__).parents[2] / "recorded"


@cache
def golden_verdicts() -> pd.DataFrame:
    return judged(CLAIMS, results())


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.1, 0.4, "holds"), (0, 1, "holds"), (-0.1, 0.4, "undecided"), (0.9, 1.1, "undecided"),
     (1.1, 2, "fails"), (-2, -0.1, "fails"), (-math.inf, math.inf, "undecided"),
     (1.1, math.inf, "fails")],
)  # fmt: skip
def test_a_claim_holds_where_the_whole_interval_does(low, high, expected):
    assert verdict(Measured(0.5, low, high), 0, 1) == expected


def test_what_was_not_run_has_no_verdict():
    assert verdict(interval([]), 0, 1) == verdict(exact(None), 0, 1) == "not_run"


def test_one_run_decides_nothing():
    assert verdict(interval([5.0]), least=0, most=math.inf) == "undecided"
    assert verdict(interval([math.nan, 5.0]), least=0, most=math.inf) == "undecided"


def test_one_seed_chooses_nothing():
    assert verdict(choice(10.0, [10.0]), least=10, most=10) == "undecided"
    assert verdict(choice(10.0, [10.0, 10.0]), least=10, most=10) == "holds"
    assert verdict(choice(10.0, [10.0, 1.0]), least=10, most=10) == "undecided"


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=8), st.integers(3, 50))
def test_correlations_lie_between_minus_one_and_one(values, n):
    found = correlation(values, n)
    assert -1 <= found.low <= found.value <= found.high <= 1
    if len(values) == 1:
        assert (found.low, found.high) == (-1, 1)


def test_an_interval_of_correlations_covers_the_true_one():
    """Samples of 30 points of a normal pair with correlation 0.8, five at a time."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(400):
        pairs = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=(5, 30))
        found = correlation([np.corrcoef(each.T)[0, 1] for each in pairs], 30)
        inside += found.low <= 0.8 <= found.high
    assert 0.92 <= inside / 400 <= 0.98


def test_the_best_of_many_panels_is_no_finding():
    """Of eight panels of noise one leads at 5 % in a third of all draws; corrected, in 5 %."""
    rng = np.random.default_rng(1)
    seen = [verdict(highest([[rng.normal(size=5)] for _ in range(8)]), 0, math.inf)
            for _ in range(1000)]  # fmt: skip
    assert seen.count("holds") <= 0.05 * 1000
    panels = [[rng.normal(size=5)] for _ in range(7)] + [[8 + rng.normal(size=5)]]
    assert verdict(highest(panels), 0, math.inf) == "holds"
    assert verdict(highest([[each[0] - 9] for each in panels]), 0, math.inf) == "fails"


def test_all_parts_of_a_claim_have_to_be_above():
    up, down = [2.0, 2.1, 1.9], [-2.0, -2.1, -1.9]
    assert verdict(lowest([up, up]), 0, math.inf) == "holds"
    assert verdict(lowest([up, down]), 0, math.inf) == "fails"
    assert verdict(lowest([up, [0.1, -0.2, 0.2]]), 0, math.inf) == "undecided"
    assert lowest([]) is None and lowest([up, []]) is None
    rng = np.random.default_rng(2)
    seen = [verdict(lowest([rng.normal(size=5) for _ in range(8)]), 0, math.inf)
            for _ in range(1000)]  # fmt: skip
    assert seen.count("fails") <= 0.05 * 1000


def test_nothing_is_decided_where_a_premise_is_not_met():
    near, far = pd.Series([0.50, 0.51, 0.49]), pd.Series([0.90, 0.91, 0.92])
    assert alike(near, near + 0.001, 0.02) and not alike(near, far, 0.02)
    assert not alike(near[:1], near[:1], 0.02), "of one run nothing is known"
    found = interval([1.0, 1.1, 0.9])
    assert provided(found, True) == found and provided(None, False) is None
    assert verdict(provided(found, False), 0, math.inf) == "undecided"


def test_an_interval_is_that_of_student():
    one = interval([1.0, 2.0, 3.0])
    assert one.value == 2 and math.isclose(one.high, 2 + 4.302652729911275 / math.sqrt(3))
    assert math.isclose(one.low, 4 - one.high)


def test_noise_makes_a_claim_hold_as_seldom_as_the_interval_says():
    """A gain between two samples of one distribution: 2.5 % hold and 2.5 % fail."""
    rng = np.random.default_rng(0)
    seen = [verdict(interval(rng.normal(size=5) - rng.normal(size=5)), 0, math.inf)
            for _ in range(2000)]  # fmt: skip
    assert seen.count("holds") < 0.04 * 2000 and seen.count("fails") < 0.04 * 2000
    real = [verdict(interval(3 + rng.normal(size=5)), 0, math.inf) for _ in range(200)]
    assert real.count("holds") > 180 and "fails" not in real


def test_rules_over_scores_that_are_noise_hold_by_chance_alone():
    """All scores of the golden rows drawn anew; also so near to each other that nothing changes,
    as where nothing is learned: that is neither robust nor independent of the data."""
    rng = np.random.default_rng(3)
    runs = results().rows["source"] == "own"
    names = {"splits_score", "more_data", "sgd_robust", "adam_rates", "errors_differ"}
    held, decided = [], 0
    for low, high in [(0.1, 0.6), (0.1, 0.6), (0.149, 0.151)]:
        rows = results().rows.copy()
        for name in ("test_micro_f1", "validation_micro_f1"):
            rows.loc[runs, name] = rng.uniform(low, high, runs.sum())
        rows.loc[runs, "majority_micro_f1"] = 0.3
        frame = judged(CLAIMS, replace(results(), rows=rows, pool=None))
        of_scores = frame[frame["id"].str.split(".").str[0].isin(names)]
        assert len(of_scores) >= 12
        held.append(of_scores.loc[of_scores["verdict"] == "holds", ["id", "protocol"]])
        decided += (of_scores["verdict"] != "undecided").mean()
    held = pd.concat(held)
    assert not held.duplicated().any(), "a rule that noise keeps twice is no rule"
    assert decided / 3 <= 0.2


def test_every_published_claim_has_one_verdict_per_graph_and_protocol():
    frame = golden_verdicts()
    assert set(frame["verdict"]) <= set(VERDICTS)
    assert not frame.duplicated(["id", "protocol"]).any()
    said = set(results().published("claims")["id"])
    assert {name.split(".")[0] for name in frame["id"]} == said
    ran = frame[frame["verdict"] != "not_run"]
    assert (ran["low"] <= ran["measured"]).all() and (ran["measured"] <= ran["high"]).all()
    assert frame.loc[frame["id"].str.startswith("reddit"), "verdict"].unique() == ["not_run"]
    assert (frame["command"].str.startswith("snakemake --cores all --config scale=demo")).all()


OF_PROOFS = {
    "full_epsilon", "splits_epsilon", "few_settings", "bound_factor", "no_epsilon_one",
    "edge_epsilon", "edge_rand_epsilon", "node_epsilon", "small_delta", "noise_of_batch",
}  # fmt: skip
"""Claims about prices and settings of runs, which one run tells."""


@pytest.mark.parametrize("study", ["lrec2022", "inversion", "pate", "progap"])
def test_one_seed_decides_no_claim_about_scores(study):
    rows = results(study).rows
    first = rows["seed"].isna() | (rows["seed"] == rows["seed"].min())
    frame = judged(claims_of(study), replace(results(study), rows=rows[first], pool=None))
    by_run = frame[(frame["protocol"] != "") & frame["verdict"].isin(["holds", "fails"])]
    assert set(by_run["id"].str.split(".").str[0]) <= OF_PROOFS


def test_proofs_and_attacks_decide_claims_of_epsilon():
    frame = golden_verdicts().set_index(["id", "protocol"])
    graph = "full_epsilon.synthetic-planetoid"
    assert frame.loc[(graph, "released"), "verdict"] == "fails"
    assert frame.loc[(graph, "sound"), "verdict"] == "holds"
    assert frame.loc[("no_epsilon_one", "sound"), "verdict"] == "fails"
    assert frame.loc[("few_settings.synthetic-planetoid", "sound"), "measured"] > 1


def test_written_verdicts_are_read_as_they_were(tmp_path):
    frame = golden_verdicts()
    read = read_claims(CLAIMS, write_claims(CLAIMS, results(), tmp_path / "a.csv"))
    numbers = ["printed", "measured", "low", "high"]
    np.testing.assert_allclose(read[numbers], frame[numbers].astype(float), rtol=1e-6)
    assert read.drop(columns=numbers).equals(frame.drop(columns=numbers))
    assert read["because"].any() and list(read) == list(frame)


def test_a_claim_without_a_rule_and_a_rule_without_a_claim_are_errors():
    with pytest.raises(UserError, match="full_epsilon"):
        judged([claim for claim in CLAIMS if claim.id != "full_epsilon"], results())
    with pytest.raises(UserError, match="nobody_said"):
        judged([*CLAIMS, Claim("nobody_said", lambda results, place: None)], results())
