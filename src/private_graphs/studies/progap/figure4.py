"""Figure 4 of ProGAP: accuracy against the number of noisy sums K."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.progap.curves import curve_blocks


def build(results: Any) -> list[Block]:
    """Return a chart per dataset and the numbers."""
    return curve_blocks(
        results, "figure4", "Figure 4. Accuracy against K", "hops", "K, noisy sums along edges",
        "epsilon", "ε asked for:",
    )  # fmt: skip


EXHIBIT = Exhibit(
    "figure4",
    "Accuracy against the number of noisy sums",
    groups=("friendship_hops", "list_hops"),
    build=build,
    meaning="Whether deeper is better where the budget is large, and shallower where it is small.",
)
