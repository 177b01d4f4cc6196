"""Figures 1 to 4: micro-F1 by share of the training nodes, or by number of splits (Section 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report import words
from private_graphs.report.columns import along, plain
from private_graphs.report.words import OPTIMIZERS
from private_graphs.running.exhibit import Block, Cell, Chart, Column, Table
from private_graphs.studies.lrec2022.gcns import parts_words, printed_gcns, score_cell, scored

PLACE = ["dataset", "optimizer", "epsilon", "splits", "train_fraction"]
"""Columns that identify a point under one protocol."""
LINE = ["dataset", "protocol", "optimizer", "epsilon"]
Printed = Callable[[Any, str], pd.DataFrame]
"""Callable: (results, name of a figure) → printed values of its points (``printed_points``)."""
DRAWN_NOTE = (
    "A share of the training nodes is drawn class by class under released and paper, each class "
    "keeping that share of its nodes; the text does not say how it is drawn. Under sound every "
    "node has a coin of its own."
)
AXES = {"splits": "number of splits", "train_fraction": "share of the training nodes"}


def printed_points(results: Any, figure: str) -> pd.DataFrame:
    """Return printed values of a figure's points: those of the text, else those of Table 1.

    ``published_where`` also names Table 1 where the paper contradicts itself.
    """
    claims = results.published("claims").dropna(subset=[*PLACE, "value"])
    claims = claims.query("figure == @figure")
    table = printed_gcns(results)[[*PLACE, "published"]]
    points = claims[[*PLACE, "value", "where"]].merge(table, how="outer", on=PLACE)
    where = points["where"].str.replace("fig", "text on Figure ").str.replace("sec", "Section ")
    mask = (points["value"] - points["published"]).abs() > 0.005
    where[mask] += [f" (Table 1: {value:g})" for value in points.loc[mask, "published"]]
    published = points["value"].fillna(points["published"])
    return points[PLACE].assign(published=published, published_where=where.fillna("Table 1"))


def build(
    results: Any, figure: str, group: str, x: str, private: bool, printed: Printed = printed_points
) -> list[Block]:
    """Return the charts of a figure over ``x``, and the table of its points.

    With DP a chart per dataset has a row per protocol and a line per ε; without DP one chart has a
    row per dataset and a line per protocol. Optimizers stand side by side.
    """
    points = curve_points(results, figure, group, private, printed)
    label = figure.replace("figure", "Figure ")
    optimizers = pd.Categorical(points["optimizer"].map(OPTIMIZERS), list(OPTIMIZERS.values()))
    frame = points.assign(optimizer=optimizers, title=points["dataset"].map(results.title_of))
    frame["share"] = 100 * frame["train_fraction"]
    chart = partial(
        Chart, x="splits" if x == "splits" else "share", steps=x == "splits", column="optimizer",
        printed="published", references={"majority class": "majority"}, y_label="test micro-F1",
        x_label=AXES[x] if x == "splits" else f"{AXES[x]} in %",
    )  # fmt: skip
    if not private:
        charts = [chart(f"{label}. Without DP", frame, line="protocol", row="title")]
    else:
        charts = [
            chart(f"{label}. {title}", _with_privacy(rows), line="epsilon", words="privacy",
                  row="heading", line_label="ε asked:")
            for title, rows in frame.groupby("title", sort=False)
        ]  # fmt: skip
    return [*charts, _table(points, results, x, private)]


def curve_points(
    results: Any, figure: str, group: str, private: bool, printed: Printed = printed_points
) -> pd.DataFrame:
    """Return a row per point of a figure, with its baselines and printed value."""
    points = scored(
        results, group, [*PLACE, "protocol"], learning_rate="learning_rate",
        majority="majority_micro_f1", random="random_micro_f1",
    )  # fmt: skip
    points = points[np.isfinite(points["epsilon"]) == private]
    points = points.merge(printed(results, figure), how="left", on=PLACE)
    points["protocol"] = pd.Categorical(points["protocol"], list(PROTOCOLS))
    points["optimizer"] = pd.Categorical(points["optimizer"], list(OPTIMIZERS))
    order = ["dataset", "protocol", "optimizer", "epsilon", "splits", "train_fraction"]
    points = points.sort_values(order, ignore_index=True)
    return points.astype({"protocol": "object", "optimizer": "object"})


def _with_privacy(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the proved ε along every line, and the headings of the protocols."""
    return pd.concat(_of_protocol(part) for _, part in rows.groupby("protocol", sort=False))


def _of_protocol(rows: pd.DataFrame) -> pd.DataFrame:
    proved = rows[rows["epsilon_proved"].notna()]
    text = "no finite ε is proved"
    if len(proved):
        units = " or ".join(proved["unit"].unique()).replace("_", " ")
        leaks = (proved["inference"] == "leaks").any()
        text = f"ε proved per {units} and run{f', {words.MODEL_ONLY}' if leaks else ''}"
    along = {epsilon: f"→ {_proved(line)}" for epsilon, line in rows.groupby("epsilon")}
    return rows.assign(heading=rows["protocol"] + f"\n{text}", privacy=rows["epsilon"].map(along))


def _proved(line: pd.DataFrame) -> str:
    """Format the range of proved ε along a line; ``refuted`` or ``none`` otherwise."""
    proved = line["epsilon_proved"]
    if proved.isna().any():
        return "refuted" if (line["status"] == "refuted").any() else "none"
    ends = dict.fromkeys(
        words.budget(value) if value < 20 else f"{math.ceil(value)}"
        for value in (proved.min(), proved.max())
    )
    return " to ".join(ends)


def _table(points: pd.DataFrame, results: Any, x: str, private: bool) -> Table:
    """Return the numbers behind the charts: a row per line, a column per position."""
    privacy = {key: words.guarantees(rows) for key, rows in points.groupby(LINE)}
    columns = [
        *plain("dataset", "protocol"),
        Column("optimizer", lambda row: OPTIMIZERS[row["optimizer"]]),
    ]
    if private:
        columns += [
            Column("ε", lambda row: words.number(row["epsilon"])),
            Column("ε proved", lambda row: privacy[tuple(row[name] for name in LINE)]),
        ]
    heads = parts_words if x == "splits" else lambda share: f"{100 * share:.3g} %"
    columns += along(points, LINE, x, sorted(points[x].unique()), _cell, words=heads)
    return Table(
        f"Test micro-F1 by {AXES[x]}: mean ± standard deviation over the seeds",
        points, columns, panel="dataset", lines=points[LINE].drop_duplicates(),
        notes=(
            "In square brackets: the published value, where the text or Table 1 prints one.",
            *([DRAWN_NOTE] if x == "train_fraction" else []), *results.protocol_notes(),
            *words.privacy_notes(points),
        ),
    )  # fmt: skip


def _cell(point: dict[str, Any]) -> Cell:
    printed = words.printed(point["published"])
    return score_cell(point, "" if printed == Cell() else f" [{printed.text}]")
