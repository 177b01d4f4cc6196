"""Small jobs and datasets for every method, and a trainer of the GCN that trains nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from small_graphs import random_graph

from private_graphs.attacks.small_data import small_images
from private_graphs.attacks.small_jobs import small_job
from private_graphs.methods import all_methods
from private_graphs.running.jobs import Job
from private_graphs.running.run import execute
from private_graphs.tasks.tasks import SCENARIOS
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
    short = small_job(all_methods()[method], scenario, protocol).settings
    dropout = {"dropout": 0.5} if method == "gcn" else {}
    settings = dict(short) | dropout | changes.pop("settings", {})
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
