"""Ablations: prediction without the graph, and SGD in place of Adam."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from private_graphs.report.columns import plain
from private_graphs.report.words import guarantee, number, privacy_notes, score
from private_graphs.running.exhibit import Column, Exhibit, Table
from private_graphs.studies.dpappr.points import SAMPLE_NOTE, difference, gain, points

_GROUPS = ("appr_ablations", "appr_ablations_proved")
_TITLE = "Ablations"
_CHANGES = {
    "propagations": (2, "local: no graph at prediction"),
    "optimizer": ("adam", "plain SGD"),
}
"""Changed settings, with their value in all other exhibits and a description of the change."""
_SAME = ("dataset", "features", "protocol", "method")


def build(results: Any) -> list[Table]:
    """Return a row per changed job and ε, next to the job that differs in that choice alone."""
    frame = points(results)
    frame = frame[frame["group"].isin(_GROUPS)]
    if frame.empty:
        return []
    runs = results.runs[results.runs["method"].str.startswith("appr_")]
    whole = frame["sample"].astype(float) == 1
    frame = frame.assign(title=frame["title"].where(~whole, frame["title"] + ", all nodes"))
    frame = frame.merge(gains(runs), on=["job", "epsilon"], how="left")
    columns = [
        *plain("dataset", "protocol", {"rows": "title"}),
        Column("K", lambda row: number(row["top"]) if "VANILLA" in row["title"] else number(None)),
        *plain("change", {"ε": "epsilon"}),
        Column("accuracy", score),
        Column("unchanged", lambda row: number(row["unchanged"], 3)),
        Column("difference", difference),
        Column("ε proved", guarantee),
    ]
    notes = (
        "difference: mean over the seeds with its 95 % interval; test nodes and sample of a seed "
        "are the same, what is drawn in training is not. Algorithm 9 writes plain gradient steps; "
        "all other tables and figures have Adam, as the authors' code has.",
        SAMPLE_NOTE,
        *privacy_notes(frame),
    )
    return [Table(_TITLE, frame, columns, notes, "dataset")]


def gains(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the changed jobs by ``job`` and ``epsilon``: the ``change`` in words, and the gain
    over the job with otherwise equal settings."""
    read = ["group", "job", "epsilon", "settings", "seed", "test_accuracy", *_SAME]
    parts = dict(iter(runs[list(dict.fromkeys(read))].groupby(["group", "job", "epsilon"])))
    usual, changed = {}, []
    for key, part in parts.items():
        job = part.iloc[0]
        settings = json.loads(job["settings"])
        words = [text for name, (value, text) in _CHANGES.items() if settings.pop(name) != value]
        kind = *job[list(_SAME)], json.dumps(settings, sort_keys=True), key[-1]
        if words:
            changed.append((key, kind, ", ".join(words)))
        else:
            usual[kind] = part
    return pd.DataFrame([
        {"job": key[1], "epsilon": key[2], "change": words}
        | gain(parts[key], usual.get(kind, runs.iloc[:0]))
        for key, kind, words in changed
    ])  # fmt: skip


EXHIBIT = Exhibit(
    "ablations",
    _TITLE,
    groups=(*_GROUPS, "appr_budgets", "appr_all_nodes"),
    build=build,
    meaning="Do plain gradient steps, which Algorithm 9 writes, learn at its learning rate? How "
    "much of the accuracy comes from public test edges at prediction?",
)
