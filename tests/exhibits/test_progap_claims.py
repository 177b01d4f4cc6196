"""Claims of ProGAP's text: a rule for every published claim, and rules on rows made by hand."""

from __future__ import annotations

import csv
from types import SimpleNamespace

import pandas as pd
import pytest

from private_graphs.core.imports import STUDIES
from private_graphs.report.claims import Place
from private_graphs.studies.progap import claims
from private_graphs.studies.progap.scores import PRINTED_AS

PUBLISHED = STUDIES / "progap/published/text_claims.csv"


def runs(**scores):
    """Runs of two seeds: of (group, method, ε, hops) the test accuracies."""
    rows = [
        {"study": "progap", "group": group, "method": method, "epsilon": epsilon, "hops": hops,
         "seed": seed, "test_accuracy": accuracy}
        for (group, method, epsilon, hops), pair in scores["of"].items()
        for seed, accuracy in enumerate(pair)
    ]  # fmt: skip
    return SimpleNamespace(runs=pd.DataFrame(rows))


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
