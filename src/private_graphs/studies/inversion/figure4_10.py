"""Figure 4.10: faces by the enhanced attack, without DP and with it."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import grids


def build(results: Any) -> list[Block]:
    """Return its blocks."""
    return grids(results, "Figure 4.10", "enhanced")


EXHIBIT = Exhibit(
    "figure4_10",
    "Faces by the enhanced attack, without DP and with it",
    (
        "faces_plain_attacks",
        "faces_record_attacks",
        "faces_class_attacks",
        "faces_class_sound_attacks",
    ),
    build,
    meaning="Which models faces can be read off.",
)
