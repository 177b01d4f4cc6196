"""The trained models and one-shot releases: accuracy and ε, printed and proved.

Class level: let a be the accuracy on one class, p0 that on the same pictures of a model trained
after the class was replaced by another. (ε, δ)-DP at class level means a <= e^ε p0 + δ: high
accuracy on every class and a small ε exclude each other.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from private_graphs.privacy.audits import Errors, rate_upper_bound, two_point_epsilon
from private_graphs.report.columns import plain
from private_graphs.report.words import bound, guarantee, number, privacy_notes, score
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Table
from private_graphs.studies.inversion.figures import LEVELS, MODEL, STAND_IN_NOTE, model_words

# --- the trained models ---

_MODEL_KEY = ["dataset", "group", "scenario", "protocol", "epsilon"]
DELTA_NOTE = (
    "Of the printed rows those on Faces94 prove nothing, whatever their noise: δ times the number "
    "of units is above 1 (153 classes at .01, 29,070 records at 1e-4)."
)
STEPS_NOTE = (
    "The thesis prints no number of steps. paper takes those at which its accountant gives the "
    "printed ε; ε proved is of these steps. Noise that is not printed has steps between."
)


def _trained_models(results: Any) -> list[Block]:
    """Return the printed models, and ours."""
    rows = results.rows
    subset = results.with_rows(rows[(rows["method"] == MODEL).to_numpy()])
    frame = subset.points(_MODEL_KEY, score="test_accuracy").sort_values(
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


TRAINED_MODELS = Exhibit(
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
    _trained_models,
    meaning="Accuracy at the printed noise, beside the ε that this noise proves.",
)


# --- steps of the class- and subclass-level models in both readings of the accountant ---

DOUBLED = ("faces_class", "mnist_subclass")
UNDOUBLED = tuple(f"{name}_undoubled" for name in DOUBLED)
"""Run groups: the accountant that determines the steps doubles the shift, as Lemma 3 does, or
not."""
READING_NOTE = (
    "The thesis prints noise and ε, but no number of steps. Its accountant gives the printed ε at "
    "few steps where it doubles the shift of a class, as its Lemma 3 does, and at several times as "
    "many where it does not. ε proved is of the steps that were run."
)
_READING = ["dataset", "scenario", "epsilon", "group", "steps_taken"]


def _step_readings(results: Any) -> list[Block]:
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
    frame = subset.points(_READING, score="test_accuracy").sort_values(
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
    notes = (READING_NOTE, *privacy_notes(frame))
    return [Table("Models at the printed noise", frame, columns, notes, "dataset")]


STEP_READINGS = Exhibit(
    "step_readings",
    "Models by both readings of the steps",
    (*DOUBLED, *UNDOUBLED),
    _step_readings,
    meaning="The thesis does not print the number of steps: these numbers would explain its "
    "accuracy, with the ε that each proves.",
)


# --- subclasses of digits with one release, beside the printed iterative one ---

PART_NOTES = (
    "A part of a class is named by a keyed hash of the record's number. Each part gives the mean "
    "of its images, in coordinates that public images without labels define; the sums over the "
    "parts of a class are released once.",
    "printed: what the thesis says of steps on subclasses whose parts are fitted to private "
    "images, at the nearest of its ε that is not smaller.",
)


def _part_means(results: Any) -> list[Block]:
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
                  (*PART_NOTES, *privacy_notes(frame)), "dataset")]  # fmt: skip


PART_MEANS = Exhibit(
    "part_means",
    "Subclasses with one release",
    ("mnist_part_means",),
    _part_means,
    meaning="Accuracy at subclass level when the budget is spent once, on the means of parts, and "
    "not on steps.",
)


# --- class level: one release, iterative training, and the best possible accuracy ---

_CONFIDENCE = 0.999
"""Joint confidence of both bounds."""
CLASS_NOTES = (
    "own class: share of runs that are right about a public picture of one class, which is another "
    "one in each run; replaced: the same pictures, when the images of that class were another "
    "class's.",
    "possible: min(1, e^ε p0 + δ) with the upper 99.95 % Clopper-Pearson bound of p0: no method "
    "with this ε is right more often about a class of which a method without its images is right "
    "with probability p0.",
    "needed: ln((a - δ) / p0), the ε without which nobody reaches these shares; unknown where the "
    "other world was never right.",
    "shown: the same with the lower bound of a and the upper one of p0: an audit, whose ε these "
    "runs show at 99.9 %; it may not exceed what is proved.",
)
_STEPS = "training in steps"


def own_class(results: Any, rows: pd.DataFrame) -> tuple[int, int]:
    """Return hits on, and number of, the test pictures of class seed modulo K."""
    predicted, labels = results.predictions(rows)
    n_classes, hits, runs = int(labels.max()) + 1, 0, 0
    for classes, seed in zip(predicted, rows["seed"], strict=True):
        label = int(seed) % n_classes
        hits += int(classes[labels == label][0] == label)  # the first one of several pictures
        runs += 1
    return hits, runs


def needed(share: float, rate: float, delta: float) -> float | None:
    """Return ln((a - δ) / p0), at least 0; None if p0 is 0."""
    if rate == 0:
        return None
    return math.log(max(1.0, (share - delta) / rate))


def _class_reports(results: Any) -> list[Block]:
    """Return the table, a panel per dataset."""
    rows = results.rows
    if "release" not in rows:
        rows = rows.assign(release=None)
    results = results.with_rows(rows.assign(release=rows["release"].fillna(_STEPS)))
    by = ["dataset", "release", "replaced", "epsilon", "job"]
    points = results.points(by, score="test_accuracy")
    lines, runs = [], results.runs
    for row in points[~points["replaced"].astype(bool)].to_dict("records"):
        peers = runs[(runs["dataset"] == row["dataset"]) & (runs["release"] == row["release"])
                     & (runs["epsilon"] == row["epsilon"])]  # fmt: skip
        worlds = [peers[peers["replaced"].astype(bool) == flag] for flag in (False, True)]
        empty = dict.fromkeys(("own_class", "p0", "possible", "needed", "shown"))
        row = row | empty
        if len(worlds[1]):
            original, replaced = (own_class(results, world) for world in worlds)
            delta = results.statement(row["statement_id"])["delta"]
            high = rate_upper_bound(*replaced, (1 - _CONFIDENCE) / 2)
            errors = Errors(original[1] - original[0], original[1], *replaced)
            row |= {"own_class": original[0] / original[1], "p0": replaced[0] / replaced[1]}
            if math.isfinite(row["epsilon"]):
                row["possible"] = min(1.0, math.exp(row["epsilon"]) * high + delta)
                row["needed"] = needed(row["own_class"], row["p0"], delta)
                row["shown"] = two_point_epsilon(errors, delta, _CONFIDENCE)
        lines.append(row)
    frame = pd.DataFrame(lines).sort_values(
        ["dataset", "release", "epsilon"], ascending=[True, True, False], ignore_index=True
    )
    columns = [
        *plain("dataset", "release", {"ε": "epsilon"}),
        Column("accuracy", score),
        *plain({"own class": "own_class", "replaced": "p0"}, "possible", decimals=3),
        Column("needed ε", lambda row: _bound(row["needed"])),
        Column("shown ε", lambda row: _bound(row["shown"])),
        Column("ε proved", guarantee),
    ]
    notes = (*CLASS_NOTES, *privacy_notes(frame))
    return [Table("Class level", frame, columns, notes, "dataset")]


def _bound(value: float | None) -> Cell:
    return Cell() if value is None or math.isnan(value) else Cell(bound(value))


CLASS_REPORTS = Exhibit(
    "class_reports",
    "Class level: one release, training in steps, and what is possible",
    ("faces_codes", "faces_class_worlds"),
    _class_reports,
    meaning="An attacker's best possible guess about a class whose images are protected as a "
    "whole, and one report per class beside it.",
)
