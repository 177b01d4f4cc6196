"""Figures 5.6-5.7: pictures of hidden layers of training nodes, by class."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.report.columns import plain
from private_graphs.report.words import number
from private_graphs.running.exhibit import Block, Column, Exhibit, Pictures, Table
from private_graphs.studies.dpappr.methods.appr_attack import SIDE
from private_graphs.studies.dpappr.points import points

_NOTE = (
    "t-SNE of the hidden layers of all sampled training nodes, a colour for each class: no ε "
    "covers them, as they are functions of each node's own features."
)


def build(results: Any) -> list[Block]:
    """Return pictures for each dataset, methods as rows and budgets as columns."""
    frame, runs = points(results, "silhouette"), results.runs
    blocks: list[Block] = []
    for dataset in sorted(frame["dataset"].unique()):
        rows = runs[runs["dataset"] == dataset]
        methods, budgets = sorted(rows["method"].unique()), sorted(rows["epsilon"].unique())
        images = np.zeros((len(methods), len(budgets), SIDE, SIDE, 4))
        for row in rows.to_dict("records"):
            position = methods.index(row["method"]), budgets.index(row["epsilon"])
            images[position] = _image(np.array(json.loads(row["picture"])))
        blocks.append(
            Pictures(
                f"Figures 5.6-5.7. Hidden layers: {results.title_of(dataset)}",
                images,
                [results.title(method) for method in methods],
                [f"ε = {number(budget)}" for budget in budgets],
                (_NOTE,),
            )
        )
    return [*blocks, _table(frame)]


def _image(dots: np.ndarray) -> np.ndarray:
    """Return a transparent (side, side, 4) image of dots (column, row, class)."""
    import matplotlib

    image = np.zeros((SIDE, SIDE, 4))
    x, y, classes = dots.T
    colours = matplotlib.colormaps["tab10" if classes.max() < 10 else "tab20"](classes)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        image[np.minimum(y + down, SIDE - 1), np.minimum(x + right, SIDE - 1)] = colours
    return image


def _table(frame: pd.DataFrame) -> Table:
    columns = [
        *plain("dataset", {"rows": "title", "ε claimed": "epsilon"}),
        Column("silhouette of the classes", lambda row: number(row["mean"], 3)),
    ]
    return Table("Figures 5.6-5.7: the silhouettes", frame, columns, (_NOTE,), "dataset")


EXHIBIT = Exhibit(
    "figure6",
    "Pictures of hidden layers",
    label="Figures 5.6-5.7",
    groups=("appr_pictures",),
    build=build,
    meaning="Do classes separate in the hidden layers of training nodes as the budget grows?",
)
