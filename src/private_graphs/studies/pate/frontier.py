"""Accuracy against ε of the four frameworks and of methods that are proved on their own."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from private_graphs.report.columns import percent, plain
from private_graphs.report.words import guarantee, privacy_notes, score
from private_graphs.running.exhibit import Block, Chart, Column, Exhibit, Table
from private_graphs.studies.pate.scores import line_of

WHOLE = "scattering"
"""Method that reads no public label and fits only axes to public images: all test images may be
scored."""
NOTES = (
    "last: on the last 1,000 images of the published test file (500 of the embedded digits), as "
    "all rows of the study. all: on all images of that file, for the method that reads no label of "
    "the public pool; it learns axes of features from the pool's pixels alone.",
    "Classifiers of public labels read the labels of the pool, and no private image: a method that "
    "reads both has to beat them. PATE's students read no public label.",
    "∞: without DP, for comparison.",
)


def build(results: Any) -> list[Block]:
    """Return a chart per dataset and the numbers."""
    frame = _points(results)
    finite = frame[(frame["epsilon"] > 0) & (frame["protocol"] == "sound")]
    public = frame[frame["epsilon"] == 0].groupby("dataset")["mean"].max()
    drawn = finite.assign(
        public=100 * finite["dataset"].map(public), percent=100 * finite["mean"],
        std=100 * finite["std"],
    )  # fmt: skip
    chart = Chart(
        "Accuracy against ε, record level",
        drawn.assign(facet=drawn["dataset"].map(results.title_of)),
        x="epsilon", y="percent", line="line", column="facet",
        references={"public labels alone": "public"}, x_label="ε of one run; ∞: without DP",
        y_label="accuracy, last test images, %", log_x=True,
    )  # fmt: skip
    return [chart, _table(frame)]


def whole(results: Any, runs: pd.DataFrame) -> pd.Series:
    """Return the accuracy of runs on all images of the test file: the pool and the last ones."""
    sizes = {entry["name"]: entry["masks"] for entry in results.statistics if "masks" in entry}
    test = runs["dataset"].map(lambda name: sizes.get(name, {}).get("test", math.nan))
    pool = runs["validation_nodes"].astype(float)
    right = runs["test_accuracy"] * test + runs["validation_micro_f1"] * pool
    return (right / (test + pool)).where(runs["method"] == WHOLE)


def _points(results: Any) -> pd.DataFrame:
    runs = results.runs[results.runs["group"].isin(["frontier", "plus", "students"])]
    runs = runs.assign(whole=whole(results, runs))
    by = ["dataset", "group", "method", "protocol", "job", "epsilon", "framework", "beta", "tau"]
    frame = results.with_rows(runs).points(
        by, "test_accuracy", whole_mean="whole", whole_std="whole"
    )
    frame["line"] = [
        line_of(row) if row["method"] == "pate_student" else results.title(row["method"])
        for row in frame.to_dict("records")
    ]
    first = frame["method"] == "pate_student"
    order = first.map({True: 1, False: 0})
    return frame.assign(order=order).sort_values(
        ["dataset", "order", "line", "epsilon", "protocol"]
    ).drop(columns="order")  # fmt: skip


def _table(frame: pd.DataFrame) -> Table:
    columns = [
        *plain("dataset", {"method": "line"}, "protocol", {"ε": "epsilon"}),
        Column("last", percent),
        Column(
            "all", lambda row: score({"mean": row["whole_mean"], "std": row["whole_std"]}, 2, 100)
        ),
        Column("ε proved", guarantee),
    ]
    notes = (*NOTES, *privacy_notes(frame))
    return Table("Accuracy against ε", frame, columns, notes, "dataset")


EXHIBIT = Exhibit(
    "frontier",
    "Private and useful: accuracy against ε",
    ("frontier", "plus", "students"),
    build,
    meaning="Accuracy of a few noisy steps on fixed features, which have a proof, beside the four "
    "frameworks on noisy labels and public labels alone.",
    statistics=True,
)
