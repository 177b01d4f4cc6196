"""Subclasses of digits with one release: accuracy, next to the printed iterative one."""

from __future__ import annotations

from typing import Any

from private_graphs.report.columns import plain
from private_graphs.report.words import guarantee, number, privacy_notes, score
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Table

NOTES = (
    "A part of a class is named by a keyed hash of the record's number. Each part gives the mean "
    "of its images, in coordinates that public images without labels define; the sums over the "
    "parts of a class are released once.",
    "printed: what the thesis says of steps on subclasses whose parts are fitted to private "
    "images, at the nearest of its ε that is not smaller.",
)


def build(results: Any) -> list[Block]:
    """Return the table."""
    frame = results.points(["dataset", "epsilon"], score="test_accuracy").sort_values(
        ["dataset", "epsilon"], ascending=[True, False], ignore_index=True
    )
    printed = results.published("models")
    printed = printed[printed["unit"] == "subclass"].sort_values("epsilon")

    def published(row: dict[str, Any]) -> Cell:
        above = printed[(printed["pictures"] == row["dataset"])
                        & (printed["epsilon"] >= row["epsilon"])]  # fmt: skip
        if above.empty:
            return Cell()
        least = above.iloc[0]
        text = f"{number(least['accuracy_percent'])} at ε = {number(least['epsilon'])}"
        return Cell(text, tone="published")

    columns = [
        *plain("dataset", {"ε": "epsilon"}),
        Column("printed, %", published),
        Column("accuracy, %", lambda row: score(row, 1, 100)),
        Column("ε proved", guarantee),
    ]
    return [Table("One release of the means of parts", frame, columns,
                  (*NOTES, *privacy_notes(frame)), "dataset")]  # fmt: skip


EXHIBIT = Exhibit(
    "part_means",
    "Subclasses with one release",
    ("mnist_part_means",),
    build,
    meaning="Accuracy at subclass level when the budget is spent once, on the means of parts, and "
    "not on steps.",
)
