"""Tasks of images: scenarios ``records``, ``classes`` and ``subclasses``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.protocols import Protocol
from private_graphs.tasks.tasks import Scenario


@dataclass(frozen=True, eq=False)
class ImageTask:
    """n private training, V public validation, M test images (``records``, ``classes``,
    ``subclasses``).

    A training image without a label contributes nothing, which a replaced one may do anyway; other
    unlabelled images are left out, except test images on request.
    """

    scenario: Scenario
    protocol: Any
    n_units: int
    """Number of private units: training images n, labelled or not; or classes; under ``subclasses``
    a lower bound, the number of classes, and ``Outcome.n_units`` has the number."""
    n_classes: int
    delta: float
    shape: tuple[int, int, int]
    """Channels, height and width (c, h, w)."""
    train_pixels: np.ndarray
    """(n, c·h·w) uint8; private."""
    train_labels: np.ndarray
    """(n,) int64, -1 where there is none; private."""
    validation_pixels: np.ndarray
    """(V, c·h·w); public."""
    validation_labels: np.ndarray
    """(V,); each request says which of them are public, the others are private."""
    test_pixels: np.ndarray
    """(M, c·h·w); known to the person who asks for a prediction."""
    stopping_labels: np.ndarray | None = None
    """(V+M,) labels of validation, then test images, -1 for none, for a protocol that stops early
    on them; None for all other protocols."""
    votes: np.ndarray | None = None
    """(V+M, K) vote counts of teachers that were trained elsewhere, on training images among
    others, for validation, then test images; private. None: no such teachers."""


def image_task(
    dataset: ImageDataset,
    scenario: Scenario,
    labels: np.ndarray,
    test: np.ndarray,
    protocol: Protocol,
    delta: float,
) -> ImageTask:
    """Return the task of images, from protocol labels (N,) and the mask ``test`` (N,)."""
    pixels = dataset.images.reshape(len(labels), -1)
    train, validation = dataset.train_mask, dataset.validation_mask & (labels >= 0)
    votes = dataset.votes
    return ImageTask(
        scenario=scenario,
        protocol=protocol,
        n_units=int(train.sum()) if scenario.unit == "record" else dataset.n_classes,
        n_classes=dataset.n_classes,
        delta=delta,
        shape=dataset.images.shape[1:],
        train_pixels=pixels[train],
        train_labels=labels[train],
        validation_pixels=pixels[validation],
        validation_labels=labels[validation],
        test_pixels=pixels[test],
        stopping_labels=(
            None
            if protocol.stops_on_test is None
            else np.concatenate([labels[validation], labels[test]])
        ),
        votes=None if votes is None else np.concatenate([votes[validation], votes[test]]),
    )
