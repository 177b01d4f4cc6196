"""Shared code of the study's tables and charts: levels, line names, printed numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.report.words import missing, number
from private_graphs.running.exhibit import NOTHING, Cell

LEVELS = {"none": "without DP", "edge": "edge level", "node": "node level"}
"""The paper's levels, in its order."""
_SCENARIOS = {"links": "edge", "edges": "edge", "lists": "node", "text": "node"}
PRINTED_AS = {
    ("none", "edge_rand"): "graphsage",
    ("edge", "edge_rand"): "edgerand",
    ("node", "mlp_steps"): "dp_mlp",
}
"""Methods whose name in the paper's tables differs from that in rows, by level."""
_TITLES = {("none", "edge_rand"): "GraphSAGE"}
"""Names of methods that differ at a level."""
STAND_IN_NOTE = (
    "The paper's Facebook is the campus UIllinois20, whose file is not among those at hand: other "
    "campuses stand in for it under their own names, so that the numbers printed beside them are "
    "of another graph; those beside fb100-part are of all 100 campuses."
)


READ_OFF = 0.3
"""Tolerance in points of a number that was read off a picture, except those of FB-100."""
CHOSEN_AT = ["dataset", "group", "method", "scenario", "protocol", "epsilon"]


def choose_depth(results: Any) -> Any:
    """Return the results with the runs of the K alone that validates best, on average over the
    seeds, of each method at each ε, as the paper chooses it; runs without validation stay."""
    runs = results.runs
    keys = [runs[name] for name in CHOSEN_AT]
    scores = runs["validation_micro_f1"].groupby([*keys, runs["job"]]).transform("mean").fillna(0)
    below = scores < scores.groupby(keys).transform("max")
    return results.with_rows(results.rows.drop(index=runs.index[below]))


def points(results: Any) -> pd.DataFrame:
    """Return a row per dataset, job, protocol and ε, with ``level``, ``line`` and ``place``."""
    by = ["dataset", "group", "method", "scenario", "protocol", "job", "epsilon", "hops", "epochs"]
    rows = results.points(by, score="test_accuracy")
    settings = [_settings(row) for row in rows.to_dict("records")]
    level = rows["scenario"].map(_SCENARIOS).where(rows["epsilon"] < float("inf"), "none")
    titles = [
        _TITLES.get(key) or results.title(key[1]) for key in zip(level, rows["method"], strict=True)
    ]
    return rows.assign(
        level=level, title=titles, settings=settings, place=rows["dataset"].map(printed_place)
    )


def printed_place(dataset: str) -> str:
    """Return the paper's dataset that a graph is, or represents."""
    names = ("facebook", "fb100", "reddit-8", "amazon", "wenet")
    return next((name for name in names if dataset.startswith(name)), "")


def _settings(row: Mapping[str, Any]) -> str:
    if missing(row.get("hops")):
        return ""
    return f"K = {number(row['hops'])}" if row["hops"] else f"{number(row['epochs'])} epochs"


def printed(results: Any, name: str, *keys: str) -> dict[tuple, Mapping[str, Any]]:
    """Return the printed rows of a table or figure, by (dataset, level, method, *keys)."""
    return {
        (row["dataset"], row["level"], row["method"], *(float(row[key]) for key in keys)): row
        for row in results.published(name).to_dict("records")
    }


def printed_key(row: Mapping[str, Any]) -> tuple:
    """Return the key of the paper's number for a point."""
    method = PRINTED_AS.get((row["level"], row["method"]), row["method"])
    is_new = row["scenario"] in ("edges", "text")  # methods of this project
    return (row["place"], row["level"], "" if is_new else method)


def with_printed(
    frame: pd.DataFrame, paper: Mapping[tuple, Mapping[str, Any]], *keys: str
) -> pd.DataFrame:
    """Return points with ``percent_printed``, the paper's accuracy for their line.

    ``published``, the basis of verdicts, is its share if the graph is the paper's own.
    """
    percent = pd.Series(
        [
            paper.get((*printed_key(row), *(row[key] for key in keys)), {}).get("accuracy_percent")
            for row in frame.to_dict("records")
        ],
        index=frame.index,
        dtype=float,
    )
    mask = frame["dataset"] == frame["place"]
    return frame.assign(percent_printed=percent, published=(percent / 100).where(mask))


def printed_cell(row: Mapping[str, Any] | None) -> Cell:
    """Format a printed accuracy with its interval."""
    if row is None:
        return Cell()
    around = "" if missing(row.get("ci95")) else f" ± {number(row['ci95'])}"
    return Cell(f"{number(row['accuracy_percent'])}{around}", tone="published")


def level_words(row: Mapping[str, Any]) -> str:
    """Return the name of a row's level."""
    return LEVELS.get(row["level"], NOTHING)
