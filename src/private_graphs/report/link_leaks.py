"""What pages show of attacks on edges: all pairs, edges that coins leave out, hubs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from private_graphs.report.words import bound, budget, missing, number
from private_graphs.running.exhibit import NOTHING, Block, Column, Table

_ALL, _COINS = "all pairs", "in or out by coins"
_KEYS = ["study", "group", "job", "dataset", "model", "method", "scenario", "protocol", "settings",
         "left_out", "epsilon", "epsilon_claimed", "epsilon_proved", "accuracy", "sees", "score",
         "who"]  # fmt: skip
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
    frame = wide(rows, [name for name in _KEYS if name in rows])
    frame["of"] = [f"{row['model']}, ε = {number(row['epsilon'])}, {name(row['dataset'])}"
                   for row in frame.to_dict("records")]  # fmt: skip
    frame["guarantee"] = [guarantee(row) for row in frame.to_dict("records")]
    frame["guarantee"] = pd.Categorical(frame["guarantee"], GUARANTEES)
    pairs = frame[frame["who"].str.contains("pairs")]
    coins, hubs = frame[frame["who"] == _COINS], frame[frame["who"].str.contains("edges? of a")]
    coins = coins.sort_values(["guarantee", "auc"], ascending=[True, False], kind="stable")
    of = Column("of", lambda row: row["of"])
    seen = (
        Column("attacker sees", lambda row: row["sees"]), Column("score", lambda row: row["score"]),
    )  # fmt: skip
    tables = (
        ("Which edges there are: all pairs, beside texts alone", pairs, _PAIRS, "of", (
            of, *seen, Column("pairs", lambda row: row["who"]), *rate("AUC", "auc"),
            *rate("precision", "precision"),
        )),
        ("Which edges there are: in against left out, on every model", coins, _LEFT_OUT,
         "guarantee", (
            Column("guarantee", lambda row: row["guarantee"]),
            Column("model", lambda row: row["model"]),
            Column("dataset", lambda row: name(row["dataset"]), under=True),
            Column("attacker", lambda row: f"{row['sees']}, {row['score']}", under=True),
            Column("ε printed", lambda row: number(row["epsilon"])),
            Column("ε proved", proved), Column("ε shown (at δ)", shown_tiny),
            Column("accuracy", lambda row: number(row["accuracy"], 3)),
            *rate("AUC", "auc"), _allowed("auc"),
            *rate("found", "tpr_01", 4), _allowed("tpr_01", 4),
        )),
        ("What nodes of many edges lose", hubs, _HUBS, "of", (
            of, Column("nodes", lambda row: row["who"]),
            Column("number", lambda row: number(row.get("groups"), 0)),
            *rate("AUC", "auc"), *rate("found", "tpr_01"),
        )),
    )  # fmt: skip
    return [
        Table(title, part.reset_index(drop=True), columns, notes, panel=panel,
              unfolded=int(panel == "guarantee"))
        for title, part, notes, panel, columns in tables
        if len(part)
    ]  # fmt: skip


def wide(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return one row per combination of ``keys``, with columns for every measure and its interval:
    ``auc``, ``auc_low``, ``auc_high``."""
    ends = {"value": "", "low": "_low", "high": "_high"}
    read = rows[[*keys, "measure", *ends]].astype(object)
    records: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in read.where(read.notna(), None).to_dict("records"):
        key = tuple(row[name] for name in keys)
        record = records.setdefault(key, dict(zip(keys, key, strict=True)))
        record |= {f"{row['measure']}{end}": row[column] for column, end in ends.items()}
    return pd.DataFrame(records.values(), columns=None if records else [*keys, "auc", "tpr_01"])


def coin_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the attacks on edges that coins leave out: one row per model, view and score."""
    coins = rows[(rows["leak"] == "links") & (rows["who"] == _COINS)]
    return wide(coins, [name for name in _KEYS if name != "model"])


GUARANTEES = ("ε printed, not proved", "ε proved", "without DP")
"""What an attacked model promises, in the order of tables."""


def guarantee(row: Mapping[str, Any]) -> str:
    """Return which of ``GUARANTEES`` a row's model has."""
    if math.isinf(row["epsilon"]):
        return GUARANTEES[2]
    return GUARANTEES[int(not missing(row.get("epsilon_proved")))]


def rate(head: str, measure: str, digits: int = 3) -> tuple[Column, Column]:
    """Return the columns of a measured rate and of its interval, which is below it on a page."""
    return (Column(head, lambda row: number(row.get(measure), digits)),
            Column("95 %", lambda row: ends(row, measure, digits), under=True))  # fmt: skip


def _allowed(measure: str, digits: int = 3) -> Column:
    return Column("allowed", lambda row: number(row.get(f"allowed_{measure}"), digits), under=True)


def ends(row: Mapping[str, Any], measure: str, digits: int = 3) -> str:
    """Return the interval of a measured number, if it has one."""
    low, high = row.get(f"{measure}_low"), row.get(f"{measure}_high")
    return NOTHING if missing(low) or missing(high) else f"{low:.{digits}f} to {high:.{digits}f}"


def shown(row: Mapping[str, Any], measure: str = "epsilon_shown", delta: str = "") -> str:
    """Return the ε that guesses show at the δ of the printed ε, or at another ``delta``."""
    epsilon = row.get(measure)
    if missing(epsilon):
        return NOTHING
    return (f"> {bound(epsilon)}" if epsilon > 0 else "0") + (f" ({delta})" if delta else "")


shown_tiny = partial(shown, measure="epsilon_shown_tiny", delta="1e-12")
"""The same from guesses about many records or edges."""


def proved(row: Mapping[str, Any]) -> str:
    """Return the proved ε of the attacked model; a run without DP has none to speak of."""
    if math.isinf(row["epsilon"]):
        return NOTHING
    return "none" if missing(row.get("epsilon_proved")) else budget(row["epsilon_proved"])
