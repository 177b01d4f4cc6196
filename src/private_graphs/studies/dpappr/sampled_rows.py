"""Content of a row: edges left in the sample, the target itself, neighbours that are found."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.columns import plain
from private_graphs.report.words import number
from private_graphs.running.exhibit import Column, Exhibit, Table
from private_graphs.studies.dpappr.points import ROWS, SAMPLE_NOTE, title_of

_BY = ["dataset", "protocol", "title", "top", "rows_epsilon"]
_SHOWN = ["sampled_nodes", "edges_left", "isolated_share", "own_share", "neighbour_recall"]


def build(results: Any) -> list[Table]:
    """Return a row per dataset, protocol, method, K and ε of the rows: means over all runs."""
    runs = results.runs.dropna(subset=["own_share"])
    runs = runs.assign(
        title=[title_of(results, row) for row in runs.to_dict("records")],
        rows_epsilon=runs["epsilon_rows"].where(runs["method"].isin(ROWS)),
    )
    frame = runs.groupby(_BY, dropna=False)[_SHOWN].mean().reset_index()
    frame = frame.assign(chance=frame["top"] / frame["sampled_nodes"])
    columns = [
        *plain("dataset", "protocol", {"rows": "title", "K": "top"}),
        *plain({"ε of the rows": "rows_epsilon"}),
        Column("sampled nodes", lambda row: number(row["sampled_nodes"], 0)),
        Column("edges left", lambda row: number(row["edges_left"], 1)),
        Column("isolated", lambda row: number(row["isolated_share"], 2)),
        *plain({"root in its own row": "own_share", "by chance": "chance"}, decimals=3),
        *plain({"neighbours found": "neighbour_recall"}, decimals=3),
    ]
    notes = (
        "edges left: among the sampled nodes, on average over the seeds; isolated: nodes without "
        "any. neighbours found: share of a root's true neighbours in its row, over the roots that "
        "have some. by chance: K nodes drawn from the sample.",
        SAMPLE_NOTE,
        "PageRank walks on this graph with a loop at every node, as the authors' code has it; the "
        "text names no loops, without which an isolated node has no row.",
        "these numbers read the private sample: no ε covers them.",
    )
    return [Table("Contents of a PPR row", frame, columns, notes, "dataset")]


EXHIBIT = Exhibit(
    "sampled_rows",
    "Contents of a PPR row",
    groups=("appr_budgets",),
    build=build,
    meaning="The sampled training graph is nearly empty, and private rows hold nodes that are "
    "drawn almost at random.",
)


def edges_left(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the number of sampled nodes and of edges left, by seed."""
    known = runs.dropna(subset=["edges_left"]).drop_duplicates("seed").set_index("seed")
    return known[["sampled_nodes", "edges_left"]]
