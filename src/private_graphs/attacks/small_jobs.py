"""Small graphs and images, and a short job for every method, scenario and protocol."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from private_graphs.core.jobs import Job
from private_graphs.core.method import Method
from private_graphs.core.tasks import SCENARIOS
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.methods import all_methods

_SHORT: dict[str, Any] = {
    "epochs": 2, "steps": 6, "plain_steps": 6, "plain_lot": 10, "lot": 10, "lot_size": 10,
    "hidden": 8, "roots": 4, "batch": 5, "teachers": 10, "teacher_network": "softmax",
    "teacher_epochs": 10, "teacher_rate": 0.05, "threshold": 5.0, "network": "mlp", "draws": 0,
    "parts": 2, "rate": 0.4, "dropout": 0.0, "sample": 0.7, "degree": 4,
    "printed": {"1": (2.0, 6), "2": (1.5, 6)},
}  # fmt: skip
"""Settings that shorten the runs of any method that has them. Lists are shorter than degrees,
and votes lie on both sides of the threshold, so that reads beyond a bound are detected."""
_OWN: dict[str, dict[str, Any]] = {
    "gcn": {"splits": 3, "epochs": 4, "dtype": "float64", "hidden": 32},
    "unit_gradients": {"network": "softmax", "cells": "hash"},
    "dp_gnn": {"degree": 1},
    "list_means": {"mean_degree": 20.0},
}
OTHERS: dict[str, tuple[dict[str, Any], ...]] = {
    "appr_gaussian": ({"root_rate": 0.5, "unit_rows": True, "anchor": 0.2},),
    "class_codes": ({"release": "means"},),
    "gcn": ({"dropout": 0.5, "splits": 1},),
    "mlp_records": ({"microbatch": 2},),
}
"""Settings by method that execute other code and are replayed too; protocols that allow only
proved noise support all of them."""
_EPSILONS = {"class_sums": (1.0, 8000.0)}
"""Budgets by method; at the larger one the small graph has the signal for residual steps."""
_WITH_ARTIFACTS = ("model_inversion",)
"""Methods that read only artifacts of other jobs: their events are those of these jobs."""


def small_graph() -> GraphDataset:
    """Return a graph of three classes, half of whose nodes train; three of these have no label."""
    nodes, draws = 60, np.random.default_rng(3)
    labels = draws.integers(0, 3, nodes)
    same = labels[:, None] == labels[None, :]
    upper = np.triu(draws.random((nodes, nodes)) < np.where(same, 9 / nodes, 2 / nodes), 1)
    words = draws.random((nodes, 18)) < np.where(np.arange(18) // 6 == labels[:, None], 0.4, 0.1)
    edges = np.argwhere(upper).T
    shown = labels.copy()
    shown[:3] = -1
    side = np.arange(nodes) * 4 // nodes
    features = sp.csr_matrix(words.astype(np.float32))
    masks = side < 2, side == 2, side == 3
    return GraphDataset.generated("small", "abc", features, edges, shown, masks)


def small_images() -> ImageDataset:
    """Return 60 images of 5 x 5 pixels, half of which train; three of these have no label."""
    draws = np.random.default_rng(0)
    labels = draws.integers(3, size=60)
    labels[:3] = -1
    side = np.arange(60) * 4 // 60
    pixels = draws.integers(256, size=(60, 1, 5, 5), dtype=np.uint8)
    return ImageDataset.generated("small", "abc", pixels, labels, (side < 2, side == 2, side == 3))


def small_dataset(method: Method) -> GraphDataset | ImageDataset:
    """Return the dataset that a method reads."""
    return small_images() if method.data == "images" else small_graph()


def small_job(
    method: Method, scenario: str, protocol: str, epsilons: tuple[float, ...] | None = None,
    seeds: tuple[int, ...] = (0, 1), changed: Mapping[str, Any] = MappingProxyType({}),
) -> Job:  # fmt: skip
    """Return a short job; with fewer known validation labels where a scenario can keep them."""
    sides = SCENARIOS[scenario].cut == "sides"
    names = method.settings.model_fields
    settings = {name: value for name, value in _SHORT.items() if name in names}
    return Job(
        study="audit", group="replay", name=method.name, dataset="small", method=method.name,
        scenario=scenario, protocol=protocol, seeds=seeds,
        epsilons=epsilons or _EPSILONS.get(method.name, (1.0, 2.0)),
        max_edges=900 if scenario in ("edges", "links") else None,
        validation_labels=(5, 0) if sides else (), validation_epsilons=(2.0,) if sides else (),
        settings=settings | _OWN.get(method.name, {}) | dict(changed),
    )  # fmt: skip


def all_cases(name: str | None = None, protocol: str | None = None) -> list[tuple[str, str, str]]:
    """Return (method, scenario, protocol) of all methods, or one, that read private data."""
    return [
        (method.name, scenario, each)
        for method in all_methods().values()
        if method.reads_private and method.name not in _WITH_ARTIFACTS
        for scenario in method.scenarios
        for each in method.protocols
        if name in (None, method.name) and protocol in (None, each)
    ]
