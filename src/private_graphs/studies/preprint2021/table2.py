"""Table 2 of the preprint: published micro-F1 next to the three protocols; DP-Adam untuned."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from private_graphs.report.results import Results
from private_graphs.running.exhibit import Block, Exhibit
from private_graphs.studies.lrec2022.scores import places, score_table

UNTUNED_NOTE = (
    "Under DP Adam trains at its learning rate without DP, .01, as in the first version of the "
    "paper; the second one compares six."
)


def of_preprint(results: Results) -> Results:
    """Return ``results`` with the runs of Table 2: full graph, all nodes, untuned Adam.

    Runs without DP and of SGD at ε = 2 come from Table 1 of the second version, other SGD runs from
    its experiment B.
    """
    rows = results.rows
    group = rows["group"]
    whole = (rows["splits"] == 1) & (rows["train_fraction"] == 1)
    first = (group == "table1") & (rows["epsilon"].isin([2, float("inf")]))
    tuned = (rows["optimizer"] == "adam") & rows["epsilon"].lt(float("inf"))
    mask = whole & ((group == "untuned") | (first & ~tuned) | ((group == "B") & (
        rows["optimizer"] == "sgd") & (rows["epsilon"] != 2)))  # fmt: skip
    subset = rows[mask | (rows["source"] == "published")]
    names = subset["configuration"].replace("adam_untuned", "adam")
    return replace(results, rows=subset.assign(
        optimizer=subset["optimizer"].fillna(names),
        group=subset["group"].where(subset["source"] == "published", "table2"),
    ))  # fmt: skip


def printed_points(results: Results, figure: str) -> pd.DataFrame:
    """Return Table 2's printed values for points of the figures (``curves.printed_points``)."""
    rows = results.published("table2").dropna(subset=["configuration"])
    points = pd.DataFrame({
        "dataset": rows["dataset"], "epsilon": rows["epsilon"], "splits": 1.0,
        "optimizer": rows["configuration"].str.removesuffix("_untuned"), "train_fraction": 1.0,
    })  # fmt: skip
    return points.assign(published=rows["test_micro_f1"], published_where="Table 2")


def build(results: Results) -> list[Block]:
    """Return the table."""
    results = of_preprint(results)
    baselines = {"Random": "uniform random", "Maj.": "majority class"}
    columns = places(baselines, {"DP": "DP, full graph"})
    title = "Table 2. Micro-F1 on the test nodes"
    table = score_table(results, "table2", title, ["dataset", "epsilon"], columns)
    return [replace(table, notes=(*table.notes, UNTUNED_NOTE))]


EXHIBIT = Exhibit(
    "table2",
    "Micro-F1 on the test nodes",
    groups=("lrec2022.table1", "lrec2022.B", "untuned"),
    build=build,
    meaning="Adam with an untuned learning rate, compared with SGD.",
)
