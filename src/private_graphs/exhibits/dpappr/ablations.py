"""What single choices are worth: prediction without the graph, and SGD in place of Adam."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd

from private_graphs.exhibits.dpappr.points import SAMPLE_NOTE, difference, points
from private_graphs.report.claims import Measured, interval
from private_graphs.report.exhibit import Column, Exhibit, Table
from private_graphs.report.words import guarantee, number, privacy_notes, score

_GROUPS = ("appr_ablations", "appr_ablations_proved")
_TITLE = "What single choices are worth"
_CHANGES = {
    "propagations": (2, "local: no graph at prediction"),
    "optimizer": ("adam", "plain SGD"),
}
"""Settings that are changed, with the value of all other exhibits and the words of the change."""


_SAME = ("dataset", "features", "protocol", "method")


def build(results: Any) -> list[Table]:
    """Return a row per changed job and ε, beside the job that differs in that choice alone."""
    frame = points(results)
    frame = frame[frame["group"].isin(_GROUPS)]
    if frame.empty:
        return []
    runs = results.runs[results.runs["method"].str.startswith("appr_")]
    whole = frame["sample"].astype(float) == 1
    frame = frame.assign(title=frame["title"].where(~whole, frame["title"] + ", all nodes"))
    frame = frame.merge(gains(runs), on=["job", "epsilon"], how="left")
    columns = [
        Column("dataset", lambda row: row["dataset"]),
        Column("protocol", lambda row: row["protocol"]),
        Column("rows", lambda row: row["title"]),
        Column("K", lambda row: number(row["top"]) if "VANILLA" in row["title"] else number(None)),
        Column("change", lambda row: row["change"]),
        Column("ε", lambda row: number(row["epsilon"])),
        Column("accuracy", score),
        Column("unchanged", lambda row: number(row["unchanged"], 3)),
        Column("difference", difference),
        Column("ε proved", guarantee),
    ]
    notes = (
        "difference: mean over the seeds with its 95 % interval; test nodes and sample of a seed "
        "are the same, what is drawn in training is not. Algorithm 9 writes plain gradient steps; "
        "all other exhibits have Adam, as the authors' code has.",
        SAMPLE_NOTE,
        *privacy_notes(frame),
    )
    return [Table(_TITLE, frame, columns, notes, "dataset")]


def gains(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the changed jobs by ``job`` and ``epsilon``: the ``change`` in words, the mean
    accuracy ``unchanged``, and the ``gain`` within seeds with its interval."""
    kinds: dict[tuple[Any, ...], tuple[str, str]] = {}
    changed = []
    for job in runs.drop_duplicates(["group", "job"]).to_dict("records"):
        settings = json.loads(job["settings"])
        same = {name: value for name, value in settings.items() if name not in _CHANGES}
        kind = *(job[name] for name in _SAME), json.dumps(same, sort_keys=True)
        words = [said for name, (usual, said) in _CHANGES.items() if settings[name] != usual]
        if words:
            changed.append((kind, (job["group"], job["job"]), ", ".join(words)))
        else:
            kinds[kind] = job["group"], job["job"]
    scores = dict(iter(runs.groupby(["group", "job", "epsilon"])))
    rows = []
    for kind, (group, job), words in changed:
        for epsilon in runs.loc[
            (runs["group"] == group) & (runs["job"] == job), "epsilon"
        ].unique():
            own, base = (
                scores[*key, epsilon].set_index("seed")["test_accuracy"]
                if key and (*key, epsilon) in scores else pd.Series(dtype=float)
                for key in ((group, job), kinds.get(kind))
            )  # fmt: skip
            gain = interval(own - base) or Measured(math.nan, math.nan, math.nan)
            rows.append((job, epsilon, words, base.mean(), gain.value, gain.low, gain.high))
    names = ["job", "epsilon", "change", "unchanged", "gain", "gain_low", "gain_high"]
    return pd.DataFrame(rows, columns=names)


EXHIBIT = Exhibit(
    "ablations",
    _TITLE,
    groups=(*_GROUPS, "appr_budgets", "appr_all_nodes"),
    build=build,
    meaning="Whether plain gradient steps, which Algorithm 9 writes, learn at its learning rate, "
    "and how much of the accuracy comes from public test edges at prediction.",
)
