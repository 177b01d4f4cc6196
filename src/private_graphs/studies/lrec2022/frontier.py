"""The frontier: micro-F1 against ε, and as the number of public labels falls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from private_graphs.report.columns import along, plain
from private_graphs.report.words import budget, number
from private_graphs.running.exhibit import Block, Cell, Chart, Exhibit, Table
from private_graphs.studies.lrec2022.points import (
    HEADS,
    PLACE,
    chosen,
    printed_gcns,
    proved_points,
    public_row,
    score_cell,
    seed_notes,
    trained_gcns,
    verdict,
)

# --- micro-F1 against ε for every proved method, with its baselines ---

METHOD_LINE = [*PLACE, "method"]
BUDGET_NOTES = (
    "ε of a column is proved for one run; where the proof gives another number it stands in "
    "brackets. All draws of a point together have epsilon_all_runs of the CSV. 0: nothing private "
    "is read. ∞: without DP, for comparison.",
    "All validation labels are public here. They choose settings; methods that fit parameters to "
    "them are marked in the charts.",
)


def _frontier(results: Any) -> list[Block]:
    """Return a chart per dataset, a facet per scenario and a line per method, and the numbers."""
    points = proved_points(results)
    points = points[points["all_labels"]]
    fitted = points["fitted"].map({True: " (fits public labels)", False: ""})
    points = points.assign(line=points["title"] + fitted)
    methods = list(dict.fromkeys(points.loc[points["epsilon"] > 0, "line"]))
    printed, trained = printed_gcns(results), trained_gcns(results)
    printed = printed[np.isfinite(printed["epsilon"])]
    trained = trained[(trained["protocol"] == "sound") & np.isinf(trained["epsilon"])]
    charts = []
    for dataset, rows in points.groupby("dataset", sort=False):
        frame = pd.concat(
            _with_bars(part, printed[printed["dataset"] == dataset], trained)
            for _, part in rows.groupby(PLACE, sort=False)
        )
        gcns = {name: name for name in frame.columns if name.endswith("no DP")}
        charts.append(Chart(
            f"Private and useful: {results.title_of(dataset)}",
            frame.assign(line=pd.Categorical(frame["line"], methods)), x="epsilon", line="line",
            row="heading", printed="published", log_x=True,
            references={"public data alone": "public", "majority class": "majority"} | gcns,
            x_label="ε of one run; ∞: without DP", y_label="test micro-F1",
        ))  # fmt: skip
    return [*charts, _by_budget(points.drop(columns="line"))]


def _with_bars(rows: pd.DataFrame, printed: pd.DataFrame, trained: pd.DataFrame) -> pd.DataFrame:
    """Return the points of a place with their baselines, and the paper's printed scores."""
    public, first = public_row(rows, rows["validation_labels"].iloc[0]), rows.iloc[0]
    rows = rows[rows["epsilon"] > 0].assign(public=public and public["mean"])
    here = (trained["dataset"] == first["dataset"]) & (trained["features"] == first["features"])
    for gcn in trained[here].to_dict("records"):
        rows[f"GCN, {gcn['title']}, no DP"] = gcn["mean"]
    if first["unit"] == "node":  # the paper protects nodes
        extra = printed[["dataset", "epsilon", "published"]].assign(heading=first["heading"])
        rows = pd.concat([rows, extra])
    return rows


def _by_budget(points: pd.DataFrame) -> Table:
    """Return the numbers: a row per method, a column per ε."""
    values = sorted(points["epsilon"].unique())
    columns = [*HEADS, *along(points, METHOD_LINE, "epsilon", values, _budget_cell, "ε")]
    title = "Test micro-F1 by ε: mean ± standard deviation over the draws"
    notes = (*BUDGET_NOTES, *seed_notes(points))
    return Table(title, points, columns, notes, "dataset", points.drop_duplicates(METHOD_LINE))


def _budget_cell(point: dict[str, Any]) -> Cell:
    if not point["private"]:
        return score_cell(point)
    proved = budget(point["epsilon_proved"])
    return score_cell(point, "" if proved == budget(point["epsilon"]) else f" [{proved}]")


FRONTIER = Exhibit(
    "frontier",
    "Private and useful",
    groups=("frontier", "table1"),
    build=_frontier,
    meaning="Which proved methods beat public data alone, and from which ε on?",
)


# --- fewer public labels: private training as their number falls ---

EPSILONS = (0.0, 1.0, 2.0, 4.0)
"""Budgets; 0: methods that read no private data."""
BUDGET_LINE = [*PLACE, "method", "epsilon"]
LABEL_NOTES = (
    "*: a private row above the one that reads nothing private (ε = 0) with the same public "
    "labels, by more than a standard error of the difference.",
    "With 0 public labels every setting is fixed in advance.",
    "The charts show at each ε the method with the highest validation score, chosen with all "
    "labels.",
)


def _labels(results: Any) -> list[Block]:
    """Return a chart per dataset over the number of public labels, and the table of all methods."""
    points = proved_points(results)
    points = with_labels(compared(points[points["epsilon"].isin(EPSILONS)]))
    points["note"] = "(" + points["title"] + ")"
    several = points.groupby(PLACE)["labels"].transform("nunique") > 1
    charts = [
        Chart(
            f"Fewer public labels: {results.title_of(dataset)}", rows, x="labels", line="epsilon",
            line_label="ε:", words="note", row="heading", steps=True,
            x_label="public validation labels", y_label="test micro-F1",
        )
        for dataset, rows in points[points["chosen"] & several].groupby("dataset", sort=False)
    ]  # fmt: skip
    title = "Test micro-F1 by number of public labels: mean ± standard deviation over the draws"
    return [*charts, label_table(points, title, (*LABEL_NOTES, *seed_notes(points)))]


def compared(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points, whether each is drawn, and its comparison with public data."""
    return pd.concat(_compared(rows) for _, rows in points.groupby(PLACE, sort=False))


def with_labels(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with ``labels``, the number of public labels or ``all``, in order."""
    fewer = points.loc[~points["all_labels"], "validation_labels"]
    names = [*map(number, sorted(fewer.unique())), "all"]
    labels = points["validation_labels"].map(number).mask(points["all_labels"], "all")
    return points.assign(labels=pd.Categorical(labels, names))


def _compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the points of a place, whether each is drawn, and its comparison with public data."""
    best = rows["epsilon"].map(chosen(rows))
    public = {count: public_row(rows, count) for count in rows["validation_labels"].unique()}
    against = [
        verdict(row, public[row["validation_labels"]]) if row["private"] else ""
        for row in rows.to_dict("records")
    ]
    drawn = (rows["method"] == best) | (rows["epsilon"] == 0)
    return rows.assign(against_public=against, chosen=drawn)


def label_table(points: pd.DataFrame, title: str, notes: tuple[str, ...]) -> Table:
    """Return the numbers: a row per method and ε, a column per number of public labels."""
    names = reversed(points["labels"].cat.categories)
    columns = [
        *HEADS,
        *plain({"ε": "epsilon"}),
        *along(points, BUDGET_LINE, "labels", names, _label_cell, "public validation labels"),
    ]
    return Table(title, points, columns, notes, "dataset", points.drop_duplicates(BUDGET_LINE))


def _label_cell(point: dict[str, Any]) -> Cell:
    return score_cell(point, " *" if point["against_public"] == "above" else "")


LABELS = Exhibit(
    "labels",
    "Fewer public labels",
    groups=("frontier",),
    build=_labels,
    meaning="The fewer labels are public, the more private training helps.",
)


# --- a node with all its edges: class sums and public data alone ---

METHODS = ("class_sums", "public_only")
EDGE_NOTES = (
    "The unit is a node with its text, its label and all its edges; texts and edges of the "
    "validation and test nodes are public. ε = 0: public data alone.",
    "*: a private row above public data alone with the same public labels, by more than a standard "
    "error of the difference. Draws differ in the noise and in which labels are public; the test "
    "nodes are the same, and add their own error.",
)


def _all_edges(results: Any) -> list[Block]:
    """Return a chart per dataset and the table."""
    points = proved_points(results, "frontier,all_edges")
    points = points[(points["scenario"] == "graph") & points["method"].isin(METHODS)]
    points = with_labels(compared(points[points["private"] | (points["epsilon"] == 0)]))
    charts = []
    for dataset, rows in points.groupby("dataset", sort=False):
        heading = results.title_of(dataset)
        public = rows[rows["epsilon"] == 0].set_index("labels")["mean"]
        lines = {f"public data alone, {key} labels": key for key in public.index if key != "0"}
        drawn = rows[rows["private"]].assign(
            **{name: public[key] for name, key in lines.items()}, heading=heading
        )
        charts.append(Chart(
            f"A node with all its edges: {heading}", drawn, x="epsilon", line="labels",
            line_label="public labels:", row="heading", log_x=True,
            references={name: name for name in lines}, x_label="ε of one run",
            y_label="test micro-F1",
        ))  # fmt: skip
    title = "Test micro-F1, node level with all edges: mean ± standard deviation over the draws"
    return [*charts, label_table(points, title, (*EDGE_NOTES, *seed_notes(points)))]


ALL_EDGES = Exhibit(
    "all_edges",
    "A node with all its edges",
    groups=("frontier", "all_edges"),
    build=_all_edges,
    meaning="One noisy release about all training nodes with all their edges, compared with public "
    "data alone, on ten graphs.",
)
