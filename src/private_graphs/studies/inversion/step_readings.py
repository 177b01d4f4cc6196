"""Steps of the class- and subclass-level models in both readings of the thesis' accountant."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.words import guarantee, number, privacy_notes, score
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Table
from private_graphs.studies.inversion.attacked import LEVELS, model_words

DOUBLED = ("faces_class", "mnist_subclass")
UNDOUBLED = tuple(f"{name}_undoubled" for name in DOUBLED)
"""Run groups: the accountant that determines the steps doubles the shift, as Lemma 3 does, or
not."""
NOTE = (
    "The thesis prints noise and ε, but no number of steps. Its accountant gives the printed ε at "
    "few steps where it doubles the shift of a class, as its Lemma 3 does, and at several times as "
    "many where it does not. ε proved is of the steps that were run."
)
KEY = ["dataset", "scenario", "epsilon", "group", "steps_taken"]


def build(results: Any) -> list[Block]:
    """Return the models at printed noise: a row for each reading of the steps."""
    models = results.published("models")
    printed = {
        (row["unit"], row["epsilon"]): (row["pictures"], row["accuracy_percent"])
        for row in models.to_dict("records")
    }
    rows = results.rows
    keys = zip(rows["scenario"], rows["epsilon"], strict=True)
    mask = pd.Series(
        [(LEVELS.get(scenario), epsilon) in printed for scenario, epsilon in keys], rows.index
    )
    subset = results.with_rows(rows[mask & (rows["protocol"] == "paper")])
    frame = subset.points(KEY, score="test_accuracy").sort_values(
        ["dataset", "epsilon", "steps_taken"], ascending=[True, False, True], ignore_index=True
    )

    def published(row: dict[str, Any]) -> Cell:
        pictures, percent = printed[LEVELS[row["scenario"]], row["epsilon"]]
        return Cell(f"{number(percent)} ({pictures})", tone="published")

    columns = [
        Column("dataset", lambda row: row["dataset"]),
        Column("model", model_words),
        Column("noise", lambda row: number(row["noise_multiplier"], 3)),
        Column("shift", lambda row: "as it is" if row["group"] in UNDOUBLED else "doubled"),
        Column("steps", lambda row: number(row["steps_taken"])),
        Column("printed, %", published),
        Column("accuracy, %", lambda row: score(row, 1, 100)),
        Column("ε proved", guarantee),
    ]
    notes = (NOTE, *privacy_notes(frame))
    return [Table("Models at the printed noise", frame, columns, notes, "dataset")]


EXHIBIT = Exhibit(
    "step_readings",
    "Models by both readings of the steps",
    (*DOUBLED, *UNDOUBLED),
    build,
    meaning="The thesis does not print the number of steps: these numbers would explain its "
    "accuracy, with the ε that each proves.",
)
