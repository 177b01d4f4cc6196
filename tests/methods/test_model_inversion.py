"""Attacks on trained classifiers, and the measures of what they got."""

from __future__ import annotations

import math

import numpy as np
import pytest
from answers import answers
from test_unit_gradients import ask, image_task

from private_graphs.core.errors import UserError
from private_graphs.core.streams import Streams
from private_graphs.methods import unit_gradients
from private_graphs.studies.inversion.methods import model_inversion
from private_graphs.studies.inversion.methods.reconstruct import (
    UncorrectedAdam,
    attack,
    doubt,
    penalty,
    surprise,
    variation,
    without_model,
)
from private_graphs.studies.inversion.methods.similarity import References, ssim
from private_graphs.tasks.method import Context, Request
from private_graphs.training.picture_nets import Cnn, Softmax

RNG = np.random.default_rng(1)


def with_ones(*places: tuple[int, int]) -> np.ndarray:
    picture = np.zeros((3, 3))
    for place in places:
        picture[place] = 1
    return picture


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (np.full((3, 3), 0.4), 0.0),
        (with_ones((1, 1)), 4.5),
        (with_ones((0, 0)), 1.25), (with_ones((2, 2)), 1.25),
        (with_ones((0, 2)), 2.0), (with_ones((2, 0)), 2.0),
    ],
)  # fmt: skip
def test_bilateral_total_variation_by_hand(picture, expected):
    assert variation(picture, reach=1, decay=0.5)[0] == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["btv", "l1_sum", "l1_mean"])
def test_gradients_of_penalties(kind):
    pictures = RNG.random((2, 3, 30))
    total, gradient = penalty(kind, pictures, 5, 6)
    moved = pictures.copy()
    moved[1, 2, 7] += 1e-7
    difference = (penalty(kind, moved, 5, 6)[0] - total) / 1e-7
    assert difference[1, 2] == pytest.approx(gradient[1, 2, 7], abs=1e-5)
    if kind == "l1_sum":  # a sum, as printed, not a mean
        assert total[0, 0] == pytest.approx(pictures[0, 0].sum())


@pytest.mark.parametrize("cost", [doubt, surprise])
@pytest.mark.parametrize(
    "net", [Softmax(12, 12, 3), Softmax(12, 12, 3, True), Cnn(12, 12, 3, True)]
)
def test_what_pulls_a_picture_is_the_gradient_of_its_cost(net, cost):
    parameters = np.stack([net.start(RNG) for _ in range(2)])
    parameters += RNG.normal(0, 0.05, parameters.shape).astype(np.float32)
    pictures = RNG.random((2, 3, 144)).astype(np.float32)
    costs, gradient = net.pulled(parameters, pictures, cost)
    direction = RNG.normal(size=144).astype(np.float32) * (np.arange(3) == 1)[:, None]
    ends = [net.pulled(parameters, pictures + step * direction, cost)[0] for step in (-2e-3, 2e-3)]
    slope = (ends[1] - ends[0])[:, 1] / 4e-3
    np.testing.assert_allclose(slope, (gradient * direction).sum(-1)[:, 1], rtol=0.1, atol=5e-3)
    assert costs.shape == (2, 3)


@pytest.mark.parametrize(("step", "moved"), [(0.1, 0.316226), (0.05, 0.158113)])
def test_the_first_step_of_algorithm_4_has_no_bias_correction(step, moved):
    gradient = np.array([1e3, -1e3])
    found = UncorrectedAdam.of(np.zeros(2), step).move(gradient)
    np.testing.assert_allclose(found, [-moved, moved], rtol=1e-5)


def test_every_model_of_a_batch_is_attacked_as_if_alone():
    net = Softmax(12, 12, 3, True)
    parameters = RNG.normal(0, 1, (3, net.n_parameters)).astype(np.float32)
    public = RNG.random((9, 144)), np.arange(9) % 3
    for kind in ("original", "enhanced", "prior"):
        penalty = "btv" if kind == "enhanced" else "none"
        settings = model_inversion.InversionSettings(attack=kind, attack_steps=30, penalty=penalty)
        together = attack(net, parameters, settings, public)
        alone = [attack(net, each[None], settings, public)[0] for each in parameters]
        np.testing.assert_allclose(together, alone, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "value"),  # scikit-image 0.26: gaussian_weights, sigma 1.5, no sample covariance
    [("shifted", -0.26241791933324193), ("negative", -0.646403401368384),
     ("spotted", 0.7168458014646213)],
)  # fmt: skip
def test_ssim_is_that_of_scikit_image(change, value):
    y, x = np.mgrid[:30, :25]
    picture = (np.sin(x / 3) + np.cos(y / 4) + 2) / 4
    other = {
        "shifted": (np.sin(x / 3 + 0.5) * np.cos(y / 5) + 1) / 2,
        "negative": 1 - picture,
        "spotted": (picture + (x * 7 + y * 13) % 11 / 40).clip(0, 1),
    }
    assert ssim(picture, other[change]) == pytest.approx(value, abs=1e-9)


def test_the_nearest_picture_of_the_own_class_counts():
    pictures = np.zeros((4, 2, 2))
    pictures[1] += 1
    pictures[3] += 3
    references = References("euclidean", pictures, np.array([0, 0, 1, 1]))
    found = references.nearest(np.stack([np.full((2, 2), 0.9), np.full((2, 2), 2.0)]))
    np.testing.assert_allclose(found, [0.2, 2.0], atol=1e-9)
    black = without_model(pictures.reshape(4, -1), 2, 2)["black"]
    assert references.nearest(np.stack([black, black])).tolist() == [0, 0]


def attacked(epsilon: float, scenario: str = "records", **settings):
    task = image_task(scenario)
    asked = ask(epsilon, plain_steps=60, plain_lot=30, learning_rate=3.0, steps=20)
    trained = answers(unit_gradients, task, [asked])
    artifacts = {f"r/{name}": array for name, array in trained[0].artifacts.items()}
    attack_task = image_task(scenario)
    object.__setattr__(attack_task, "protocol", model_inversion.PROTOCOLS[1])
    settings = model_inversion.InversionSettings(metric="euclidean", **settings)
    request = Request(epsilon, 0, np.arange(12), Streams.of({"a": 1}), settings)
    return trained[0], attack_task, request, Context(artifacts={"model": artifacts})


def test_an_attack_has_the_price_of_its_model_and_recognises_what_was_learned():
    model, task, request, context = attacked(math.inf, attack="prior", penalty="none", weight=0.1)
    (found,) = answers(model_inversion, task, [request], context)
    assert found.events == () and found.measured["re_identification"] == 1
    np.testing.assert_array_equal(found.test_predictions, model.test_predictions)
    assert found.artifacts["pictures"].shape == (3, 12, 12)
    assert found.artifacts["distances"].shape == (3, 3)
    model, task, request, context = attacked(3.0, "classes")
    (found,) = answers(model_inversion, task, [request], context)
    assert found.events == model.events and found.n_units == 3


def test_an_attack_without_its_model_is_an_error():
    _, task, request, context = attacked(math.inf)
    other = Request(2.0, 0, request.known, request.streams, request.settings)
    with pytest.raises(UserError, match="no model at epsilon = 2"):
        answers(model_inversion, task, [other], context)
