"""The choice among candidates: on public labels, or on private ones by a noisy choice."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from small_tasks import make_task

from private_graphs.mechanisms.door import Door
from private_graphs.methods.choice import choose
from private_graphs.methods.method import VALIDATION_LABELS, Request
from private_graphs.privacy.events import ExponentialChoice
from private_graphs.training.streams import Streams

TASK = make_task("text", n_train=10)
TRUTH = TASK.validation_labels
WRONG = (TRUTH + 1) % 3


def asked(known, epsilon: float = 1.0, seed: int = 0) -> Request:
    return Request(epsilon, seed, np.asarray(known, dtype=int), Streams.of({"seed": seed}))


def chosen(known, predictions, **how):
    """The index, and what a run with these known labels released of the others, or planned to."""
    request = asked(known, **how)
    door = Door.of([request.streams])
    door.plan([()])
    index = choose(TASK, request, np.stack(predictions), door)
    door.close()
    assert door.events() == [()], "no training node is read"
    (events,) = door.part(VALIDATION_LABELS).events()
    return index, events


def test_public_labels_choose_the_most_hits_and_the_first_of_equals():
    known = np.arange(len(TRUTH))
    assert chosen(known, [WRONG, TRUTH]) == (1, ())
    assert chosen(known, [TRUTH, TRUTH])[0] == 0


def test_only_known_labels_are_read():
    half = np.where(np.arange(len(TRUTH)) < 5, TRUTH, WRONG)
    assert chosen([0, 1], [half, TRUTH])[0] == 0, "both are right on two"


def test_private_labels_choose_by_the_exponential_mechanism():
    _, (event,) = chosen([], [WRONG, TRUTH])
    assert isinstance(event, ExponentialChoice)
    assert event.bounded_range == pytest.approx(1.0)
    # P[first] = 1 / (1 + exp(hits / scale)), counted over fixed seeds.
    nearly = np.where(np.arange(len(TRUTH)) < 3, WRONG, TRUTH)
    indices = [chosen([], [TRUTH, nearly], seed=s)[0] for s in range(2000)]
    expected = 1 / (1 + math.exp(3 / 2))
    assert np.mean(indices) == pytest.approx(expected, abs=3 * math.sqrt(0.25 / 2000))


def test_one_candidate_is_no_choice():
    assert chosen([], [TRUTH]) == (0, ())


@pytest.mark.parametrize("epsilon", [3.74, 6.3, 0.1, 2.0, 7.77])
def test_a_choice_keeps_budgets_that_rounding_would_exceed(epsilon):
    predictions = np.zeros((3, len(TRUTH)), dtype=np.int64)
    _, (event,) = chosen([], predictions, epsilon=epsilon)
    assert 2 / Fraction(event.scale) <= Fraction(epsilon)
    assert epsilon * (1 - 1e-12) <= event.bounded_range <= epsilon
