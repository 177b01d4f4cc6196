"""Claims and tables of model inversion, on rows made by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from private_graphs.studies.inversion import claims, figure4_3
from private_graphs.studies.inversion.class_reports import needed
from private_graphs.study import load_study


def runs(*rows: dict):
    """Results with these rows, of two seeds each."""
    frame = [
        {"method": "unit_gradients", "attack": None, "penalty": None, **row, "seed": seed}
        for row in rows
        for seed in (0, 1)
    ]
    return SimpleNamespace(runs=pd.DataFrame(frame))


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


def test_models_of_the_other_reading_of_the_steps_stand_apart():
    results = runs(
        model("mnist_record", "records", 6.0, 0.9),
        model("mnist_subclass", "subclasses", 18.6, 0.8),
        model("mnist_subclass_undoubled", "subclasses", 18.6, 0.88),
    )
    assert claims.matched(results, None).value == pytest.approx(-0.1)
    where = {"scenario": ("classes", "subclasses"), "epsilon": 18.6}
    assert claims.accuracy(results, None, **where).value == pytest.approx(0.8)
    assert claims.undoubled_accuracy(results, None, 18.6).value == pytest.approx(0.88)


def test_both_readings_of_the_steps_are_those_of_the_study_file():
    results = SimpleNamespace(study=load_study("inversion"))
    few = claims._printed(results, "mnist_subclass")
    many = claims._printed(results, "mnist_subclass_undoubled")
    assert {key: noise for key, (noise, _) in few.items()} == {
        key: noise for key, (noise, _) in many.items()
    }
    assert all(many[key][1] > 4 * steps for key, (_, steps) in few.items())
    found = claims.steps_ratio(results, None, "mnist_subclass")
    assert found.low == pytest.approx(952 / 691) and found.high == pytest.approx(204 / 97)


def test_the_smallest_budget_is_one_of_those_that_have_all_seeds():
    rows = [
        {"method": "model_inversion", "attack": "prior", "penalty": "none", "group": group,
         "scenario": "records", "epsilon": epsilon, "re_identification": share}
        for group, epsilon, share in (
            ("mnist_plain_attacks", math.inf, 0.9), ("mnist_record_attacks", 6.0, 0.8),
            ("mnist_record_attacks", 0.5, 0.6), ("mnist_record_between_attacks", 0.333, 0.1),
        )
    ]  # fmt: skip
    assert claims.at_smallest(runs(*rows), None, "prior").value == pytest.approx(0.6)


def test_parts_are_ranked_within_a_seed():
    rows = [
        model("mnist_parts", "subclasses", 18.6, 0.5 + parts / 500, parts=parts)
        for parts in (1, 10, 200)
    ]
    found = claims.more_parts(runs(*rows), None, "mnist_parts", "test_accuracy")
    assert found.value == pytest.approx(1) and found.high == 1 and 0 < found.low < 1
    assert claims.more_parts(runs(*rows[:2]), None, "mnist_parts", "test_accuracy") is None


def test_what_shares_of_both_worlds_need():
    assert needed(0.99, 1 / 40, 0) == pytest.approx(math.log(0.99 * 40))
    assert needed(0.02, 0.025, 1e-3) == 0
    assert needed(0.9, 0.0, 1e-3) is None


def test_a_grid_of_parts_has_a_row_per_digit_and_says_whose_pictures_they_are():
    pictures = np.full((10, 50, 2, 3), 51, np.uint8)
    frame = pd.DataFrame({"dataset": ["mnist"] * 2, "protocol": ["paper", "sound"]})
    results = SimpleNamespace(runs=frame, artifacts=lambda rows, name: [pictures, pictures])
    paper, sound = figure4_3.build(results)
    assert paper.images.shape == (10, figure4_3.SHOWN, 2, 3)
    assert paper.images.max() == pytest.approx(0.2)
    assert "private" in paper.notes[0] and "private" not in sound.notes[0]
    assert all("of 50 parts" in grid.notes[1] for grid in (paper, sound))
    results.artifacts = lambda rows, name: [None, None]
    assert figure4_3.build(results) == ["No picture of a part has been kept."]
