"""Whether anything proved gains from private edges of training nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.exhibits.dpappr.points import SAMPLE_NOTE, difference
from private_graphs.report.claims import Measured, interval
from private_graphs.report.exhibit import Column, Exhibit, Table
from private_graphs.report.words import guarantee, number, privacy_notes, score

_TITLE = "What private edges of training nodes add"
_KEYS = [
    "dataset",
    "features",
    "group",
    "method",
    "scenario",
    "job",
    "epsilon",
    "validation_labels",
]
_SETTINGS = ["anchor", "degree", "learning_rate"]


@dataclass(frozen=True)
class Try:
    """A proved use of private edges, and what is the same without them."""

    use: str
    reads: dict[str, Any]
    """Columns of the rows that read the edges."""
    beside: str
    without: dict[str, Any]
    """Columns of the rows that do not."""


_NO_LABELS = {"validation_labels": 0}
TRIES = (
    Try(
        "edges to public nodes, in the row of the training node (class sums)",
        {"group": "appr_beside", "method": "class_sums", "scenario": "graph"} | _NO_LABELS,
        "class sums of texts alone",
        {"group": "appr_edges", "method": "class_sums_text"} | _NO_LABELS,
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
    """Return a row per dataset, use and ε, beside the runs that read no private edge."""
    runs = results.runs
    names = [name for name in _SETTINGS if name in runs]
    frame = results.points([*_KEYS, *names], score="test_accuracy")
    rows = []
    for rank, each in enumerate(TRIES):
        own, other = of(runs, each.reads), of(runs, each.without)
        shown = of(frame, each.reads)
        for row in shown.to_dict("records"):
            here = [_by_seed(part, row) for part in (own, other)]
            gain = interval(here[0] - here[1]) or Measured(math.nan, math.nan, math.nan)
            rows.append({
                **row, "rank": rank, "use": each.use, "beside": each.beside,
                "without": here[1].mean(), "gain": gain.value, "gain_low": gain.low,
                "gain_high": gain.high,
            })  # fmt: skip
    if not rows:
        return []
    frame = pd.DataFrame(rows).sort_values(["dataset", "rank", "epsilon"])
    columns = [
        Column("dataset", lambda row: row["dataset"]),
        Column("private edges are read as", lambda row: row["use"]),
        Column("without them", lambda row: f"beside {row['beside']}", under=True),
        Column("ε", lambda row: number(row["epsilon"])),
        Column("accuracy", score),
        Column("accuracy without", lambda row: number(row["without"], 3)),
        Column("difference", difference),
        Column("ε proved", guarantee),
    ]
    notes = (
        "difference: mean over the seeds with its 95 % interval; test nodes of a seed are the "
        "same. Class sums predict with the edges among public nodes on both sides; label sums and "
        "the network beside them read no edge of a test node but those on its own list; GM trains "
        "the roots alone, FEATURES all of the sample.",
        SAMPLE_NOTE,
        *privacy_notes(frame),
    )
    return [Table(_TITLE, frame.drop(columns="rank"), columns, notes, "dataset")]


def of(rows: pd.DataFrame, columns: dict[str, Any]) -> pd.DataFrame:
    """Return those of ``rows`` with these values; none where a column is missing."""
    for name, value in columns.items():
        rows = rows[rows[name] == value] if name in rows else rows.iloc[:0]
    return rows


def _by_seed(runs: pd.DataFrame, row: dict[str, Any]) -> pd.Series:
    part = of(runs, {name: row[name] for name in ("dataset", "features", "epsilon")})
    return part.set_index("seed")["test_accuracy"].astype(float)


EXHIBIT = Exhibit(
    "private_edges",
    _TITLE,
    groups=("appr_edges", "appr_beside", "appr_proved"),
    build=build,
    meaning="Proved uses of private edges, beside what reads none: an edge has to add more to the "
    "accuracy than its noise takes. More rows of PageRank are in Figure 1.",
)
