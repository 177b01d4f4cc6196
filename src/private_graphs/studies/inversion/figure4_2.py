"""Figure 4.2: faces that attacks reconstruct from a model without DP."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import grids


def build(results: Any) -> list[Block]:
    """Return its blocks."""
    return grids(results, "Figure 4.2")


EXHIBIT = Exhibit(
    "figure4_2",
    "Faces that attacks make of a model without DP",
    ("faces_plain_attacks",),
    build,
    meaning="What attacks make of a face classifier.",
)
