"""Figure 4.8: digits, subclass-DP: accuracy, distance and recognition against ε."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import budget_charts


def build(results: Any) -> list[Block]:
    """Return its blocks."""
    return budget_charts(results, "Figure 4.8")


EXHIBIT = Exhibit(
    "figure4_8",
    "Digits, subclass-DP: accuracy, distance and recognition against ε",
    ("mnist_subclass_attacks",),
    build,
    meaning="Whether subclass-level noise leaves anything to learn or to attack.",
)
