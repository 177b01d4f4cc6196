"""Figure 4.11: distances of faces without DP and with it."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import target_charts


def build(results: Any) -> list[Block]:
    """Return its blocks."""
    return target_charts(results, "Figure 4.11")


EXHIBIT = Exhibit(
    "figure4_11",
    "Distances of faces without DP and with it",
    (
        "faces_plain_attacks",
        "faces_record_attacks",
        "faces_class_attacks",
        "faces_class_sound_attacks",
    ),
    build,
    meaning="Distances by person: private models without any use have the largest.",
)
