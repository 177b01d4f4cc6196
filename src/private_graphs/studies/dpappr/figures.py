"""Figures 5.1 to 5.13 of the thesis, and what leaks in practice."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.columns import plain
from private_graphs.report.leaks import leak_exhibit
from private_graphs.report.words import missing, number
from private_graphs.running.exhibit import Block, Column, Exhibit, Pictures, Table
from private_graphs.studies.dpappr.methods.appr_attack import SIDE
from private_graphs.studies.dpappr.points import (
    ROWS,
    beside,
    chart,
    majority,
    numbers,
    points,
    references,
    swept,
    truncated,
)

# --- Figures 5.1-5.3: accuracy against the budget of the rows, and what can be proved ---

_BUDGETS = "Figures 5.1-5.3. Accuracy against the budget"


def _budgets(results: Any) -> list[Block]:
    """Return a grid for each dataset, as the thesis prints it, under both protocols with its
    accounting; one of all datasets where ε is proved; and the numbers."""
    frame = points(results)
    frame = frame.assign(
        rows_epsilon=[_rows_epsilon(row) for row in frame.to_dict("records")],
    )
    proved = frame["epsilon_claimed"].isna()
    proved = proved.groupby([frame["dataset"], frame["protocol"]]).transform("all")
    charts: list[Block] = []
    for dataset, part in frame[~proved].groupby("dataset"):
        charts += _published(results, f"{_BUDGETS}: {results.title_of(dataset)}", part)
    charts += _proved(results, f"{_BUDGETS} where it is proved", frame[proved])
    extra = [Column("ε of training", lambda row: number(row["training_epsilon"]))]
    return [*charts, numbers(results, _BUDGETS, frame, extra)]


def _rows_epsilon(row: dict[str, Any]) -> float:
    if row["method"] not in ROWS or missing(row["training_epsilon"]):
        return math.nan
    return row["epsilon"] - row["training_epsilon"]


def _published(results: Any, title: str, part: pd.DataFrame) -> list[Block]:
    """Return a chart of published rows against their ε: facet rows by K, columns by the ε of
    training, beside each other for every protocol."""
    drawn = part[part["rows_epsilon"].notna()]
    if drawn.empty:
        return []
    baselines = part[part["rows_epsilon"].isna()]
    drawn = drawn.assign(at=drawn["training_epsilon"].astype(float))
    without = baselines[baselines["epsilon"] == math.inf]
    private = baselines[baselines["epsilon"] < math.inf].assign(at=baselines["epsilon"])
    drawn = beside(drawn, private[private["title"] == "FEATURES"], ["protocol", "at"])
    drawn = beside(drawn, private[private["title"] != "FEATURES"], ["protocol", "at", "top"])
    drawn = majority(results, beside(drawn, without, ["protocol", "top"]))
    drawn = drawn.assign(
        row=[f"K = {number(value)}" for value in drawn["top"]],
        column=[
            f"{PROTOCOLS[row['protocol']].title}, ε of training {number(row['at'])}"
            for row in drawn.to_dict("records")
        ],
        order=drawn["protocol"].map([*PROTOCOLS].index),
    ).sort_values(["top", "order", "at", "title", "rows_epsilon"])
    return [
        chart(title, drawn, "rows_epsilon", "ε of the rows", row="row", column="column", steps=True)
    ]


def _proved(results: Any, title: str, part: pd.DataFrame) -> list[Block]:
    """Return a chart of all rows against their total ε: facet rows by dataset, columns by K."""
    panels = []
    for top in sorted(part["top"].dropna().unique()):
        panel = part[(part["top"] == top) | (part["title"] == "FEATURES")]
        panels.append(panel.assign(
            row=panel["dataset"].map(results.title_of), column=f"K = {number(top)}",
            line=[f"{row['title']}{_of_others(row)}" for row in panel.to_dict("records")],
        ))  # fmt: skip
    if not panels:
        return []
    drawn = pd.concat(panels).drop_duplicates(["row", "column", "line", "epsilon"])
    drawn = majority(results, drawn).sort_values(["line", "epsilon"], kind="stable")
    label = "ε proved, of rows and training together"
    return [
        chart(title, drawn, "epsilon", label, line="line", row="row", column="column", steps=True)
    ]


def _of_others(row: dict[str, Any]) -> str:
    rows = row["method"] in ROWS and truncated(row)
    return f", R = {number(row['others'])}" if rows else ""


FIGURE1 = Exhibit(
    "figure1",
    "Accuracy against the budget of the rows",
    label="Figures 5.1-5.3",
    groups=("appr_budgets", "appr_proved"),
    build=_budgets,
    meaning="Do private neighbourhoods improve on training with features alone, as published and "
    "where ε is proved?",
)


# --- Figures 5.4-5.5: accuracy of guessing training nodes' degrees from hidden layers ---

_DEGREES = "Figures 5.4-5.5. Guessed degrees"


def _degrees(results: Any) -> list[Block]:
    """Return charts of error and accuracy for each dataset and protocol, and the numbers."""
    accuracy = points(results)
    frame = points(results, error="degree_rmse", area="degree_auc",
                      spread_of_degrees="degree_std", silhouette="silhouette")  # fmt: skip
    errors = points(results, "degree_rmse").assign(one=1.0)
    blocks: list[Block] = []
    for name, drawn, label in (
        ("error over the spread of degrees", errors, "RMSE / standard deviation"),
        ("accuracy", majority(results, accuracy), "test accuracy"),
    ):
        features = drawn["title"] == "FEATURES"  # has no K and is in every panel
        panels = [
            pd.concat([part, drawn[features]]).assign(column=f"K = {number(top)}")
            for top, part in drawn[~features].groupby("top")
        ]
        drawn = pd.concat(panels) if panels else drawn.assign(column="")
        for dataset, part in drawn.groupby("dataset"):
            lines = {"one number for all": "one"} if "one" in part else references(part)
            blocks.append(chart(
                f"{_DEGREES}, {name}: {results.title_of(dataset)}",
                part.sort_values(["protocol", "title", "epsilon"], kind="stable"),
                "epsilon", "ε claimed", row="protocol", column="column", references=lines,
                y_label=label, steps=True,
            ))  # fmt: skip
    return [*blocks, _degree_table(frame)]


def _degree_table(frame: pd.DataFrame) -> Table:
    columns = [
        *plain("dataset", "protocol", {"rows": "title", "K": "top", "ε claimed": "epsilon"}),
        Column("RMSE / std", lambda row: number(row["error"], 3)),
        Column("std of degrees", lambda row: number(row["spread_of_degrees"], 2)),
        *plain({"AUC of degree > 0": "area"}, "silhouette", decimals=3),
    ]
    notes = (
        "ridge regression on the hidden layers of the sampled training nodes, cross-validated; 1 "
        "is one number for all nodes: at or above it the layer tells nothing of degrees, and shows "
        "no protection either. The thesis says that a lower error means better hiding, and then "
        "argues the other way round.",
        "no ε covers these numbers: hidden layers of training nodes are functions of their own "
        "features.",
    )
    return Table(f"{_DEGREES}: the numbers", frame, columns, notes, "dataset")


FIGURE4 = Exhibit(
    "figure4",
    "Degrees guessed from hidden layers",
    label="Figures 5.4-5.5",
    groups=("appr_degrees",),
    build=_degrees,
    meaning="Can an attacker learn degrees from hidden layers? Most degrees of the sample are 0.",
)


# --- Figures 5.6-5.7: pictures of hidden layers of training nodes, by class ---

_NOTE = (
    "t-SNE of the hidden layers of all sampled training nodes, a colour for each class: no ε "
    "covers them, as they are functions of each node's own features."
)


def _layers(results: Any) -> list[Block]:
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
    return [*blocks, _silhouettes(frame)]


def _image(dots: np.ndarray) -> np.ndarray:
    """Return a transparent (side, side, 4) image of dots (column, row, class)."""
    import matplotlib

    image = np.zeros((SIDE, SIDE, 4))
    x, y, classes = dots.T
    colours = matplotlib.colormaps["tab10" if classes.max() < 10 else "tab20"](classes)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        image[np.minimum(y + down, SIDE - 1), np.minimum(x + right, SIDE - 1)] = colours
    return image


def _silhouettes(frame: pd.DataFrame) -> Table:
    columns = [
        *plain("dataset", {"rows": "title", "ε claimed": "epsilon"}),
        Column("silhouette of the classes", lambda row: number(row["mean"], 3)),
    ]
    return Table("Figures 5.6-5.7: the silhouettes", frame, columns, (_NOTE,), "dataset")


FIGURE6 = Exhibit(
    "figure6",
    "Pictures of hidden layers",
    label="Figures 5.6-5.7",
    groups=("appr_pictures",),
    build=_layers,
    meaning="Do classes separate in the hidden layers of training nodes as the budget grows?",
)


# --- Figures 5.8-5.13: accuracy against one setting; leaks ---

SWEEPS = tuple(
    Exhibit(f"figure{number}", f"Accuracy against the {noun}", groups,
            partial(swept, title=f"{label}. {noun.capitalize()}", **setting), label, meaning)
    for number, noun, label, groups, setting, meaning in (
        (8, "batch size", "Figures 5.8-5.9", ("appr_batches",),
         {"x": "batch", "x_label": "roots of a step, B"},
         "Do larger batches help at a fixed budget of the published accounting?"),
        (10, "clip of the rows", "Figures 5.10-5.11", ("appr_row_clips", "appr_row_clips_proved"),
         {"x": "row_clip", "x_label": "clip of a row (GM: C1) or of its entries (EM: C2)",
          "log_x": True},
         "Does the clip of the rows matter? The released code scales columns to sum 1 after "
         "clipping: a small clip only changes which nodes are chosen; noise at a large one "
         "outweighs the nodes that train on themselves."),
        (12, "clip of gradients", "Figures 5.12-5.13", ("appr_clips",),
         {"x": "clip", "x_label": "C", "log_x": True},
         "Adam divides by the size of its steps, so that below the norm at which all gradients are "
         "clipped the clip does not matter: a flat line is no robustness."),
    )
)  # fmt: skip

WHAT_LEAKS = leak_exhibit(
    "what_leaks",
    ("leaks_printed", "leaks_proved"),
    "An attacker guesses who was a training node, beside the printed and the proved ε. Where few "
    "nodes are drawn into the sample that a model learns from, the model never saw most members.",
)
