"""Points of proved methods: a score per setting, method, ε and number of public labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.errors import UserError
from private_graphs.methods.names import METHOD_NAMES
from private_graphs.methods.problem import SETTINGS
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.reporting.formats import is_missing, number
from private_graphs.reporting.score_tables import FEATURES, rank

PLACE = ("dataset", "features_kind", "setting")
"""What a comparison of methods stays within."""

POINT_KEY = (*PLACE, "method", "tuning_labels", "epsilon")
"""What names a point; ``epsilon`` is 0 where nothing private is read, infinite without DP."""

POINT_COLUMNS = (
    *PLACE, "unit", "relation", "inference", "method", "title", "fits_tuning_labels",
    "tuning_nodes", "tuning_labels", "epsilon", "delta", "epsilon_proved", "epsilon_all_runs",
    "runs_released", "status", "vacuous", "n_runs", "mean", "std", "validation_mean",
    "majority_mean", "statement_id",
)  # fmt: skip
"""Columns of a point: mean and deviation (ddof 1) of test micro-F1 over ``n_runs`` draws."""


def method_title(name: str) -> str:
    """Return the words for a method: ``class sums``."""
    known = METHOD_NAMES.get(name)
    return known.title if known else name.replace("_", " ")


def setting_words(name: str) -> tuple[str, str]:
    """Return the unit of a setting and what is public in it: ``("node level", "… public")``."""
    unit, _, public = SETTINGS[name].title.partition(", ")
    return unit, public


def unit_words(unit: str) -> str:
    """Return the words for a unit: ``edge`` for an undirected one."""
    return unit.replace("_undirected", "").replace("_", " ")


def method_points(
    runs: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]], experiment: str = "frontier"
) -> pd.DataFrame:
    """Return one row per point with the columns ``POINT_COLUMNS``, in the order of the tables.

    ``runs`` and ``statements`` are those of finished methods (``collect`` with
    ``METHOD_COLUMNS``). ``epsilon_all_runs`` covers all ``runs_released`` of the method and setting
    at this ε, whatever labels they know. Where the draws of a point have several statements, it
    has the weakest. A last column, ``together``, has what ``all_runs`` composes.

    Raises UserError for an unknown setting and where a seed stands twice at one point.
    """
    mine = runs[runs["experiment"] == experiment].rename(columns={"features": "features_kind"})
    unknown = set(mine["setting"]) - set(SETTINGS)
    if unknown:
        raise UserError(
            f"{mine.loc[mine['setting'].isin(unknown), 'cell'].iloc[0]}: unknown setting "
            f"{', '.join(sorted(unknown))}; expected {', '.join(SETTINGS)}: make the cell again"
        )
    rows = []
    for key, group in mine.groupby(list(POINT_KEY), sort=True):
        row = dict(zip(POINT_KEY, key, strict=True))
        if group["seed"].duplicated().any():
            raise UserError(
                f"{' and '.join(sorted(group['cell'].unique()))}: the same seed stands twice at "
                f"{', '.join(f'{name} {value}' for name, value in row.items())}; expected once"
            )
        rows.append(row | _values(row, group, statements))
    _add_together(rows, mine, statements)
    return pd.DataFrame(sorted(rows, key=_order), columns=[*POINT_COLUMNS, "together"])


def _values(
    row: Mapping[str, Any], group: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    setting, first = SETTINGS[row["setting"]], group.iloc[0]
    private = math.isfinite(row["epsilon"])
    weakest = group.sort_values("epsilon_proved", ascending=False, na_position="first").iloc[0]
    statement = statements[weakest["statement_id"]]
    return {
        "unit": setting.unit,
        "relation": setting.relation,
        "inference": first["inference"],
        "title": method_title(row["method"]),
        "fits_tuning_labels": first["fits_tuning_labels"],
        "tuning_nodes": first["tuning_nodes"],
        "delta": first["delta"],
        "epsilon_proved": weakest["epsilon_proved"] if private else None,
        "status": statement["status"],
        "vacuous": statement["vacuous"],
        "n_runs": len(group),
        "mean": group["test_micro_f1"].mean(),
        "std": group["test_micro_f1"].std(ddof=1),
        "validation_mean": group["validation_micro_f1"].mean(),
        "majority_mean": group["majority_micro_f1"].mean(),
        "statement_id": weakest["statement_id"],
    }


def _add_together(
    rows: list[dict[str, Any]],
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> None:
    """Add what all runs of a method and setting at one ε prove: their statements count each other.

    Those without public labels also release a choice about tuning nodes, which no other run reads.
    """
    found: dict[tuple[Any, ...], Together] = {}
    place = [*PLACE, "method", "epsilon"]
    for key, group in runs.groupby(place):
        names = group.drop_duplicates("statement_id")
        said = [statements[each] for each in names["statement_id"]]
        labelled = [
            each for each, known in zip(said, names["tuning_labels"], strict=True) if known
        ] or said
        exact = all(
            is_gaussian(each, choice=not known)
            for each, known in zip(said, names["tuning_labels"], strict=True)
        )
        found[key] = of_statements(labelled, exact)
    for row in rows:
        together = found[tuple(row[name] for name in place)]
        reads = 0 < row["epsilon"] < math.inf
        row["together"] = together
        row["epsilon_all_runs"] = together.epsilon if math.isfinite(row["epsilon"]) else None
        row["runs_released"] = together.runs if reads else None


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        row["dataset"], rank(FEATURES, row["features_kind"]), row["features_kind"],
        list(SETTINGS).index(row["setting"]), row["epsilon"] != 0,
        rank(tuple(METHOD_NAMES), row["method"]), row["method"], -row["tuning_labels"],
        row["epsilon"],
    )  # fmt: skip


# --- what several runs prove together ---------------------------------------------------------


@dataclass(frozen=True)
class Together:
    """What is proved for all runs behind some numbers; ``epsilon`` None: nothing."""

    epsilon: float | None
    delta: float
    runs: int
    gaussian: bool = False
    """Whether exact Gaussian DP proves it, so that ε at δ determines μ."""


def of_statements(statements: Sequence[Mapping[str, Any]], gaussian: bool) -> Together:
    """Return what ``statements`` that count each other's runs prove for all of them.

    ``gaussian`` says that all their mechanisms are exact Gaussian DP.
    """
    epsilons = [each["epsilon_all_runs"] for each in statements]
    return Together(
        epsilon=None if any(map(is_missing, epsilons)) else max(epsilons),
        delta=max(each["delta"] for each in statements),
        runs=max(each["n_runs_released"] for each in statements),
        gaussian=gaussian,
    )


def is_gaussian(statement: Mapping[str, Any], *, choice: bool = False) -> bool:
    """Return whether all mechanisms are Gaussian noise without sampling.

    With ``choice``, beside an exponential one about other units.
    """
    return all(
        (each["type"] in ("gaussian", "gaussian_gradient") and each["sampling"] == "none")
        or (choice and each["type"] == "exponential")
        for each in statement["mechanisms"]
    )


def all_runs(parts: Iterable[Together]) -> Together:
    """Compose the runs of several methods or trainings on the same private data.

    Those of exact Gaussian DP compose exactly: ε at δ determines their μ, and μ² adds up. The ε
    and δ of each other one are added to that (basic composition: Dwork & Roth 2014, Theorem 3.16),
    so ``delta`` can be a multiple of their own.
    """
    listed = list(parts)
    if len(listed) == 1:
        return listed[0]
    runs = sum(each.runs for each in listed)
    delta = max((each.delta for each in listed), default=0.0)
    if not listed or any(each.epsilon is None for each in listed):
        return Together(None, delta, runs)
    exact = [each for each in listed if each.gaussian]
    others = [(each.epsilon, each.delta) for each in listed if not each.gaussian]
    if exact:
        delta = max(each.delta for each in exact)
        mu = math.hypot(*(gdp_mu(each.epsilon, each.delta) for each in exact))
        others.append((gdp_epsilon(mu, delta), delta))
    return Together(sum(epsilon for epsilon, _ in others), sum(each for _, each in others), runs)


# --- comparisons --------------------------------------------------------------------------------


def places(points: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """Yield the values of ``PLACE`` and the points of every place, in the order of the points."""
    for key, group in points.groupby(list(PLACE), sort=False):
        yield dict(zip(PLACE, key, strict=True)), group


def with_all_labels(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points at which every tuning label is public."""
    return points[points["tuning_labels"] == points["tuning_nodes"]]


def candidates(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with DP of methods that fit no parameter to tuning labels."""
    private = points["epsilon"].map(lambda each: 0 < each < math.inf).astype(bool)
    return points[private & ~points["fits_tuning_labels"].astype(bool)]


def chosen(points: pd.DataFrame) -> dict[float, str]:
    """Return, for each ε with DP, the method with the highest mean validation micro-F1.

    All tuning labels are public there, and methods that fit a parameter to them take no part.
    Test scores play no part; ties go to the first row.
    """
    found = {}
    for epsilon, group in candidates(with_all_labels(points)).groupby("epsilon", sort=True):
        scores = group["validation_mean"].round(12)
        found[float(epsilon)] = group.loc[scores.idxmax(), "method"]
    return found


def public_row(points: pd.DataFrame, labels: float) -> Mapping[str, Any] | None:
    """Return the point that reads nothing private, with this many labels; the highest of several.

    The highest test score, because it is the bar that private rows have to take.
    """
    rows = points[(points["epsilon"] == 0) & (points["tuning_labels"] == labels)]
    return None if rows.empty else rows.loc[rows["mean"].idxmax()].to_dict()


def standard_error(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """Return the standard error of the difference of two means; 0 for single draws."""
    parts = [
        0.0 if is_missing(each["std"]) else each["std"] / math.sqrt(each["n_runs"])
        for each in (first, second)
    ]
    return math.hypot(*parts)


def verdict(private: Mapping[str, Any], public: Mapping[str, Any]) -> str:
    """Return ``private`` or ``public``, whichever is above by more than a standard error.

    ``even`` where neither is.
    """
    difference = private["mean"] - public["mean"]
    if abs(difference) <= standard_error(private, public):
        return "even"
    return "private" if difference > 0 else "public"


def verdict_words(verdicts: Mapping[float, str], public: str) -> str:
    """Return who wins at which ε in words; ``public`` names the row that reads nothing private."""
    names = {
        "private": "private training wins",
        "public": f"“{public}” wins",
        "even": "neither wins",
    }
    order = sorted(verdicts)
    parts = []
    for kind, words in names.items():
        mine = [each for each in order if verdicts[each] == kind]
        if mine:
            parts.append(f"{words} {_where(mine, order)}")
    return ", ".join(parts)


def _where(mine: Sequence[float], order: Sequence[float]) -> str:
    if len(mine) == len(order):
        if len(order) == 1:
            return f"at ε = {number(order[0])}"
        return f"at every ε from {number(order[0])} to {number(order[-1])}"
    if len(mine) > 1 and list(mine) == list(order[-len(mine) :]):
        return f"from ε = {number(mine[0])} on"
    if len(mine) > 1 and list(mine) == list(order[: len(mine)]):
        return f"up to ε = {number(mine[-1])}"
    return f"at ε = {', '.join(number(each) for each in mine)}"
