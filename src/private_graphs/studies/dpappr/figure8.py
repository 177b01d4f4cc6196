"""Figures 5.8-5.9: accuracy against the batch size."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.dpappr.points import swept


def build(results: Any) -> list[Block]:
    """Return a chart for each dataset and protocol, and the numbers."""
    return swept(results, "Figures 5.8-5.9. Batch size", "batch", "roots of a step, B")


EXHIBIT = Exhibit(
    "figure8",
    "Accuracy against the batch size",
    label="Figures 5.8-5.9",
    groups=("appr_batches",),
    build=build,
    meaning="What larger batches change at a fixed budget of the published accounting.",
)
