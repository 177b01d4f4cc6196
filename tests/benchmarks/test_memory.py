"""The memory of jobs is predicted within a factor of 1.5, on the safe side."""

from __future__ import annotations

import memory
import pandas as pd


def test_predictions_are_those_of_the_table_and_near_what_was_measured(root):
    kept = pd.read_csv(root / "docs" / "benchmarks" / "memory.csv", keep_default_na=False)
    now = memory.table(list(kept["measured"]))
    pd.testing.assert_frame_equal(now, kept)
    assert kept["ratio"].between(1, 1.5).all()
