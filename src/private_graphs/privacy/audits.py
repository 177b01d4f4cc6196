"""Lower bounds on ε from the errors of an attack: pure functions of counts.

An attack guesses on which of two neighbouring datasets a mechanism ran. A guarantee bounds how
often the attack may be right, so that an attack that errs too rarely refutes it. Section numbers
refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import gdp_epsilon
from private_graphs.privacy.checks import check_delta

PROFILE_EPSILONS = tuple(np.linspace(0.0, 20.0, 401).tolist())
"""Values of ε at which a claimed profile is tested; more make the test sharper, never wrong."""
_LARGEST_EPSILON = 700.0


@dataclass(frozen=True)
class Errors:
    """Error counts of an attack that guesses which of two neighbouring datasets was used."""

    first: int
    """Runs on the first dataset that the attack assigned to the second."""
    first_runs: int
    second: int
    """Runs on the second dataset that the attack assigned to the first."""
    second_runs: int

    def __post_init__(self) -> None:
        for wrong, runs in ((self.first, self.first_runs), (self.second, self.second_runs)):
            if not (runs >= 1 and 0 <= wrong <= runs):
                raise UserError(
                    f"{wrong} errors in {runs} runs; expected at least one run and no more errors "
                    "than runs"
                )

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Return upper bounds on both error rates that hold jointly at ``confidence``."""
        tail = (1 - _checked(confidence)) / 2
        return (
            rate_upper_bound(self.first, self.first_runs, tail),
            rate_upper_bound(self.second, self.second_runs, tail),
        )


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise UserError(f"confidence is {confidence}; expected a number between 0 and 1")
    return confidence


def rate_upper_bound(errors: int, runs: int, tail: float) -> float:
    """Return the Clopper-Pearson upper bound on an error rate; it fails with probability ``tail``.

    The bound is 1 if every run is an error. Source: Clopper & Pearson 1934.
    """
    from scipy.stats import beta  # the import takes half a second

    return 1.0 if errors >= runs else float(beta.ppf(1 - tail, errors + 1, runs - errors))


def two_point_epsilon(errors: Errors, delta: float, confidence: float = 0.95) -> float:
    """Return a lower bound on ε at ``delta`` without assumptions about the mechanism (§10).

    With upper bounds a, b on the two error rates, an (ε, δ)-private mechanism has 1 - a <= e^ε b +
    δ, and the same with a and b exchanged. The result is never below 0.
    """
    check_delta(delta)
    a, b = errors.bounds(confidence)
    ratios = [(1 - delta - a) / b, (1 - delta - b) / a]
    return math.log(max(1.0, *ratios))


def gaussian_mu(errors: Errors, confidence: float = 0.95) -> float:
    """Return a lower bound on μ of μ-GDP: Φ⁻¹(1 - a) - Φ⁻¹(b), and 0 where it is negative (§10).

    μ-GDP means a + b above the whole Gaussian trade-off curve, so that a larger value refutes a
    claimed μ without further assumption (Dong, Roth & Su 2022, Definition 2.6).
    """
    a, b = errors.bounds(confidence)
    return max(0.0, float(ndtri(1 - a) - ndtri(b))) if a < 1 and b < 1 else 0.0


def gaussian_epsilon(errors: Errors, delta: float, confidence: float = 0.95) -> float:
    """Return ε at ``delta`` of :func:`gaussian_mu` (§10).

    A lower bound on ε **only** where the mechanism is an exact composition of Gaussian releases
    (§0.1): elsewhere it refutes true claims, such as that of randomised response.
    """
    mu = gaussian_mu(errors, confidence)
    return gdp_epsilon(mu, delta) if mu > 0 else 0.0


def most_of_gaussian(mu: float, false_positives: Mapping[str, float]) -> dict[str, float]:
    """Return the largest AUC, and true positive rates by name of their false positive rate, of any
    test of two neighbouring datasets under μ-Gaussian DP (Dong, Roth & Su 2022, equation 6)."""
    return {"auc": float(ndtr(mu / math.sqrt(2)))} | {
        f"tpr_{name}": float(ndtr(ndtri(rate) + mu)) for name, rate in false_positives.items()
    }


def refutes_profile(
    errors: Errors,
    delta_of: Callable[[float], float],
    confidence: float = 0.95,
    epsilons: Iterable[float] = PROFILE_EPSILONS,
) -> bool:
    """Return whether the errors contradict a claimed profile δ(ε), whatever the mechanism (§10).

    This is so if 1 - b - e^ε a > δ(ε), or the same with a and b exchanged, for one of ``epsilons``.
    """
    a, b = errors.bounds(confidence)
    for epsilon in epsilons:
        growth, claimed = math.exp(epsilon), delta_of(epsilon)
        if max(1 - b - growth * a, 1 - a - growth * b) > claimed:
            return True
    return False


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return an upper bound on the p-value of the guesses in one run of an (ε, δ)-DP mechanism.

    Each of m ``canaries`` was included independently with probability 1/2; the attack guessed for r
    of them and was ``right`` v times. The bound is P[Bin(r, q) >= v] + 2mδ · max_i P[v > Bin(r, q)
    >= v-i]/i with q = e^ε/(1 + e^ε). Source: Steinke, Nasr & Jagielski 2023, Theorem 5.2.
    """
    from scipy.stats import binom  # the import takes half a second

    if not 0 <= right <= guesses <= canaries or canaries < 1:
        raise UserError(
            f"{right} right guesses of {guesses} about {canaries} canaries; expected at most as "
            "many guesses as canaries, and no more right than made"
        )
    rate = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, rate))
    if right == 0:
        return tail
    steps = np.arange(1, right + 1)
    below = binom.cdf(right - 1, guesses, rate) - binom.cdf(right - 1 - steps, guesses, rate)
    return min(1.0, tail + 2 * canaries * delta * float(np.max(below / steps)))


def one_run_epsilon(
    canaries: int, guesses: int, right: int, delta: float, confidence: float = 0.95
) -> float:
    """Return the largest ε that one run with many canaries refutes, 0 if none (§10).

    It bounds the include/exclude relation (``add_remove`` of one canary) and needs no assumption
    about the mechanism. Source: Steinke, Nasr & Jagielski 2023.
    """
    check_delta(delta)
    level = 1 - _checked(confidence)

    def excess(epsilon: float) -> float:
        return one_run_p_value(canaries, guesses, right, epsilon, delta) - level

    if excess(0.0) >= 0:
        return 0.0
    return float(brentq(excess, 0.0, _LARGEST_EPSILON, xtol=1e-12))
