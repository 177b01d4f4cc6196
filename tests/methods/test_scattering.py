"""Noisy steps on scattering: features of one image alone, what a record moves, what is read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from answers import answers
from test_mlp_records import images

from private_graphs.core.streams import Streams
from private_graphs.datasets.protocols import SOUND
from private_graphs.methods import method_named
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.method import Request
from private_graphs.tasks.tasks import build_task
from private_graphs.training.scattering import scattered


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


def test_classes_are_learned_and_noise_is_added():
    task = task_of(2000)
    plain = ask("scattering", math.inf, task)
    assert (plain.validation_predictions == task.validation_labels).mean() > 0.9
    noisy = [ask("scattering", 0.1, seed=seed).test_predictions for seed in (0, 1, 0)]
    assert np.array_equal(noisy[0], noisy[2]) and not np.array_equal(noisy[0], noisy[1])
