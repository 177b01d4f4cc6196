"""Noisy steps on scattering: features of one image alone, what a record moves, what is read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from answers import answers
from test_mlp_records import images

from private_graphs.methods import method_named, scattering
from private_graphs.methods.method import Request
from private_graphs.methods.node_gradients import Linear, clipped_total
from private_graphs.privacy.accountants import price
from private_graphs.protocols import SOUND
from private_graphs.tasks import ImageTask, build_task
from private_graphs.training.scattering import scattered
from private_graphs.training.streams import Streams


def task_of(n_train: int = 200, seed: int = 1) -> ImageTask:
    return build_task(images(n_train, seed), "records", SOUND, 1e-5)[0]


TASK = task_of()


def ask(name: str, epsilon: float, task: ImageTask = TASK, seed: int = 0):
    known = np.arange(len(task.validation_labels))
    request = Request(epsilon, seed, known, Streams.of({"seed": seed}))
    (found,) = answers(method_named(name), task, [request])
    return found


def test_averages_of_moduli_on_a_grid():
    rng = torch.Generator().manual_seed(0)
    batch = torch.rand(3, 2, 28, 28, generator=rng)
    found = scattered(batch)
    assert found.shape == (3, 2 * 81, 7, 7)
    assert (found >= -1e-6).all()
    assert torch.allclose(found[1], scattered(batch[1:2])[0], atol=1e-6)
    flat = scattered(torch.full((1, 1, 28, 28), 0.7))[0]
    assert torch.allclose(flat[0], torch.full((7, 7), 0.7), atol=1e-5)
    assert flat[1:].abs().max() < 1e-5, "wavelets see no constant"
    # A wavelet answers to waves of its own direction and length.
    wave = torch.cos(torch.arange(28.0) * 0.75 * math.pi)
    down, across = wave[:, None].expand(28, 28), wave[None].expand(28, 28)
    first = scattered(torch.stack([down, across])[:, None])[:, 1:9].mean((2, 3))
    assert first[0].argmax() == 0 and first[1].argmax() == 4


def test_a_replaced_record_moves_a_step_by_twice_the_clip_norm_at_most_and_attains_it():
    axes = scattering.Axes.of(TASK)
    rows = axes.rows_of(TASK, TASK.train_pixels)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    model = Linear(rows.shape[1], 4, bias=0.0)
    weights = np.zeros((1, (rows.shape[1] + 1) * 4), np.float32)
    args = model, weights
    total = clipped_total(*args, rows, TASK.train_labels, scattering.CLIP_NORM)
    other, labels = rows.copy(), TASK.train_labels.copy()
    other[0] = -rows[0]
    moved = clipped_total(*args, other, labels, scattering.CLIP_NORM) - total
    assert np.linalg.norm(moved) == pytest.approx(2 * scattering.CLIP_NORM, rel=1e-5)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other[0] = rng.standard_normal(rows.shape[1])
        other[0] *= rng.choice([1, 1e6]) / np.linalg.norm(other[0])
        labels[0] = rng.integers(4)
        moved = clipped_total(*args, other, labels, scattering.CLIP_NORM) - total
        assert np.linalg.norm(moved) <= 2 * scattering.CLIP_NORM


@pytest.mark.parametrize("name", ["scattering", "scattering_labels"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_what_is_released_proves_what_was_asked(name, epsilon):
    (event,) = ask(name, epsilon).events
    assert event.releases == scattering.STEPS and event.clip_norm == scattering.CLIP_NORM
    proved = price(event, "record", "replace", 1e-5).epsilon
    assert 0.999 * epsilon < proved <= epsilon


def test_which_images_and_labels_are_read():
    private = replace(TASK, train_labels=(TASK.train_labels + 1) % 4)
    public = replace(TASK, validation_labels=(TASK.validation_labels + 1) % 4)
    for name, reads_private, reads_public in (
        ("scattering", True, False), ("scattering_labels", True, True),
        ("scattering_public", False, True),
    ):  # fmt: skip
        plain = ask(name, math.inf).test_predictions
        changed = {
            "private": ask(name, math.inf, private), "public": ask(name, math.inf, public),
        }  # fmt: skip
        for side, reads in (("private", reads_private), ("public", reads_public)):
            same = np.array_equal(changed[side].test_predictions, plain)
            assert same != reads, (name, side)


def test_an_image_is_predicted_from_its_own_pixels():
    pixels = TASK.test_pixels.copy()
    pixels[1:] = 255 - pixels[1:]
    before, after = (
        ask("scattering", math.inf, task).test_predictions
        for task in (TASK, replace(TASK, test_pixels=pixels))
    )
    assert before[0] == after[0] and (before[1:] != after[1:]).any()


def test_classes_are_learned_and_noise_is_added():
    task = task_of(2000)
    plain = ask("scattering", math.inf, task)
    assert (plain.validation_predictions == task.validation_labels).mean() > 0.9
    noisy = [ask("scattering", 0.1, seed=seed).test_predictions for seed in (0, 1, 0)]
    assert np.array_equal(noisy[0], noisy[2]) and not np.array_equal(noisy[0], noisy[1])
