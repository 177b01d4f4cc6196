"""Table 3.1: accuracy of the four frameworks at two budgets, and their baselines."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from private_graphs.report.columns import percent, plain
from private_graphs.report.words import number, privacy_notes, score_of
from private_graphs.running.exhibit import Block, Column, Exhibit, Table
from private_graphs.studies.pate.scores import (
    FRAMEWORKS,
    points,
    score_table,
)

GROUPS = ("teachers", "labels", "unchecked", "clean", "plus", "students")
LINES = {
    "teachers": "plurality of the teachers",
    "labels": "classifier of the labels alone",
    "unchecked": "classifier of labels without a check",
    "clean": "classifier of as many true labels",
}
"""Baselines of the students, by run group."""
AROUND_NOTES = (
    "labels: share of the released labels that is right; of the teachers, of the plurality on the "
    "whole pool. Classifiers learn from labels alone, without a generator.",
    "2018 script: what the data-dependent analysis of Papernot et al. 2018 gives for σ2 = 40 (of "
    "250 teachers), in a run over the whole pool. It is no guarantee: the number is computed from "
    "the votes of private teachers, and itself leaks about them.",
)


def build(results: Any) -> list[Block]:
    """Return the frameworks and their baselines."""
    frame = points(results)
    order = frame["framework"].map(list(FRAMEWORKS).index)
    frame = frame.assign(order=order).sort_values(["dataset", "epsilon", "order", "tau"])
    title = "Table 3.1. Test accuracy of the student"
    # At 5.04 the thesis prints no τ: the printed number is next to the main one.
    frame = frame.drop(columns="order")
    return [
        score_table(results, title, frame, "table3_1", ["epsilon", "line"], "line"),
        _around(results),
    ]


def _around(results: Any) -> Table:
    runs = results.runs[results.runs["group"].isin(LINES)]
    by = ["dataset", "group", "method", "protocol", "job", "epsilon"]
    part = results.with_rows(runs)
    frame = part.points(by, "test_accuracy", right="label_accuracy", right_std="label_accuracy")
    names = ["labels", "noise_multiplier", *(n for n in runs if n.startswith("diagnostic"))]
    means = runs.groupby(by)[names].mean().reset_index()
    frame = frame.drop(columns="noise_multiplier").merge(means, on=by)
    frame["line"] = frame["group"].map(LINES)
    frame = frame.assign(order=frame["group"].map(list(LINES).index))
    frame = frame.sort_values(["dataset", "order", "epsilon", "protocol"]).drop(columns="order")
    columns = [
        *plain("dataset", {"what": "line"}),
        Column("protocol", lambda row: "" if row["group"] in ("teachers", "clean")
               else row["protocol"]),
        Column("ε", lambda row: number(row["epsilon"])),
        Column("σ2", lambda row: number(row["noise_multiplier"] or None)),
        Column("labels", lambda row: number(row["labels"], 0)),
        Column("right, %", partial(score_of, name="right", decimals=1, times=100)),
        Column("accuracy", percent),
        Column("ε by the 2018 script", _diagnostic),
    ]  # fmt: skip
    notes = (*AROUND_NOTES, *privacy_notes(frame))
    return Table("Around Table 3.1", frame, columns, notes, "dataset")


def _diagnostic(row: dict[str, Any]) -> str:
    if pd.isna(row.get("diagnostic_epsilon")):
        return ""
    return (
        f"{number(row['diagnostic_epsilon'], 2)}, no guarantee: "
        f"{number(row['diagnostic_labels'], 0)} labels of {number(row['diagnostic_queries'], 0)} "
        f"queries, {number(100 * row['diagnostic_label_accuracy'], 1)} % right"
    )


EXHIBIT = Exhibit(
    "table3_1",
    "Accuracy of the student",
    GROUPS,
    build,
    meaning="The four frameworks learn from the same noisy labels at two budgets. Which printed "
    "gains survive paired seeds, and what is the true ε?",
)
