"""Class level: accuracy of one release and of iterative training, and the best possible one.

Let a be the accuracy on one class, p0 that on the same pictures of a model trained after the class
was replaced by another. (ε, δ)-DP at class level means a <= e^ε p0 + δ: high accuracy on every
class and a small ε exclude each other.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from private_graphs.privacy.audits import Errors, rate_upper_bound, two_point_epsilon
from private_graphs.report.columns import plain
from private_graphs.report.words import bound, guarantee, privacy_notes, score
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Table

_CONFIDENCE = 0.999
"""Joint confidence of both bounds."""
NOTES = (
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


def build(results: Any) -> list[Block]:
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
    notes = (*NOTES, *privacy_notes(frame))
    return [Table("Class level", frame, columns, notes, "dataset")]


def _bound(value: float | None) -> Cell:
    return Cell() if value is None or math.isnan(value) else Cell(bound(value))


EXHIBIT = Exhibit(
    "class_reports",
    "Class level: one release, training in steps, and what is possible",
    ("faces_codes", "faces_class_worlds"),
    build,
    meaning="An attacker's best possible guess about a class whose images are protected as a "
    "whole, and one report per class beside it.",
)
