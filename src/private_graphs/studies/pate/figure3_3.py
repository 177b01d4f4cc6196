"""Figure 3.3: the two classifiers of PATE+ on the labelled images, epoch by epoch."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from private_graphs.report.columns import plain
from private_graphs.report.words import guarantee, number
from private_graphs.running.exhibit import Block, Chart, Column, Exhibit, Table
from private_graphs.studies.pate.scores import network_note

MOST_EPOCHS = 100
"""Number of epochs of a run that are drawn, equally spaced."""
LINES = {
    "released_1": "first classifier, against released labels",
    "released_2": "second classifier, against released labels",
    "true_1": "first classifier, against the truth",
    "true_2": "second classifier, against the truth",
}
SHARES = {"disagree": "of all labels: classifiers disagree", "wrong": "of these: label is wrong"}
NOTES = (
    "One run. The thesis's figure shows accuracy on the labelled images against the released "
    "labels, of which 726 of 2,200 (33 %) are wrong there; against the truth is ours.",
)


def curves(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row per run and epoch: accuracies in 0..1, disagreements, wrong among them."""
    parts = []
    for row in runs.to_dict("records"):
        curve = pd.DataFrame(json.loads(row["curve"]))
        names = ("dataset", "protocol", "epsilon", "seed", "labels", "label_accuracy",
                 "statement_id", "status")  # fmt: skip
        keys = {name: row[name] for name in names}
        parts.append(curve.assign(epoch=range(1, len(curve) + 1), **keys))
    return pd.concat(parts, ignore_index=True)


def build(results: Any) -> list[Block]:
    """Return a chart of accuracies, one of disagreements, and a few epochs as a table."""
    runs = results.runs[results.runs["group"] == "long"]
    points = results.points(["dataset", "protocol", "epsilon"], score="test_accuracy")
    frame, notes = curves(runs), (*NOTES, network_note(results))
    frame["disagree"] = frame["disagreements"] / frame["labels"]
    frame["wrong"] = frame["wrong_among_them"] / frame["disagreements"].where(
        frame["disagreements"] > 0
    )
    frame["apart"] = -(-frame.groupby("dataset")["epoch"].transform("max") // MOST_EPOCHS)
    frame["all_wrong"] = 1 - frame["label_accuracy"]
    blocks: list[Block] = []
    for title, names, label in (
        ("accuracy on the labelled images", LINES, "accuracy, %"),
        ("where the classifiers disagree", SHARES, "share, %"),
    ):
        long = frame[frame["epoch"] % frame["apart"] == 0].melt(
            ["dataset", "epoch", "all_wrong", "statement_id", "status"], list(names), "line", "mean"
        )
        blocks.append(
            Chart(
                f"Figure 3.3. PATE+: {title}",
                long.assign(
                    line=pd.Categorical(long["line"].map(names), list(names.values())),
                    percent=100 * long["mean"], std=float("nan"), noise=100 * long["all_wrong"],
                ),
                x="epoch", y="percent", line="line", row="dataset",
                references={"wrong labels of all": "noise"} if names is SHARES else {},
                x_label="epoch", y_label=label, notes=notes,
            )
        )  # fmt: skip
    return [*blocks, _table(frame, points, notes)]


def _table(frame: pd.DataFrame, points: pd.DataFrame, notes: tuple[str, ...]) -> Table:
    last = frame.groupby("dataset")["epoch"].transform("max")
    lines = frame[(frame["epoch"] == last) | frame["epoch"].isin([1, 5, 10, 20, 50, 100, 200, 400])]
    at = {row["dataset"]: row for row in points.to_dict("records")}
    columns = [
        *plain("dataset", "epoch"),
        *(
            Column(words, lambda row, name=name: number(100 * row[name], 1), "accuracy, %")
            for name, words in (("released_1", "released"), ("true_1", "true"))
        ),
        *plain({"disagree on": "disagreements", "wrong labels among these": "wrong_among_them"}),
        Column("ε proved", lambda row: guarantee(at.get(row["dataset"]))),
    ]
    return Table("Figure 3.3: some epochs, first classifier", frame, columns, notes, "dataset",
                 lines)  # fmt: skip


EXHIBIT = Exhibit(
    "figure3_3",
    "Training accuracy and disagreement of two classifiers",
    ("long",),
    build,
    meaning="Are noisy labels learned last? Are the images on which two classifiers disagree those "
    "with wrong labels?",
)
