"""Table 3.3: accuracy of PATE++ against τ, the share of the labels that it removes."""

from __future__ import annotations

from typing import Any

import pandas as pd

from private_graphs.report.words import number
from private_graphs.running.exhibit import Block, Column, Exhibit
from private_graphs.studies.pate.scores import points, score_table

DECAY_NOTE = (
    "removed: labels that PATE++ takes away, and the share of them that is wrong. The count of "
    "suspicious epochs decays by α = 0.9 in each, so that what happened more than some 20 epochs "
    "before the end hardly counts: suspicion is that of the last stage of training, not of the "
    "second, which the thesis argues with. Read literally, line 16 of Algorithm 3 only rescales "
    "the count (setting decay)."
)


def build(results: Any) -> list[Block]:
    """Return the table; τ = 0.318 and PATE+ (τ = 0) are runs of Table 3.1."""
    frame = points(results)
    frame = frame[frame["framework"].isin(["pate_plus", "pate_plus_plus"])].copy()
    plus = frame["framework"] == "pate_plus"
    frame["tau"] = frame["tau"].where(~plus, 0.0)
    several = frame.groupby(["dataset", "epsilon"])["tau"].transform("nunique")
    frame = frame[several > 2].sort_values(["dataset", "tau"])
    runs = results.runs
    means = runs.assign(
        wrong=100 * runs["removed_wrong"] / runs["removed"]
    ).groupby(["group", "job", "epsilon"])[["removed", "wrong"]].mean()  # fmt: skip
    frame = frame.merge(means, how="left", on=["group", "job", "epsilon"])
    table = score_table(
        results, "Table 3.3. Test accuracy of PATE++ against τ", frame, "table3_3",
        ["epsilon", "tau"], "framework", more=[Column("removed", _removed)],
        placed=frame.assign(framework="pate_plus_plus"),
    )  # fmt: skip
    return [table, DECAY_NOTE]


def _removed(row: dict[str, Any]) -> str:
    if pd.isna(row["removed"]):
        return "none: PATE+"
    return f"{number(row['removed'], 0)}, {number(row['wrong'], 1)} % wrong"


EXHIBIT = Exhibit(
    "table3_3",
    "Accuracy against the share of labels removed",
    ("plus", "students", "removal_ratios"),
    build,
    meaning="Does removing suspicious labels help, and how many of the removed labels are wrong?",
)
