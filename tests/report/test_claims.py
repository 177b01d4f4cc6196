"""Verdicts: what an interval decides, that noise decides nothing, and that all is judged."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from golden import results

from private_graphs.errors import UserError
from private_graphs.exhibits import claims_of
from private_graphs.report.claims import (
    COLUMNS,
    VERDICTS,
    Claim,
    Measured,
    claims_table,
    exact,
    interval,
    judged,
    read_claims,
    verdict,
    write_claims,
)

CLAIMS = claims_of("lrec2022")


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


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.6), (0.149, 0.151)])
def test_rules_over_scores_that_are_noise_hold_nothing(low, high):
    """All scores of the golden rows drawn anew; also so near to each other that nothing changes,
    as where nothing is learned: that is neither robust nor independent of the data."""
    rng = np.random.default_rng(3)
    rows = results().rows.copy()
    runs = rows["source"] == "own"
    for name in ("test_micro_f1", "validation_micro_f1"):
        rows.loc[runs, name] = rng.uniform(low, high, runs.sum())
    rows.loc[runs, "majority_micro_f1"] = 0.3
    noise = replace(results(), rows=rows)
    names = {"splits_score", "more_data", "sgd_robust", "adam_rates", "errors_differ"}
    frame = judged(CLAIMS, noise)
    of_scores = frame[frame["id"].str.split(".").str[0].isin(names)]
    assert set(of_scores["verdict"]) <= {"undecided", "fails"} and len(of_scores) >= 12
    assert (of_scores["verdict"] == "undecided").mean() >= 0.8


def test_every_published_claim_has_one_verdict_per_graph_and_protocol():
    frame = judged(CLAIMS, results())
    assert set(frame["verdict"]) <= set(VERDICTS)
    assert not frame.duplicated(["id", "protocol"]).any()
    said = set(results().published("claims")["id"])
    assert {name.split(".")[0] for name in frame["id"]} == said
    ran = frame[frame["verdict"] != "not_run"]
    assert (ran["low"] <= ran["measured"]).all() and (ran["measured"] <= ran["high"]).all()
    assert frame.loc[frame["id"].str.startswith("reddit"), "verdict"].unique() == ["not_run"]
    assert (frame["command"].str.startswith("snakemake --cores all --config scale=demo")).all()


def test_proofs_and_attacks_decide_claims_of_epsilon():
    frame = judged(CLAIMS, results()).set_index(["id", "protocol"])
    graph = "full_epsilon.synthetic-planetoid"
    assert frame.loc[(graph, "released"), "verdict"] == "fails"
    assert frame.loc[(graph, "sound"), "verdict"] == "holds"
    assert frame.loc[("no_epsilon_one", "sound"), "verdict"] == "fails"
    assert frame.loc[("few_settings.synthetic-planetoid", "sound"), "measured"] > 1


def test_claims_on_runs_of_other_methods_are_not_run():
    frame = judged(claims_of("inversion"), results("inversion")).set_index("id")  # all of LREC
    assert frame.loc["plain_accuracy", "verdict"].tolist() == ["not_run"] * 2
    assert frame.loc["record_leaks", "verdict"].tolist() == ["not_run"] * 2


def test_written_verdicts_are_read_as_they_were(tmp_path):
    frame = judged(CLAIMS, results())
    read = read_claims(CLAIMS, write_claims(CLAIMS, results(), tmp_path))
    numbers = ["printed", "measured", "low", "high"]
    np.testing.assert_allclose(read[numbers], frame[numbers].astype(float), rtol=1e-6)
    assert read.drop(columns=numbers).equals(frame.drop(columns=numbers))
    assert read["because"].any() and list(read) == list(frame)


def test_a_claim_without_a_rule_and_a_rule_without_a_claim_are_errors():
    with pytest.raises(UserError, match="full_epsilon"):
        judged([claim for claim in CLAIMS if claim.id != "full_epsilon"], results())
    with pytest.raises(UserError, match="nobody_said"):
        judged([*CLAIMS, Claim("nobody_said", lambda results, place: None)], results())


def test_the_table_has_a_row_per_claim_and_a_column_per_protocol():
    frame = pd.DataFrame([
        {"id": "a.cora", "claim": "more", "printed": 0.7, "protocol": name, "measured": value,
         "low": value, "high": value, "verdict": said, "command": "", "because": ""}
        for name, value, said in (("released", 0.71, "holds"), ("sound", None, "not_run"))
    ])  # fmt: skip
    table = claims_table(frame, "Claims")
    assert [column.head for column in table.columns] == ["claim", "printed", "released", "sound"]
    (line,) = table.shown.to_dict("records")
    shown = [column.show(line) for column in table.columns]
    assert shown[0] == "more (cora)" and shown[2].text == "holds: 0.710"
    assert shown[2].tone == "" and shown[3].text == "not run"
    assert list(table.frame) == list(COLUMNS)
