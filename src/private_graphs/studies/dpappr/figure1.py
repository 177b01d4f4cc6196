"""Figures 5.1-5.3: accuracy against the budget of the rows, and what can be proved."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.words import missing, number
from private_graphs.running.exhibit import Block, Chart, Column, Exhibit
from private_graphs.studies.dpappr.points import (
    ROWS,
    beside,
    majority,
    numbers,
    points,
    references,
    truncated,
)

_TITLE = "Figures 5.1-5.3. Accuracy against the budget"


def build(results: Any) -> list[Block]:
    """Return a grid for each dataset, as the thesis prints it, under both protocols with its
    accounting; one of all datasets where ε is proved; and the numbers."""
    frame = points(results)
    frame = frame.assign(
        rows_epsilon=[_rows_epsilon(row) for row in frame.to_dict("records")],
    )
    proved = frame["epsilon_claimed"].isna()
    proved = proved.groupby([frame["dataset"], frame["protocol"]]).transform("all")
    charts: list[Block] = []
    for dataset, part in frame[~proved].groupby("dataset"):
        charts += _published(results, f"{_TITLE}: {results.title_of(dataset)}", part)
    charts += _proved(results, f"{_TITLE} where it is proved", frame[proved])
    extra = [Column("ε of training", lambda row: number(row["training_epsilon"]))]
    return [*charts, numbers(results, _TITLE, frame, extra)]


def _rows_epsilon(row: dict[str, Any]) -> float:
    if row["method"] not in ROWS or missing(row["training_epsilon"]):
        return math.nan
    return row["epsilon"] - row["training_epsilon"]


def _published(results: Any, title: str, part: pd.DataFrame) -> list[Block]:
    """Return a chart of published rows against their ε: facet rows by K, columns by the ε of
    training, beside each other for every protocol."""
    drawn = part[part["rows_epsilon"].notna()]
    if drawn.empty:
        return []
    baselines = part[part["rows_epsilon"].isna()]
    drawn = drawn.assign(at=drawn["training_epsilon"].astype(float))
    without = baselines[baselines["epsilon"] == math.inf]
    private = baselines[baselines["epsilon"] < math.inf].assign(at=baselines["epsilon"])
    drawn = beside(drawn, private[private["title"] == "FEATURES"], ["protocol", "at"])
    drawn = beside(drawn, private[private["title"] != "FEATURES"], ["protocol", "at", "top"])
    drawn = majority(results, beside(drawn, without, ["protocol", "top"]))
    drawn = drawn.assign(
        row=[f"K = {number(value)}" for value in drawn["top"]],
        column=[
            f"{PROTOCOLS[row['protocol']].title}, ε of training {number(row['at'])}"
            for row in drawn.to_dict("records")
        ],
        order=drawn["protocol"].map([*PROTOCOLS].index),
    ).sort_values(["top", "order", "at", "title", "rows_epsilon"])
    return [
        Chart(
            title,
            drawn,
            x="rows_epsilon",
            line="title",
            row="row",
            column="column",
            references=references(drawn),
            x_label="ε of the rows",
            y_label="test accuracy",
            steps=True,
        )
    ]


def _proved(results: Any, title: str, part: pd.DataFrame) -> list[Block]:
    """Return a chart of all rows against their total ε: facet rows by dataset, columns by K."""
    panels = []
    for top in sorted(part["top"].dropna().unique()):
        panel = part[(part["top"] == top) | (part["title"] == "FEATURES")]
        panels.append(panel.assign(
            row=panel["dataset"].map(results.title_of), column=f"K = {number(top)}",
            line=[f"{row['title']}{_of_others(row)}" for row in panel.to_dict("records")],
        ))  # fmt: skip
    if not panels:
        return []
    drawn = pd.concat(panels).drop_duplicates(["row", "column", "line", "epsilon"])
    drawn = majority(results, drawn).sort_values(["line", "epsilon"], kind="stable")
    return [
        Chart(
            title,
            drawn,
            x="epsilon",
            line="line",
            row="row",
            column="column",
            references=references(drawn),
            x_label="ε proved, of rows and training together",
            y_label="test accuracy",
            steps=True,
        )
    ]


def _of_others(row: dict[str, Any]) -> str:
    rows = row["method"] in ROWS and truncated(row)
    return f", R = {number(row['others'])}" if rows else ""


EXHIBIT = Exhibit(
    "figure1",
    "Accuracy against the budget of the rows",
    label="Figures 5.1-5.3",
    groups=("appr_budgets", "appr_proved"),
    build=build,
    meaning="Do private neighbourhoods improve on training with features alone, as published and "
    "where ε is proved?",
)
