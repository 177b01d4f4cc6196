"""Small graphs and images, and short jobs for every method, scenario and protocol.

A job has settings of its own, or those of recorded rows: shortened in what is only a size or a
number, so that a replay takes seconds, and as recorded in everything that executes other code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.methods import all_methods
from private_graphs.running.jobs import Job
from private_graphs.tasks.method import Method
from private_graphs.tasks.tasks import SCENARIOS

_SHORT: dict[str, Any] = {
    "epochs": 2, "steps": 6, "plain_steps": 6, "plain_lot": 10, "lot": 10, "lot_size": 10,
    "hidden": 8, "roots": 4, "batch": 5, "teachers": 10, "teacher_network": "softmax",
    "teacher_epochs": 10, "teacher_rate": 0.05, "threshold": 5.0, "network": "mlp", "draws": 0,
    "parts": 2, "rate": 0.4, "dropout": 0.0, "sample": 0.7, "degree": 4,
    "printed": {"1": (2.0, 6), "2": (1.5, 6)},
}  # fmt: skip
"""Settings that shorten the runs of any method that has them. Lists are shorter than degrees,
and votes lie on both sides of the threshold, so that reads beyond a bound are detected."""
_NUMBERS: dict[str, Callable[[Any], Any]] = {
    **{
        name: lambda _: None
        for name in (
            *_SHORT, "learning_rate", "weight_decay", "noise_multiplier", "clip_norm", "clip",
            "row_clip", "entry_clip", "patience", "mean_degree", "training_epsilon", "queries",
            "answers", "teacher_batch", "alpha", "beta", "tau", "ramp", "generator",
        )
    },
    **dict.fromkeys(
        ("dropout", "network", "teacher_network", "draws", "parts"), lambda value: value
    ),
    "train_fraction": lambda share: share if share == 1 else 0.5,
    "lot_size": lambda size: 30 if size >= 60_000 else None,
    "check_noise": lambda noise: None if noise else 0.0,
    "visits": lambda how: "protocol" if how == "full_graph" else how,
}  # fmt: skip
"""Of recorded settings, what a short job gets: None for its own value. Sizes and numbers execute
the same code at every value, with these exceptions: a sample of training nodes or all; one full
batch (60,000 are all records of MNIST, 30 all of ``small_images``). Rows of the GCN show the visits
that a run made. All settings that are not listed are as recorded."""
_OWN: dict[str, dict[str, Any]] = {
    "gcn": {"splits": 3, "epochs": 4, "dtype": "float64", "hidden": 32},
    "unit_gradients": {"network": "softmax", "cells": "hash"},
    "dp_gnn": {"degree": 1},
    "list_means": {"mean_degree": 20.0},
}
OTHERS: dict[str, tuple[dict[str, Any], ...]] = {
    "appr_gaussian": ({"root_rate": 0.5, "unit_rows": True, "anchor": 0.2},),
    "class_codes": ({"release": "means"},),
    "mlp_records": ({"microbatch": 2},),
}
"""Settings by method that execute other code and are replayed, whether or not rows have them;
protocols that allow only proved noise support all of them."""
_EPSILONS = {"class_sums": (1.0, 8000.0)}
"""Budgets by method; at the larger one the small graph has the signal for residual steps."""
READERS_OF_ARTIFACTS = ("model_inversion",)
"""Methods that read only artifacts of other jobs: their events are those of these jobs."""


def recorded_settings(
    rows: pd.DataFrame, method: Method, scenario: str, protocol: str
) -> list[dict[str, Any]]:
    """Return the distinct settings of the private ``rows`` of a case, as a short job gets them.

    Those that a short job has without being told are left out, and so is one value of a setting
    that has several: the run chose it.
    """
    runs = rows[(rows["method"] == method.name) & (rows["scenario"] == scenario)]
    runs = runs[(runs["protocol"] == protocol) & np.isfinite(runs["epsilon"].astype(float))]
    variants: dict[str, dict[str, Any]] = {}
    for text in runs["settings"].dropna().unique():
        settings = short_settings(method, scenario, protocol, json.loads(text))
        variants.setdefault(json.dumps(settings), settings)
    return list(variants.values())


def short_settings(
    method: Method, scenario: str, protocol: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON-able ``settings`` of a run as a short job gets them, sorted by name, without
    those that it has of itself."""
    fields = method.settings.model_fields
    short_job = method.settings.model_validate(dict(small_job(method, scenario, protocol).settings))
    usual = short_job.model_dump(mode="json")
    return {
        name: short
        for name, value in sorted(settings.items())
        if name in fields
        and not (isinstance(fields[name].default, tuple) and not isinstance(value, list))
        and (short := _NUMBERS.get(name, lambda value: value)(value)) is not None
        and short != usual[name]
    }


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
        (method.name, scenario, variant)
        for method in all_methods().values()
        if method.reads_private and method.name not in READERS_OF_ARTIFACTS
        for scenario in method.scenarios
        for variant in method.protocols
        if name in (None, method.name) and protocol in (None, variant)
    ]
