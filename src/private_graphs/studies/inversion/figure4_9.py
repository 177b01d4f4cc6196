"""Figure 4.9: digits, subclass-DP: accuracy and distance against the number of parts."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Chart, Exhibit
from private_graphs.studies.inversion.attacked import ATTACK, MODEL

NOTE = (
    "At δ = 1e-3 nothing can be proved for 1,000 parts in all or more: δ times the number of units "
    "is then at least 1."
)


def build(results: Any) -> list[Block]:
    """Return two charts per dataset: accuracy of models, and distance of an attack on them."""
    blocks: list[Block] = []
    for method, score, words in (
        (MODEL, "test_accuracy", "test accuracy"), (ATTACK, "distance", "distance"),
    ):  # fmt: skip
        rows = results.rows
        own = results.with_rows(rows[(rows["method"] == method).to_numpy()])
        if own.runs.empty:
            continue
        points = own.points(["dataset", "protocol", "parts", "epsilon", "job"], score=score)
        blocks += [
            Chart(
                f"Figure 4.9: {words}, {dataset}", part, x="parts", line="protocol", steps=True,
                x_label="parts of a class", y_label=words, notes=[NOTE],
            )
            for dataset, part in points.groupby("dataset")
        ]  # fmt: skip
    return blocks


EXHIBIT = Exhibit(
    "figure4_9",
    "Digits, subclass-DP: accuracy and distance against the number of parts",
    ("mnist_parts", "mnist_parts_attacks"),
    build,
    meaning="More parts of a class are more units that learn, each protected by itself.",
)
