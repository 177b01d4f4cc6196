"""Public labels alone: a classifier of the first public images with their true labels.

It is the upper bound of PATE's students (labels without noise), and the baseline that they must
exceed if the labels of public images are public too. No private image is read, so ε is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from private_graphs.mechanisms.door import Door
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

    from private_graphs.training import students
    from private_graphs.training.image_nets import images_of

    torch.set_num_threads(context.threads)
    outcomes = []
    for request in requests:
        settings: ClassifierSettings = request.settings
        pool = students.Pool(
            images_of(task.validation_pixels, task.shape, context.device),
            torch.from_numpy(task.validation_labels).to(context.device),
            request.known[: settings.answers],
        )
        training = students.Training(
            settings.network, settings.epochs, settings.batch, settings.learning_rate
        )
        student = students.train_supervised(
            training, pool, task.shape, task.n_classes, request.streams.generator("start")
        )
        test = images_of(task.test_pixels, task.shape, context.device)
        outcomes.append(
            Outcome(
                test_predictions=student.classes(test),
                validation_predictions=student.classes(pool.images),
                measured={"epochs": settings.epochs, "labels": len(pool.labelled)},
            )
        )
        context.report(len(outcomes), len(requests))
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
