"""Claims and tables of model inversion, on rows made by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from small_results import results_with

from private_graphs.studies.inversion import claims
from private_graphs.studies.inversion.models import needed


def runs(*rows: dict):
    """Results with these rows, of two seeds each."""
    frame = [
        {"method": "unit_gradients", "attack": None, "penalty": None, **row, "seed": seed}
        for row in rows
        for seed in (0, 1)
    ]
    return results_with("inversion", pd.DataFrame(frame))


def model(group: str, scenario: str, epsilon: float, accuracy: float, **more) -> dict:
    return {"group": group, "scenario": scenario, "epsilon": epsilon, "test_accuracy": accuracy,
            **more}  # fmt: skip


def test_pairs_are_of_the_models_that_the_thesis_compares_alone():
    results = runs(
        model("mnist_record", "records", 6.0, 0.9),
        model("mnist_subclass", "subclasses", 18.6, 0.8),
        model("mnist_parts", "subclasses", 18.6, 0.1, parts=1),
        model("mnist_examples", "subclasses", 18.6, 0.3),
    )
    assert claims.matched(results, None).value == pytest.approx(-0.1)


def attack(scenario: str, epsilon: float, distance: float, accuracy: float) -> dict:
    return {"method": "model_inversion", "attack": "enhanced", "penalty": "l1_sum", "group": "x",
            "scenario": scenario, "epsilon": epsilon, "distance": distance,
            "test_accuracy": accuracy}  # fmt: skip


def test_a_claim_about_equal_accuracy_is_decided_by_models_of_equal_accuracy_alone():
    equal = [attack("records", 6.0, 5.0, 0.9), attack("subclasses", 18.6, 5.5, 0.9)]
    apart = [attack("records", 1.6, 5.0, 0.9), attack("subclasses", 8.2, 4.0, 0.03)]
    found = claims.farther(runs(*equal, *apart), None)
    assert found.value == found.low == pytest.approx(0.5), "the pair of 90 and 3 % does not count"
    alone = claims.farther(runs(*apart), None)
    assert alone.value == pytest.approx(-1) and (alone.low, alone.high) == (-math.inf, math.inf)


def test_what_shares_of_both_worlds_need():
    assert needed(0.99, 1 / 40, 0) == pytest.approx(math.log(0.99 * 40))
    assert needed(0.02, 0.025, 1e-3) == 0
    assert needed(0.9, 0.0, 1e-3) is None
