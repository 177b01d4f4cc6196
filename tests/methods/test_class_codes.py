"""Codes of classes: what a report says of a class, and what it may not."""

from __future__ import annotations

import math

import numpy as np
from answers import answers
from doors import one_lane
from test_unit_gradients import image_task

from private_graphs.methods import method_named
from private_graphs.methods.method import Request
from private_graphs.privacy.accountants import price
from private_graphs.privacy.events import PureQuery
from private_graphs.studies.inversion.methods.class_codes import CodeSettings, with_replaced
from private_graphs.training.streams import Streams

METHOD = method_named("class_codes")


def ask(epsilon: float, seed: int = 0, **settings) -> Request:
    streams = Streams.of({"epsilon": str(epsilon), "seed": seed})
    return Request(epsilon, seed, np.arange(12), streams, CodeSettings(**settings))


def test_a_report_is_kept_and_exchanged_with_the_chances_that_epsilon_allows():
    cells = np.full(200_000, 3)
    query = PureQuery(unit="class", relation="replace", count=1, reason="test", epsilon=1.2)
    (told,) = one_lane(query).respond([cells], 5, [query])
    found = np.bincount(told, minlength=5) / len(cells)
    keep = math.exp(1.2) / (math.exp(1.2) + 4)
    np.testing.assert_allclose(found, [(1 - keep) / 4] * 3 + [keep, (1 - keep) / 4], atol=5e-3)
    assert (
        keep / ((1 - keep) / 4) == np.exp(1.2)
        or abs(math.log(keep / ((1 - keep) / 4)) - 1.2) < 1e-12
    )  # the largest ratio of two classes' reports is e^ε


def test_what_is_released_proves_what_was_asked():
    task = image_task("classes")
    for release in ("codes", "means"):
        (found,) = answers(METHOD, task, [ask(2.0, release=release, dimensions=2)])
        epsilon = price(found.events[0], "class", "replace", task.delta).epsilon
        assert 1.9 < epsilon <= 2


def test_classes_are_learned_without_noise_by_both_releases():
    task = image_task("classes")
    for release in ("codes", "means"):
        (found,) = answers(METHOD, task, [ask(math.inf, release=release, dimensions=4)])
        assert (found.test_predictions == np.arange(9) % 3).mean() > 0.6


def test_a_replaced_class_changes_its_own_rows_alone():
    rows, labels = np.arange(12.0)[:, None], np.arange(12) % 3
    public = np.array([[20.0], [21.0], [22.0]]), np.array([1, 2, 2])
    other, names = with_replaced(rows, labels, public, 3, seed=4)
    assert sorted(other[names == 1, 0]) == [21.0, 22.0]
    for label in (0, 2):
        assert sorted(other[names == label, 0]) == sorted(rows[labels == label, 0])
