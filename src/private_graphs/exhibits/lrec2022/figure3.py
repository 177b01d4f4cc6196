"""Figure 3 of LREC 2022: what it costs to train on random splits when nothing is private."""

from __future__ import annotations

from dataclasses import replace

from private_graphs.exhibits.lrec2022 import curves
from private_graphs.report.exhibit import Block, Exhibit
from private_graphs.report.results import Results


def build(results: Results) -> list[Block]:
    """Return the figure; runs of C count before those of ``C_without_dp`` on the same graph."""
    rows = results.rows
    whole = rows.loc[rows["group"] == "C", "dataset"]
    rows = rows[(rows["group"] != "C_without_dp") | ~rows["dataset"].isin(whole)]
    return curves.build(
        replace(results, rows=rows), "figure3", "C,C_without_dp", x="splits", private=False
    )


EXHIBIT = Exhibit(
    "figure3",
    "Without DP, by number of random splits",
    groups=("C", "C_without_dp"),
    build=build,
    meaning="What it costs to train on random splits in place of the full graph (1 split).",
)
