"""Codes of classes: what a report says of a class, and what it may not."""

from __future__ import annotations

import math

import numpy as np
from answers import answers
from test_unit_gradients import image_task

from private_graphs.core.streams import Streams
from private_graphs.methods import method_named
from private_graphs.studies.inversion.methods.class_codes import CodeSettings, with_replaced
from private_graphs.tasks.method import Request

METHOD = method_named("class_codes")


def ask(epsilon: float, seed: int = 0, **settings) -> Request:
    streams = Streams.of({"epsilon": str(epsilon), "seed": seed})
    return Request(epsilon, seed, np.arange(12), streams, CodeSettings(**settings))


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
