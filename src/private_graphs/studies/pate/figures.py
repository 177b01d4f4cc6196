"""Figure 3.3, accuracy against ε, and what leaks in practice."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd

from private_graphs.report.columns import percent, plain
from private_graphs.report.leaks import leak_exhibit
from private_graphs.report.words import guarantee, number, privacy_notes, score
from private_graphs.running.exhibit import Block, Chart, Column, Exhibit, Table
from private_graphs.studies.pate.tables import line_of, network_note

# --- Figure 3.3: two classifiers of PATE+ on the labelled images, epoch by epoch ---

MOST_EPOCHS = 100
"""Number of epochs of a run that are drawn, equally spaced."""
LINES = {
    "released_1": "first classifier, against released labels",
    "released_2": "second classifier, against released labels",
    "true_1": "first classifier, against the truth",
    "true_2": "second classifier, against the truth",
}
SHARES = {"disagree": "of all labels: classifiers disagree", "wrong": "of these: label is wrong"}
EPOCH_NOTES = (
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


def _figure3_3(results: Any) -> list[Block]:
    """Return a chart of accuracies, one of disagreements, and a few epochs as a table."""
    runs = results.runs[results.runs["group"] == "long"]
    points = results.points(["dataset", "protocol", "epsilon"], score="test_accuracy")
    frame, notes = curves(runs), (*EPOCH_NOTES, network_note(results))
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
    return [*blocks, _epoch_table(frame, points, notes)]


def _epoch_table(frame: pd.DataFrame, points: pd.DataFrame, notes: tuple[str, ...]) -> Table:
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


FIGURE3_3 = Exhibit(
    "figure3_3",
    "Training accuracy and disagreement of two classifiers",
    ("long",),
    _figure3_3,
    meaning="Are noisy labels learned last? Are the images on which two classifiers disagree those "
    "with wrong labels?",
)


# --- accuracy against ε: the four frameworks, and methods that are proved on their own ---

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


def _frontier(results: Any) -> list[Block]:
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


FRONTIER = Exhibit(
    "frontier",
    "Private and useful: accuracy against ε",
    ("frontier", "plus", "students"),
    _frontier,
    meaning="Accuracy of a few noisy steps on fixed features, which have a proof, beside the four "
    "frameworks on noisy labels and public labels alone.",
    statistics=True,
)


# --- attacks on what the labels of teachers teach, beside every ε ---

WHAT_LEAKS = leak_exhibit(
    "what_leaks",
    ("leaks_labels",),
    "An attacker guesses which private pictures the teachers learned from, by the answers of a "
    "classifier trained on the released labels.",
)
