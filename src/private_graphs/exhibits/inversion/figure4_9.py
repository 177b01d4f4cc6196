"""Figure 4.9: digits, subclass-DP: accuracy against the number of parts of a class."""

from __future__ import annotations

from typing import Any

from private_graphs.report.exhibit import Block, Chart, Exhibit

NOTE = (
    "At δ = 1e-3 nothing can be proved for 1,000 parts in all or more: δ times the number of units "
    "is then at least 1."
)


def build(results: Any) -> list[Block]:
    """Return a chart per dataset."""
    points = results.points(
        ["dataset", "protocol", "parts", "epsilon", "job"], score="test_accuracy"
    )
    return [
        Chart(
            f"Figure 4.9: {dataset}", part, x="parts", line="protocol", steps=True,
            x_label="parts of a class", y_label="test accuracy", notes=[NOTE],
        )
        for dataset, part in points.groupby("dataset")
    ]  # fmt: skip


EXHIBIT = Exhibit(
    "figure4_9",
    "Digits, subclass-DP: accuracy against the number of parts",
    ("mnist_parts",),
    build,
    meaning="More parts of a class are more units that learn, each protected by itself.",
)
