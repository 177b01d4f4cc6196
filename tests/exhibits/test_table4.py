"""Table 4 of LREC 2022: its rows by both branches of the authors' code, and rules about them."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from private_graphs.report.claims import Place
from private_graphs.report.results import Results
from private_graphs.running.study import load_study
from private_graphs.studies.lrec2022 import claims

EPSILONS = (1.26, 4.24, 15.13, 0.98, 0.5)


def results(*rows: tuple[float, str | None, list[float]]):
    """Results with the scores of rows (ε, what gets the noise) by seed."""
    frame = [
        {"source": "own", "study": "lrec2022", "group": "table4", "epsilon": epsilon,
         "noise_on": branch, "seed": seed, "test_micro_f1": score}
        for epsilon, branch, scores in rows
        for seed, score in enumerate(scores)
    ]  # fmt: skip
    return Results(load_study("lrec2022"), "demo", pd.DataFrame(frame), {})


def place(epsilon: float = math.nan) -> Place:
    return Place({"epsilon": epsilon}, "mnist", "released")


def test_a_row_is_that_of_its_branch() -> None:
    both = results((1.26, None, [0.1, 0.2]), (1.26, "record", [0.8, 1.0]), (0.5, None, [0.3, 0.3]))
    assert claims.mnist_point(None, both, place(1.26)).value == pytest.approx(0.15)
    assert claims.mnist_point("record", both, place(1.26)).value == pytest.approx(0.9)
    assert claims.mnist_point("record", both, place(0.5)) is None
    old = replace(both, rows=both.rows[both.rows["noise_on"].isna()].drop(columns="noise_on"))
    assert claims.mnist_point(None, old, place(0.5)).value == pytest.approx(0.3)
    assert claims.mnist_point("record", old, place(0.5)) is None


def test_a_fall_is_the_least_of_all_steps_of_a_seed() -> None:
    found = results((1.26, None, [0.9, 0.8]), (4.24, None, [0.7, 0.7]), (15.13, None, [0.6, 0.3]))
    assert claims.mnist_fall(None, EPSILONS[:3], found, place()).value == pytest.approx(0.1)
    rises = results((1.26, None, [0.9, 0.9]), (4.24, None, [0.3, 0.3]), (15.13, None, [0.5, 0.5]))
    assert claims.mnist_fall(None, EPSILONS[:3], rises, place()).high < 0
    assert claims.mnist_fall(None, EPSILONS[2:], rises, place()) is None, "not all rows were run"
