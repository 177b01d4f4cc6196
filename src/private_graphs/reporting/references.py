"""What proved methods are compared with: published scores, the majority class, trained GCNs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.reporting.method_points import (
    Together,
    all_runs,
    is_gaussian,
    of_statements,
)
from private_graphs.reporting.readable import OPTIMIZER_TITLES
from private_graphs.reporting.scores import score_values

GCN_EXPERIMENT = "table1"
"""The experiment whose trainings are the GCNs of the comparisons."""

_SPLIT_WORDS = {"dp_full": "full graph", "dp_split": "graph splits", "non_private": "full graph"}


@dataclass(frozen=True)
class Trained:
    """One setting of a GCN under a protocol at one ε, with its mean validation score."""

    title: str
    values: Mapping[str, Any]
    """``scores.score_values``: mean, std, seeds, ε proved, statement."""
    validation_mean: float


def published_scores(published: pd.DataFrame, dataset: str) -> list[dict[str, Any]]:
    """Return what Table 1 of the paper prints for trainings on ``dataset``: title, ε, score.

    ``published`` has the columns of ``published_table(study, "table1")``.
    """
    rows = published[(published["dataset"] == dataset) & (published["optimizer"] != "")]
    return [
        {
            "title": f"published, {OPTIMIZER_TITLES[row['optimizer']]}, "
            f"{_SPLIT_WORDS.get(row['setting'], row['setting'])}",
            "epsilon": float(row["epsilon"]),
            "micro_f1": float(row["micro_f1"]),
        }
        for row in rows.to_dict("records")
    ]


def trained(
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
    place: Mapping[str, str],
    protocol: str,
    epsilon: float,
) -> list[Trained]:
    """Return the GCNs of Table 1 at one place under ``protocol`` at ``epsilon``.

    ``runs`` and ``statements`` are those of finished trainings, ``place`` a dataset and its
    ``features_kind``; one entry per optimizer and number of splits, of the learning rate that
    validation chose.
    """
    found = []
    for (optimizer, splits), group in _cells(runs, place, protocol, epsilon):
        parts = "full graph" if splits == 1 else f"{splits} splits"
        title = f"GCN, {OPTIMIZER_TITLES[optimizer]}, {parts}"
        where = f"Table 1 has one place for {place['dataset']} {protocol} {title} at {epsilon:g}"
        values = score_values(group, statements, where)
        found.append(Trained(title, values, group["validation_micro_f1"].mean()))
    return found


def best_trained(found: list[Trained]) -> Trained | None:
    """Return the one with the highest mean validation micro-F1; test scores play no part."""
    return max(found, key=lambda each: round(each.validation_mean, 12), default=None)


def compared(found: list[Trained], statements: Mapping[str, Mapping[str, Any]]) -> Together:
    """Return what is proved for all runs that a choice among ``found`` looked at."""
    said = (statements[each.values["statement_id"]] for each in found)
    return all_runs(of_statements([each], is_gaussian(each)) for each in said)


def _cells(
    runs: pd.DataFrame, place: Mapping[str, str], protocol: str, epsilon: float
) -> Iterator[tuple[tuple[str, int], pd.DataFrame]]:
    mine = runs[
        (runs["experiment"] == GCN_EXPERIMENT)
        & (runs["dataset"] == place["dataset"])
        & (runs["features"] == place["features_kind"])
        & (runs["protocol"] == protocol)
        & (runs["epsilon"] == epsilon)
    ]
    if mine.empty:
        return
    yield from mine[mine["selected"].astype(bool)].groupby(["optimizer", "n_splits"], sort=True)


def without_dp(
    runs: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]], place: Mapping[str, str]
) -> list[Trained]:
    """Return our GCNs without DP that are scored on the test nodes alone (protocol sound)."""
    return trained(runs, statements, place, "sound", math.inf)
