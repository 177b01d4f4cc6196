"""Table 4.1: distance of reconstructed digits, next to that of an attacker without a model."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import distance_table


def build(results: Any) -> list[Block]:
    """Return the table, a panel per dataset."""
    digits = ("mnist", "digits")
    return distance_table(results, "table4_1", "Table 4.1. Distances of digits, no DP", digits)


EXHIBIT = Exhibit(
    "table4_1",
    "Attacks on a classifier of digits without DP",
    ("mnist_plain_attacks",),
    build,
    meaning="How near attacks come to the pictures that a model was trained on, beside the "
    "baseline: no access to the model.",
)
