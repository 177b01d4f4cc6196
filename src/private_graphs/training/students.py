"""Students of PATE: one or two classifiers trained with a generator on few noisy labels.

Semi-supervised learning with feature matching (Salimans et al. 2016; Zhang, Emory thesis 2021,
Section 3.3.1). A classifier has K scores; generated images are an extra class with score 0. With
lse = log Σ exp(scores), a classifier minimises the cross-entropy of labelled images, plus -mean(lse
- softplus(lse)) over unlabelled ones, plus mean softplus(lse) over generated ones. The generator
minimises the squared distance between the mean last hidden activations of unlabelled and of
generated images. This module reads only public images and released labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, softplus

from private_graphs.training.image_nets import (
    Classifier,
    Kind,
    PlainAdam,
    Shape,
    class_scores,
    network,
    predicted,
)
from private_graphs.training.selection import Decay, chosen_by, counted, kept_share, mean_of

NOISE = 100
"""Number of inputs of the generator."""
_DECAY = 0.5
"""β1 of Adam, as in the code of improved GANs."""


def unsupervised(real: torch.Tensor, generated: torch.Tensor) -> torch.Tensor:
    """Return the loss of (b, K) scores of unlabelled and of generated images."""
    real, generated = real.logsumexp(-1), generated.logsumexp(-1)
    return (softplus(real) - real).mean() + softplus(generated).mean()


def generator_of(shape: Shape, width: int, seed: int) -> nn.Module:
    """Return three dense layers from ``NOISE`` uniform numbers to (b, c, h, w) images in 0..1."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(NOISE, width), nn.Softplus(), nn.BatchNorm1d(width),
            nn.Linear(width, width), nn.Softplus(), nn.BatchNorm1d(width),
            nn.Linear(width, prod(shape)), nn.Sigmoid(), nn.Unflatten(1, shape),
        )  # fmt: skip


@dataclass(frozen=True)
class Framework:
    """Variant of student training (Zhang 2021, Algorithms 1 and 3)."""

    classifiers: int
    """1 or 2; two teach each other."""
    disagreement: bool
    """Whether only labelled images on which the two disagree are candidates."""
    cleansing: bool
    """Whether suspicious labels are removed and training restarts."""


@dataclass(frozen=True)
class Training:
    """Training settings of a student."""

    kind: Kind
    epochs: int
    batch: int
    learning_rate: float
    beta: float = 0.0
    """Share of the labels that is assumed to be wrong."""
    ramp: int = 15
    """Number of epochs until that whole share is left out."""
    alpha: float = 0.9
    decay: Decay = "running"
    generator: int = 500
    """Units of each hidden layer of the generator."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Public images of a student: n images, some with a released label."""

    images: torch.Tensor
    """(n, c, h, w) in 0..1."""
    labels: torch.Tensor
    """(n,) released labels; only those at ``labelled`` are read."""
    labelled: np.ndarray
    """(l,) positions of the images with a label."""

    @property
    def unlabelled(self) -> np.ndarray:
        """(n - l,) positions of the images without a label."""
        return np.setdiff1d(np.arange(len(self.images)), self.labelled)

    def without(self, removed: np.ndarray) -> Pool:
        """Return the pool without the labels at the positions ``removed`` of ``labelled``."""
        return Pool(self.images, self.labels, np.delete(self.labelled, removed))


@dataclass(eq=False)
class Student:
    """Result of a student's training."""

    classifiers: list[Classifier]
    counts: np.ndarray
    """(l,) decayed number of epochs in which each labelled image was suspicious."""
    curve: dict[str, list[float]] = field(default_factory=dict)
    """Values by epoch, named as in ``Watch``."""

    def classes(self, images: torch.Tensor) -> np.ndarray:
        """Return the (n,) classes of the first classifier."""
        return predicted(self.classifiers[0], images).cpu().numpy()

    def logits(self, images: torch.Tensor) -> np.ndarray:
        """Return the (n, K) class scores of the first classifier."""
        return class_scores(self.classifiers[0], images).cpu().numpy()


Watch = Callable[[list[np.ndarray]], dict[str, float]]
"""Callable: the (l,) classes of each classifier on the labelled images → named values of a
curve."""


def _lots(
    positions: np.ndarray, steps: int, batch: int, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield ``steps`` minibatches of ``batch`` positions from concatenated permutations."""
    copies = -(-steps * batch // len(positions))
    order = np.concatenate([generator.permutation(positions) for _ in range(copies)])
    return iter(order[: steps * batch].reshape(steps, batch))


def train(
    framework: Framework,
    training: Training,
    pool: Pool,
    shape: Shape,
    n_classes: int,
    generator: np.random.Generator,
    watch: Watch = lambda classes: {},
) -> Student:
    """Train one student from initial weights that ``generator`` draws.

    All frameworks draw in the same order, so that students with equal generator states start alike
    and see the images in the same order. A pool without labels trains on the images alone.
    """
    device = pool.images.device
    seeds = generator.integers(2**62, size=4)
    nets = [
        network(training.kind, shape, n_classes, int(seed)).to(device)
        for seed in seeds[: framework.classifiers]
    ]
    source = generator_of(shape, training.generator, int(seeds[2])).to(device)
    draws = torch.Generator().manual_seed(int(seeds[3]))

    def made() -> torch.Tensor:
        return source(torch.rand(training.batch, NOISE, generator=draws).to(device))

    optimizers = [
        PlainAdam(net.parameters(), training.learning_rate, _DECAY) for net in (*nets, source)
    ]
    unlabelled = pool.unlabelled if len(pool.unlabelled) else pool.labelled
    labelled = pool.labelled if len(pool.labelled) else unlabelled
    any_label = len(pool.labelled) > 0
    steps = -(-max(len(labelled), len(unlabelled)) // training.batch)
    positions = np.full(len(pool.images), -1)
    positions[pool.labelled] = np.arange(len(pool.labelled))
    student = Student(nets, np.zeros(len(pool.labelled)))
    for epoch in range(1, training.epochs + 1):
        share = kept_share(epoch, training.beta, training.ramp)
        flagged = np.zeros(len(pool.labelled), dtype=bool)
        lots = zip(
            _lots(labelled, steps, training.batch, generator),
            _lots(unlabelled, steps, training.batch, generator),
            strict=True,
        )
        for rows, extra in lots:
            truth = pool.labels[rows].clamp(min=0)  # -1 if no query was answered
            real = pool.images[extra]
            with torch.no_grad():
                generated = made()
            together = torch.cat([pool.images[rows], real, generated])
            scores = [net(together)[0] for net in nets]
            losses = [cross_entropy(part[: len(rows)], truth, reduction="none") for part in scores]
            classes = [part[: len(rows)].argmax(-1) for part in scores]
            chosen = _chosen(framework, [array.detach() for array in losses], classes, share)
            if framework.disagreement and any_label:
                strange = (classes[0] != classes[1]) & (classes[0] != truth)
                flagged[positions[rows[(strange & (classes[1] != truth)).cpu().numpy()]]] = True
            for part, row, mask, optimizer in zip(scores, losses, chosen, optimizers, strict=False):
                free = part[len(rows) :]
                loss = unsupervised(free[: len(extra)], free[len(extra) :])
                if any_label:
                    loss = loss + mean_of(row, mask)
                optimizer.step(loss)
            _match(nets, real, made(), optimizers[-1])
        student.counts = counted(student.counts, flagged, training.alpha, training.decay)
        seen = pool.images[pool.labelled]
        metrics = watch([predicted(net, seen).cpu().numpy() for net in nets] if any_label else [])
        for name, value in metrics.items():
            student.curve.setdefault(name, []).append(value)
    return student


def _chosen(
    framework: Framework, losses: list[torch.Tensor], classes: list[torch.Tensor], share: float
) -> list[torch.Tensor]:
    """Return for each classifier the (b,) mask of the labelled images that it learns from."""
    everything = torch.ones_like(losses[0], dtype=torch.bool)
    if framework.classifiers == 1:
        return [everything]
    candidates = classes[0] != classes[1] if framework.disagreement else everything
    return [chosen_by(peer, candidates, share) for peer in reversed(losses)]


def _match(
    nets: list[Classifier], real: torch.Tensor, generated: torch.Tensor, optimizer: PlainAdam
) -> None:
    """Take one step of the generator; the classifiers do not change."""
    loss = torch.zeros((), device=real.device)
    for net in nets:
        with torch.no_grad():
            target = net(real)[1].mean(0)
        loss = loss + (net(generated)[1].mean(0) - target).square().mean() / len(nets)
    optimizer.step(loss)


def train_supervised(
    training: Training, pool: Pool, shape: Shape, n_classes: int, generator: np.random.Generator
) -> Student:
    """Train one classifier on the labelled images alone, with the initial weights of ``train``."""
    seeds = generator.integers(2**62, size=4)
    net = network(training.kind, shape, n_classes, int(seeds[0])).to(pool.images.device)
    optimizer = PlainAdam(net.parameters(), training.learning_rate, _DECAY)
    for _ in range(training.epochs if len(pool.labelled) else 0):
        steps = -(-len(pool.labelled) // training.batch)
        for lot in _lots(pool.labelled, steps, training.batch, generator):
            optimizer.step(cross_entropy(net(pool.images[lot])[0], pool.labels[lot]))
    return Student([net], np.zeros(len(pool.labelled)))
