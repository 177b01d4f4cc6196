"""Claims of the thesis about its models, attacks and accountant, as rules over rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

from private_graphs.privacy.accountants import price
from private_graphs.privacy.queries import PoissonSums
from private_graphs.report.claims import (
    Claim,
    Measured,
    Place,
    alike,
    correlation,
    exact,
    interval,
    learned,
    lowest,
    provided,
)
from private_graphs.report.results import Results

_ATTACKED = "model_inversion"
_GROUPS = ("classes", "subclasses")
_READ = ("attack", "penalty", "network", "distance", "advantage", "re_identification")
_UNDOUBLED = ("faces_class_undoubled", "mnist_subclass_undoubled")
"""Run groups of models with the steps of the other reading of the accountant."""
_APART = ("mnist_parts", "mnist_parts_attacks", "mnist_examples", "faces_class_worlds", *_UNDOUBLED)
"""Run groups of models that the thesis does not compare."""
_BETWEEN = "mnist_record_between_attacks"
"""Run group at noise between the printed values: one seed, for curves."""
_PAIRS = ((9.1, 62.0), (4.2, 45.5), (2.7, 40.5), (6.0, 18.6), (1.6, 8.2), (0.5, 7.0))
"""Printed ε of record level, and of class or subclass level at the same printed accuracy."""
_CLOSE = 0.02
"""Largest difference of accuracies that count as equal."""
_WEAK = 0.3
"""Largest absolute correlation that counts as none."""
_FACES94, _FACES94_DELTA = 153, 1e-2


def _rows_of(results: Results, method: str, **where: Any) -> pd.DataFrame:
    """Return the rows of a method with all columns that rules read, even if nothing was run."""
    rows = results.at(method=method, **where)
    rows = rows[~rows["group"].isin(_APART)]
    return rows.reindex(columns=[*dict.fromkeys([*rows, *_READ])])


# --- attacks ----------------------------------------------------------------------------------


def attacked(results: Results, attack: str, **where: Any) -> pd.DataFrame:
    """Return the rows of one attack."""
    rows = _rows_of(results, _ATTACKED, attack=attack, **where)
    return rows[rows["penalty"] != "l1_mean"]  # of several penalties, the printed one: a sum


def plain(results: Results, attack: str, column: str) -> pd.Series:
    """Return the values by seed of an attack on models without DP."""
    return attacked(results, attack, epsilon=math.inf).set_index("seed")[column]


def nearer(results: Results, case: Place) -> Measured | None:
    """Distance of the original attack minus that of the enhanced one."""
    return interval(plain(results, "original", "distance") - plain(results, "enhanced", "distance"))


def every_target_nearer(results: Results, case: Place) -> Measured | None:
    """The same for the class (a digit, a person) with the smallest difference."""
    by_attack = []
    for name in ("original", "enhanced"):
        rows = attacked(results, name, epsilon=math.inf)
        arrays = results.artifacts(rows, "distances") if len(rows) else []
        by_attack.append({
            seed: array[0] for seed, array in zip(rows["seed"], arrays, strict=True)
            if array is not None
        })  # fmt: skip
    original, enhanced = by_attack
    seeds = sorted(set(original) & set(enhanced))
    if not seeds:
        return None
    gaps = np.array([original[seed] - enhanced[seed] for seed in seeds])
    return lowest(list(gaps.T))


def against_nothing(results: Results, case: Place) -> Measured | None:
    """Distance without a model minus that of the enhanced attack."""
    return interval(plain(results, "enhanced", "advantage"))


def ranks(results: Results, case: Place) -> Measured | None:
    """Correlation, over all attacked models, of being recognised and of being near."""
    rows = _rows_of(results, _ATTACKED)
    return _by_seed(rows.assign(nearness=-rows["distance"]), "re_identification", "nearness", 4)


def _by_seed(rows: pd.DataFrame, one: str, other: str, least: int = 3) -> Measured | None:
    """Return Spearman's correlation of two columns over the runs of each seed.

    Left out are seeds with fewer than ``least`` different values of ``one``, or with equal values
    of ``other``.
    """
    from scipy.stats import spearmanr  # the import takes half a second

    parts = [
        part[[one, other]].dropna()
        for _, part in rows.groupby("seed")
        if part[one].nunique() >= min(least, 3) and len(part) >= least
    ]
    parts = [part for part in parts if (part.nunique() > 1).all()]
    if not parts:
        return None
    coefficients = (spearmanr(part[one], part[other]).statistic for part in parts)
    return correlation(coefficients, min(map(len, parts)))


def at_smallest(results: Results, case: Place, attack: str) -> Measured | None:
    """Share of classes that are recognised at the smallest ε of record-level DP."""
    rows = attacked(results, attack, scenario="records")
    rows = rows[np.isfinite(rows["epsilon"]) & (rows["group"] != _BETWEEN)]
    return interval(rows.loc[rows["epsilon"] == rows["epsilon"].min(), "re_identification"])


def depends(results: Results, case: Place) -> Measured | None:
    """Spearman's correlation of ε and distance under record-level DP, by seed."""
    rows = attacked(results, "enhanced", scenario="records")
    return _by_seed(rows[np.isfinite(rows["epsilon"])], "epsilon", "distance")


def falls(results: Results, case: Place) -> Measured | None:
    """Spearman's correlation of ε and distance under class- or subclass-level DP, by seed.

    Undecided if the model with the largest ε has learned nothing.
    """
    rows = attacked(results, "enhanced", scenario=_GROUPS)
    most = rows[rows["epsilon"] == rows["epsilon"].max()]
    return provided(_by_seed(rows, "epsilon", "distance"), learned(most))


def record_farther(results: Results, case: Place) -> Measured | None:
    """Distance of the enhanced attack under record-level DP minus that without DP, at the
    printed ε with the smallest difference."""
    baseline = plain(results, "enhanced", "distance")
    gaps = []
    for epsilon, _ in _PAIRS:
        rows = attacked(results, "enhanced", scenario="records", epsilon=epsilon)
        if len(rows):
            gaps.append(rows.set_index("seed")["distance"] - baseline)
    return lowest(gaps)


# --- accuracy ---------------------------------------------------------------------------------


def models(results: Results, **where: Any) -> pd.DataFrame:
    """Return the rows of trained models."""
    return _rows_of(results, "unit_gradients", **where)


def matched(results: Results, case: Place) -> Measured | None:
    """Accuracy at class or subclass level minus that at record level, pair by printed pair."""
    return _by_pairs(partial(models, results), "test_accuracy")


def farther(results: Results, case: Place) -> Measured | None:
    """The same difference of the enhanced attack's distance, over pairs of equal accuracy.

    Undecided without such a pair: a model that has learned little leaks little.
    """
    attacks = partial(attacked, results, "enhanced")
    equal = [pair for pair in _PAIRS if alike(*_sides(attacks, pair, "test_accuracy"), _CLOSE)]  # type: ignore[call-arg]
    return provided(_by_pairs(attacks, "distance", equal or _PAIRS), bool(equal))


Rows = Callable[..., pd.DataFrame]


def _sides(rows_of: Rows, pair: tuple[float, float], column: str) -> list[pd.Series]:
    """Return a column by seed at class or subclass level, and at record level."""
    record, group = pair
    return [
        rows_of(scenario=scenario, epsilon=epsilon).set_index("seed")[column]
        for scenario, epsilon in ((_GROUPS, group), ("records", record))
    ]


def _by_pairs(
    rows_of: Rows, column: str, pairs: Sequence[tuple[float, float]] = _PAIRS
) -> Measured | None:
    sides = (_sides(rows_of, pair, column) for pair in pairs)
    gaps = pd.concat([(one - record).dropna() for one, record in sides])
    return interval(gaps.groupby(level=0).mean()) if len(gaps) else None


def more_parts(results: Results, case: Place, group: str, column: str) -> Measured | None:
    """Spearman's correlation of the number of parts and a column, by seed."""
    rows = results.at(group=group)
    return None if rows.empty else _by_seed(rows, "parts", column)


def accuracy(results: Results, case: Place, **where: Any) -> Measured | None:
    """Accuracy of some models by seed."""
    return interval(models(results, **where)["test_accuracy"])


def undoubled_accuracy(results: Results, case: Place, epsilon: float) -> Measured | None:
    """Accuracy of models with the steps of the other reading of the accountant, by seed."""
    return interval(results.scores(group=tuple(_UNDOUBLED), epsilon=epsilon))


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
    base, shifted = ndtr(-cut / noise), ndtr((moved - cut) / noise)
    return float((1 - rate) * base + rate * shifted - math.exp(epsilon) * base)


def theorem5(results: Results, case: Place) -> Measured | None:
    """δ(1) at q = .001 and T = 1 with the noise of the theorem."""
    return exact(sampled_delta(0.001, theorem5_noise(0.001, 1, 1.0, 1e-5), 1.0))


def lemma3(results: Results, case: Place) -> Measured | None:
    """exp(4/σ²) - 1 minus 4/σ²."""
    return exact(math.expm1(4 / 1.6**2) - 4 / 1.6**2)


def conditions(results: Results, case: Place) -> Measured | None:
    """Share of the printed rows with q < 1/(16σ), which Lemma 3 requires."""
    rows = [(0.2, noise) for noise in (1.6, 3.0, 3.65)] + [(0.33, n) for n in (0.8, 1.2, 1.6)]
    return exact(float(np.mean([rate < 1 / (16 * noise) for rate, noise in rows])))


def _printed(results: Results, name: str) -> dict[str, tuple[float, int]]:
    """Return noise and steps of the printed ε, by a configuration of the study."""
    printed = results.study.configurations[name].settings["printed"]
    settings = results.study.configurations[f"{name.removesuffix('_undoubled')}_undoubled"].settings
    return {key: tuple(printed[key][:2]) for key in settings["printed"]}


def steps_ratio(results: Results, case: Place, name: str) -> Measured | None:
    """Largest over smallest number of steps, in the reading that favours the claim."""
    readings = ([steps for _, steps in _printed(results, key).values()]
                for key in (name, f"{name}_undoubled"))  # fmt: skip
    ratios = [max(reading) / min(reading) for reading in readings]
    return Measured(min(ratios), min(ratios), max(ratios))


def excess(results: Results, case: Place, name: str, rate: float, delta: float) -> Measured:
    """Largest proved ε minus printed ε, in both readings of the steps as an interval."""

    def worst(reading: str) -> float:
        return max(
            price(
                PoissonSums(
                    unit="class", relation="replace", count=steps, reason="",
                    noise_multiplier=noise, clip_norm=1.0, rate=rate,
                ),
                "class", "replace", delta,
            ).epsilon - float(key)
            for key, (noise, steps) in _printed(results, reading).items()
        )  # fmt: skip

    low, high = worst(name), worst(f"{name}_undoubled")
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
STEPS = (
    "The thesis prints no steps: few where its accountant doubles the shift, several times as many "
    "where it does not ([both](../results/site/inversion/step_readings.html))."
)
EMPTY_MODELS = (
    "The models of the printed pairs are not of equal accuracy here: at class and subclass level "
    "they know less, and give less away ([models](studies/inversion.md#the-models))."
)
COPIES = (
    "Copies of a photograph are on both sides of the thesis' split "
    "([the data](studies/inversion.md#the-data))."
)
NOT_PRINTED = "steps, learning rates and the sizes of the network's layers"
ATTACK_NOT_PRINTED = f"{NOT_PRINTED}, and the settings of the original attack"
NOWHERE: dict[str, Any] = {"protocols": ("",), "per_graph": False}
PAPER: dict[str, Any] = {"protocols": ("paper",)}
ASKED: dict[str, Any] = {"protocols": ("paper", "sound"), "exhibit": "attack_scores"}
ATTACKS: dict[str, Any] = {**ASKED, "not_printed": ATTACK_NOT_PRINTED}

CLAIMS = (
    Claim("enhanced_nearer", nearer, least=0, because=BACKWARDS, **ATTACKS),
    Claim("enhanced_nearer_each", every_target_nearer, least=0, because=BACKWARDS, **ATTACKS),
    Claim("beats_nothing", against_nothing, least=0, because=BACKWARDS, **ASKED,
          question="Does the enhanced attack come nearer to training pictures than the baseline, "
          "which has no access to the model?"),
    Claim("more_leaks_nearer", ranks, least=0, because=BACKWARDS, **ASKED,
          question="Does the attack by which more classes are recognised come nearer?"),
    Claim("record_leaks", partial(at_smallest, attack="enhanced"), least=0.5, **ASKED,
          question="At the smallest ε of record-level DP, does the enhanced attack still show half "
          "of the classes (share)?"),
    Claim("record_prior", partial(at_smallest, attack="prior"), least=0.5, **ASKED,
          question="And does the attack with a public prior?"),
    Claim("record_distance", depends, least=-_WEAK, most=_WEAK, because=BACKWARDS, **ATTACKS),
    Claim("record_farther", record_farther, least=0, because=BACKWARDS, **{**ATTACKS, **PAPER}),
    Claim("group_distance", falls, most=0, because=LEARNS_NOTHING, **ATTACKS),
    Claim("matched_accuracy", matched, least=-_CLOSE, most=_CLOSE, because=LEARNS_NOTHING,
          exhibit="trained_models", protocols=("paper",), not_printed=NOT_PRINTED),
    Claim("group_farther", farther, least=0, because=EMPTY_MODELS, **{**ATTACKS, **PAPER}),
    Claim("parts_accuracy", partial(more_parts, group="mnist_parts", column="test_accuracy"),
          least=0, exhibit="figure4_9", not_printed=NOT_PRINTED, **PAPER),
    Claim("parts_distance", partial(more_parts, group="mnist_parts_attacks", column="distance"),
          most=0, exhibit="figure4_9", not_printed=ATTACK_NOT_PRINTED, **PAPER),
    *(
        Claim(f"{level}_accuracy_{int(epsilon)}{ending}", rule(epsilon=epsilon), within=_CLOSE,
              because=STEPS, not_printed=NOT_PRINTED, exhibit="step_readings",
              protocols=("paper",))
        for level, epsilons in (("class", (62.0, 45.5, 40.5)), ("subclass", (18.6, 8.2, 7.0)))
        for epsilon in epsilons
        for ending, rule in (("", partial(partial, accuracy, scenario=_GROUPS)),
                             ("_undoubled", partial(partial, undoubled_accuracy)))
    ),
    Claim("plain_accuracy", partial(accuracy, epsilon=math.inf, network="softmax"),
          within=_CLOSE, because=COPIES, not_printed=NOT_PRINTED, exhibit="trained_models",
          protocols=("paper", "sound")),
    Claim("theorem5", theorem5, most=1e-5, because=FALSE_THEOREM, **NOWHERE),
    Claim("lemma3", lemma3, most=0, because=FALSE_THEOREM, **NOWHERE),
    Claim("conditions", conditions, least=1, because=FALSE_THEOREM, **NOWHERE,
          question="Do the printed rows meet the condition of Lemma 3 on q (share of rows)?"),
    Claim("one_count_subclass", partial(steps_ratio, name="mnist_subclass"), most=1.01,
          because=NO_STEPS, **NOWHERE,
          question="Can the three subclass-level rows be of one number of steps (largest over "
          "smallest)?"),
    Claim("one_count_class", partial(steps_ratio, name="faces_class"), most=1.01,
          because=NO_STEPS, **NOWHERE,
          question="Can the three class-level rows be of one number of steps (largest over "
          "smallest)?"),
    Claim("face_delta", lambda results, case: exact(_FACES94 * _FACES94_DELTA), most=1 - 1e-9,
          because="A mechanism that publishes a class at random would pass.", **NOWHERE,
          question="Is δ times the number of people in Faces94 below 1?"),
    Claim("printed_subclass", partial(excess, name="mnist_subclass", rate=0.2, delta=1e-3),
          most=0, because=NO_STEPS, **NOWHERE),
    Claim("printed_class", partial(excess, name="faces_class", rate=0.33, delta=1e-2), most=0,
          because=NO_STEPS, **NOWHERE),
)  # fmt: skip
"""Rules by ``id`` of ``studies/inversion/published/text_claims.csv``."""
