"""Figure 4.5: digits, without DP and with subclass-DP."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import grids


def build(results: Any) -> list[Block]:
    """Return its blocks."""
    return grids(results, "Figure 4.5", "enhanced, mean ℓ1")


EXHIBIT = Exhibit(
    "figure4_5",
    "Digits, without DP and with subclass-DP",
    (
        "mnist_plain_attacks",
        "mnist_subclass_attacks",
    ),
    build,
    meaning="Which digits can be read off models with subclass-level DP.",
)
