"""Figure 4.12: faces, record-DP: accuracy, distance and recognition against ε."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import budget_charts


def build(results: Any) -> list[Block]:
    """Return its blocks."""
    return budget_charts(results, "Figure 4.12")


EXHIBIT = Exhibit(
    "figure4_12",
    "Faces, record-DP: accuracy, distance and recognition against ε",
    ("faces_record_attacks",),
    build,
    meaning="Whether record-level noise keeps an attack from recognising people.",
)
