"""DP softmax regression on texts: its settings, and its price against dp-accounting."""

from __future__ import annotations

import math

import dp_accounting
import pytest
from small_tasks import many_requests, run, text_task

from private_graphs.methods.dp_linear import rule
from private_graphs.methods.text_gradients import signal
from private_graphs.privacy.accountants import price


def test_settings_grow_with_the_signal_and_ignore_validation_labels():
    assert signal(1000, 5, math.inf, 1e-5) == 20_000
    small, large = rule(30.0), rule(3000.0)
    assert small.rank < large.rank and small.steps.count < large.steps.count
    assert small.steps.learning_rate < large.steps.learning_rate
    task = text_task()
    outcomes = run("dp_linear", task, many_requests(task, known=(0, 10, 40)))
    assert len({str(each.settings) for each in outcomes}) == 1


def test_events_are_priced_at_the_request():
    task = text_task()
    for epsilon in (0.25, 1.0, 8.0):
        (outcome,) = run("dp_linear", task, many_requests(task, epsilons=(epsilon,)))
        (event,) = outcome.events
        priced = price(event, "node", "replace", task.delta)
        assert epsilon - 0.02 * epsilon < priced.epsilon <= epsilon
        accountant = dp_accounting.pld.PLDAccountant()  # a replaced node moves a sum by 2C
        step = dp_accounting.GaussianDpEvent(event.noise_multiplier / 2)
        accountant.compose(dp_accounting.SelfComposedDpEvent(step, event.releases))
        assert priced.epsilon == pytest.approx(accountant.get_epsilon(task.delta), rel=1e-3)
        assert outcome.settings["count"] == event.releases
        assert outcome.settings["clip_norm"] == event.clip_norm
