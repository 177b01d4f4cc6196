"""Baseline perceptrons of ProGAP: its training without sums over neighbours."""

from __future__ import annotations

from private_graphs.methods.noisy_sums import stated_by, sums_method
from private_graphs.studies.progap.methods.progap import MlpSettings, planned_budget, train

METHODS = (
    sums_method(
        "mlp",
        "MLP",
        train,
        ("links",),
        settings=MlpSettings,
        reads_private=False,
        named=("epochs",),
        summary="Baseline: perceptron on features; no edge is read.",
    ),
    sums_method(
        "mlp_steps",
        "DP-MLP (ProGAP)",
        train,
        ("lists",),
        settings=MlpSettings,
        stated=stated_by(planned_budget),
        summary="Baseline: perceptron on features by DP-SGD; no edge is read.",
    ),
)
