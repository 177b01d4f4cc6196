"""Figure 4.13: faces, class-DP: accuracy, distance and recognition against ε."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import budget_charts


def build(results: Any) -> list[Block]:
    """Return its blocks."""
    return budget_charts(results, "Figure 4.13")


EXHIBIT = Exhibit(
    "figure4_13",
    "Faces, class-DP: accuracy, distance and recognition against ε",
    (
        "faces_class_attacks",
        "faces_class_sound_attacks",
    ),
    build,
    meaning="Whether class-level noise leaves anything to learn or to attack.",
)
