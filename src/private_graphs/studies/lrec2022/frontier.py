"""The frontier: micro-F1 against ε for every proved method, with its baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from private_graphs.report.columns import along
from private_graphs.report.words import budget
from private_graphs.running.exhibit import Block, Cell, Chart, Exhibit, Table
from private_graphs.studies.lrec2022.gcns import printed_gcns, score_cell, trained_gcns
from private_graphs.studies.lrec2022.proved import (
    HEADS,
    PLACE,
    proved_points,
    public_row,
    seed_notes,
)

LINE = [*PLACE, "method"]
NOTES = (
    "ε of a column is proved for one run; where the proof gives another number it stands in "
    "brackets. All draws of a point together have epsilon_all_runs of the CSV. 0: nothing private "
    "is read. ∞: without DP, for comparison.",
    "All validation labels are public here. They choose settings; methods that fit parameters to "
    "them are marked in the charts.",
)


def build(results: Any) -> list[Block]:
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
    return [*charts, _table(points.drop(columns="line"))]


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


def _table(points: pd.DataFrame) -> Table:
    """Return the numbers: a row per method, a column per ε."""
    values = sorted(points["epsilon"].unique())
    columns = [*HEADS, *along(points, LINE, "epsilon", values, _cell, "ε")]
    title = "Test micro-F1 by ε: mean ± standard deviation over the draws"
    notes = (*NOTES, *seed_notes(points))
    return Table(title, points, columns, notes, "dataset", points.drop_duplicates(LINE))


def _cell(point: dict[str, Any]) -> Cell:
    if not point["private"]:
        return score_cell(point)
    proved = budget(point["epsilon_proved"])
    return score_cell(point, "" if proved == budget(point["epsilon"]) else f" [{proved}]")


EXHIBIT = Exhibit(
    "frontier",
    "Private and useful",
    groups=("frontier", "table1"),
    build=build,
    meaning="Which proved methods beat public data alone, and from which ε on?",
)
