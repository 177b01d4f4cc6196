"""Confident-GNMax: noisy answers of teachers to public queries, and their privacy cost.

Papernot et al., ICLR 2018, Algorithm 1; Zhang, Emory thesis 2021, Algorithm 2 and Theorem 4. A
query passes if the largest vote count plus noise reaches a threshold, and is then answered by the
class with the largest noisy count. One record changes one teacher: the largest count changes by at
most 1, the histogram by sqrt 2 (L2). The numbers of queries and answers are capped in advance, and
the caps are paid for in full (docs/privacy.md §7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp

from private_graphs.privacy.queries import GaussianQuery

Noisy = Callable[[np.ndarray, np.ndarray], np.ndarray]
REFUSED = -1
"""Label of an image that was not queried, or not answered."""
CHECK_REASON = (
    "one record changes one teacher, whose vote moves from one class to another: the largest "
    "number of votes moves by at most 1"
)
ANSWER_REASON = (
    "one record changes one teacher, whose vote moves from one class to another: two numbers of "
    "votes move by 1; an answer is the class with the largest noisy number"
)


@dataclass(frozen=True)
class VoteNoise:
    """Noise and caps of checks and answers."""

    threshold: float
    check_std: float
    """σ1; 0: no check, every query is answered."""
    answer_std: float
    """σ2; 0: no noise."""
    queries: int
    """Q, maximum number of queries, in the order of the public images."""
    answers: int
    """L, maximum number of answers."""

    @property
    def mu(self) -> float:
        """Ratio of exact Gaussian DP of all queries: sqrt(Q/σ1² + 2 L/σ2²)."""
        checks = self.queries / self.check_std**2 if self.check_std else 0.0
        return math.sqrt(checks + 2 * self.answers / self.answer_std**2)

    def events(self, unit: str, relation: str) -> tuple[GaussianQuery, ...]:
        """Return the events that enter the privacy cost: both caps, whatever was answered."""
        words = {"unit": unit, "relation": relation}
        checks = GaussianQuery(
            sensitivity=1.0, noise_std=self.check_std, count=self.queries, reason=CHECK_REASON,
            **words,
        ) if self.check_std else None  # fmt: skip
        answers = GaussianQuery(
            sensitivity=math.sqrt(2), noise_std=self.answer_std, count=self.answers,
            reason=ANSWER_REASON, **words,
        )  # fmt: skip
        return (checks, answers) if checks else (answers,)


def noise_for(
    mu: float, threshold: float, check_std: float, queries: int, answers: int
) -> VoteNoise:
    """Return the noise with which checks and answers at their caps have the ratio ``mu``.

    σ1 is ``check_std`` (0: no check), or the value that leaves half of μ² to the answers, if
    larger; σ2 is rounded up to three decimals.
    """
    if check_std:
        check_std = max(check_std, math.sqrt(2 * queries) / mu)
    checks = queries / check_std**2 if check_std else 0.0
    exact = math.sqrt(2 * answers / (mu**2 - checks))
    return VoteNoise(threshold, check_std, math.ceil(1000 * exact) / 1000, queries, answers)


def released_labels(
    votes: np.ndarray, noise: VoteNoise, checked: Noisy, answered: Noisy
) -> np.ndarray:
    """Return (n,) labels from (n, K) vote counts; ``REFUSED`` without an answer.

    ``checked`` and ``answered`` add noise to the rows of an array that a (n,) mask selects.
    """
    mask = np.arange(len(votes)) < noise.queries
    largest = checked(votes.max(axis=1).astype(np.float64), mask)
    passed = mask & (largest >= noise.threshold) if noise.check_std else mask
    passed &= np.cumsum(passed) <= noise.answers
    noisy = answered(votes.astype(np.float64), passed)
    labels = np.full(len(votes), REFUSED)
    labels[passed] = noisy[passed].argmax(axis=1)
    return labels


def simulated_labels(
    votes: np.ndarray, noise: VoteNoise, generator: np.random.Generator
) -> np.ndarray:
    """Return labels as ``released_labels``, for the diagnostic of a run without DP."""

    def with_noise(std: float) -> Noisy:
        return lambda exact, _: exact + std * generator.standard_normal(exact.shape)

    return released_labels(votes, noise, with_noise(noise.check_std), with_noise(noise.answer_std))


# --- the data-dependent diagnostic of the 2018 scripts: a number that itself leaks -----------


def log_miss(votes: np.ndarray, answer_std: float) -> np.ndarray:
    """Return (n,) logarithms of the probability that an answer is not the class with most votes.

    Papernot et al. 2018, Proposition 7: q = Σ_j Φ̄((n_max - n_j)/(√2 σ)), at most 1 - 1/K.
    """
    ordered = np.sort(votes, axis=1)
    gaps = ordered[:, -1:] - ordered[:, :-1]
    miss = logsumexp(log_ndtr(-gaps / (math.sqrt(2) * answer_std)), axis=1)
    return np.minimum(miss, math.log1p(-1 / votes.shape[1]))


def _dependent(log_q: np.ndarray, std: float, order: float) -> np.ndarray:
    """Return (n,) Rényi DP at ``order`` of answers that miss with chance q (Theorem 6).

    The smaller of the data-independent order/σ² and the bound with μ2 = σ sqrt(-log q) and
    μ1 = μ2 + 1, where its conditions hold.
    """
    plain = order / std**2
    rdp = np.full(len(log_q), plain)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        order2 = std * np.sqrt(-log_q)
        order1 = order2 + 1
        cost1, cost2 = order1 / std**2, order2 / std**2
        fits = (log_q < 0) & (order1 >= order) & (order2 > 1)
        fits &= -log_q > cost2
        fits &= log_q <= (order2 - 1) * cost2 - order2 * (
            np.log1p(1 / (order1 - 1)) + np.log1p(1 / (order2 - 1))
        )
        log_not = np.log1p(-np.exp(log_q))
        log_a = (order - 1) * (log_not - np.log1p(-np.exp((log_q + cost2) * (1 - 1 / order2))))
        log_b = (order - 1) * (cost1 - log_q / (order1 - 1))
        bound = np.logaddexp(log_not + log_a, log_q + log_b) / (order - 1)
    return np.where(fits & (bound < plain), np.maximum(bound, 0), rdp)


def dependent_answers(votes: np.ndarray, answer_std: float, order: float) -> np.ndarray:
    """Return (n,) data-dependent Rényi DP of answers (Papernot et al. 2018, Theorem 6)."""
    return _dependent(log_miss(votes, answer_std), answer_std, order)


def dependent_checks(
    votes: np.ndarray, threshold: float, check_std: float, order: float
) -> np.ndarray:
    """Return (n,) data-dependent Rényi DP of checks: as answers with two outcomes, σ = √2 σ1."""
    distance = np.abs(threshold - votes.max(axis=1)) / check_std
    return _dependent(log_ndtr(-distance), math.sqrt(2) * check_std, order)


_ORDERS = np.concatenate([np.arange(2, 100, 0.5), np.logspace(2, 3, 50)])


def dependent_epsilon(
    votes: np.ndarray, noise: VoteNoise, delta: float, answered: np.ndarray
) -> float:
    """Return the ε of the authors' script for queries in the order of ``votes`` (n, K).

    ``answered`` (n,) says which of the first n queries, all of which were checked, were answered.
    This is no guarantee: the number is computed from the votes, and leaks information about them.
    """
    return min(
        _total(votes, noise, answered, float(order)) + math.log(1 / delta) / (order - 1)
        for order in _ORDERS
    )


def _total(votes: np.ndarray, noise: VoteNoise, answered: np.ndarray, order: float) -> float:
    checks = dependent_checks(votes, noise.threshold, noise.check_std, order)
    answers = dependent_answers(votes[answered], noise.answer_std, order)
    return float(checks.sum() + answers.sum())
