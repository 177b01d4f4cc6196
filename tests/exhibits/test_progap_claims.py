"""Claims of ProGAP's text: a rule for every published claim, and rules on rows made by hand."""

from __future__ import annotations

import csv
import math
from types import SimpleNamespace

import pandas as pd
import pytest

from private_graphs.datasets.registry import DATASETS
from private_graphs.report.claims import Place
from private_graphs.slices import STUDIES
from private_graphs.studies import claims_of
from private_graphs.studies.progap import claims
from private_graphs.studies.progap.scores import PRINTED_AS
from private_graphs.study import load_study

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


def test_every_published_claim_has_a_rule():
    with PUBLISHED.open(encoding="utf-8") as lines:
        said = [row["id"] for row in csv.DictReader(lines)]
    assert sorted(said) == sorted(claim.id for claim in claims_of("progap"))


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


def test_the_authors_lists_bound_neither_rows_nor_repetitions():
    assert claims.rows_with_a_node(None, at()).value == 4  # D + 1 = 2 are claimed
    assert claims.kept_by_repeating(None, at()).value < 0.9
    assert claims.moved_by_a_hub(None, at()).value > 6  # 2(D + 1) = 4 are claimed


def test_what_printed_numbers_show_by_themselves():
    assert claims.compared_runs(None, at()).value == pytest.approx(30.7, abs=0.05)
    assert claims.both_directions(None, at(1)).value == pytest.approx(1.8)
    table = SimpleNamespace(study=load_study("progap"))
    assert claims.features_without_noise(table, at()).value == pytest.approx(71.1 - 73.6)


def test_missing_years_are_counted_where_the_authors_code_reads_them():
    names = DATASETS["fb100-part"].classes
    table = SimpleNamespace(statistics=[
        {"name": name, "view": view, "train_class_counts": dict(zip(names, range(n), strict=False))}
        for name, view, n in (("fb100-part", "sound", 5), ("fb100-part", "released", 6),
                              ("fb100", "released", 6))
    ])  # fmt: skip
    place = Place({}, "fb100-part", "released")
    assert claims.missing_years(table, place).value == pytest.approx(100 * 5 / 15)
    assert claims.missing_years(SimpleNamespace(statistics=[]), place) is None


def test_the_gap_of_training_is_that_after_the_last_epoch():
    told = {"training_accuracy": [0.2, 0.9], "validation_accuracy": [0.5, 0.86]}
    table = SimpleNamespace(
        runs=pd.DataFrame({"group": ["friendship_epochs", "friendship_epochs", "list_epochs"]}),
        artifacts=lambda rows, name: [told[name] if i == 0 else None for i in rows.index],
    )
    found = claims.ahead("edge", table, at(1))
    assert found.value == pytest.approx(4)
    assert (found.low, found.high) == (-math.inf, math.inf), "one run decides nothing"
    assert claims.ahead("node", table, at(8)) is None
