"""The frontier: micro-F1 against ε, for every proved method, beside what it has to beat."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.reporting.formats import NOTHING, Readable, is_missing, number
from private_graphs.reporting.label_table import mean_words, place_words
from private_graphs.reporting.method_points import (
    PLACE,
    POINT_COLUMNS,
    places,
    setting_words,
    unit_words,
    with_all_labels,
)
from private_graphs.reporting.readable import seed_notes
from private_graphs.reporting.references import published_scores, without_dp

REFERENCE = "reference"
"""``setting`` of the rows that are of no method: majority class, published, GCN without DP."""

PROVED_NOTE = (
    "ε of a column is proved for one run, at the δ of the CSV, for the unit of the row; where the "
    "proof gives another number it stands in brackets. All draws of a point together have "
    "epsilon_all_runs of the CSV. 0: nothing private is read. ∞: without DP, for comparison."
)
CHOICE_NOTE = (
    "Every tuning label is public here and chooses settings only, but in rows that say that they "
    "are fitted with tuning labels, and in public only."
)


def frontier_table(
    points: pd.DataFrame,
    published: pd.DataFrame,
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> pd.DataFrame:
    """Return the points at which every tuning label is public, then the references of a dataset.

    ``points`` are those of ``method_points``; ``published`` is Table 1 as the paper prints it,
    ``runs`` and ``statements`` are of finished trainings. References have the setting
    ``reference``: ``majority`` (of the tuning labels), ``published`` (ε as claimed) and ``gcn``
    (ours without DP, scored on the test nodes alone).
    """
    frames = []
    every = with_all_labels(points)
    for (dataset, kind), group in every.groupby(["dataset", "features_kind"], sort=False):
        place = {"dataset": dataset, "features_kind": kind}
        rows = _references(place, group, published, runs, statements)
        frames += [group, pd.DataFrame(rows, columns=list(POINT_COLUMNS))]
    if not frames:
        return pd.DataFrame(columns=list(POINT_COLUMNS))
    records = [row for frame in frames for row in frame.to_dict("records")]
    return pd.DataFrame(records, columns=list(POINT_COLUMNS))


def _references(
    place: Mapping[str, str],
    group: pd.DataFrame,
    published: pd.DataFrame,
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    shared = {**place, "setting": REFERENCE}
    rows: list[dict[str, Any]] = [
        shared
        | {"method": "majority", "title": "majority class", "mean": group["majority_mean"].mean()}
    ]
    for each in published_scores(published, place["dataset"]):
        if math.isfinite(each["epsilon"]):
            row = {name: each[name] for name in ("title", "epsilon")}
            rows.append(shared | row | {"method": "published", "mean": each["micro_f1"]})
    for each in without_dp(runs, statements, place):
        values = {name: each.values[name] for name in ("mean", "std", "status", "statement_id")}
        row = {"method": "gcn", "title": f"{each.title}, no DP", "epsilon": math.inf}
        row |= {"n_runs": each.values["seeds"], "validation_mean": each.validation_mean}
        rows.append(shared | row | values)
    return rows


def readable_frontier(frame: pd.DataFrame) -> Readable:
    """Return the frontier for people: a row per method, a column per ε."""
    epsilons = sorted(frame["epsilon"].dropna().unique())
    heads = [("", name) for name in ("dataset", "setting", "unit", "method")]
    heads += [("ε", number(each)) for each in epsilons]
    rows = []
    names = [*PLACE, "unit", "method", "title"]
    for key, line in frame.groupby(names, sort=False, dropna=False):
        row = dict(zip(names, key, strict=True))
        unit = NOTHING if is_missing(row["unit"]) else unit_words(row["unit"])
        at = {each["epsilon"]: each for each in line.to_dict("records")}
        if row["method"] == "majority":  # it has no ε: nothing private is read
            at = {0.0: line.iloc[0].to_dict()}
        cells = (_cell(at.get(each)) for each in epsilons)
        rows.append((*place_words(row), unit, row["title"], *cells))
    return Readable(
        caption="Private and useful. Micro-F1 on the test nodes by ε: mean ± standard deviation "
        "over the draws",
        columns=tuple(heads),
        rows=tuple(rows),
        notes=(*setting_notes(frame), CHOICE_NOTE, PROVED_NOTE, *seed_notes(frame)),
    )


def setting_notes(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return what each setting protects and takes to be public, a sentence each."""
    found = (place["setting"] for place, _ in places(frame) if place["setting"] != REFERENCE)
    words = {name: setting_words(name) for name in dict.fromkeys(found)}
    return tuple(f"{name}: {unit}; {public}." for name, (unit, public) in words.items())


def _cell(point: Mapping[str, Any] | None) -> str:
    if point is None:
        return NOTHING
    words = mean_words(point["mean"], point["std"])
    proved, asked = point["epsilon_proved"], point["epsilon"]
    if is_missing(point["status"]) or is_missing(asked) or math.isinf(asked):
        return words
    if is_missing(proved):
        return f"{words} [none proved]"
    same = number(proved, 2) == number(asked, 2)
    return words if same else f"{words} [{number(proved, 2)}]"
