"""Figures 5.12-5.13: accuracy against the clip of gradients."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.dpappr.points import swept


def build(results: Any) -> list[Block]:
    """Return a chart for each dataset and protocol, and the numbers."""
    return swept(results, "Figures 5.12-5.13. Clip of gradients", "clip", "C", True)


EXHIBIT = Exhibit(
    "figure12",
    "Accuracy against the clip of gradients",
    label="Figures 5.12-5.13",
    groups=("appr_clips",),
    build=build,
    meaning="Adam divides by the size of its steps, so that below the norm at which all gradients "
    "are clipped the clip does not matter: a flat line is no robustness.",
)
