"""Gradients of classes: closed form, clipping, neighbours that attain the bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from answers import answers

from private_graphs.core.errors import UserError
from private_graphs.core.streams import Streams
from private_graphs.methods import method_named
from private_graphs.methods.unit_gradients import (
    PROTOCOLS,
    UnitSettings,
    with_replaced,
)
from private_graphs.privacy.accountants import price
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.method import Request
from private_graphs.tasks.tasks import SCENARIOS
from private_graphs.training.picture_nets import Cnn, Groups, Softmax
from private_graphs.training.unit_sgd import Units

METHOD = method_named("unit_gradients")
BY_NAME = {protocol.name: protocol for protocol in PROTOCOLS}
RNG = np.random.default_rng(5)


def image_task(scenario: str = "classes", protocol: str = "sound", n: int = 60) -> ImageTask:
    """Three classes of 12 x 12 pictures, each with a bright place of its own."""
    rng = np.random.default_rng(3)
    labels = np.arange(n) % 3

    def pictures(labels: np.ndarray) -> np.ndarray:
        images = rng.integers(0, 40, size=(len(labels), 12, 12))
        for row, label in enumerate(labels):
            images[row, 4 * label : 4 * label + 4, 2:9] += 180
        return images.reshape(len(labels), -1).astype(np.uint8)

    units = {"records": n, "classes": 3, "subclasses": 3}[scenario]
    return ImageTask(
        scenario=SCENARIOS[scenario], protocol=BY_NAME[protocol], n_units=units, n_classes=3,
        delta=1e-3, train_pixels=pictures(labels), train_labels=labels,
        validation_pixels=pictures(np.arange(12) % 3), validation_labels=np.arange(12) % 3,
        test_pixels=pictures(np.arange(9) % 3), shape=(1, 12, 12),
    )  # fmt: skip


def ask(epsilon: float, seed: int = 0, **settings) -> Request:
    streams = Streams.of({"epsilon": str(epsilon), "seed": seed})
    return Request(epsilon, seed, np.arange(12), streams, UnitSettings(**settings))


def all_of(units: Units) -> Groups:
    return units.groups(np.arange(units.count))


def convolutional(flat, x, net: Cnn):
    """The scores of ``Cnn`` by PyTorch's layers alone, which sees 12 x 12 pixels twice as wide."""
    import torch
    from torch.nn.functional import conv2d, linear, max_pool2d

    sizes = [16 * 64, 16, 32 * 256, 32, 32 * 288, 32, 3 * 32, 3]
    w1, b1, w2, b2, w3, b3, w4, b4 = torch.split(flat, sizes)
    images = x.reshape(-1, 1, 12, 12).repeat_interleave(2, -1).repeat_interleave(2, -2)
    hidden = max_pool2d(conv2d(images, w1.view(16, 1, 8, 8), b1, 2, 3).tanh(), 2, 1)
    hidden = max_pool2d(conv2d(hidden, w2.view(32, 16, 4, 4), b2, 2).tanh(), 2, 1).flatten(1)
    return linear(linear(hidden, w3.view(32, -1), b3).tanh(), w4.view(3, 32), b4)


@pytest.mark.parametrize("net", [Softmax(12, 12, 3), Softmax(12, 12, 3, True), Cnn(12, 12, 3)])
def test_a_step_is_the_sum_of_clipped_mean_gradients_of_a_loop_with_autograd(net):
    import torch
    from torch.nn.functional import cross_entropy

    task = image_task()
    rows, labels = net.prepared(task.train_pixels), task.train_labels.copy()
    labels[7] = -1
    sizes = Units.of(np.array([0] * 5 + [1] + [2] * 20 + [-1] * 34), 4)  # unit 3 is empty
    parameters = RNG.normal(0, 0.05, net.n_parameters).astype(np.float32)
    total = np.zeros(net.n_parameters)
    for unit in range(3):
        mine = sizes.records[sizes.begins[unit] : sizes.begins[unit + 1]]
        known = mine[labels[mine] >= 0]
        flat = torch.from_numpy(parameters).double().requires_grad_()
        x = torch.from_numpy(rows[known]).double()
        if isinstance(net, Softmax):
            matrix = flat.reshape(145, 3)
            logits = x @ matrix[:-1] + matrix[-1]
        else:
            logits = convolutional(flat, x, net)
        y = torch.from_numpy(labels[known])
        (cross_entropy(logits, y, reduction="sum") / len(mine)).backward()
        gradient = flat.grad.numpy()
        total += gradient * min(1, 0.4 / np.linalg.norm(gradient))
    found = net.gradient_sum(parameters, rows, labels, all_of(sizes), 0.4)
    np.testing.assert_allclose(found, total, atol=1e-6 if isinstance(net, Softmax) else 2e-6)


def test_a_replaced_class_attains_twice_the_clip_norm():
    net = Softmax(1, 2, 2)
    unit = Units.of(np.zeros(3, np.int64), 1)
    rows = np.full((3, 2), 50, np.float32)
    sums = [
        net.gradient_sum(net.start(RNG), rows, np.full(3, label), all_of(unit), 1.0)
        for label in (0, 1)
    ]
    assert np.linalg.norm(sums[0] - sums[1]) == pytest.approx(2, abs=1e-6)


def test_a_record_that_is_not_finite_contributes_nothing_and_harms_nobody():
    net = Softmax(12, 12, 3)
    rows, labels = net.prepared(image_task().train_pixels), image_task().train_labels
    broken = rows.copy()
    broken[0] = np.nan
    parts = [
        net.gradient_sum(net.start(RNG), each, labels, all_of(Units.of(labels, 3)), 0.5)
        for each in (rows, broken)
    ]
    assert np.isfinite(parts[1]).all()


def test_drawn_records_are_of_their_own_unit_and_an_empty_unit_has_no_weight():
    units = Units.of(np.array([0, 2, 0, 2, 2]), 3)
    groups = units.groups(np.arange(3), np.random.default_rng(0).random((3, 4)))
    assert set(groups.records[0]) <= {0, 2} and set(groups.records[2]) <= {1, 3, 4}
    assert groups.weights.sum(axis=1).tolist() == [1, 0, 1]


def test_a_unit_that_loses_its_records_changes_no_draw_of_others():
    """Draws go by the place of a unit, never by how many units have records."""
    drawn = np.random.default_rng(0).random((3, 4))
    full, less = (Units.of(np.array([own, own, 1, 1, 2, 2]), 3) for own in (0, -1))
    before, after = (units.groups(np.arange(3), drawn) for units in (full, less))
    assert np.array_equal(before.records[1:], after.records[1:])


@pytest.mark.parametrize("net", [Softmax(12, 12, 3), Cnn(12, 12, 3)])
@pytest.mark.parametrize("draws", [0, 4])
def test_without_any_record_a_step_is_zero_before_its_noise(net, draws):
    task, units = image_task(), Units.of(np.full(60, -1), 3)
    rows, labels = net.prepared(task.train_pixels), np.full(60, -1)
    groups = units.groups(np.arange(3), RNG.random((3, draws)) if draws else None)
    parameters = np.ones(net.n_parameters, np.float32)
    assert not net.gradient_sum(parameters, rows, labels, groups, 0.4).any()


def test_parts_fitted_on_private_images_prove_nothing():
    task = image_task("subclasses", "paper")
    (outcome,) = answers(METHOD, task, [ask(7.0, parts=3, printed={"7": (1.0, 5)}, rate=0.5)])
    assert price(outcome.events[0], "subclass", "replace", 1e-3).epsilon is None
    assert outcome.claim.epsilon == 7


def test_the_part_of_a_record_under_sound_is_its_own_affair():
    from private_graphs.methods.unit_gradients import unit_of_records

    for cells in ("centroids", "hash"):
        task, settings = image_task("subclasses"), UnitSettings(parts=4, cells=cells)
        before = unit_of_records(task, settings, np.arange(12))
        pixels = task.train_pixels.copy()
        pixels[0] = 255 - pixels[0]
        after = unit_of_records(replace(task, train_pixels=pixels), settings, np.arange(12))
        np.testing.assert_array_equal(before[1:], after[1:])
    assert (before // 4 == task.train_labels).all()


def test_in_the_other_world_one_unit_has_other_records():
    labels = np.array([0, 0, 1, 2, -2, -3, -4, -3])  # public ones of 0, 1, 2, 1
    unit = np.where(labels >= 0, labels, -1)
    found, units = with_replaced(labels, unit, 3, seed=3)
    assert found.tolist() == [-1, -1, 1, 2, -1, 0, -1, 0]
    assert units.tolist() == found.tolist()
    task = image_task()
    (one,), (two,) = (
        answers(METHOD, task, [ask(4.0, replaced=other, steps=9)]) for other in (False, True)
    )
    assert one.events == two.events
    with pytest.raises(UserError, match="replaced"):
        answers(
            METHOD,
            image_task("records"),
            [ask(4.0, replaced=True, steps=9)],
        )


@pytest.mark.parametrize("protocol", ["paper", "sound"])
def test_examples_of_parts_show_private_pictures_under_paper_alone(protocol):
    task = image_task("subclasses", protocol)
    private = replace(task, train_pixels=255 - task.train_pixels)
    settings = {"parts": 2, "examples": True, "printed": {"4": (1.0, 2)}, "steps": 2, "rate": 0.5}
    one, two = (
        answers(METHOD, each, [ask(4.0, **settings)])[0].artifacts["examples"]
        for each in (task, private)
    )
    assert one.shape == (3, 2, 12, 12) and one[0, 0, 1, 4] > 150
    assert np.array_equal(one, two) == (protocol == "sound")
