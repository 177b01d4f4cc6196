"""Confusion matrices of SGD on the full graph, without DP and at ε = 2 (the paper's appendix)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report import words
from private_graphs.report.columns import arranged, plain
from private_graphs.report.results import Results
from private_graphs.running.exhibit import Block, Cell, Column, Exhibit, Heatmap, Table

PLACE = ["dataset", "features", "protocol", "epsilon"]
EPSILONS = (math.inf, 2.0)
MOST = 3
"""Number of class pairs that the table names."""
FEW = 12
"""Number of classes up to which their names fit in a note."""
NOTES = (
    "3 → 2: 41 %: of the test nodes of class 3 that many are predicted as class 2, mean over the "
    "seeds; the pairs with the largest shares. The CSV has all pairs.",
    "same class: share of the test nodes that get the class which is predicted most often. A model "
    "that has learned nothing predicts one class for most nodes, and its pairs say nothing of "
    "which classes are alike.",
)


def confusion(classes: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return (R, C, C) shares: for each run and true class, the share of each predicted class.

    ``classes`` (R, M) are predictions, ``labels`` (M,) the classes, -1 if there is none. The rows
    of a class without test nodes are NaN.
    """
    known = labels >= 0
    counts = np.zeros((len(classes), n_classes, n_classes))
    for run, predicted in enumerate(classes[:, known]):
        np.add.at(counts[run], (labels[known], predicted), 1)
    with np.errstate(invalid="ignore"):
        return counts / counts.sum(axis=2, keepdims=True)


def shares(results: Results) -> pd.DataFrame:
    """Return a row per run setting and pair of classes: mean share in %, over the seeds."""
    runs = results.runs
    runs = runs[(runs["optimizer"] == "sgd") & (runs["splits"] == 1)]
    runs = runs[runs["epsilon"].isin(EPSILONS) & runs["selected"].fillna(True).astype(bool)]
    records = []
    for key, group in runs.groupby(PLACE):
        classes, labels = results.predictions(group)
        n_classes = 1 + max(classes.max(), labels.max())
        matrix = 100 * confusion(classes, labels, n_classes)
        common = np.mean([100 * np.bincount(run).max() / len(run) for run in classes])
        for (true, predicted), mean in np.ndenumerate(matrix.mean(axis=0)):
            records.append(dict(zip(PLACE, key, strict=True)) | {
                "true": true, "predicted": predicted, "share": mean, "n": len(matrix),
                "std": matrix[:, true, predicted].std(ddof=1) if len(matrix) > 1 else np.nan,
                "same_class": common, "statement_id": group["statement_id"].iloc[0],
            })  # fmt: skip
    by = [*PLACE, "true", "predicted"]
    return arranged(pd.DataFrame(records), by, protocol=PROTOCOLS, epsilon=EPSILONS)


def pairs(matrix: pd.DataFrame) -> list[str]:
    """Return the text of the class pairs that are most often confused."""
    wrong = matrix[matrix["true"] != matrix["predicted"]].nlargest(MOST, "share")
    return [f"{row.true} → {row.predicted}: {row.share:.0f} %" for row in wrong.itertuples()]


def build(results: Results) -> list[Block]:
    """Return a matrix per graph, protocol and ε, and its most confused pairs of classes."""
    frame = shares(results)
    points = results.points([*PLACE, "optimizer", "splits"])
    points = points[(points["optimizer"] == "sgd") & (points["splits"] == 1)]
    maps, lines = [], []
    for key, matrix in frame.groupby(PLACE, sort=False):
        row = dict(zip(PLACE, key, strict=True))
        square = matrix.pivot_table(index="true", columns="predicted", values="share", dropna=False)
        under = "no DP" if math.isinf(row["epsilon"]) else f"ε = {words.number(row['epsilon'])}"
        names = [str(name) for name in square.columns]
        maps.append(Heatmap(
            f"{results.title_of(row['dataset'])}, {row['protocol']}, {under}: "
            "predicted class in % of the true class",
            square.to_numpy().round(), names, names, "true class", "predicted class",
            most=100,
        ))  # fmt: skip
        point = points.merge(pd.DataFrame([row])).to_dict("records")[0]
        lines.append(point | {"pairs": pairs(matrix), "same_class": matrix["same_class"].iloc[0]})
    columns = [
        *plain("dataset", "protocol"),
        Column("ε", lambda row: words.number(row["epsilon"])),
        Column("F1", words.score),
        Column("same class", lambda row: f"{row['same_class']:.0f} %"),
        *(
            Column(f"pair {rank + 1}", lambda row, rank=rank: _pair(row, rank))
            for rank in range(MOST)
        ),
        Column("ε proved", words.guarantee),
    ]
    rows = pd.DataFrame(lines)
    table = Table(
        "Pairs of classes that SGD confuses most often", frame, columns,
        (*NOTES, *_names(results), *results.protocol_notes(), *words.privacy_notes(rows)),
        "dataset", rows,
    )  # fmt: skip
    return [table, *maps]


def _names(results: Results) -> list[str]:
    """Return a line of class names for each graph with few classes."""
    named = {item["name"]: [*item["train_class_counts"]] for item in results.statistics
             if item["name"] in results.datasets and item["classes"] <= FEW}  # fmt: skip
    return [
        f"classes of {name}: {', '.join(f'{number} {word}' for number, word in enumerate(classes))}"
        for name, classes in named.items()
    ]


def _pair(row: dict[str, Any], rank: int) -> Cell | str:
    return row["pairs"][rank] if rank < len(row["pairs"]) else Cell()


EXHIBIT = Exhibit(
    "confusion",
    "Which classes are confused, without DP and at ε = 2",
    groups=("table1",),
    build=build,
    meaning="Does DP confuse the classes that are confused without it?",
)
