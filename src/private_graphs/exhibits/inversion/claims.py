"""What the thesis says of its models and attacks, and of its accountant, as rules over rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr
from scipy.stats import spearmanr

from private_graphs.privacy.accountants import price
from private_graphs.privacy.events import PoissonSums
from private_graphs.report.claims import Claim, Measured, Place, exact, interval
from private_graphs.report.results import Results

_ATTACKED = "model_inversion"
_GROUPS = ("classes", "subclasses")
_READ = ("attack", "penalty", "network", "distance", "advantage", "re_identification")
_APART = ("mnist_parts", "mnist_parts_attacks", "mnist_examples", "faces_class_worlds")
"""Run groups of models beside those that the thesis compares."""
_BETWEEN = "mnist_record_between_attacks"
"""At noise between the printed ones: one seed, for curves."""
_PAIRS = ((9.1, 62.0), (4.2, 45.5), (2.7, 40.5), (6.0, 18.6), (1.6, 8.2), (0.5, 7.0))
"""Printed ε of record level, and of class or subclass level at the same printed accuracy."""
_CLOSE = 0.02
"""Accuracies as near as this are the same."""
_STEPS = {
    "mnist_subclass": {"18.6": 691, "8.2": 795, "7": 952},
    "faces_class": {"62": 202, "45.5": 412, "40.5": 735},
}
"""Steps at which an accountant that takes the noise as it is gives the printed ε."""
_FACES94, _FACES94_DELTA = 153, 1e-2


def _rows_of(results: Results, method: str, **where: Any) -> pd.DataFrame:
    """Rows of a method, with all columns that rules read: nothing may have been run. ``where`` are
    values of columns, of which a tuple lists several."""
    rows = results.runs[results.runs["method"] == method]
    rows = rows[~rows["group"].isin(_APART)]
    rows = rows.reindex(columns=[*dict.fromkeys([*rows, *_READ])])
    for name, value in where.items():
        rows = rows[rows[name].isin(value if isinstance(value, tuple) else (value,))]
    return rows


# --- attacks ----------------------------------------------------------------------------------


def attacked(results: Results, attack: str, **where: Any) -> pd.DataFrame:
    """Rows of one attack."""
    rows = _rows_of(results, _ATTACKED, attack=attack, **where)
    return rows[rows["penalty"] != "l1_mean"]  # of several penalties the printed one: a sum


def plain(results: Results, attack: str, column: str) -> pd.Series:
    """Values by seed of an attack on models without DP."""
    return attacked(results, attack, epsilon=math.inf).set_index("seed")[column]


def nearer(results: Results, place: Place) -> Measured | None:
    """Distance of the original attack minus that of the enhanced one."""
    return interval(
        (plain(results, "original", "distance") - plain(results, "enhanced", "distance")).dropna()
    )


def against_nothing(results: Results, place: Place) -> Measured | None:
    """Distance without a model minus that of the enhanced attack."""
    return interval(plain(results, "enhanced", "advantage"))


def ranks(results: Results, place: Place) -> Measured | None:
    """Correlation over all attacked models of being recognised and of being near."""
    rows = _rows_of(results, _ATTACKED)
    if len(rows) < 4:
        return None
    found = []
    for _, part in rows.groupby("seed"):
        if len(part) >= 4 and part["re_identification"].nunique() > 1:
            found.append(spearmanr(part["re_identification"], -part["distance"]).statistic)
    return interval(found)


def at_smallest(results: Results, place: Place, attack: str) -> Measured | None:
    """Share of classes that are recognised at the smallest ε of record-level DP."""
    rows = attacked(results, attack, scenario="records")
    rows = rows[np.isfinite(rows["epsilon"]) & (rows["group"] != _BETWEEN)]
    return interval(rows.loc[rows["epsilon"] == rows["epsilon"].min(), "re_identification"])


def depends(results: Results, place: Place) -> Measured | None:
    """p value of Spearman's correlation of ε and distance under record-level DP."""
    rows = attacked(results, "enhanced", scenario="records")
    rows = rows[np.isfinite(rows["epsilon"])]
    if rows["epsilon"].nunique() < 3:
        return None
    return exact(spearmanr(rows["epsilon"], rows["distance"]).pvalue)


def falls(results: Results, place: Place) -> Measured | None:
    """Spearman's correlation of ε and distance under class- or subclass-level DP, by seed."""
    rows = attacked(results, "enhanced", scenario=_GROUPS)
    if rows["epsilon"].nunique() < 3:
        return None
    return interval(
        spearmanr(part["epsilon"], part["distance"]).statistic for _, part in rows.groupby("seed")
    )


# --- accuracy ---------------------------------------------------------------------------------


def models(results: Results, **where: Any) -> pd.DataFrame:
    """Rows of trained models."""
    return _rows_of(results, "unit_gradients", **where)


def matched(results: Results, place: Place) -> Measured | None:
    """Accuracy at class or subclass level minus that at record level, pair by printed pair."""
    return _by_pairs(partial(models, results), "test_accuracy")


def farther(results: Results, place: Place) -> Measured | None:
    """Distance of the enhanced attack likewise."""
    return _by_pairs(partial(attacked, results, "enhanced"), "distance")


def _by_pairs(rows_of: Callable[..., pd.DataFrame], column: str) -> Measured | None:
    differences = []
    for record, group in _PAIRS:
        one, other = (
            rows_of(scenario=scenario, epsilon=epsilon).set_index("seed")[column]
            for scenario, epsilon in ((_GROUPS, group), ("records", record))
        )
        differences.append((one - other).dropna())
    found = pd.concat(differences)
    return interval(found.groupby(level=0).mean()) if len(found) else None


def more_parts(results: Results, place: Place, group: str, column: str) -> Measured | None:
    """Spearman's correlation of the number of parts and a column, by seed."""
    rows = results.runs[results.runs["group"] == group]
    if rows.empty or rows["parts"].nunique() < 3:
        return None
    return interval(
        spearmanr(part["parts"], part[column]).statistic for _, part in rows.groupby("seed")
    )


def accuracy(results: Results, place: Place, **where: Any) -> Measured | None:
    """Accuracy of some models by seed."""
    return interval(models(results, **where)["test_accuracy"])


# --- the accountant ---------------------------------------------------------------------------


def theorem5_noise(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return σ of Theorem 5: 4 q sqrt(T ln(1/δ)) / ε, in units of the clip norm."""
    return 4 * rate * math.sqrt(steps * math.log(1 / delta)) / epsilon


def sampled_delta(rate: float, noise: float, epsilon: float, moved: float = 1.0) -> float:
    """Return δ(ε) of one release of N(0) against (1-q) N(0) + q N(moved), exactly.

    The likelihood ratio grows with the release, so that the best event is a half line.
    """
    needed = math.expm1(epsilon) / rate + 1
    cut = noise**2 / moved * math.log(needed) + moved / 2
    other, own = ndtr(-cut / noise), ndtr((moved - cut) / noise)
    return float((1 - rate) * other + rate * own - math.exp(epsilon) * other)


def theorem5(results: Results, place: Place) -> Measured | None:
    """δ(1) at q = .001 and T = 1 with the noise of the theorem."""
    return exact(sampled_delta(0.001, theorem5_noise(0.001, 1, 1.0, 1e-5), 1.0))


def lemma3(results: Results, place: Place) -> Measured | None:
    """exp(4/σ²) - 1 minus 4/σ²."""
    return exact(math.expm1(4 / 1.6**2) - 4 / 1.6**2)


def conditions(results: Results, place: Place) -> Measured | None:
    """Share of the printed rows with q < 1/(16σ), which Lemma 3 asks for."""
    rows = [(0.2, noise) for noise in (1.6, 3.0, 3.65)] + [(0.33, n) for n in (0.8, 1.2, 1.6)]
    return exact(float(np.mean([rate < 1 / (16 * noise) for rate, noise in rows])))


def _printed(results: Results, name: str) -> dict[str, tuple[float, int]]:
    settings = results.study.configurations[name].settings
    return {key: settings["printed"][key] for key in _STEPS[name]}


def steps_ratio(results: Results, place: Place, name: str) -> Measured | None:
    """Largest over smallest number of steps, by the reading that is kinder to the claim."""
    doubled = [steps for _, steps in _printed(results, name).values()]
    ratios = [max(each) / min(each) for each in (doubled, [*_STEPS[name].values()])]
    return Measured(min(ratios), min(ratios), max(ratios))


def excess(results: Results, place: Place, name: str, rate: float, delta: float) -> Measured:
    """Largest ε proved minus ε printed; from the reading with the fewest steps to the other."""

    def worst(steps_of: dict[str, int]) -> float:
        return max(
            price(
                PoissonSums(
                    unit="class", relation="replace", count=steps_of[key], reason="",
                    noise_multiplier=noise, clip_norm=1.0, rate=rate,
                ),
                "class", "replace", delta,
            ).epsilon - float(key)
            for key, (noise, _) in _printed(results, name).items()
        )  # fmt: skip

    doubled = {key: steps for key, (_, steps) in _printed(results, name).items()}
    low, high = worst(doubled), worst(_STEPS[name])
    return Measured(high, low, high)


BACKWARDS = (
    "The measure ranks leakage backwards: an empty picture is nearer to a digit than what an "
    "attack shows ([the measure](studies/inversion.md#the-measure))."
)
LEARNS_NOTHING = (
    "With the printed noise class-level DP learns nothing on these pictures "
    "([models](studies/inversion.md#the-models))."
)
FALSE_THEOREM = (
    "A class that joins with probability q is seen through noise that shrinks with q "
    "([the accountant](studies/inversion.md#the-accountant))."
)
NO_STEPS = "The thesis prints no steps ([steps](studies/inversion.md#the-accountant))."
COPIES = (
    "Copies of a photograph are on both sides of the thesis' split "
    "([the data](studies/inversion.md#the-data))."
)
NOWHERE: dict[str, Any] = {"protocols": ("",), "per_graph": False}
PAPER: dict[str, Any] = {"protocols": ("paper",)}
ATTACKS: dict[str, Any] = {"protocols": ("paper", "sound"), "exhibit": "attack_scores"}

CLAIMS = (
    Claim("enhanced_nearer", nearer, least=0, because=BACKWARDS, **ATTACKS),
    Claim("beats_nothing", against_nothing, least=0, because=BACKWARDS, **ATTACKS),
    Claim("more_leaks_nearer", ranks, least=0, because=BACKWARDS, **ATTACKS),
    Claim("record_leaks", partial(at_smallest, attack="enhanced"), least=0.5, **ATTACKS),
    Claim("record_prior", partial(at_smallest, attack="prior"), least=0.5, **ATTACKS),
    Claim("record_distance", depends, least=0.05, because=BACKWARDS, **ATTACKS),
    Claim("group_distance", falls, most=0, because=LEARNS_NOTHING, **ATTACKS),
    Claim("matched_accuracy", matched, least=-_CLOSE, most=_CLOSE, because=LEARNS_NOTHING,
          exhibit="trained_models", protocols=("paper",)),
    Claim("group_farther", farther, least=0, because=BACKWARDS, **{**ATTACKS, **PAPER}),
    Claim("parts_accuracy", partial(more_parts, group="mnist_parts", column="test_accuracy"),
          least=0, exhibit="figure4_9", **PAPER),
    Claim("parts_distance", partial(more_parts, group="mnist_parts_attacks", column="distance"),
          most=0, exhibit="figure4_9", **PAPER),
    *(
        Claim(name, partial(accuracy, scenario="classes", epsilon=epsilon), within=_CLOSE,
              because=LEARNS_NOTHING, exhibit="trained_models", protocols=("paper",))
        for name, epsilon in (("class_accuracy_62", 62.0), ("class_accuracy_45", 45.5),
                              ("class_accuracy_40", 40.5))
    ),
    Claim("plain_accuracy", partial(accuracy, epsilon=math.inf, network="softmax"),
          within=_CLOSE, because=COPIES, exhibit="trained_models", protocols=("paper", "sound")),
    Claim("theorem5", theorem5, most=1e-5, because=FALSE_THEOREM, **NOWHERE),
    Claim("lemma3", lemma3, most=0, because=FALSE_THEOREM, **NOWHERE),
    Claim("conditions", conditions, least=1, because=FALSE_THEOREM, **NOWHERE),
    Claim("one_count_subclass", partial(steps_ratio, name="mnist_subclass"), most=1.01,
          because=NO_STEPS, **NOWHERE),
    Claim("one_count_class", partial(steps_ratio, name="faces_class"), most=1.01,
          because=NO_STEPS, **NOWHERE),
    Claim("face_delta", lambda results, place: exact(_FACES94 * _FACES94_DELTA), most=1 - 1e-9,
          because="A mechanism that publishes a class at random would pass.", **NOWHERE),
    Claim("printed_subclass", partial(excess, name="mnist_subclass", rate=0.2, delta=1e-3),
          most=0, because=NO_STEPS, **NOWHERE),
    Claim("printed_class", partial(excess, name="faces_class", rate=0.33, delta=1e-2), most=0,
          because=NO_STEPS, **NOWHERE),
)  # fmt: skip
"""By ``id`` of ``studies/published/inversion_text_claims.csv``."""
