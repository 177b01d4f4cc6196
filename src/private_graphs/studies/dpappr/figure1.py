"""Figures 5.1-5.3: accuracy against the budget of the rows, and what can be proved."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

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
    """Return a chart for each dataset and protocol, and the numbers."""
    frame = points(results)
    frame = frame.assign(
        rows_epsilon=[_rows_epsilon(row) for row in frame.to_dict("records")],
    )
    charts: list[Block] = []
    for (dataset, protocol), part in frame.groupby(["dataset", "protocol"]):
        draw = _proved if part["epsilon_claimed"].isna().all() else _published
        charts += draw(results, f"{_TITLE}: {results.title_of(dataset)}, {protocol}", part)
    extra = [Column("ε of training", lambda row: number(row["training_epsilon"]))]
    return [*charts, numbers(results, _TITLE, frame, extra)]


def _rows_epsilon(row: dict[str, Any]) -> float:
    if row["method"] not in ROWS or missing(row["training_epsilon"]):
        return math.nan
    return row["epsilon"] - row["training_epsilon"]


def _published(results: Any, title: str, part: pd.DataFrame) -> list[Block]:
    """Return a chart of published rows against their ε: facet rows by K, columns by the rest."""
    drawn = part[part["rows_epsilon"].notna()]
    if drawn.empty:
        return []
    baselines = part[part["rows_epsilon"].isna()]
    drawn = drawn.assign(at=drawn["training_epsilon"].astype(float))
    without = baselines[baselines["epsilon"] == math.inf]
    private = baselines[baselines["epsilon"] < math.inf].assign(at=baselines["epsilon"])
    drawn = beside(drawn, private[private["title"] == "FEATURES"], ["at"])
    drawn = beside(drawn, private[private["title"] != "FEATURES"], ["at", "top"])
    drawn = majority(results, beside(drawn, without, ["top"]))
    drawn = drawn.assign(
        row=[f"K = {number(value)}" for value in drawn["top"]],
        column=[f"ε of training {number(value)}" for value in drawn["at"]],
    ).sort_values(["top", "at", "title", "rows_epsilon"])
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
    """Return a chart of all rows against their total ε, with a panel for each K."""
    panels = []
    for top in sorted(part["top"].dropna().unique()):
        panel = part[(part["top"] == top) | (part["title"] == "FEATURES")]
        panels.append(panel.assign(row=f"K = {number(top)}", line=[
            f"{row['title']}{_of_others(row)}" for row in panel.to_dict("records")
        ]))  # fmt: skip
    if not panels:
        return []
    drawn = pd.concat(panels).drop_duplicates(["row", "line", "epsilon"])
    drawn = majority(results, drawn).sort_values(["line", "epsilon"], kind="stable")
    return [
        Chart(
            title,
            drawn,
            x="epsilon",
            line="line",
            row="row",
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
