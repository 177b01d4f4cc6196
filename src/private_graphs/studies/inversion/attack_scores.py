"""Scores of every attack on every model, by four measures."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.studies.inversion.attacked import leakage_table


def build(results: Any) -> list[Block]:
    """Return the table."""
    return [leakage_table(results, "What attacks get from models")]


EXHIBIT = Exhibit(
    "attack_scores",
    "What attacks get from models, by four measures",
    (
        "faces_plain_attacks", "faces_record_attacks", "faces_class_attacks",
        "faces_class_sound_attacks", "mnist_plain_attacks", "mnist_record_attacks",
        "mnist_record_between_attacks", "mnist_subclass_attacks",
    ),
    build,
    meaning="Whether a model gives its classes away is told by who can be recognised, not by the "
    "distance that the thesis prints: that ranks the emptiest picture best.",
)  # fmt: skip
