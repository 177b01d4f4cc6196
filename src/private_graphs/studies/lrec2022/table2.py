"""Table 2 of LREC 2022: micro-F1 on Pokec by kind of text features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from private_graphs.report.exhibit import Block, Column, Exhibit, Table
from private_graphs.report.words import FEATURES, OPTIMIZERS, number
from private_graphs.studies.lrec2022.scores import score_chart
from private_graphs.studies.lrec2022.table1 import score_table

DATASET = "pokec"
"""The paper's dataset."""


def build(results: Any) -> list[Block]:
    """Return table and chart, and the paper's printed scores if Pokec itself was not run."""
    title = "Table 2. Micro-F1 on the test nodes by kind of text features"
    table = score_table(results, "table2", title, features=True)
    notes = [*table.notes, f"published: the paper's values, on {DATASET} alone."]
    table = replace(table, notes=notes)
    elsewhere = [] if DATASET in results.datasets else [_printed(results)]
    return [table, *elsewhere, score_chart(results, table.frame, "Table 2")]


def _printed(results: Any) -> Table:
    """Return the printed scores: a row per kind of features and optimizer, a column per ε."""
    rows = results.published("table2")
    scores = rows.pivot_table(
        index=["features", "optimizer"], columns="epsilon", values="test_micro_f1", sort=False
    )
    columns = [
        Column("features", lambda row: FEATURES[row["features"]]),
        Column("optimizer", lambda row: OPTIMIZERS[row["optimizer"]]),
        *(
            Column("no DP" if epsilon == float("inf") else f"ε = {number(epsilon)}",
                   lambda row, epsilon=epsilon: number(row[epsilon], 2))
            for epsilon in scores.columns
        ),
    ]  # fmt: skip
    note = (
        "Micro-F1 as the paper prints it for Pokec. That is another dataset than the one above: "
        "these scores and those above cannot be compared."
    )
    frame: pd.DataFrame = rows[["features", "optimizer", "epsilon", "test_micro_f1"]]
    return Table("The paper, on Pokec", frame, columns, [note], lines=scores.reset_index())


EXHIBIT = Exhibit(
    "table2",
    "Micro-F1 on the test nodes by kind of text features",
    groups=("table2",),
    build=build,
    meaning="What kind of text features is worth most on Pokec, with DP and without.",
)
