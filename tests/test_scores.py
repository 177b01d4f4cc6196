"""Scores and baselines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from private_graphs.core.streams import Streams
from private_graphs.running.result import majority_score, random_score, scores


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=50))
def test_scores_are_those_of_scikit_learn(pairs):
    labels, predictions = np.array(pairs).T
    found = scores(labels, predictions)
    for average in ("micro", "macro"):
        expected = f1_score(labels, predictions, average=average, zero_division=0)
        assert found[f"{average}_f1"] == pytest.approx(expected)


def test_the_majority_is_scored_on_the_given_labels():
    assert majority_score(np.array([3, 3, 1, 0]), 3) == 0.5
    assert majority_score(np.array([3, 3, 1, 0]), 2) == 0.0


def test_the_released_random_baseline_never_draws_the_last_class():
    stream = Streams("random")
    last = np.full(20_000, 6)
    assert random_score(last, 7, True, stream) == 0.0
    assert random_score(last, 7, False, stream) == pytest.approx(1 / 7, abs=0.02)
    first = np.zeros(20_000, dtype=int)
    assert random_score(first, 7, True, stream) == pytest.approx(1 / 6, abs=0.02)
    assert random_score(first, 1, True, stream) == 1.0  # one class only: nothing to leave out
