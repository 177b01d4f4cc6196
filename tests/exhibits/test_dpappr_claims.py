"""Claims of DP-APPR: differences within seeds, all parts of a claim, twelve of them together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_results import results_with

from private_graphs.report.claims import highest, verdict
from private_graphs.report.results import Results
from private_graphs.studies.dpappr.claims import RULES, _p_value, holm

SEEDS = range(10)


def _rows(method: str, scores, *, group: str = "appr_budgets", **at) -> pd.DataFrame:
    place = f"{method} {at}".encode()
    noise = np.random.default_rng(list(place)).normal(0, 0.01, len(SEEDS))
    return pd.DataFrame({"group": group, "method": method, "seed": SEEDS,
                         "test_accuracy": scores + noise} | at)  # fmt: skip


def _runs(lead: float, rise: float) -> Results:
    """GM and EM-v1 rise by ``rise``, EM-v0 not; all lead over DPSGD by ``lead``."""
    common = np.linspace(0.4, 0.6, len(SEEDS))  # seeds differ much more than methods do
    parts = []
    for training in (1.0, 4.0):
        at = {"top": 4.0, "training_epsilon": training}
        for rows, part in ((0.5, 0.0), (16.0, rise)):
            budget = at | {"epsilon": rows + training}
            parts.append(_rows("appr_gaussian", common + part, **budget))
            parts.append(_rows("appr_chosen", common, **budget))
            parts.append(_rows("appr_chosen_values", common + part, **budget))
        parts.append(_rows("appr_exact", common - lead, top=4.0, epsilon=training))
    return results_with("dpappr", pd.concat(parts, ignore_index=True))


@pytest.mark.parametrize(
    ("lead", "rise", "expected"), [(0.2, 0.1, "holds"), (-0.2, -0.1, "fails"), (0, 0, "undecided")]
)
def test_effects_that_are_planted_are_found_within_seeds(lead, rise, expected):
    runs = _runs(lead, rise)
    parts = {name: RULES[name][0](runs) for name in ("rise", "above_dpsgd")}
    found = holm(parts)
    assert {verdict(each, 0, np.inf) for each in found.values()} == {expected}


def test_one_part_that_fails_makes_a_claim_fail():
    up, down = (pd.Series(sign + np.linspace(-0.1, 0.1, 10)) for sign in (1.0, -1.0))
    assert verdict(holm({"rise": [[up, down]]})["rise"], 0, np.inf) == "fails"
    some = {"rise": [[up, down], [up, up]]}
    assert verdict(holm(some)["rise"], 0, np.inf) == "holds", "in some cases: one panel is enough"


def test_twelve_claims_are_looked_at_together():
    draws = np.array([-1.0, 1.0] * 5)
    weak = pd.Series(0.8 + draws)  # p = .035 alone
    strong = pd.Series(8 + draws)
    assert verdict(holm({"rise": [[weak]]})["rise"], 0, np.inf) == "undecided"
    names = list(RULES)
    eleven = dict.fromkeys(names[:11], [[strong]])
    assert verdict(holm(eleven | {names[11]: [[weak]]})[names[11]], 0, np.inf) == "holds"
    both = dict.fromkeys(names[:10], [[strong]]) | dict.fromkeys(names[10:], [[weak]])
    assert verdict(holm(both)[names[11]], 0, np.inf) == "undecided"


VALUES = st.lists(st.floats(-1, 1), min_size=2, max_size=6)


@given(st.lists(st.lists(VALUES, min_size=1, max_size=3), min_size=1, max_size=3))
def test_a_claim_is_decided_from_its_p_value_on(panels):
    panels = [[pd.Series(part) for part in parts] for parts in panels]
    value = _p_value(panels)

    def decided(level: float) -> bool:
        found = highest(panels, level)
        return found.low >= 0 or found.high < 0

    if 1e-6 < value < 0.99:
        assert decided(1.001 * value) and not decided(0.999 * value)
