"""Figure 4.6: distances of digits without DP and with it."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import target_charts


def build(results: Any) -> list[Block]:
    """Return its blocks."""
    return target_charts(results, "Figure 4.6")


EXHIBIT = Exhibit(
    "figure4_6",
    "Distances of digits without DP and with it",
    (
        "mnist_plain_attacks",
        "mnist_record_attacks",
        "mnist_subclass_attacks",
    ),
    build,
    meaning="Distances by digit without DP, with record-level and with subclass-level DP.",
)
