"""Public labels alone: a classifier of the first public images with their true labels.

It is the upper bound of PATE's students (labels without noise), and the baseline that they must
exceed if the labels of public images are public too. No private image is read, so ε is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from private_graphs.mechanisms.door import Door
from private_graphs.studies.pate.methods.pate_labels import classified
from private_graphs.studies.pate.methods.pate_votes import REFUSED
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.method import Context, Method, Outcome, Request, Settings, torch_memory


class ClassifierSettings(Settings):
    """Settings of the classifier."""

    answers: int = Field(default=2200, ge=1)
    """Maximum number of public images whose labels are read, from the first."""
    network: Literal["softmax", "mlp", "small", "deep"] = "deep"
    epochs: int = Field(default=500, ge=1)
    batch: int = Field(default=100, ge=1)
    learning_rate: float = Field(default=0.001, gt=0)


def run(
    task: ImageTask, requests: Sequence[Request], door: Door, context: Context
) -> list[Outcome]:
    """Train one classifier for every request."""
    import torch

    torch.set_num_threads(context.threads)
    outcomes = []
    for request in context.in_turn(requests):
        settings: ClassifierSettings = request.settings
        known = request.known[: settings.answers]
        labels = np.full(len(task.validation_labels), REFUSED)
        labels[known] = task.validation_labels[known]
        outcomes.append(classified(
            task, settings, labels, request.streams.generator("start"), context,
            measured={"epochs": settings.epochs, "labels": len(known)},
        ))  # fmt: skip
    return outcomes


METHODS = (
    Method(
        "public_classifier",
        "public labels alone",
        run,
        ("records",),
        settings=ClassifierSettings,
        data="images",
        reads_private=False,
        fits_validation_labels=True,
        prepares="pixels are divided by 255",
        memory=torch_memory,
        summary="Baseline: a classifier of public images with their true labels.",
    ),
)
