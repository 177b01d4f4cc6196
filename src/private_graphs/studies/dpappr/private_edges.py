"""Gain of proved methods from private edges of training nodes, if any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.report.columns import plain
from private_graphs.report.words import guarantee, number, privacy_notes, score
from private_graphs.running.exhibit import Column, Exhibit, Table
from private_graphs.studies.dpappr.points import SAMPLE_NOTE, difference, gain

_TITLE = "What private edges of training nodes add"
_PLACE = ["dataset", "features", "group", "job", "epsilon", "validation_labels"]


@dataclass(frozen=True)
class Try:
    """A proved use of private edges, and the same without them."""

    use: str
    reads: dict[str, Any]
    """Column values of the rows that read the edges."""
    beside: str
    without: dict[str, Any]
    """Column values of the rows that do not."""


_NO_LABELS = {"validation_labels": 0}
TRIES = (
    Try(
        "edges to public nodes, in the row of the training node, and edges among public nodes "
        "(class sums)",
        {"group": "appr_beside", "method": "class_sums", "scenario": "graph"} | _NO_LABELS,
        "class sums of texts alone",
        {"group": "appr_beside", "method": "class_sums", "scenario": "text"} | _NO_LABELS,
    ),
    *(
        Try(
            f"labels sent along lists of {degree} (label sums)",
            {"group": "appr_edges", "method": "label_sums", "degree": degree},
            "the same network without sums",
            {"group": "appr_edges", "method": "mlp_steps"},
        )
        for degree in (1, 4)
    ),
    Try(
        "noisy rows of PageRank, anchored in their root (GM on the sample)",
        {"group": "appr_proved", "method": "appr_gaussian", "anchor": 0.9},
        "FEATURES on the whole sample",
        {"group": "appr_proved", "method": "appr_features"},
    ),
)
"""One use of each kind."""


def build(results: Any) -> list[Table]:
    """Return a row per dataset, use and ε, next to the runs that read no private edge."""
    gains = compared(results.runs)
    if gains.empty:
        return []
    frame = results.points(_PLACE, score="test_accuracy").merge(gains, on=_PLACE)
    frame = frame.sort_values(["dataset", "rank", "epsilon"])
    columns = [
        *plain("dataset", {"private edges are read as": "use"}),
        Column("without them", lambda row: f"beside {row['beside']}", under=True),
        Column("ε", lambda row: number(row["epsilon"])),
        Column("accuracy", score),
        Column("accuracy without", lambda row: number(row["unchanged"], 3)),
        Column("difference", difference),
        Column("ε proved", guarantee),
    ]
    notes = (
        "difference: mean over the seeds with its 95 % interval; test nodes of a seed are the "
        "same. Class sums without edges read no public one either; label sums and "
        "the network beside them read no edge of a test node but those on its own list; GM trains "
        "the roots alone, FEATURES all of the sample.",
        SAMPLE_NOTE,
        *privacy_notes(frame),
    )
    return [Table(_TITLE, frame.drop(columns="rank"), columns, notes, "dataset")]


def compared(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the uses in ``TRIES`` that read edges, by ``_PLACE``, with their gain."""
    rows = []
    for rank, trial in enumerate(TRIES):
        baseline = _of(runs, trial.without)
        for key, part in _of(runs, trial.reads).groupby(_PLACE):
            row = dict(zip(_PLACE, key, strict=True))
            row |= {"rank": rank, "use": trial.use, "beside": trial.beside}
            filters = {name: row[name] for name in ("dataset", "features", "epsilon")}
            rows.append(row | gain(part, _of(baseline, filters)))
    return pd.DataFrame(rows)


def _of(rows: pd.DataFrame, columns: dict[str, Any]) -> pd.DataFrame:
    """Return those of ``rows`` with these values; none if a column is missing."""
    for name, value in columns.items():
        rows = rows[rows[name] == value] if name in rows else rows.iloc[:0]
    return rows


EXHIBIT = Exhibit(
    "private_edges",
    _TITLE,
    groups=("appr_edges", "appr_beside", "appr_proved"),
    build=build,
    meaning="Proved uses of private edges, beside what reads none: an edge has to add more to the "
    "accuracy than its noise takes. More rows of PageRank are in Figure 1.",
)
