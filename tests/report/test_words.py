"""Words for numbers: every statement has a phrase, which never promises more than it does."""

from __future__ import annotations

import math
import re
from typing import Any, get_args

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from private_graphs.privacy.statements import Inference, Status, Unit
from private_graphs.report.words import (
    MODEL_ONLY,
    NOT_REPLAYED,
    SCALE,
    VACUOUS,
    guarantee,
    guarantees,
    strength,
    unit,
)

EPSILONS = st.floats(1e-9, 1e9) | st.floats(0.01, 300)


@st.composite
def points(draw: Any) -> dict[str, Any]:
    """A point as ``Results.points`` gives it, for any statement."""
    status = draw(st.sampled_from(get_args(Status)))
    proved = draw(EPSILONS)
    if status in ("published_only", "not_private") or (status == "refuted" and draw(st.booleans())):
        proved = None
    private = status != "not_private"
    claimed = draw(EPSILONS) if private else None
    vacuous = private and (proved or claimed) > 20
    return {
        "status": status, "epsilon_proved": proved, "epsilon_claimed": claimed,
        "unit": draw(st.sampled_from(get_args(Unit))) if private else None,
        "inference": draw(st.sampled_from(get_args(Inference))), "vacuous": vacuous,
        "statement_id": "0123456789ab",
        "audit_epsilon_lower": draw(EPSILONS) if status == "refuted" else None,
    }  # fmt: skip


@given(points())
def test_a_phrase_never_promises_more_than_the_statement(point):
    cell = guarantee(point)
    assert cell.statement == point["statement_id"]
    per = re.search(r"([\d.e+]+) per (.+?)(,|$)", cell.text)
    if point["epsilon_proved"] is None:
        assert per is None and cell.tone in ("", "none", "refuted")
    else:
        assert float(per[1]) >= point["epsilon_proved"]
        assert per[2] == unit(point["unit"])
        assert (MODEL_ONLY in cell.text) == (point["inference"] == "leaks")
    shown = re.search(r"refuted: ε > ([\d.e+]+)", cell.text)
    assert (shown is not None) == (point["status"] == "refuted") == (cell.tone == "refuted")
    assert shown is None or float(shown[1]) <= point["audit_epsilon_lower"]
    assert (VACUOUS in cell.text) == point["vacuous"]
    assert (cell.text == "no DP") == (point["status"] == "not_private")
    assert (NOT_REPLAYED in cell.text) == (point["status"] == "proved_not_replayed")
    held = point["status"].startswith("proved")
    assert (cell.tone == strength(point["epsilon_proved"]) != "none") == held


@given(st.lists(points(), min_size=1, max_size=5))
def test_the_words_along_a_line_hold_for_every_point_of_it(rows):
    cell = guarantees(pd.DataFrame(rows))
    private = [row for row in rows if row["status"] != "not_private"]
    if not private:
        assert cell.text == "no DP"
        return
    proved = [row["epsilon_proved"] for row in private if row["epsilon_proved"] is not None]
    held = all(row["status"].startswith("proved") for row in private)
    assert (cell.tone not in ("none", "refuted")) == held
    assert not held or cell.tone == strength(max(proved))
    assert ("refuted" in cell.text) == any(row["status"] == "refuted" for row in private)
    untested = any(row["status"] == "proved_not_replayed" for row in private)
    assert (NOT_REPLAYED in cell.text) == untested
    if proved:
        high = float(re.search(r"([\d.e+]+) per ", cell.text)[1])
        assert high >= max(proved)
        assert ("none for some" in cell.text) == (len(proved) < len(private))
        leaks = any(row["inference"] == "leaks" and row["epsilon_proved"] for row in private)
        assert (MODEL_ONLY in cell.text) == leaks


@pytest.mark.parametrize(
    ("epsilon", "tone"),
    [(0, "e1"), (1, "e1"), (1.001, "e3"), (3, "e3"), (3.39, "e10"), (13.4, "e20"), (20, "e20"),
     (20.001, "vacuous"), (344, "vacuous"), (None, "none"), (math.nan, "none")],
)  # fmt: skip
def test_the_scale_never_makes_an_epsilon_look_stronger_than_it_is(epsilon, tone):
    assert strength(epsilon) == tone and tone in SCALE


def test_an_epsilon_of_zero_says_what_was_read():
    """Noise may hide what was read so well that δ covers all of it: ε = 0, and something was."""
    point = {"status": "proved", "unit": "node", "inference": "params_only", "vacuous": False,
             "statement_id": "0123456789ab", "epsilon_proved": 0.0}  # fmt: skip
    assert guarantee(point | {"epsilon": 0.0}).text == "0: nothing private is read"
    assert guarantee(point | {"epsilon": 1e-9}).text == "0.00 per node"
