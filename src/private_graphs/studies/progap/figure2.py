"""Figure 2 of ProGAP: accuracy against ε at edge and node level."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.progap.curves import curve_blocks


def build(results: Any) -> list[Block]:
    """Return a chart per dataset and the numbers."""
    return curve_blocks(
        results, "figure2", "Figure 2. Accuracy against ε", "epsilon", "ε asked for", "title"
    )  # fmt: skip


EXHIBIT = Exhibit(
    "figure2",
    "Accuracy against ε",
    groups=("friendship_budgets", "list_budgets", "read_lists", "no_noise"),
    build=build,
    meaning="How much accuracy a budget buys, under the published accounting and where it is "
    "proved.",
)
