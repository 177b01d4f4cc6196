"""Claims of the text of Chapter 3 of the thesis, as rules over rows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from private_graphs.report.claims import (
    Claim,
    Measured,
    Place,
    choice,
    exact,
    interval,
    lowest,
)
from private_graphs.report.results import Results

MAIN = {"beta": 0.2, "tau": 0.318}
SVHN = ("svhn_plus", "svhn_students")
STUDENTS = ("plus", "students", "noise_ratios", "removal_ratios", *SVHN)
"""Run groups whose students train for the thesis's epochs."""
SVHN_TAU = 0.4
POINTS = 1.3
"""Largest difference of equal scores: a standard error of 1,000 test images, in points."""
SHARE = 2.0
"""Largest difference of equal shares of labels, in percent."""
LAST = 400
"""Epoch after which the thesis counts disagreements."""


def budgets(results: Results, groups: Sequence[str] = ("plus", "students")) -> list[float]:
    """Return the budgets of the students of some run groups, in ascending order."""
    private = results.scores("epsilon", group=tuple(groups)).unique()
    return sorted(value for value in private if math.isfinite(value))


def scores(results: Results, framework: str, epsilon: float, **where: Any) -> pd.Series:
    """Return accuracies in percent by seed of a framework at a budget."""
    at = {"group": STUDENTS, "framework": framework, "epsilon": epsilon, **MAIN, **where}
    return 100 * results.scores(**at)


def gains(results: Results, epsilon: float, base: str = "pate", **where: Any) -> pd.Series:
    """Return accuracies of PATE++ at a budget minus those of another framework, by seed."""
    return scores(results, "pate_plus_plus", epsilon, **where) - scores(results, base, epsilon)


def gain(index: int, framework: str = "pate_plus_plus", base: str = "pate"):
    """Return the rule of a paired difference at the claim's budget: 0 smaller, -1 larger."""

    def measure(results: Results, _: Place) -> Measured | None:
        known = budgets(results)
        if not known or (index == -1 and len(known) < 2):
            return None
        one, two = (scores(results, name, known[index]) for name in (framework, base))
        return interval(one - two)

    return measure


def best(results: Results, _: Place) -> Measured | None:
    """Smallest paired difference of PATE++ to another framework, over the budgets."""
    return lowest([
        gains(results, epsilon, rival)
        for epsilon in budgets(results)
        for rival in ("pate", "pate_coteaching", "pate_plus")
    ])  # fmt: skip


def gain_order(results: Results, _: Place) -> Measured | None:
    """Gain of PATE++ over PATE at the smaller budget, minus that at the larger one."""
    known = budgets(results)
    if len(known) < 2:
        return None
    small, large = (gains(results, epsilon) for epsilon in known)
    return interval(small - large)


def by_ratio(results: Results) -> dict[float, pd.Series]:
    """Return accuracies by seed for every τ of PATE++ at the smaller budget."""
    known = budgets(results)
    if not known or "tau" not in results.runs:
        return {}
    ratios = sorted(results.runs.loc[results.runs["framework"] == "pate_plus_plus", "tau"].unique())
    series = {ratio: scores(results, "pate_plus_plus", known[0], tau=ratio) for ratio in ratios}
    return {ratio: values for ratio, values in series.items() if len(values)}


def removal_helps(results: Results, _: Place) -> Measured | None:
    """Smallest paired difference of PATE++ to PATE+ over the ratios."""
    ratios = by_ratio(results)
    if len(ratios) < 2:
        return None
    plus = scores(results, "pate_plus", budgets(results)[0])
    return lowest([values - plus for values in ratios.values()])


def removal_best(results: Results, _: Place) -> Measured | None:
    """τ with the best mean, and the range of single seeds' best."""
    ratios = by_ratio(results)
    if len(ratios) < 2:
        return None
    frame = pd.DataFrame(ratios)
    return choice(float(frame.mean().idxmax()), frame.idxmax(axis=1).astype(float))


def svhn_gain(results: Results, _: Place) -> Measured | None:
    """Paired difference of PATE++ and PATE on SVHN at the smaller budget, in points."""
    known = budgets(results, SVHN)
    return interval(gains(results, known[0], tau=SVHN_TAU)) if known else None


def svhn_plus_below(results: Results, _: Place) -> Measured | None:
    """Paired difference of co-teaching and PATE+ on SVHN, at the budget with the smallest one."""
    return lowest([
        scores(results, "pate_coteaching", epsilon) - scores(results, "pate_plus", epsilon)
        for epsilon in budgets(results, SVHN)
    ])  # fmt: skip


def best_beta(results: Results, _: Place) -> Measured | None:
    """Printed accuracy of PATE+ at β = 0.2 in Table 3.2, minus the best printed one of PATE+."""
    printed = results.published("table3_2")
    printed = printed[printed["framework"] == "pate_plus"].set_index("beta")["accuracy_percent"]
    return exact(float(printed[MAIN["beta"]] - printed.max()))


def bold_entries(results: Results, _: Place) -> Measured | None:
    """Largest difference of the printed entries at the main β and τ of Tables 3.2 and 3.3 from
    those of Table 3.1 at the smaller budget."""
    main, ratios, removals = map(results.published, ("table3_1", "table3_2", "table3_3"))
    main = main[main["epsilon"] == main["epsilon"].min()].set_index("framework")
    ratios = ratios[ratios["beta"] == MAIN["beta"]].set_index("framework")
    removals = removals[removals["tau"] == MAIN["tau"]].set_index("framework")
    bold = pd.concat([ratios, removals])["accuracy_percent"]
    return exact(float((bold - main["accuracy_percent"].reindex(bold.index)).abs().max()))


def _long(results: Results) -> list[pd.DataFrame]:
    """Return the curves of the long runs."""
    runs = results.runs[results.runs["group"] == "long"]
    return [pd.DataFrame(json.loads(curve)) for curve in runs.get("curve", ())]


def few_disagree(results: Results, _: Place) -> Measured | None:
    """Largest number of disagreements of the classifiers after an epoch, over the long runs."""
    return interval(
        float(curve["disagreements"].iloc[LAST:].max())
        for curve in _long(results)
        if len(curve) > LAST
    )


def wrong_share(results: Results, _: Place) -> Measured | None:
    """Share of wrong labels among disagreements of the last epochs, minus that among all labels."""
    runs = results.at(group="plus", framework="pate_plus", beta=MAIN["beta"])
    runs = runs[runs["epsilon"] == runs["epsilon"].min()]
    gaps = []
    for row in runs.to_dict("records"):
        last = pd.DataFrame(json.loads(row["curve"])).iloc[-10:]
        if last["disagreements"].sum():
            share = last["wrong_among_them"].sum() / last["disagreements"].sum()
            gaps.append(100 * (share - (1 - row["label_accuracy"])))
    return interval(gaps)


def rises_then_falls(results: Results, _: Place) -> Measured | None:
    """Share of wrong labels in the middle third of a long run's disagreements, minus the larger
    one of the first and the last third, in points: positive if the share rises, then falls."""
    turns = (_turn(curve[["disagreements", "wrong_among_them"]]) for curve in _long(results))
    return interval(turn for turn in turns if turn is not None)


def _turn(counts: pd.DataFrame) -> float | None:
    if not counts["disagreements"].sum():
        return None
    part = (3 * counts["disagreements"].cumsum() / counts["disagreements"].sum()).clip(upper=2.9)
    sums = counts.groupby(part.astype(int)).sum()
    if len(sums) < 3:  # one epoch of a short run may be more than a third
        return None
    first, middle, last = 100 * sums["wrong_among_them"] / sums["disagreements"]
    return float(middle - max(first, last))


def label_noise(group: str) -> Callable[[Results, Place], Measured | None]:
    """Return the rule of the share of wrong labels at the smaller budget, in percent."""

    def measure(results: Results, _: Place) -> Measured | None:
        runs = results.at(group=group)
        runs = runs[runs["epsilon"] == runs["epsilon"].min()]
        return interval(100 * (1 - runs["label_accuracy"])) if len(runs) else None

    return measure


PROVING = ("paper", "sound")
NOT_HERE = (
    "Not run: votes and pictures of SVHN have not been here ([what is printed]"
    "(studies/pate.md#what-each-printed-number-is-and-is-not))."
)
CLAIMS = (
    Claim("best", best, least=0, exhibit="table3_1", protocols=PROVING),
    Claim("gain_small", gain(0), within=POINTS, exhibit="table3_1", protocols=PROVING),
    Claim("gain_large", gain(-1), within=POINTS, exhibit="table3_1", protocols=PROVING),
    Claim("gain_order", gain_order, least=0, exhibit="table3_1", protocols=PROVING),
    Claim(
        "plus_below", gain(0, "pate_plus", "pate_coteaching"), most=0, exhibit="table3_1",
        protocols=PROVING,
    ),
    Claim("removal_helps", removal_helps, least=0, exhibit="table3_3", protocols=("paper",)),
    Claim("removal_best", removal_best, within=0.001, exhibit="table3_3", protocols=("paper",)),
    Claim("few_disagree", few_disagree, most=49, exhibit="figure3_3", protocols=("paper",)),
    Claim("wrong_share", wrong_share, least=0, exhibit="table3_1", protocols=PROVING),
    Claim("rises_then_falls", rises_then_falls, least=0.01, exhibit="figure3_3",
          protocols=("paper",)),
    Claim("label_noise", label_noise("labels"), within=SHARE, exhibit="table3_1",
          protocols=PROVING),
    Claim("label_noise_unchecked", label_noise("unchecked"), within=SHARE, exhibit="table3_1",
          protocols=PROVING, at={"value": 33.0, "data": "fashion-mnist-students"},
          question="Is a third of the labels wrong if confidence is not checked, in percent?"),
    Claim("bold_entries", bold_entries, most=0, protocols=("",), per_graph=False),
    Claim("best_beta", best_beta, least=0, protocols=("",), per_graph=False,
          question="Is β = 0.2 the best of Table 3.2 for PATE+ (printed points above the best)?"),
    Claim("svhn_gain", svhn_gain, within=POINTS, exhibit="table3_4", protocols=PROVING,
          because=NOT_HERE),
    Claim("svhn_plus_below", svhn_plus_below, least=0, exhibit="table3_4", protocols=PROVING,
          because=NOT_HERE),
)  # fmt: skip
