"""Shared code of the study's charts and tables: lines, reference rows, numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from private_graphs.report.claims import Measured, interval
from private_graphs.report.columns import lookup, plain
from private_graphs.report.words import guarantee, missing, number, privacy_notes, score
from private_graphs.running.exhibit import Block, Cell, Chart, Column, Table

ROWS = ("appr_gaussian", "appr_chosen", "appr_chosen_values")
"""Methods that the thesis proposes."""
SETTINGS = ("top", "training_epsilon", "others", "batch", "row_clip", "entry_clip", "clip",
            "anchor", "sample", "epochs", "learning_rate")  # fmt: skip
BASELINES_NOTE = (
    "RANDOM mixes nodes that are drawn without looking at the data, majority predicts the most "
    "frequent class of the sample: what private rows must beat. VANILLA is without DP, on the "
    "sample alone."
)
SAMPLE_NOTE = (
    "every seed draws its own test nodes (20 %, uniformly), sample and noise; seeds are shared by "
    "methods, budgets and protocols."
)


def points(results: Any, value: str = "test_accuracy", **also: str) -> pd.DataFrame:
    """Return a row per dataset, job, known labels and ε, with ``title`` and all settings."""
    by = ["dataset", "features", "group", "method", "scenario", "protocol", "job", "epsilon",
          "validation_labels", *SETTINGS]  # fmt: skip
    frame = results.points(by, value, **also)
    return frame.assign(title=[title_of(results, row) for row in frame.to_dict("records")])


def title_of(results: Any, row: Mapping[str, Any]) -> str:
    """Return the displayed name of a row: exact rows without DP are the source's VANILLA."""
    if row["method"] == "appr_exact" and row["epsilon"] == float("inf"):
        return "VANILLA"
    anchor = row.get("anchor")
    anchored = not missing(anchor) and float(anchor) > 0
    return f"{results.title(row['method'])}{', anchored' if anchored else ''}"


def beside(frame: pd.DataFrame, rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return ``frame`` with columns for the mean of each title in ``rows``, joined on ``names``."""
    points = frame.to_dict("records")
    for title, part in rows.groupby("title"):
        at = lookup(part.drop_duplicates(names), names)
        frame[f"at {title}"] = [(at(row) or {}).get("mean", math.nan) for row in points]
    return frame


def references(frame: pd.DataFrame) -> dict[str, str]:
    """Return the columns of ``beside`` that have numbers, by displayed name."""
    return {
        name.removeprefix("at "): name
        for name in frame
        if name.startswith("at ") and frame[name].notna().any()
    }


def chart(title: str, frame: pd.DataFrame, x: str, x_label: str, **fields: Any) -> Chart:
    """Return accuracies against ``x`` by title, with all references of the frame."""
    shared = {"line": "title", "y_label": "test accuracy", "references": references(frame)}
    return Chart(title, frame, x=x, x_label=x_label, **shared | fields)


def majority(results: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """Return ``frame`` with a column for the majority class of every dataset and protocol."""
    by = ["dataset", "protocol"]
    means = results.baseline(by, "majority_micro_f1").set_index(by)["mean"]
    return frame.assign(**{"at majority": means.reindex(pd.MultiIndex.from_frame(frame[by])).array})


def numbers(results: Any, title: str, frame: pd.DataFrame, extra: Sequence[Column] = ()) -> Table:
    """Return the table of numbers behind charts."""
    used = [
        Column(words, lambda row, name=name: number(row[name]))
        for name, words in (
            ("top", "K"),
            ("batch", "B"),
            ("row_clip", "C1"),
            ("entry_clip", "C2"),
            ("clip", "C"),
        )  # fmt: skip
        if frame[name].nunique() > 1
    ]
    if any(map(truncated, frame.to_dict("records"))):
        used.append(Column("R", lambda row: number(row["others"] if truncated(row) else None)))
    columns = [
        *plain("dataset", "protocol", {"rows": "title"}),
        *used,
        *extra,
        Column("ε", lambda row: number(row["epsilon"])),
        Column("accuracy", score),
        Column("ε claimed", lambda row: Cell(number(row["epsilon_claimed"], 2), tone="published")),
        Column("ε proved", guarantee),
    ]
    notes = (*results.protocol_notes(), SAMPLE_NOTE, BASELINES_NOTE, *privacy_notes(frame))
    return Table(f"{title}: the numbers", frame, columns, notes, "dataset", unfolded=0)


def truncated(row: Mapping[str, Any]) -> bool:
    """Return whether the number of rows of a node is bounded by R: only if ε is proved."""
    kinds = (*ROWS, "appr_random")
    return row["protocol"] == "sound" and row["method"] in kinds and not missing(row["others"])


def gain(runs: pd.DataFrame, plain: pd.DataFrame) -> dict[str, float]:
    """Return the gain of the runs ``runs`` over ``plain``, paired by seed.

    ``unchanged``: mean accuracy of ``plain``; ``gain``, ``gain_low``, ``gain_high``: mean of the
    difference with its 95 % interval. NaN if no seed is in both.
    """
    scores, base = (part.set_index("seed")["test_accuracy"].astype(float) for part in (runs, plain))
    margin = interval(scores - base) or Measured(math.nan, math.nan, math.nan)
    return {"unchanged": base.mean(), "gain": margin.value,
            "gain_low": margin.low, "gain_high": margin.high}  # fmt: skip


def difference(row: Mapping[str, Any]) -> str:
    """Format the result of :func:`gain`: the mean with its interval."""
    if missing(row["gain"]):
        return number(None)
    return f"{row['gain']:+.3f} [{row['gain_low']:.3f}, {row['gain_high']:.3f}]"


def swept(results: Any, title: str, x: str, x_label: str, log_x: bool = False) -> list[Block]:
    """Return a chart for each dataset and protocol, with x the setting that jobs vary."""
    frame = points(results)
    fixed = frame[frame["title"] == "RANDOM"] if x in ("row_clip", "entry_clip") else frame.iloc[:0]
    drawn = frame.drop(fixed.index)
    drawn = drawn.assign(x=[_x(row, x) for row in drawn.to_dict("records")])
    if len(fixed):
        drawn = beside(drawn, fixed, ["dataset", "protocol"])
    drawn = majority(results, drawn).sort_values(["dataset", "protocol", "title", "x"])
    facets = drawn.assign(facet=drawn["dataset"].map(results.title_of))
    picture = chart(title, facets, "x", x_label, row="facet", column="protocol", log_x=log_x)
    return [picture, numbers(results, title, drawn)]


def _x(row: Mapping[str, Any], name: str) -> float:
    if name == "row_clip" and row["method"] != "appr_gaussian":
        name = "entry_clip"
    return float("nan") if missing(row[name]) else float(row[name])
