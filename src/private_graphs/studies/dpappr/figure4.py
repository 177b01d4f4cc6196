"""Figures 5.4-5.5: accuracy of guessing training nodes' degrees from hidden layers."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.columns import plain
from private_graphs.report.words import number
from private_graphs.running.exhibit import Block, Chart, Column, Exhibit, Table
from private_graphs.studies.dpappr.points import majority, points, references

_TITLE = "Figures 5.4-5.5. Guessed degrees"


def build(results: Any) -> list[Block]:
    """Return charts of error and accuracy for each dataset and protocol, and the numbers."""
    accuracy = points(results)
    frame = points(results, error="degree_rmse", area="degree_auc",
                      spread_of_degrees="degree_std", silhouette="silhouette")  # fmt: skip
    errors = points(results, "degree_rmse").assign(one=1.0)
    blocks: list[Block] = []
    for name, drawn, label in (
        ("error over the spread of degrees", errors, "RMSE / standard deviation"),
        ("accuracy", majority(results, accuracy), "test accuracy"),
    ):
        features = drawn["title"] == "FEATURES"  # has no K and is in every panel
        panels = [
            pd.concat([part, drawn[features]]).assign(column=f"K = {number(top)}")
            for top, part in drawn[~features].groupby("top")
        ]
        drawn = pd.concat(panels) if panels else drawn.assign(column="")
        for dataset, part in drawn.groupby("dataset"):
            lines = {"one number for all": "one"} if "one" in part else references(part)
            blocks.append(
                Chart(
                    f"{_TITLE}, {name}: {results.title_of(dataset)}",
                    part.sort_values(["protocol", "title", "epsilon"], kind="stable"),
                    x="epsilon",
                    line="title",
                    row="protocol",
                    column="column",
                    references=lines,
                    x_label="ε claimed",
                    y_label=label,
                    steps=True,
                )
            )
    return [*blocks, _table(frame)]


def _table(frame: pd.DataFrame) -> Table:
    columns = [
        *plain("dataset", "protocol", {"rows": "title", "K": "top", "ε claimed": "epsilon"}),
        Column("RMSE / std", lambda row: number(row["error"], 3)),
        Column("std of degrees", lambda row: number(row["spread_of_degrees"], 2)),
        *plain({"AUC of degree > 0": "area"}, "silhouette", decimals=3),
    ]
    notes = (
        "ridge regression on the hidden layers of the sampled training nodes, cross-validated; 1 "
        "is one number for all nodes: at or above it the layer tells nothing of degrees, and shows "
        "no protection either. The thesis says that a lower error means better hiding, and then "
        "argues the other way round.",
        "no ε covers these numbers: hidden layers of training nodes are functions of their own "
        "features.",
    )
    return Table(f"{_TITLE}: the numbers", frame, columns, notes, "dataset")


EXHIBIT = Exhibit(
    "figure4",
    "Degrees guessed from hidden layers",
    label="Figures 5.4-5.5",
    groups=("appr_degrees",),
    build=build,
    meaning="Can an attacker learn degrees from hidden layers? Most degrees of the sample are 0.",
)
