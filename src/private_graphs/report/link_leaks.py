"""What pages show of attacks on edges: all pairs, edges that coins leave out, hubs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from private_graphs.report.exhibit import NOTHING, Block, Column, Table
from private_graphs.report.words import bound, budget, missing, number

_ALL, _COINS = "all pairs", "in or out by coins"
_KEYS = ["study", "group", "job", "dataset", "model", "epsilon", "epsilon_claimed",
         "epsilon_proved", "accuracy", "sees", "score", "who"]  # fmt: skip
_SEES = (
    "texts: a classifier of texts and training labels, which reads no edge; queries: answers of a "
    "model that reads the private graph; parameters: those of the model, asked about texts alone; "
    "releases: the noisy values of an edge-level method, which is all that its models know of "
    "edges.",
    "influence: how far the answer about one node moves with the features of the other "
    "(LinkTeller, Wu et al. 2022); posteriors, logits: correlation of the answers about both "
    "(He et al. 2021); shadows: the likelihood ratio of that number, by models whose edges are "
    "known.",
)
_PAIRS = (
    "Linked people resemble each other: a classifier that reads no edge ranks linked pairs above "
    "others too. Only what exceeds its line comes from the edges. precision: share of true edges "
    "among as many pairs as there are edges.",
    *_SEES,
)
_LEFT_OUT = (
    "Half of the edges are left out by independent coins, and the attacker tells the others from "
    "them: resemblance is the same on both sides. likelihood: by somebody who knows all edges but "
    "those of a matching; nobody can do better from the same releases. allowed: the most that any "
    "attack reaches on average where the proved ε holds; a measured rate may exceed it by chance, "
    "so look at its interval. An exact test ends a run whose guesses contradict what is proved.",
    "ε shown: a lower bound at 95 %, from the surest guesses. Attacks are evidence, never an upper "
    "bound and no audit (docs/leaks.md).",
    *_SEES,
)
_HUBS = (
    "All edges of one node are in or out together; the attacker knows all others. ε is for one "
    "edge: d edges have d·ε at most, and whether a hub is linked at all is seen so much better: an "
    "AUC near 1 contradicts no proof here.",
)


def link_blocks(
    rows: pd.DataFrame, model: Callable[[Mapping[str, Any]], str], name: Callable[[str], str]
) -> list[Block]:
    """Return three tables; ``model`` and ``name`` put a row's model and dataset into words."""
    rows = rows.assign(model=[model(row) for row in rows.to_dict("records")])
    found = []
    for keys, part in rows.groupby(_KEYS, sort=False, dropna=False):
        values = {
            f"{row['measure']}{end}": row[column]
            for row in part.to_dict("records")
            for column, end in (("value", ""), ("low", "_low"), ("high", "_high"))
        }
        found.append(dict(zip(_KEYS, keys, strict=True)) | values)
    frame = pd.DataFrame(found)
    pairs = frame[frame["who"].str.contains("pairs")]
    coins, hubs = frame[frame["who"] == _COINS], frame[frame["who"].str.contains("edges? of a")]
    head = (
        Column("dataset", lambda row: name(row["dataset"])),
        Column("model", lambda row: row["model"]),
        Column("ε", lambda row: number(row["epsilon"])),
    )  # fmt: skip
    seen = (
        Column("attacker sees", lambda row: row["sees"]), Column("score", lambda row: row["score"]),
    )  # fmt: skip
    every = (
        ("Which edges there are: all pairs, beside texts alone", pairs, _PAIRS, (
            *seen, Column("of", lambda row: row["who"]), _rate("AUC", "auc"),
            _rate("precision", "precision"),
        )),
        ("Which edges there are: in against left out, on every model", coins, _LEFT_OUT, (
            Column("ε proved", proved),
            Column("accuracy", lambda row: number(row["accuracy"], 3)), *seen, _rate("AUC", "auc"),
            _rate("allowed", "allowed_auc"), _rate("edges found at 1 %", "tpr_01", 4),
            _rate("allowed at 1 %", "allowed_tpr_01", 4),
            Column("ε shown", shown),
        )),
        ("What nodes of many edges lose", hubs, _HUBS, (
            Column("nodes", lambda row: row["who"]), _rate("number", "groups", 0),
            _rate("AUC", "auc"), _rate("found at 1 %", "tpr_01"),
        )),
    )  # fmt: skip
    return [
        Table(title, part.reset_index(drop=True), (*head, *columns), notes)
        for title, part, notes, columns in every
        if len(part)
    ]


def _rate(head: str, measure: str, digits: int = 3) -> Column:
    return Column(head, lambda row: interval(row, measure, digits))


def interval(row: Mapping[str, Any], measure: str, digits: int = 3) -> str:
    """Return a measured number of a row with its interval, if it has one."""
    if missing(row.get(measure)):
        return NOTHING
    text, ends = number(row[measure], digits), [row.get(f"{measure}_{e}") for e in ("low", "high")]
    if any(map(missing, ends)):
        return text
    return f"{text} [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]"


def shown(row: Mapping[str, Any]) -> str:
    """Return the ε that guesses show: the larger of the bounds that hold jointly."""
    found = [row.get(name) for name in ("epsilon_shown", "epsilon_shown_tiny")]
    found = [value for value in found if not missing(value)]
    return f"> {bound(max(found))}" if found else NOTHING


def proved(row: Mapping[str, Any]) -> str:
    """Return the proved ε of the attacked model; a run without DP has none to speak of."""
    if math.isinf(row["epsilon"]):
        return NOTHING
    return "none" if missing(row["epsilon_proved"]) else budget(row["epsilon_proved"])
