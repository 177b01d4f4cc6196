"""Hard cases: test nodes that non-private SGD gets wrong with all training nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report import words
from private_graphs.report.columns import plain
from private_graphs.report.results import Results
from private_graphs.running.exhibit import Block, Cell, Chart, Column, Table
from private_graphs.studies.lrec2022.gcns import score_cell

PLACE = ["dataset", "features", "protocol"]
POINT = [*PLACE, "epsilon", "train_fraction"]
NOTES = (
    "hard cases: test nodes that SGD without DP gets wrong with all training nodes, for every seed "
    "its own; shares are of the run with the same seed, mean ± standard deviation over the seeds.",
    "all test nodes: the error rate of the same run. A run that is wrong everywhere keeps every "
    "hard case; where both shares are alike, hard cases are no harder to it than others.",
    "In square brackets: what the paper prints.",
)


def hard_shares(results: Results, group: str, fraction: float | None = None) -> pd.DataFrame:
    """Return a row per run of SGD in a group: shares of its hard and of all cases still wrong.

    ``fraction`` selects runs with that share of the training nodes. Seeds without the run that
    defines hard cases are left out.
    """
    runs = results.runs[results.runs["optimizer"] == "sgd"]
    whole = (runs["group"] == "A") & (runs["train_fraction"] == 1)
    records = []
    for key, reference in runs[whole].groupby(PLACE):
        same = (runs[PLACE] == key).all(axis=1) & (runs["group"] == group)
        same &= (fraction is None) | (runs["train_fraction"] == fraction)
        subset = runs[same & runs["seed"].isin(reference["seed"])]
        hard = dict(zip(reference["seed"], wrong_nodes(results, reference), strict=True))
        keys = subset[[*POINT, "seed"]].to_dict("records")
        for row, wrong in zip(keys, wrong_nodes(results, subset), strict=True):
            cases = hard[row["seed"]]
            records.append(row | {
                "cases": cases.sum(), "kept": 100 * wrong[cases].mean() if cases.any() else np.nan,
                "error": 100 * wrong.mean(),
            })  # fmt: skip
    return pd.DataFrame(records, columns=[*POINT, "seed", "cases", "kept", "error"])


def wrong_nodes(results: Results, rows: pd.DataFrame) -> np.ndarray:
    """Return (R, M) whether runs are wrong on the labelled test nodes."""
    if rows.empty:
        return np.zeros((0, 0), dtype=bool)
    classes, labels = results.predictions(rows)
    return (classes != labels)[:, labels >= 0]


def build(results: Results, figure: str, group: str, x: str) -> list[Block]:
    """Return a chart with a row of facets per dataset, and its table, over column ``x``."""
    shares = hard_shares(results, group, 1.0 if x == "epsilon" else None)
    runs = results.runs.merge(shares[[*POINT, "seed"]].drop_duplicates())
    runs = runs[(runs["group"] == group) & (runs["optimizer"] == "sgd")]
    points = results.with_rows(runs).points(POINT)
    means = shares.groupby(POINT).agg(
        cases=("cases", "mean"), kept=("kept", "mean"), kept_std=("kept", "std"),
    )  # fmt: skip
    points = points.merge(means.reset_index(), on=POINT)
    points = points.assign(error=100 * (1 - points.pop("mean")), error_std=100 * points.pop("std"))
    points["published"] = _printed(results, figure, points)
    rank = points["protocol"].map(list(PROTOCOLS).index)
    points = points.assign(rank=rank).sort_values(["dataset", "rank", x], ignore_index=True)
    points = points.drop(columns="rank")
    return [_chart(results, points, figure, x), _table(points, results, x)]


def _printed(results: Results, figure: str, points: pd.DataFrame) -> list[float | None]:
    """Return the text's value at every point."""
    claims = results.published("claims")
    if "figure" not in claims:
        return [None] * len(points)
    claims = claims[claims["figure"] == figure].dropna(subset=["value"]).to_dict("records")
    return [
        next((
            claim["value"] for claim in claims
            if claim["dataset"] == row["dataset"]
            and claim["train_fraction"] == row["train_fraction"]
            and (words.missing(claim["epsilon"]) or claim["epsilon"] == row["epsilon"])
        ), None)
        for row in points.to_dict("records")
    ]  # fmt: skip


def _chart(results: Results, points: pd.DataFrame, figure: str, x: str) -> Chart:
    parts = [
        points.assign(line=line, mean=points[name], std=points[f"{name}_std"],
                      published=points["published"] if name == "kept" else None)
        for name, line in (("kept", "hard cases"), ("error", "all test nodes"))
    ]  # fmt: skip
    frame = pd.concat(parts, ignore_index=True)
    frame["share"] = 100 * frame["train_fraction"]
    frame["title"] = frame["dataset"].map(results.title_of)
    protocols = [name for name in PROTOCOLS if name in set(frame["protocol"])]
    frame["protocol"] = pd.Categorical(frame["protocol"], protocols)
    label = figure.replace("figure", "Figure ")
    under = "under DP" if x == "epsilon" else "with less training data"
    return Chart(
        f"{label}. Test nodes that SGD gets wrong {under}", frame,
        x="epsilon" if x == "epsilon" else "share", steps=x == "epsilon", line="line",
        row="title", column="protocol", printed="published", y_label="wrong, in %",
        x_label="ε asked for" if x == "epsilon" else "share of the training nodes in %",
    )  # fmt: skip


def _table(points: pd.DataFrame, results: Results, x: str) -> Table:
    def share(name: str) -> Any:
        def show(row: dict[str, Any]) -> Cell:
            printed = row["published"] if name == "kept" else None
            note = "" if words.missing(printed) else f" [{words.number(printed)}]"
            return score_cell(
                row | {"mean": row[name] / 100, "std": row[f"{name}_std"] / 100}, note, 1, 100
            )

        return show

    at = Column("ε", lambda row: words.number(row["epsilon"]))
    if x != "epsilon":
        at = Column("training nodes", lambda row: f"{100 * row['train_fraction']:.3g} %")
    columns = [
        *plain("dataset", "protocol"),
        at,
        Column("hard cases", lambda row: words.number(row["cases"], 1)),
        Column("hard cases", share("kept"), "wrong, in %"),
        Column("all test nodes", share("error"), "wrong, in %"),
        *([Column("ε proved", words.guarantee)] if x == "epsilon" else []),
    ]
    return Table(
        "Hard cases that are still wrong, beside the error on all test nodes", points, columns,
        (*NOTES, *results.protocol_notes(), *words.privacy_notes(points)), panel="dataset",
    )  # fmt: skip
