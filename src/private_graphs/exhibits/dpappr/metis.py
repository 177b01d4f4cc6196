"""The authors' own test nodes, a part of the graph by METIS, beside uniformly drawn ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from private_graphs.exhibits.dpappr.points import points
from private_graphs.report.exhibit import Column, Exhibit, Table
from private_graphs.report.words import guarantee, missing, number, privacy_notes, score

_TITLE = "Test nodes by METIS"
_GROUP = "appr_metis"
_SAME = ["dataset", "protocol", "method", "top", "training_epsilon", "epsilon"]


def build(results: Any) -> list[Table]:
    """Return a row per dataset and method, beside its accuracy on uniformly drawn test nodes."""
    frame = points(results)
    drawn = {_key(row): row["mean"] for row in frame[frame["group"] != _GROUP].to_dict("records")}
    rows = []
    for row in frame[frame["group"] == _GROUP].to_dict("records"):
        labels = results.answers(f"{results.study.id}/{_GROUP}/{row['job']}").labels
        rows.append(row | {
            "largest_class": np.bincount(np.ravel(labels)[np.ravel(labels) >= 0]).max()
            / (np.ravel(labels) >= 0).sum(),
            "uniform": drawn.get(_key(row)),
        })  # fmt: skip
    if not rows:
        return []
    frame = type(frame)(rows)
    columns = [
        Column("dataset", lambda row: row["dataset"]),
        Column("rows", lambda row: row["title"]),
        Column("ε", lambda row: number(row["epsilon"])),
        Column("accuracy", score),
        Column("one class for all", lambda row: number(row["largest_class"], 3)),
        Column("accuracy, uniform test nodes", lambda row: number(row["uniform"], 3)),
        Column("ε proved", guarantee),
    ]
    notes = (
        "one class for all: share of the most frequent class of these test nodes, which nobody "
        "who trains knows. The partition reads every edge of the private graph, it depends on the "
        "build of METIS, and it is the same for all seeds.",
        *privacy_notes(frame),
    )
    return [Table(_TITLE, frame, columns, notes, "dataset")]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(None if missing(row[name]) else row[name] for name in _SAME)


EXHIBIT = Exhibit(
    "metis",
    _TITLE,
    groups=(_GROUP, "appr_budgets"),
    build=build,
    meaning="The authors' code takes a part of the graph by METIS as test nodes: nearly all of it "
    "may be one class that the other parts hardly have, so that scores say little about methods.",
)
