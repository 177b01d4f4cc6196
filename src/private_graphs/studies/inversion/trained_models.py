"""The trained models: accuracy and ε, printed and proved."""

from __future__ import annotations

from typing import Any

from private_graphs.report.columns import plain
from private_graphs.report.words import guarantee, number, privacy_notes, score
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Table
from private_graphs.studies.inversion.attacked import LEVELS, MODEL, STAND_IN_NOTE, model_words

KEY = ["dataset", "group", "scenario", "protocol", "epsilon"]
DELTA_NOTE = (
    "Of the printed rows those on Faces94 prove nothing, whatever their noise: δ times the number "
    "of units is above 1 (153 classes at .01, 29,070 records at 1e-4)."
)
STEPS_NOTE = (
    "The thesis prints no number of steps. paper takes those at which its accountant gives the "
    "printed ε; ε proved is of these steps. Noise that is not printed has steps between."
)


def build(results: Any) -> list[Block]:
    """Return the printed models, and ours."""
    rows = results.rows
    subset = results.with_rows(rows[(rows["method"] == MODEL).to_numpy()])
    frame = subset.points(KEY, score="test_accuracy").sort_values(
        ["dataset", "protocol", "group", "epsilon"], ascending=[True, True, True, False],
        ignore_index=True,
    )  # fmt: skip
    printed = results.published("models")
    accuracies = {
        (row["pictures"], row["unit"], row["epsilon"]): row["accuracy_percent"]
        for row in printed.to_dict("records")
    }

    def published(row: dict[str, Any]) -> Cell:
        key = (row["dataset"], LEVELS[row["scenario"]], row["epsilon"])
        return Cell(number(accuracies.get(key)), tone="published")

    columns = [
        *plain("dataset", "protocol"),
        Column("model", model_words),
        Column("noise", lambda row: number(row["noise_multiplier"], 3)),
        Column("printed, %", published),
        Column("accuracy, %", lambda row: score(row, 1, 100)),
        Column("ε proved", guarantee),
    ]
    printed_columns = [
        *plain("pictures", "unit"),
        Column("noise", lambda row: number(row.get("noise_multiplier"))),
        Column("ε", lambda row: number(row["epsilon"])),
        Column("δ", lambda row: number(row.get("delta"))),
        Column("accuracy, %", lambda row: Cell(number(row["accuracy_percent"]), tone="published")),
    ]
    notes = (*subset.protocol_notes(), STEPS_NOTE, *privacy_notes(frame))
    return [
        Table("Models: test accuracy", frame, columns, notes, "dataset"),
        Table("As printed", printed, printed_columns, (DELTA_NOTE, STAND_IN_NOTE)),
    ]


EXHIBIT = Exhibit(
    "trained_models",
    "Models, their accuracy and their ε",
    (
        "faces_plain",
        "faces_record",
        "faces_class",
        "faces_class_sound",
        "mnist_plain",
        "mnist_record",
        "mnist_record_between",
        "mnist_subclass",
    ),
    build,
    meaning="Accuracy at the printed noise, beside the ε that this noise proves.",
)
