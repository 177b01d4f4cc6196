"""Means of parts: what one part can move, what it is priced at, and that classes are learned."""

from __future__ import annotations

import numpy as np
import pytest
from answers import answers
from test_mlp_records import images, job

from private_graphs.core.errors import UserError
from private_graphs.core.streams import Streams
from private_graphs.datasets.protocols import SOUND
from private_graphs.methods import method_named
from private_graphs.methods.unit_gradients import hashed_parts
from private_graphs.running.run import execute
from private_graphs.studies.inversion.methods.part_means import PartSettings, class_sums_of
from private_graphs.tasks.method import Request
from private_graphs.tasks.tasks import build_task

TASK = build_task(images(400, 1), "subclasses", SOUND, 1e-3)[0]


def ask(epsilon: float, seed: int = 0, parts: int = 5):
    streams = Streams.of({"epsilon": str(epsilon), "seed": seed})
    request = Request(epsilon, seed, np.arange(12), streams, PartSettings(parts=parts))
    (found,) = answers(method_named("part_means"), TASK, [request])
    return found


def test_a_part_moves_one_sum_by_twice_the_bound_and_no_other():
    rng = np.random.default_rng(0)
    rows, labels = 9 * rng.normal(size=(200, 4)), rng.integers(-1, 3, 200)
    before = class_sums_of(rows, labels, 3, 5, 0.7)
    mine = (labels == 1) & (hashed_parts(200, 5) == 2)
    rows[mine] = [5.0, 0, 0, 0]
    one = class_sums_of(rows, labels, 3, 5, 0.7)
    rows[mine] = [-3.0, 0, 0, 0]
    other = class_sums_of(rows, labels, 3, 5, 0.7)
    moved = np.linalg.norm(one - other, axis=1)
    assert moved[0] == moved[2] == 0 and 1.4 - 1e-9 < moved[1] <= 1.4
    assert (one[[0, 2]] == before[[0, 2]]).all()
    gone = class_sums_of(rows, np.where(mine, -1, labels), 3, 5, 0.7)
    assert (gone[[0, 2]] == before[[0, 2]]).all(), "a part without images adds nothing"
    np.testing.assert_allclose(one[1] - gone[1], [0.7, 0, 0, 0], atol=1e-9)


def test_units_are_parts_and_no_validation_images():
    """20 public validation images times δ is above 1, 16 parts times δ is not, 20 parts is."""
    asked = {"method": "part_means", "scenario": "subclasses", "delta": 0.06}

    def of(parts: int):
        return job("sound").model_copy(update=asked | {"settings": {"parts": parts}})

    (statement,) = execute(of(4), images()).statements.values()
    assert statement["n_units"] == 16 and statement["unit"] == "subclass"
    assert statement["epsilon_proved"] <= 3
    with pytest.raises(UserError, match="20 units"):
        execute(of(5), images())
