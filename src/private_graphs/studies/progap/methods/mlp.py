"""Baseline perceptrons of ProGAP: its training without sums over neighbours."""

from __future__ import annotations

from functools import partial

from private_graphs.methods.noisy_sums import PROTOCOLS, answer_alike, memory, stated_by
from private_graphs.studies.progap.methods.progap import (
    PREPARES,
    MlpSettings,
    planned_budget,
    train,
)
from private_graphs.tasks.method import Method

METHODS = (
    Method(
        "mlp",
        "MLP",
        partial(answer_alike, train),
        ("links",),
        settings=MlpSettings,
        protocols=PROTOCOLS,
        reads_private=False,
        named=("epochs",),
        prepares=PREPARES,
        memory=memory,
        summary="Baseline: perceptron on features; no edge is read.",
    ),
    Method(
        "mlp_steps",
        "DP-MLP (ProGAP)",
        partial(answer_alike, train),
        ("lists",),
        settings=MlpSettings,
        protocols=PROTOCOLS,
        prepares=PREPARES,
        stated=stated_by(planned_budget),
        memory=memory,
        summary="Baseline: perceptron on features by DP-SGD; no edge is read.",
    ),
)
