"""Proved rows compared with the thesis's best one without DP: all training nodes and labels."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.columns import plain
from private_graphs.report.words import guarantee, number, privacy_notes, score
from private_graphs.running.exhibit import Block, Chart, Column, Exhibit, Table
from private_graphs.studies.dpappr.points import SAMPLE_NOTE, points

_TITLE = "Proven, without subsampling, beside VANILLA on a sample"


def build(results: Any) -> list[Block]:
    """Return a chart for each dataset, and the numbers."""
    frame = points(results)
    vanilla = frame[(frame["title"] == "VANILLA") & (frame["protocol"] == "released")]
    best = vanilla.groupby("dataset")["mean"].max()
    features = frame[frame["method"] == "appr_features"]
    features = features[features["sample"].astype(float) == 1]
    rivals = frame[~frame["method"].str.startswith("appr_") & (frame["validation_labels"] == 0)]
    # no setting of this study applies to rows of other methods
    rivals = rivals.drop_duplicates(["dataset", "method", "scenario", "epsilon"])
    drawn = pd.concat([features, rivals])
    drawn = drawn.assign(
        line=[_line(row) for row in drawn.to_dict("records")],
        vanilla=drawn["dataset"].map(best),
    ).sort_values(["dataset", "line", "epsilon"])
    drawn = drawn.assign(lead=drawn["mean"] - drawn["vanilla"])
    chart = Chart(
        _TITLE,
        drawn.assign(facet=drawn["dataset"].map(results.title_of)),
        x="epsilon",
        line="line",
        column="facet",
        references={"VANILLA": "vanilla"} if drawn["vanilla"].notna().any() else {},
        x_label="ε proved",
        y_label="test accuracy",
        steps=True,
    )
    columns = [
        *plain("dataset", {"method": "line", "ε": "epsilon"}),
        Column("accuracy", score),
        Column("VANILLA", lambda row: number(row["vanilla"], 3)),
        Column("lead", lambda row: f"{row['lead']:+.3f}" if row["lead"] == row["lead"] else "–"),
        Column("ε proved", guarantee),
    ]
    notes = (
        "VANILLA: the thesis's network without DP, with exact rows, on its sample, as released, "
        "with the better of its K. The others train on all training nodes and read no edge among "
        "them; those of this project with 2 % of the nodes as public texts less, whose labels they "
        "do not get.",
        SAMPLE_NOTE,
        *privacy_notes(drawn),
    )
    return [chart, Table(f"{_TITLE}: the numbers", drawn, columns, notes, "dataset")]


def _line(row: dict[str, Any]) -> str:
    if row["method"] == "appr_features":
        return f"FEATURES, all nodes, {number(row['epochs'])} steps"
    edges = {"graph": ", public edges"}.get(row["scenario"], "")
    return f"{row['title']}{edges}"


EXHIBIT = Exhibit(
    "vanilla",
    "Proven, without subsampling",
    groups=("appr_budgets", "appr_all_nodes", "appr_beside"),
    build=build,
    meaning="The sample costs more than it amplifies: who trains on all nodes, with a proof, is "
    "compared with the source's network without DP on its sample.",
)
