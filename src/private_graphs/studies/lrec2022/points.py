"""Points of LREC 2022: GCNs of Table 1, and proved methods beside public data alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.methods import all_methods
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.report.words import OPTIMIZERS, SEED_NOTE, features, score, tone
from private_graphs.running.exhibit import Cell, Column
from private_graphs.studies.lrec2022.scores import PRINTED_SPLITS
from private_graphs.tasks.tasks import SCENARIOS

# --- points with further means, and the GCNs of Table 1 for comparison ---


def scored(results: Any, groups: str, by: Sequence[str], **means: str) -> pd.DataFrame:
    """Return the points of run groups, ``A,B``, with further scores by new names."""
    rows = results.rows
    return results.with_rows(rows[rows["group"].isin(groups.split(","))]).points(by, **means)


def parts_words(count: float) -> str:
    """Return the words for a number of random parts of the training graph."""
    return "full graph" if count == 1 else f"{count:g} splits"


def score_cell(point: dict[str, Any], note: str = "", decimals: int = 3, times: float = 1) -> Cell:
    """Format the score of a point with its statement, followed by ``note``."""
    cell = score(point, decimals, times)
    return Cell(f"{cell.text}{note}", point["statement_id"], tone(point), cell.accuracy)


def printed_gcns(results: Any) -> pd.DataFrame:
    """Return Table 1's printed values of trainings: ``title``, ``splits`` and ``published``."""
    rows = results.published("table1")
    rows = rows[rows["setting"].isin(list(PRINTED_SPLITS))]
    rows = rows.assign(splits=rows["setting"].map(PRINTED_SPLITS).astype(float), train_fraction=1.0)
    return _titled(rows.rename(columns={"test_micro_f1": "published"}))


def trained_gcns(results: Any) -> pd.DataFrame:
    """Return our trainings of Table 1: a row per protocol, ε, optimizer and number of splits."""
    by = ["dataset", "features", "protocol", "epsilon", "optimizer", "splits"]
    rows = scored(results, "table1", by, validation="validation_micro_f1")
    return _titled(rows.astype({"epsilon": float}))  # no row: a run without a training


def _titled(rows: pd.DataFrame) -> pd.DataFrame:
    parts = pd.Series(map(parts_words, rows["splits"]), rows.index, dtype="object")
    return rows.assign(title=rows["optimizer"].map(OPTIMIZERS) + ", " + parts)


# --- scores of the proved methods, compared with those of public data alone ---

PLACE = ["dataset", "features", "scenario"]
"""Columns within which methods are compared."""
HEADS = (
    Column("dataset", lambda row: row["dataset"]),
    Column("protects", lambda row: row["heading"].partition("\n")[0], above=True),
    Column("public", lambda row: row["heading"].partition("\n")[2], above=True),
    Column("method", lambda row: row["title"]),
)


def proved_points(results: Any, groups: str = "frontier") -> pd.DataFrame:
    """Return a row per place, method, number of public validation labels and ε, in that order.

    ε is 0 if nothing private is read. ``heading`` says in two lines what is protected and what is
    public; ``fitted`` are methods that fit parameters to public labels.
    """
    by = [*PLACE, "method", "validation_nodes", "validation_labels", "epsilon"]
    points = scored(results, groups, by, validation="validation_micro_f1",
                    majority="majority_micro_f1")  # fmt: skip
    methods, scenarios = list(all_methods()), list(SCENARIOS)
    points = points.assign(
        title=points["method"].map(results.title),
        heading=[
            _heading(*key)
            for key in zip(points["scenario"], points["features"], points["dataset"], strict=True)
        ],
        fitted=[all_methods()[name].fits_validation_labels for name in points["method"]],
        all_labels=(points["validation_labels"] == points["validation_nodes"]).astype(bool),
        private=(points["epsilon"] > 0) & np.isfinite(points["epsilon"]),
    )
    order = pd.DataFrame({
        "dataset": points["dataset"], "features": points["features"],
        "scenario": points["scenario"].map(scenarios.index), "private": points["epsilon"] > 0,
        "method": points["method"].map(methods.index), "labels": -points["validation_labels"],
        "epsilon": points["epsilon"],
    })  # fmt: skip
    return points.loc[order.sort_values(list(order)).index].reset_index(drop=True)


def seed_notes(points: pd.DataFrame) -> tuple[str, ...]:
    """Return notes on proved rows whose seed is published, if there are any."""
    return (SEED_NOTE,) if (points["status"] == "proved_if_seed_secret").any() else ()


def _heading(scenario: str, kind: str, dataset: str) -> str:
    unit, _, public = SCENARIOS[scenario].title.partition(", ")
    return f"{unit}{'' if kind == 'raw' else f', {features(kind, dataset)}'}\n{public}"


def chosen(points: pd.DataFrame) -> dict[float, str]:
    """Return, for each ε with DP, the method with the highest mean validation micro-F1.

    All validation labels are public there, and no private method's validation score is on labels
    that it was fitted to. Test scores are not used; ties go to the first row.
    """
    fair = points[points["all_labels"] & points["private"]]
    best = fair["validation"].round(12).groupby(fair["epsilon"]).idxmax()
    return {epsilon: fair.at[row, "method"] for epsilon, row in best.items()}


def public_row(points: pd.DataFrame, labels: float) -> dict[str, Any] | None:
    """Return the point that reads no private data with this many labels: the best of several.

    The best by test score, because it is the baseline that private rows must exceed.
    """
    rows = points[(points["epsilon"] == 0) & (points["validation_labels"] == labels)]
    return None if rows.empty else rows.loc[rows["mean"].idxmax()].to_dict()


def verdict(private: Mapping[str, Any], public: Mapping[str, Any] | None) -> str:
    """Return whether ``private`` is above, below or even with ``public``, by a standard error.

    Empty for a single private run, which says nothing about another run's score.
    """
    if public is None or private["n"] < 2:
        return ""
    errors = [row["std"] / math.sqrt(row["n"]) for row in (private, public)]
    error = math.hypot(*(0.0 if math.isnan(part) else part for part in errors))
    gain = private["mean"] - public["mean"]
    return "even" if abs(gain) <= error else "above" if gain > 0 else "below"


@dataclass(frozen=True)
class Together:
    """Joint guarantee of all runs behind some numbers; ``epsilon`` None: no guarantee."""

    epsilon: float | None
    delta: float
    runs: int
    gaussian: bool = False
    """Whether exact Gaussian DP proves it, so that ε at δ determines μ."""


def of_statement(statement: Mapping[str, Any]) -> Together:
    """Return the joint guarantee of all runs that a statement counts."""
    gaussian = all(
        event["sampling"] == "none" and event["type"] in ("gaussian", "gaussian_gradient")
        for event in statement["mechanisms"]
    )
    epsilon, runs = statement["epsilon_all_runs"], statement["n_runs_released"]
    return Together(epsilon, statement["delta"], runs, gaussian)


def compose(parts: Iterable[Together]) -> Together:
    """Return the joint guarantee of the runs of several methods on the same private data.

    Guarantees of exact Gaussian DP compose exactly: ε at δ determines their μ, and μ² adds up. The
    ε and δ of each other one are added (basic composition: Dwork & Roth 2014, Theorem 3.16), so
    ``delta`` can be a multiple of their own.
    """
    listed = list(parts)
    if len(listed) == 1:
        return listed[0]
    runs = sum(part.runs for part in listed)
    if any(part.epsilon is None for part in listed):
        return Together(None, max(part.delta for part in listed), runs)
    exact = [part for part in listed if part.gaussian]
    terms = [(part.epsilon, part.delta) for part in listed if not part.gaussian]
    if exact:
        delta = max(part.delta for part in exact)
        mu = math.hypot(*(gdp_mu(part.epsilon, part.delta) for part in exact))
        terms.append((gdp_epsilon(mu, delta), delta))
    return Together(*(sum(values) for values in zip(*terms, strict=True)), runs)  # type: ignore[call-arg]
