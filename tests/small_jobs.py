"""Small jobs and datasets for every method, and a trainer of the GCN that trains nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from small_graphs import random_graph

from private_graphs.core.jobs import Job
from private_graphs.core.run import execute
from private_graphs.core.tasks import SCENARIOS
from private_graphs.datasets.image_dataset import ImageDataset, ImageInfo
from private_graphs.methods import all_methods
from private_graphs.training import engine

_NEEDS_OTHERS = {"model_inversion"}
"""Methods that read artifacts of another job; they have tests of their own."""
CASES = [
    (name, scenario, protocol)
    for name, method in all_methods().items()
    if name not in _NEEDS_OTHERS
    for scenario in method.scenarios
    for protocol in method.protocols
]
"""Every method that stands alone, with each scenario and protocol that it has."""
_SETTINGS: dict[str, dict[str, Any]] = {
    "gcn": {"splits": 3, "epochs": 4, "dtype": "float64"},
    "unit_gradients": {
        "steps": 6, "plain_steps": 6, "plain_lot": 10, "draws": 2, "parts": 2, "rate": 0.4,
        "printed": {"1": (2.0, 6), "2": (1.5, 6)},
    },
    "mlp_records": {"lot_size": 10, "epochs": 2, "hidden": 8},
    **{
        name: {"epochs": 2, "roots": 4, "batch": 3}
        for name in all_methods()
        if name.startswith("appr_")
    },
    **{
        name: {
            "teachers": 3,
            "teacher_network": "softmax",
            "teacher_epochs": 2,
            "network": "mlp",
            "epochs": 2,
            "batch": 10,
            "threshold": 1,
        }
        for name in ("pate_labels", "pate_student")
    },
    "public_classifier": {"network": "mlp", "epochs": 2, "batch": 10},
    **{
        name: {"epochs": 2, "lot": 10}
        for name, method in all_methods().items()
        if {"links", "lists"} & set(method.scenarios)
    },
    "list_means": {"mean_degree": 20},
}  # fmt: skip


def small_images(seed: int = 0) -> ImageDataset:
    """60 images of 5 x 5 pixels, half of which train; three of these have no label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=60)
    labels[:3] = -1
    sides = np.arange(60) // 30, np.arange(60) >= 45
    info = ImageInfo(
        name="small", title="small", synthetic=True, classes=["a", "b", "c"], n_images=60,
        channels=1, height=5, width=5, sources=[], licence="none", citation="none",
        public_facts=[],
    )  # fmt: skip
    return ImageDataset(
        images=rng.integers(256, size=(60, 1, 5, 5), dtype=np.uint8), labels=labels,
        train_mask=sides[0] == 0, validation_mask=(sides[0] == 1) & ~sides[1],
        test_mask=sides[1], info=info,
    )  # fmt: skip


def small_dataset(method: str):
    """What a method reads: a graph with unlabelled training nodes, or images."""
    if all_methods()[method].data == "images":
        return small_images()
    return random_graph(3, nodes=90, features=30, classes=3, unlabelled=3)


def job_of(
    method: str = "gcn", scenario: str | None = None, protocol: str = "sound", **changes: Any
) -> Job:
    """A job of few, short runs; ``settings`` are added to the short ones of the method."""
    scenario = scenario or all_methods()[method].scenarios[0]
    sides = SCENARIOS[scenario].cut == "sides"  # else all validation labels are public
    fields: dict[str, Any] = {
        "study": "lrec2022", "group": "group", "name": "name", "dataset": "small",
        "method": method, "scenario": scenario,
        "protocol": protocol, "seeds": (0, 1), "epsilons": (1.0, math.inf),
        "max_edges": 900 if scenario in ("edges", "links") else None,
        "validation_labels": (5, 0) if sides else (), "validation_epsilons": (2.0,),
    }  # fmt: skip
    settings = _SETTINGS.get(method, {}) | changes.pop("settings", {})
    return Job(**fields | changes, settings=settings)


def rows_of(job: Job, dataset, **how: Any) -> pd.DataFrame:
    """The rows of a job without its times."""
    return execute(job, dataset, **how).rows.drop(columns="seconds")


Quality = Callable[[float, int], int]


def untrained(quality: Quality | None = None, tests: Callable[[int], int] | None = None):
    """Return a stand-in of ``engine.train`` that releases what was planned and trains nothing.

    ``quality(learning_rate, position in the batch)`` is the number of right validation nodes;
    ``tests(position)`` seeds the predictions of the test nodes.
    """

    def train(structure, protocol, settings, specs, descent, **_):
        nodes = structure.validation_nodes
        labels, k = structure.inputs.labels[nodes], structure.inputs.n_classes
        splits = structure.parts.shape[1]
        whole = splits == 1 or protocol.visits == "epoch_sum"
        descent.taken(range(len(specs)), settings.epochs * (1 if whole else splits))
        right = [quality(spec.learning_rate, i) if quality else 0 for i, spec in enumerate(specs)]
        return engine.Trained(
            parameters=np.zeros((len(specs), 1)),
            epochs=np.full(len(specs), settings.epochs),
            validation_loss=np.zeros(len(specs)),
            validation_losses=np.full((settings.epochs, len(specs)), np.nan),
            validation_predictions=np.stack(
                [np.where(np.arange(len(nodes)) < n, labels, (labels + 1) % k) for n in right]
            ),
            test_predictions=np.stack(
                [
                    np.random.default_rng(tests(i) if tests else i).integers(
                        0, k, len(structure.test_nodes)
                    )
                    for i in range(len(specs))
                ]
            ),
            majority=structure.majority,
            seconds=1.0,
        )  # fmt: skip

    return train
