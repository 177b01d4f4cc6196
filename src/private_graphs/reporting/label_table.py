"""The table of labels: how private training compares as fewer tuning labels are public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.reporting.formats import NOTHING, Readable, is_missing, number
from private_graphs.reporting.method_points import (
    PLACE,
    chosen,
    places,
    public_row,
    setting_words,
    unit_words,
    verdict,
    verdict_words,
    with_all_labels,
)
from private_graphs.reporting.readable import feature_title

EPSILONS = (0.0, 1.0, 2.0, 4.0)
"""Rows of the table; 0 is what reads nothing private."""
LABELS = ("all", "100", "20", "0")
"""Columns of the table that are always there: numbers of public tuning labels."""

_ROW = (
    *PLACE, "unit", "relation", "method", "title", "fits_tuning_labels", "tuning_nodes",
    "epsilon", "epsilon_proved", "chosen",
)  # fmt: skip
_CELL = ("mean", "std", "n_runs", "above_public", "statement_id")
"""Columns of each number of labels, behind ``labels_all_``, ``labels_100_``, …"""

MARK_NOTE = (
    "Bold: a private row above the row that reads nothing private (ε = 0) with the same number of "
    "public labels, by more than a standard error of the difference. The sentences compare at each "
    "ε the method with the highest validation score, chosen with all tuning labels."
)
NO_LABELS_NOTE = (
    "With 0 public labels every setting is fixed in advance or chosen under DP: the exponential "
    "mechanism pays for it with the tuning nodes' own ε. Rows that fit tuning labels are no proof "
    "that private data is worth its risk: they may win by the public labels alone."
)


def label_name(row: Mapping[str, Any]) -> str:
    """Return the column of a point: ``all``, or how many tuning labels are public."""
    every = row["tuning_labels"] == row["tuning_nodes"]
    return "all" if every else f"{int(row['tuning_labels'])}"


def label_names(points: pd.DataFrame) -> list[str]:
    """Return ``LABELS`` with further numbers of labels that ``points`` have, the most first."""
    found = {label_name(row) for row in points.to_dict("records")} | set(LABELS)
    return sorted(found, key=lambda each: -math.inf if each == "all" else -int(each))


def label_table(points: pd.DataFrame) -> pd.DataFrame:
    """Return a row per place, method and ε of ``EPSILONS``; columns by number of public labels.

    ``labels_<n>_above_public`` says whether a private row is above the row of ε = 0 of the same
    setting and number of labels by more than a standard error of the difference; ``chosen``
    whether its method has the highest validation score at its ε, with all tuning labels.
    """
    names = label_names(points)
    columns = [*_ROW, *(f"labels_{name}_{each}" for name in names for each in _CELL)]
    rows = []
    for _, group in places(points):
        shown, best = group[group["epsilon"].isin(EPSILONS)], chosen(group)
        for _, members in shown.groupby(["method", "epsilon"], sort=False):
            first = with_all_labels(members)
            some = (first if len(first) else members).iloc[0].to_dict()
            row = {name: some[name] for name in _ROW if name != "chosen"}
            if some["epsilon"]:
                row["chosen"] = best.get(some["epsilon"]) == some["method"]
            for point in members.to_dict("records"):
                prefix = f"labels_{label_name(point)}"
                values = {each: point[each] for each in _CELL if each != "above_public"}
                values["above_public"] = _above(point, group)
                row |= {f"{prefix}_{each}": value for each, value in values.items()}
            rows.append(row)
    return pd.DataFrame(rows, columns=columns)


def _above(point: Mapping[str, Any], group: pd.DataFrame) -> bool | None:
    public = public_row(group, point["tuning_labels"])
    if point["epsilon"] == 0 or public is None:
        return None
    return verdict(point, public) == "private"


def sentences(points: pd.DataFrame) -> tuple[str, ...]:
    """Return, for every place, where private data wins and where it does not, as ``cora: …``."""
    found = []
    for place, group in places(points):
        parts = [each for each in _verdicts(group) if each]
        if parts:
            unit, public = setting_words(place["setting"])
            kind = place["features_kind"]
            features = "" if kind == "raw" else f"{feature_title(kind)}, "
            found.append(f"{place['dataset']}: {features}{unit}, {public}: {'; '.join(parts)}.")
    return tuple(found)


def _verdicts(group: pd.DataFrame) -> list[str]:
    methods = chosen(group)
    found = []
    for labels in sorted(group["tuning_labels"].unique(), reverse=True):
        public, verdicts = public_row(group, labels), {}
        if public is None:
            continue
        for epsilon, method in methods.items():
            here = (group["method"] == method) & (group["epsilon"] == epsilon)
            rows = group[here & (group["tuning_labels"] == labels)].to_dict("records")
            if rows:
                verdicts[epsilon] = verdict(rows[0], public)
        if verdicts:
            words = f"with {_label_words(labels, public)}"
            found.append(f"{words}, {verdict_words(verdicts, public['title'])}")
    return found


def _label_words(labels: float, public: Mapping[str, Any]) -> str:
    count = int(labels)
    if count == public["tuning_nodes"]:
        return f"all {count} tuning labels public"
    return "no public label" if count == 0 else f"{count} public labels"


def readable_labels(frame: pd.DataFrame, findings: tuple[str, ...] = ()) -> Readable:
    """Return the table of labels for people; ``findings`` are its ``sentences``."""
    suffix = "_mean"
    names = [
        each.removeprefix("labels_").removesuffix(suffix)
        for each in frame.columns
        if each.startswith("labels_") and each.endswith(suffix)
    ]
    heads = [("", name) for name in ("dataset", "setting", "unit", "method", "ε")]
    heads += [("public tuning labels", name) for name in names]
    rows, strong = [], set()
    for index, row in enumerate(frame.to_dict("records")):
        cells = [*place_words(row), unit_words(row["unit"]), row["title"], number(row["epsilon"])]
        for name in names:
            if row[f"labels_{name}_above_public"] is True:
                strong.add((index, len(cells)))
            cells.append(mean_words(row[f"labels_{name}_mean"], row[f"labels_{name}_std"]))
        rows.append(tuple(cells))
    return Readable(
        caption="Fewer public labels. Micro-F1 on the test nodes by number of public tuning "
        "labels: mean ± standard deviation over the draws",
        columns=tuple(heads),
        rows=tuple(rows),
        notes=(MARK_NOTE, NO_LABELS_NOTE),
        findings=findings,
        strong=frozenset(strong),
    )


def place_words(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the dataset of a row, and its setting with the kind of features if not raw."""
    kind = row["features_kind"]
    words = [row["setting"], *([] if kind == "raw" else [feature_title(kind)])]
    return row["dataset"], ", ".join(words)


def mean_words(mean: Any, std: Any) -> str:
    """Return ``0.552 ± 0.021``; without ± for one draw."""
    if is_missing(mean):
        return NOTHING
    return f"{mean:.3f}" + ("" if is_missing(std) else f" ± {std:.3f}")
