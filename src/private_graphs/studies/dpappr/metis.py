"""The authors' own test nodes (a METIS part of the graph) compared with uniformly drawn ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from private_graphs.report.columns import lookup, plain
from private_graphs.report.words import guarantee, privacy_notes, score
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
    uniform, frame = lookup(frame[~mask], _SAME), frame[mask]
    if frame.empty:
        return [_NOT_RUN]
    frame = frame.assign(
        largest_class=[_largest_class(results, job) for job in frame["job"]],
        uniform=[(uniform(row) or {}).get("mean") for row in frame.to_dict("records")],
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


EXHIBIT = Exhibit(
    "metis",
    _TITLE,
    groups=(_GROUP, "appr_budgets"),
    build=build,
    meaning="The authors' code takes a part of the graph by METIS as test nodes. It may be of "
    "other classes than the rest: scores say as much about the cut as about methods.",
)
