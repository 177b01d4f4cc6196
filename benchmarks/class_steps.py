"""Steps of DP-SGD on classes, parts of classes and records, beside autograd and beside Opacus.

``python benchmarks/class_steps.py`` makes pictures of the size of AT&T's faces and of MNIST, and
prints processor milliseconds per step, noise and update included, of four ways in turns on one
thread: ours; a loop that takes one gradient per unit by autograd and clips it; Opacus' gradients of
single records, of which each unit's mean is clipped; and a step without DP, one gradient of all
these records together, which no step with clipping can be expected to beat by much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from opacus import GradSampleModule
from timing import fastest
from torch import nn
from torch.nn.functional import cross_entropy

from private_graphs.training.picture_nets import Cnn, Groups, PictureNet, Softmax


@dataclass(frozen=True)
class Case:
    """Units that join a step, and the records that are drawn from each."""

    words: str
    net: PictureNet
    joined: int
    draws: int


CASES = (
    Case("faces, softmax: 13 of 40 classes, 32 records each", Softmax(56, 46, 40), 13, 32),
    Case("digits, CNN: 100 of 500 parts, 16 records each", Cnn(28, 28, 10), 100, 16),
    Case("digits, CNN: 256 records", Cnn(28, 28, 10), 256, 1),
)
RECORDS, CLIP, NOISE, RATE = 7600, 1.0, 1.0, 0.1
SECONDS, ROUNDS = 1.0, 3


def module(net: PictureNet) -> nn.Module:
    """The same network of PyTorch's layers."""
    if isinstance(net, Softmax):
        return nn.Linear(net.pixels, net.n_classes)
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 16, 8, 2, 3), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Flatten(),
        nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, net.n_classes),
    )  # fmt: skip


def ours(case: Case, rows: np.ndarray, labels: np.ndarray, records: np.ndarray) -> Callable:
    """Return a step of ours."""
    rng = np.random.default_rng(0)
    parameters = case.net.start(rng)
    groups = Groups(records, np.full(records.shape, 1 / case.draws))

    def step() -> None:
        total = case.net.gradient_sum(parameters, rows, labels, groups, CLIP)
        total += NOISE * CLIP * rng.standard_normal(len(total))
        parameters[:] -= (RATE / case.joined * total).astype(np.float32)

    return step


def _moved(parameters: list[nn.Parameter], total: list[torch.Tensor], joined: int) -> None:
    with torch.no_grad():
        for each, sums in zip(parameters, total, strict=True):
            each -= RATE / joined * (sums + NOISE * CLIP * torch.randn_like(sums))


def loop(case: Case, rows: np.ndarray, labels: np.ndarray, records: np.ndarray) -> Callable:
    """Return a step with one gradient per unit."""
    net, x, y = module(case.net), torch.from_numpy(rows), torch.from_numpy(labels)
    parameters = list(net.parameters())

    def step() -> None:
        total = [torch.zeros_like(each) for each in parameters]
        for unit in records:
            loss = cross_entropy(net(x[unit]), y[unit])
            gradients = torch.autograd.grad(loss, parameters)
            norm = torch.sqrt(sum(each.square().sum() for each in gradients))
            factor = torch.clamp(CLIP / norm, max=1.0)
            for sums, each in zip(total, gradients, strict=True):
                sums += factor * each
        _moved(parameters, total, case.joined)

    return step


def opacus(case: Case, rows: np.ndarray, labels: np.ndarray, records: np.ndarray) -> Callable:
    """Return a step with Opacus' gradients of single records."""
    net, x, y = GradSampleModule(module(case.net)), torch.from_numpy(rows), torch.from_numpy(labels)
    parameters = list(net.parameters())

    def step() -> None:
        net.zero_grad()
        flat = records.ravel()
        cross_entropy(net(x[flat]), y[flat]).backward()
        means = [each.grad_sample.view(case.joined, case.draws, -1).mean(1) for each in parameters]
        norms = torch.sqrt(sum(each.square().sum(1) for each in means))
        factors = torch.clamp(CLIP / norms, max=1.0)
        total = [(factors @ each).view_as(own) for each, own in zip(means, parameters, strict=True)]
        _moved(parameters, total, case.joined)

    return step


def plain(case: Case, rows: np.ndarray, labels: np.ndarray, records: np.ndarray) -> Callable:
    """Return a step with one gradient of all records, without clipping and noise."""
    net, x, y = module(case.net), torch.from_numpy(rows), torch.from_numpy(labels)
    parameters, flat = list(net.parameters()), records.ravel()

    def step() -> None:
        gradients = torch.autograd.grad(cross_entropy(net(x[flat]), y[flat]), parameters)
        with torch.no_grad():
            for each, gradient in zip(parameters, gradients, strict=True):
                each -= RATE * gradient

    return step


def main() -> None:
    """Print all four, and ratios to ours."""
    torch.set_num_threads(1)
    print("| step | ours, ms | autograd loop | Opacus | no DP |\n|---|--:|--:|--:|--:|")
    for case in CASES:
        rng = np.random.default_rng(1)
        rows = rng.random((RECORDS, case.net.pixels), dtype=np.float32)
        labels = rng.integers(case.net.n_classes, size=RECORDS)
        records = rng.integers(RECORDS, size=(case.joined, case.draws))
        steps = [make(case, rows, labels, records) for make in (ours, loop, opacus, plain)]
        taken = [[fastest(step, SECONDS) for step in steps] for _ in range(ROUNDS)]
        mine, *others = (1e3 * min(each) for each in zip(*taken, strict=True))
        cells = (f"{each:.1f} ({each / mine:.1f} times)" for each in others)
        print(f"| {case.words} | {mine:.1f} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
