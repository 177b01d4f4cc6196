"""Figure 4.1: digits that attacks reconstruct from a model without DP."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import grids


def build(results: Any) -> list[Block]:
    """Return its blocks."""
    return grids(results, "Figure 4.1")


EXHIBIT = Exhibit(
    "figure4_1",
    "Digits that attacks make of a model without DP",
    ("mnist_plain_attacks",),
    build,
    meaning="What attacks make of a classifier of digits: the distance prefers blank images.",
)
