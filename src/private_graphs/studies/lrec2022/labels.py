"""Fewer public labels: comparison of private training as the number of public labels falls."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.columns import along, plain
from private_graphs.report.words import number
from private_graphs.running.exhibit import Block, Cell, Chart, Exhibit, Table
from private_graphs.studies.lrec2022 import proved
from private_graphs.studies.lrec2022.gcns import score_cell

EPSILONS = (0.0, 1.0, 2.0, 4.0)
"""Budgets; 0: methods that read no private data."""
LINE = [*proved.PLACE, "method", "epsilon"]
NOTES = (
    "*: a private row above the one that reads nothing private (ε = 0) with the same public "
    "labels, by more than a standard error of the difference.",
    "With 0 public labels every setting is fixed in advance.",
    "The charts show at each ε the method with the highest validation score, chosen with all "
    "labels.",
)


def build(results: Any) -> list[Block]:
    """Return a chart per dataset over the number of public labels, and the table of all methods."""
    points = proved.proved_points(results)
    points = with_labels(compared(points[points["epsilon"].isin(EPSILONS)]))
    points["note"] = "(" + points["title"] + ")"
    several = points.groupby(proved.PLACE)["labels"].transform("nunique") > 1
    charts = [
        Chart(
            f"Fewer public labels: {results.title_of(dataset)}", rows, x="labels", line="epsilon",
            line_label="ε:", words="note", row="heading", steps=True,
            x_label="public validation labels", y_label="test micro-F1",
        )
        for dataset, rows in points[points["chosen"] & several].groupby("dataset", sort=False)
    ]  # fmt: skip
    title = "Test micro-F1 by number of public labels: mean ± standard deviation over the draws"
    return [*charts, label_table(points, title, (*NOTES, *proved.seed_notes(points)))]


def compared(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points, whether each is drawn, and its comparison with public data."""
    return pd.concat(_compared(rows) for _, rows in points.groupby(proved.PLACE, sort=False))


def with_labels(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with ``labels``, the number of public labels or ``all``, in order."""
    fewer = points.loc[~points["all_labels"], "validation_labels"]
    names = [*map(number, sorted(fewer.unique())), "all"]
    labels = points["validation_labels"].map(number).mask(points["all_labels"], "all")
    return points.assign(labels=pd.Categorical(labels, names))


def _compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the points of a place, whether each is drawn, and its comparison with public data."""
    best = rows["epsilon"].map(proved.chosen(rows))
    public = {count: proved.public_row(rows, count) for count in rows["validation_labels"].unique()}
    against = [
        proved.verdict(row, public[row["validation_labels"]]) if row["private"] else ""
        for row in rows.to_dict("records")
    ]
    drawn = (rows["method"] == best) | (rows["epsilon"] == 0)
    return rows.assign(against_public=against, chosen=drawn)


def label_table(points: pd.DataFrame, title: str, notes: tuple[str, ...]) -> Table:
    """Return the numbers: a row per method and ε, a column per number of public labels."""
    names = reversed(points["labels"].cat.categories)
    columns = [
        *proved.HEADS,
        *plain({"ε": "epsilon"}),
        *along(points, LINE, "labels", names, _cell, "public validation labels"),
    ]
    return Table(title, points, columns, notes, "dataset", points.drop_duplicates(LINE))


def _cell(point: dict[str, Any]) -> Cell:
    return score_cell(point, " *" if point["against_public"] == "above" else "")


EXHIBIT = Exhibit(
    "labels",
    "Fewer public labels",
    groups=("frontier",),
    build=build,
    meaning="The fewer labels are public, the more private training helps.",
)
