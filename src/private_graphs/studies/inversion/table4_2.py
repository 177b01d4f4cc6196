"""Table 4.2: 1 - SSIM of reconstructed faces, next to that of an attacker without a model."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import FACES, STAND_IN_NOTE, distance_table


def build(results: Any) -> list[Block]:
    """Return the table, a panel per dataset."""
    blocks = distance_table(results, "table4_2", "Table 4.2. Distances of faces, no DP", FACES)
    return [*blocks, STAND_IN_NOTE]


EXHIBIT = Exhibit(
    "table4_2",
    "Attacks on a face classifier without DP",
    ("faces_plain_attacks",),
    build,
    meaning="How near attacks come to the pictures that a model was trained on, beside the "
    "baseline: no access to the model.",
)
