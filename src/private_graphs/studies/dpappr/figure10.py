"""Figures 5.10-5.11: accuracy against the clip of the rows."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.dpappr.points import swept


def build(results: Any) -> list[Block]:
    """Return a chart for each dataset and protocol, and the numbers."""
    label = "clip of a row (GM: C1) or of its entries (EM: C2)"
    return swept(results, "Figures 5.10-5.11. Clip of the rows", "row_clip", label, True)


EXHIBIT = Exhibit(
    "figure10",
    "Accuracy against the clip of the rows",
    label="Figures 5.10-5.11",
    groups=("appr_row_clips", "appr_row_clips_proved"),
    build=build,
    meaning="Whether the clip of the rows matters. As released columns are scaled to sum 1 after "
    "it: a small clip changes nothing but which nodes are chosen; noise at a large one outweighs "
    "the nodes that train on themselves.",
)
