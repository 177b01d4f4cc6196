"""Students of PATE in four frameworks: PATE, with co-teaching, PATE+ and PATE++.

Zhang, Emory thesis 2021, Chapter 3: a classifier learns from the teachers' released labels and from
unlabelled public images, with a generator (``training.students``). The frameworks differ only after
the release of labels, so that their ε is the same, and all students of the same labels start from
the same weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from private_graphs.studies.pate.methods import pate_labels
from private_graphs.studies.pate.methods.pate_labels import (
    GRID_SEARCH,
    PROTOCOLS,
    PateSettings,
    TeacherStage,
    noise_of,
    one_by_one,
    outcome_of,
    pool_of,
    training_of,
)
from private_graphs.tasks.image_task import ImageTask
from private_graphs.tasks.method import Context, Method, Outcome, Request, torch_memory

FRAMEWORKS = {
    "pate": "PATE",
    "pate_coteaching": "PATE, co-teaching",
    "pate_plus": "PATE+",
    "pate_plus_plus": "PATE++",
}
"""Displayed names."""


class StudentSettings(PateSettings):
    """Settings of a student in addition to those of its labels."""

    framework: Literal["pate", "pate_coteaching", "pate_plus", "pate_plus_plus"] = "pate"
    beta: float = Field(default=0.2, ge=0, lt=1)
    """Share of the labels that is assumed to be wrong."""
    ramp: int = Field(default=15, ge=1)
    """Number of epochs until that whole share is left out."""
    tau: float = Field(default=0.318, ge=0, lt=1)
    """Share of the labels that PATE++ removes."""
    alpha: float = Field(default=0.9, gt=0, le=1)
    """Decay of the count of suspicious epochs."""
    decay: Literal["running", "literal"] = "running"
    generator: int = Field(default=500, ge=1)
    """Number of units of each hidden layer of the generator."""


def _answer(stage: TeacherStage, request: Request) -> Outcome:
    """Train one student."""
    from private_graphs.training import students
    from private_graphs.training.selection import cleansed

    task, settings = stage.task, request.settings
    framework = {
        "pate": students.Framework(1, False, False),
        "pate_coteaching": students.Framework(2, False, False),
        "pate_plus": students.Framework(2, True, False),
        "pate_plus_plus": students.Framework(2, True, True),
    }[settings.framework]
    labels = stage.labels(request)
    pool = pool_of(task, labels, stage.context.device)
    training = training_of(
        settings, beta=settings.beta, ramp=settings.ramp, alpha=settings.alpha,
        decay=settings.decay, generator=settings.generator,
    )  # fmt: skip
    generator = np.random.default_rng(stage.start(request))
    truth = stage.truth(request)
    removal: dict[str, Any] = {}
    counts = f"seed{request.seed}/epsilon{request.epsilon:g}/counts"

    def trained(pool: students.Pool) -> students.Student:
        watch = _watch(labels[pool.labelled], truth[pool.labelled])
        return students.train(
            framework, training, pool, task.shape, task.n_classes, generator, watch
        )

    if framework.cleansing:
        suspicious = stage.kept("first", counts)
        if suspicious is None:
            suspicious = trained(pool).counts
        # After the first training the generator's state depends on whether it ran here.
        generator = np.random.default_rng([*stage.start(request), 1])
        clean, removed = cleansed(suspicious, settings.tau, generator)
        wrong = labels[pool.labelled] != truth[pool.labelled]
        removal = {"removed": len(removed), "removed_wrong": int(wrong[removed].sum()),
                "kept_wrong": int(wrong[clean].sum())}  # fmt: skip
        pool = pool.without(removed)
    student = trained(pool)
    noise = noise_of(task, request)
    return outcome_of(
        task,
        student,
        pool,
        stage.context,
        measured={
            "epochs": settings.epochs,
            "noise_multiplier": noise.answer_std if noise else 0.0,
            **stage.told(request, labels),
            **removal,
            "curve": json.dumps(student.curve),
        },
        artifacts={counts: student.counts},
    )


def stated(task: ImageTask, request: Request, context: Context, chosen: Mapping) -> dict[str, Any]:
    """See ``Method.stated``; labels are stored only if another job computed them."""
    fields = pate_labels.stated(task, request, context, chosen)
    return fields if "labels" in context.artifacts else fields | {"assumptions": ()}


def _watch(labels: np.ndarray, truth: np.ndarray):
    """Return a function: (l,) classes on labelled images → scores by released and true labels."""
    wrong = labels != truth

    def tell(classes: list[np.ndarray]) -> dict[str, float]:
        scores: dict[str, float] = {}
        for index, predicted in enumerate(classes, 1):
            scores[f"released_{index}"] = round(float((predicted == labels).mean()), 4)
            scores[f"true_{index}"] = round(float((predicted == truth).mean()), 4)
        if len(classes) == 2:
            differ = classes[0] != classes[1]
            scores["disagreements"] = int(differ.sum())
            scores["wrong_among_them"] = int((differ & wrong).sum())
        return scores

    return tell


METHODS = (
    Method(
        "pate_student",
        "PATE's student",
        partial(one_by_one, _answer),
        ("records",),
        settings=StudentSettings,
        protocols=PROTOCOLS,
        data="images",
        prepares="pixels are divided by 255",
        assumptions=(GRID_SEARCH,),
        stated=stated,
        named=("framework",),
        memory=torch_memory,
        summary="Student of PATE, with co-teaching, PATE+ or PATE++, on the released labels.",
    ),
)
