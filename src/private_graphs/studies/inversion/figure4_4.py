"""Figure 4.4: digits, without DP and with record-DP."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import grids


def build(results: Any) -> list[Block]:
    """Return its blocks."""
    return grids(results, "Figure 4.4", "enhanced, mean ℓ1")


EXHIBIT = Exhibit(
    "figure4_4",
    "Digits, without DP and with record-DP",
    (
        "mnist_plain_attacks",
        "mnist_record_attacks",
    ),
    build,
    meaning="Which digits can be read off models with record-level DP.",
)
