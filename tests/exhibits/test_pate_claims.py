"""Claims of PATE on planted curves: a share of wrong labels that turns, or does not."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from private_graphs.report.claims import verdict
from private_graphs.studies.pate.claims import CLAIMS, rises_then_falls

EPOCHS = 500
FALLING = np.linspace(150, 2, EPOCHS).astype(int)
"""Disagreements that become few, as in a real run."""
PASSED = FALLING.cumsum() / FALLING.sum()
"""Share of all disagreements that have happened, 0 to 1."""


def long_runs(*shares: np.ndarray) -> SimpleNamespace:
    """Results of long runs with these shares of wrong labels."""
    curves = [
        {"disagreements": FALLING.tolist(), "wrong_among_them": (share * FALLING).tolist()}
        for share in shares
    ]
    runs = pd.DataFrame({"group": "long", "curve": [json.dumps(each) for each in curves]})
    return SimpleNamespace(runs=runs)


def difference(share: np.ndarray) -> float:
    return rises_then_falls(long_runs(share), None).value


@pytest.mark.parametrize("name", ["few_disagree", "rises_then_falls"])
def test_one_curve_decides_nothing_and_several_that_agree_do(name):
    (claim,) = [each for each in CLAIMS if each.id == name]
    share = 0.6 + 0.2 * np.sin(np.pi * PASSED)
    one, two = (claim.measure(long_runs(*[share] * n), None) for n in (1, 2))
    assert verdict(one, claim.least, claim.most) == "undecided"
    assert verdict(two, claim.least, claim.most) == "holds"


@pytest.mark.parametrize(
    ("share", "turns"),
    [
        (0.6 + 0.2 * np.sin(np.pi * PASSED), True),
        (0.5 + 0.3 * PASSED, False),
        (0.8 - 0.3 * PASSED, False),
        (np.full(EPOCHS, 0.7), False),
    ],
)
def test_a_share_rises_and_falls_only_where_its_middle_is_above_both_ends(share, turns):
    (least,) = [claim.least for claim in CLAIMS if claim.id == "rises_then_falls"]
    assert (difference(share) >= least) == turns
