"""Claims of ProGAP's text: a rule for every published claim, and rules on rows made by hand."""

from __future__ import annotations

import csv
import math
from functools import partial

import pandas as pd
import pytest
from small_results import results_with

from private_graphs.core.imports import STUDIES
from private_graphs.report.claims import Place, verdict
from private_graphs.report.results import Results
from private_graphs.running.study import load_study
from private_graphs.studies.progap import claims
from private_graphs.studies.progap.scores import PRINTED_AS, choose_depth

PUBLISHED = STUDIES / "progap/published/text_claims.csv"


def runs(**scores):
    """Runs of two seeds: of (group, method, ε, hops) the test accuracies."""
    rows = [
        {"study": "progap", "group": group, "method": method, "epsilon": epsilon, "hops": hops,
         "seed": seed, "test_accuracy": accuracy}
        for (group, method, epsilon, hops), pair in scores["of"].items()
        for seed, accuracy in enumerate(pair)
    ]  # fmt: skip
    return results_with("progap", pd.DataFrame(rows))


def at(epsilon=None):
    return Place({"epsilon": epsilon}, "campus", "released")


def test_rivals_are_the_methods_that_table_2_prints_beside_progap():
    with (PUBLISHED.parent / "table2.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    for level, rivals in claims.RIVALS.items():
        theirs = {row["method"] for row in rows if row["level"] == level} - {"progap"}
        assert {PRINTED_AS.get((level, name), name) for name in rivals} == theirs


def test_points_are_above_the_best_rival_by_seed():
    table = runs(of={
        ("friendships", "progap", 1, 5): (0.80, 0.82),
        ("friendships", "gap", 1, 2): (0.70, 0.74),
        ("friendships", "edge_rand", 1, 2): (0.50, 0.50),
        ("friendships", "gap", 4, 2): (0.99, 0.99),
    })  # fmt: skip
    measured = claims.above_rivals("edge", ("gap", "edge_rand"), table, at(1))
    assert measured.value == pytest.approx(9)  # 10 and 8
    assert measured.low < 8 and measured.high > 10
    alone = claims.above_rivals("edge", ("edge_rand",), table, at(1))
    assert alone.value == pytest.approx(31)
    assert claims.above_rivals("node", ("gap",), table, at(8)) is None


def test_depth_counts_the_sums_that_are_named():
    table = runs(of={
        ("friendship_hops", "progap", 4, hops): (score, score)
        for hops, score in {1: 0.5, 2: 0.6, 4: 0.7, 5: 0.72}.items()
    })  # fmt: skip
    assert claims.deeper("edge", 5, 1, table, at(4)).value == pytest.approx(22)
    assert claims.diminishing(table, at(4)).value == pytest.approx(8)
    assert claims.deeper("edge", 5, 3, table, at(4)) is None


def test_each_method_has_the_number_of_sums_that_validates_best():
    """As the paper chooses it: at a small ε few sums, at a large one many; a rival too."""
    scores = {  # (method, ε, K): validation and test accuracies of two seeds
        ("progap", 2, 1): (0.50, (0.51, 0.53)), ("progap", 2, 4): (0.45, (0.46, 0.46)),
        ("progap", 8, 1): (0.60, (0.61, 0.61)), ("progap", 8, 4): (0.70, (0.71, 0.73)),
        ("gap", 2, 1): (0.40, (0.90, 0.90)), ("gap", 2, 3): (0.48, (0.49, 0.49)),
        ("gap", 8, 3): (0.65, (0.66, 0.66)),
    }  # fmt: skip
    rows = pd.DataFrame([
        {"source": "own", "study": "progap", "group": "list_budgets", "method": method,
         "dataset": "campus", "scenario": "lists", "protocol": "paper", "epsilon": epsilon,
         "hops": hops, "job": f"{method} {hops}", "seed": seed, "test_accuracy": accuracy,
         "validation_micro_f1": validation}
        for (method, epsilon, hops), (validation, pair) in scores.items()
        for seed, accuracy in enumerate(pair)
    ])  # fmt: skip
    held = Results(load_study("progap"), "full", rows, {})
    left = choose_depth(held).runs
    chosen = {(row.method, row.epsilon): row.hops for row in left.itertuples()}
    assert chosen == {("progap", 2): 1, ("progap", 8): 4, ("gap", 2): 3, ("gap", 8): 3}
    assert len(left) == 8
    assert claims.above_gap("node", held, at()).value == pytest.approx(3)  # at ε = 2; 6 at 8
    unknown = held.with_rows(rows.assign(validation_micro_f1=float("nan")))
    assert len(choose_depth(unknown).runs) == len(rows), "without validation nothing is chosen"


STATEMENTS = {
    "edge": {"delta": 1e-7, "epsilon_proved": 1.4476, "mechanisms": [
        {"noise_multiplier": 10.4618 / 2**0.5, "sensitivity": 2**0.5, "count": 5},
    ]},
    "node": {"delta": 1e-5, "epsilon_proved": 17.39, "mechanisms": [
        {"noise_multiplier": 1.3438 / 2, "sensitivity": 20.0, "count": 4},
        {"noise_multiplier": 1.3438, "count": 1925, "sampling": f"poisson({256 / 19804:g})"},
    ]},
}  # fmt: skip
"""Statements of the authors' code at ε = 1 and 8."""


@pytest.mark.parametrize(
    ("rule", "level", "epsilon", "expected"),
    [
        (claims.price_directed_edge, "edge", 1, 1.0),
        (partial(claims.proved_epsilon, "edge"), "edge", 1, 1.4476),
        (claims.price_removal, "node", 8, 7.4343),
        (partial(claims.proved_epsilon, "node"), "node", 8, 17.39),
    ],
)
def test_every_relation_has_its_own_price(rule, level, epsilon, expected):
    """The numbers of a directed edge, a friendship, a removed and a replaced person."""
    rows = pd.DataFrame([{"group": claims.GROUPS[level], "method": "progap", "epsilon": epsilon,
                          "seed": 0, "statement_id": level}])  # fmt: skip
    held = results_with("progap", rows, STATEMENTS)
    assert rule(held, at(epsilon)).value == pytest.approx(expected, abs=3e-3)


def test_nothing_is_said_to_be_proved_of_a_node_with_all_its_edges():
    rows = pd.DataFrame([{"group": "owned_lists", "method": "progap", "epsilon": 8,
                          "seed": 0, "statement_id": "node"}])  # fmt: skip
    held = results_with("progap", rows, STATEMENTS)
    found = claims.price_all_edges(held, at(8))
    assert verdict(found, -math.inf, 8) == "undecided" and math.isinf(found.high)
