"""The table beside Table 1: published and trained GCNs beside the best proved methods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.methods.problem import SETTINGS
from private_graphs.reporting.formats import NOTHING, Readable, is_missing, number
from private_graphs.reporting.label_table import mean_words
from private_graphs.reporting.method_points import (
    Together,
    all_runs,
    candidates,
    chosen,
    public_row,
    setting_words,
    standard_error,
    unit_words,
    with_all_labels,
)
from private_graphs.reporting.readable import feature_title, seed_notes
from private_graphs.reporting.references import (
    Trained,
    best_trained,
    compared,
    published_scores,
    trained,
    without_dp,
)

EPSILONS = (1.0, 2.0)
"""Budgets at which the paper prints scores on every dataset."""

COLUMNS = (
    "dataset", "features_kind", "epsilon", "source", "source_title", "method", "title", "setting",
    "unit", "relation", "inference", "delta", "status", "mean", "std", "n_runs", "validation_mean",
    "epsilon_of_row", "epsilon_proved", "epsilon_all_runs", "delta_all_runs", "runs_compared",
    "published_difference", "statement_id",
)  # fmt: skip
"""Columns of the table: a row for each dataset, ε and source.

``epsilon_of_row`` is 0 where nothing private is read and infinite without DP;
``epsilon_all_runs`` is proved, at ``delta_all_runs``, for all ``runs_compared`` that the choice of
the row looked at; ``published_difference`` is the score minus the best one that the paper prints
for this ε.
"""

_PROTOCOL_ROWS = {
    "released": "released GCN",
    "paper": "paper GCN",
    "sound": "sound GCN",
}
_METHOD_ROWS = {
    "text": "best proved, no public graph",
    "graph": "best proved, public evaluation graph",
    "edges": "best proved, edge level",
}
_PUBLIC_ROWS = {
    "text": "nothing private, no public graph",
    "graph": "nothing private, public evaluation graph",
    "edges": "nothing private, edge level",
}

NOTES = (
    "published: the highest score that the paper prints for this ε, of either optimizer, full "
    "graph or splits.",
    "Every other choice (optimizer and splits of a GCN; the method of a best row) is by mean "
    "validation micro-F1 at the ε of the column, never by test scores. Rows that fit a parameter "
    "to tuning labels take no part in it.",
    "ε proved is of one run whose method is fixed in advance, for the unit of the row; in brackets "
    "ε of all runs that the choice looked at, with its δ where it is another. none: no finite ε is "
    "proved. 0: nothing private is read, which is the row that private data has to beat.",
    "edge: training texts and labels are public there, and only the edges are private: those rows "
    "do not protect what the others do.",
    "to published: this row minus published.",
)


@dataclass(frozen=True)
class _Sources:
    """What the rows of one dataset and kind of features are made of."""

    place: Mapping[str, str]
    points: pd.DataFrame
    published: pd.DataFrame
    runs: pd.DataFrame
    statements: Mapping[str, Mapping[str, Any]]
    """Of trainings and methods."""


def useful_table(
    points: pd.DataFrame,
    published: pd.DataFrame,
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> pd.DataFrame:
    """Return the rows with ``COLUMNS`` for every dataset and kind of features of ``points``.

    ``points`` are those of ``method_points``; ``published`` is Table 1 as the paper prints it,
    ``runs`` are of finished trainings, ``statements`` of trainings and methods. A source without a
    number has no row.
    """
    rows: list[dict[str, Any]] = []
    every = with_all_labels(points)
    for (dataset, kind), group in every.groupby(["dataset", "features_kind"], sort=False):
        place = {"dataset": dataset, "features_kind": kind}
        sources = _Sources(place, group, published, runs, statements)
        for epsilon in EPSILONS:
            mine = list(_rows(sources, epsilon))
            printed = next((row["mean"] for row in mine if row["source"] == "published"), None)
            for row in mine:
                if printed is not None and row["source"] != "published":
                    row["published_difference"] = row["mean"] - printed
                rows.append(place | {"epsilon": epsilon} | row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(sources: _Sources, epsilon: float) -> Iterator[dict[str, Any]]:
    yield from _published(sources, epsilon, "published", "published")
    for protocol, title in _PROTOCOL_ROWS.items():
        found = trained(sources.runs, sources.statements, sources.place, protocol, epsilon)
        yield from _gcn(sources, found, f"{protocol}_gcn", title, epsilon)
    by_setting = dict(iter(sources.points.groupby("setting", sort=False)))
    known = [name for name in SETTINGS if name in by_setting]
    for name in known:
        yield from _best(sources, by_setting[name], name, epsilon)
    for name in known:
        yield from _public(by_setting[name], name)
    majority = {"source": "majority", "source_title": "majority class", "title": "majority class"}
    yield majority | {"mean": sources.points["majority_mean"].mean()}
    yield from _published(sources, math.inf, "published_non_private", "published, no DP")
    found = without_dp(sources.runs, sources.statements, sources.place)
    yield from _gcn(sources, found, "gcn_non_private", "GCN, no DP", math.inf)


def _published(
    sources: _Sources, epsilon: float, source: str, title: str
) -> Iterator[dict[str, Any]]:
    scores = published_scores(sources.published, sources.place["dataset"])
    here = [each for each in scores if each["epsilon"] == epsilon]
    if here:
        best = max(here, key=lambda each: each["micro_f1"])
        yield {
            "source": source,
            "source_title": title,
            "title": best["title"].removeprefix("published, "),
            "mean": best["micro_f1"],
            "epsilon_of_row": epsilon,
        }


def _gcn(
    sources: _Sources, found: Sequence[Trained], source: str, title: str, epsilon: float
) -> Iterator[dict[str, Any]]:
    best = best_trained(list(found))
    if best is None:
        return
    values = best.values
    row = {name: values[name] for name in ("mean", "std", "status", "inference", "statement_id")}
    row["delta"] = sources.statements[values["statement_id"]]["delta"]
    row |= {"source": source, "source_title": title, "method": "gcn"}
    row |= {"title": best.title.removeprefix("GCN, "), "epsilon_of_row": epsilon}
    row |= {"n_runs": values["seeds"], "validation_mean": best.validation_mean}
    if math.isfinite(epsilon):
        together = compared(list(found), sources.statements)
        row |= {name: values[name] for name in ("unit", "relation", "epsilon_proved")}
        row |= _together(together)
    yield row


def _best(
    sources: _Sources, points: pd.DataFrame, setting: str, epsilon: float
) -> Iterator[dict[str, Any]]:
    method = chosen(points).get(epsilon)
    if method is None:
        return
    looked_at = candidates(points)
    looked_at = looked_at[looked_at["epsilon"] == epsilon]
    row = looked_at[looked_at["method"] == method].iloc[0].to_dict()
    together = all_runs(looked_at["together"])
    yield _point(row, f"best_{setting}", _METHOD_ROWS[setting]) | _together(together)


def _public(points: pd.DataFrame, setting: str) -> Iterator[dict[str, Any]]:
    rows = points[points["epsilon"] == 0]
    row = None if rows.empty else public_row(points, rows["tuning_labels"].iloc[0])
    if row is not None:
        yield _point(row, f"public_{setting}", _PUBLIC_ROWS[setting])


def _point(row: Mapping[str, Any], source: str, title: str) -> dict[str, Any]:
    same = (
        "method", "title", "setting", "unit", "relation", "inference", "delta", "status", "mean",
        "std", "n_runs", "validation_mean", "epsilon_proved", "statement_id",
    )  # fmt: skip
    found = {name: row[name] for name in same}
    return found | {"source": source, "source_title": title, "epsilon_of_row": row["epsilon"]}


def _together(together: Together) -> dict[str, Any]:
    return {
        "epsilon_all_runs": together.epsilon,
        "delta_all_runs": None if together.epsilon is None else together.delta,
        "runs_compared": together.runs,
    }


# --- words --------------------------------------------------------------------------------------


def readable_useful(frame: pd.DataFrame) -> Readable:
    """Return the table for people: a row per source, four columns per ε."""
    epsilons = sorted(frame["epsilon"].unique())
    heads = [("", name) for name in ("dataset", "row", "unit")]
    for epsilon in epsilons:
        group = f"ε = {number(epsilon)}"
        heads += [(group, each) for each in ("method", "F1", "ε proved", "to published")]
    rows = []
    keys = ["dataset", "features_kind", "source"]
    order = {name: place for place, name in enumerate(_ORDER)}
    ordered = frame.assign(place=frame["source"].map(order)).sort_values(
        ["dataset", "features_kind", "place"], kind="stable"
    )
    for (dataset, kind, _), line in ordered.groupby(keys, sort=False):
        at = {row["epsilon"]: row for row in line.to_dict("records")}
        first = line.iloc[0]
        title = first["source_title"]
        title += "" if kind == "raw" else f", {feature_title(kind)}"
        unit = NOTHING if is_missing(first["unit"]) else unit_words(first["unit"])
        cells = [each for epsilon in epsilons for each in _cells(at.get(epsilon))]
        rows.append((dataset, title, unit, *cells))
    return Readable(
        caption="Private and useful, beside Table 1. Micro-F1 on the test nodes: mean ± standard "
        "deviation over the draws",
        columns=tuple(heads),
        rows=tuple(rows),
        notes=(*NOTES, *seed_notes(frame), *_setting_notes(frame)),
        findings=sentences(frame),
    )


_ORDER = (
    "published", *(f"{each}_gcn" for each in _PROTOCOL_ROWS),
    *(f"best_{each}" for each in SETTINGS), *(f"public_{each}" for each in SETTINGS),
    "majority", "published_non_private", "gcn_non_private",
)  # fmt: skip
"""Sources in the order of the rows."""


def _cells(row: Mapping[str, Any] | None) -> tuple[str, str, str, str]:
    if row is None:
        return NOTHING, NOTHING, NOTHING, NOTHING
    score = mean_words(row["mean"], row["std"])
    if row["source"].startswith("published"):
        score = number(row["mean"], 2)
    gain = row["published_difference"]
    return row["title"], score, _privacy(row), NOTHING if is_missing(gain) else f"{gain:+.3f}"


def _privacy(row: Mapping[str, Any]) -> str:
    own = row["epsilon_of_row"]
    if is_missing(own):
        return NOTHING
    if math.isinf(own):
        return "no DP"
    if row["source"] == "published":
        return f"claimed {number(own)}"
    if is_missing(row["epsilon_proved"]):
        return "refuted" if row["status"] == "refuted" else "none"
    words = number(row["epsilon_proved"], 2)
    if row["inference"] == "leaks":
        words += ", model only"
    together = row["epsilon_all_runs"]
    if is_missing(together) or own == 0:
        return words
    words += f" [all {int(row['runs_compared'])} runs: {number(together, 2)}"
    same = math.isclose(row["delta"], row["delta_all_runs"])
    return words + ("]" if same else f" at δ = {number(row['delta_all_runs'])}]")


def _setting_notes(frame: pd.DataFrame) -> tuple[str, ...]:
    known = [name for name in SETTINGS if (frame["setting"] == name).any()]
    words = {name: setting_words(name) for name in known}
    return tuple(f"{_METHOD_ROWS[name]}: {', '.join(each)}." for name, each in words.items())


_TOLD = ("sound_gcn", *(f"best_{each}" for each in SETTINGS), "public_text", "public_graph")
"""Sources that the sentences compare with the published score."""


def sentences(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return, for every dataset and ε, which rows beat the published score and by how much.

    Then, for every setting, whether the best proved row beats the one that reads nothing private.
    """
    found = []
    for (dataset, kind, epsilon), group in frame.groupby(
        ["dataset", "features_kind", "epsilon"], sort=True
    ):
        rows = {row["source"]: row for row in group.to_dict("records")}
        place = dataset if kind == "raw" else f"{dataset}: {feature_title(kind)}"
        parts = [_against_published(rows), *_against_public(rows)]
        words = " ".join(each for each in parts if each)
        found.append(f"{place}: ε = {number(epsilon)}: {words}")
    return tuple(found)


def _against_published(rows: Mapping[str, Mapping[str, Any]]) -> str:
    published = rows.get("published")
    if published is None:
        return "The paper prints no score for this dataset and ε."
    told = [rows[each] for each in _TOLD if each in rows]
    above = [_gain(each) for each in told if each["published_difference"] > 0]
    below = [_gain(each) for each in told if each["published_difference"] <= 0]
    words = f"The paper prints {published['mean']:.2f}, without a proof."
    if above:
        words += f" Above it: {'; '.join(above)}."
    if below:
        words += f" Not above it: {'; '.join(below)}."
    return words


def _gain(row: Mapping[str, Any]) -> str:
    return (
        f"{row['source_title']} ({row['title']}) {row['mean']:.3f} "
        f"({row['published_difference']:+.3f})"
    )


def _against_public(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name in SETTINGS:
        best, public = rows.get(f"best_{name}"), rows.get(f"public_{name}")
        if best is None or public is None:
            continue
        gain, error = best["mean"] - public["mean"], standard_error(best, public)
        if abs(gain) <= error:
            words = "does not differ from"
        else:
            words = "beats" if gain > 0 else "stays below"
        yield (
            f"{_METHOD_ROWS[name].capitalize()} {words} the row that reads nothing private "
            f"({best['mean']:.3f} and {public['mean']:.3f})."
        )
