"""The authors' own test nodes (a METIS part of the graph) compared with uniformly drawn ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from private_graphs.report.columns import plain
from private_graphs.report.words import guarantee, missing, privacy_notes, score
from private_graphs.running.exhibit import Block, Column, Exhibit, Table
from private_graphs.studies.dpappr.points import points

_TITLE = "Test nodes by METIS"
_GROUP = "appr_metis"
_NOT_RUN = "No run is here. METIS reads every edge: it never cuts a graph of yours."
_SAME = ["dataset", "features", "protocol", "method", "top", "training_epsilon", "epsilon"]


def build(results: Any) -> list[Block]:
    """Return a row per dataset and method, next to its accuracy on uniformly drawn test nodes."""
    frame = points(results)
    mask = frame["group"] == _GROUP
    rows, drawn = frame[mask].to_dict("records"), frame[~mask].to_dict("records")
    if not rows:
        return [_NOT_RUN]
    uniform = {_key(row): row["mean"] for row in drawn}
    frame = frame[mask].assign(
        largest_class=[_largest_class(results, row["job"]) for row in rows],
        uniform=[uniform.get(_key(row)) for row in rows],
    )
    columns = [
        *plain("dataset", {"rows": "title", "ε": "epsilon"}),
        Column("accuracy", score),
        *plain({"one class for all": "largest_class"}, decimals=3),
        *plain({"accuracy, uniform test nodes": "uniform"}, decimals=3),
        Column("ε proved", guarantee),
    ]
    notes = (
        "one class for all: share of the most frequent class of these test nodes, which nobody "
        "who trains knows. The partition reads every edge of the private graph, it depends on the "
        "build of METIS, and it is the same for all seeds.",
        *privacy_notes(frame),
    )
    return [Table(_TITLE, frame, columns, notes, "dataset")]


def _largest_class(results: Any, job: str) -> float:
    labels = np.ravel(results.answers(f"{results.study.id}/{_GROUP}/{job}").labels)
    return float(np.bincount(labels[labels >= 0]).max() / (labels >= 0).sum())


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(None if missing(row[name]) else row[name] for name in _SAME)


EXHIBIT = Exhibit(
    "metis",
    _TITLE,
    groups=(_GROUP, "appr_budgets"),
    build=build,
    meaning="The authors' code takes a part of the graph by METIS as test nodes. It may be of "
    "other classes than the rest: scores say as much about the cut as about methods.",
)
