"""The papers' moments accountant (docs/privacy.md §1), and its noise for a requested ε."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from private_graphs.core.errors import UsageError
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.calibration import smallest_noise
from private_graphs.privacy.checks import check

MAX_ORDER = 32
"""Highest moment order of the papers' accountant."""


def moments_log(sampling_rate: float, noise_multiplier: float, order: int) -> float:
    """Return α(order), the log moment of one step (Abadi et al. 2016), as an all-positive sum.

    α(λ) = log Σ_k C(λ+1, k) (1-q)^(λ+1-k) q^k exp(k(k-1)/(2σ²)), k = 0..λ+1.
    """
    check(rate=sampling_rate, noise=noise_multiplier)
    n = order + 1
    if sampling_rate == 1:
        return order * n / (2 * noise_multiplier**2)
    k = np.arange(n + 1)
    log_binomial = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    log_weight = (n - k) * math.log1p(-sampling_rate) + k * math.log(sampling_rate)
    return float(logsumexp(log_binomial + log_weight + k * (k - 1) / (2 * noise_multiplier**2)))


@lru_cache(maxsize=4096)
def moments_epsilon(
    noise_multiplier: float, steps: int, sampling_rate: float, delta: float
) -> float:
    """Return the papers' ε: min over λ = 1..MAX_ORDER of (steps·α(λ) + ln(1/δ))/λ.

    This is a bound for Poisson sampling under add/remove of one clipped term, and for nothing else.
    It is never below ln(1/δ)/MAX_ORDER.

    >>> round(moments_epsilon(4.0, 100, 0.01, 1e-5), 3)
    0.371
    """
    check(steps=steps, delta=delta)
    return min(
        (steps * moments_log(sampling_rate, noise_multiplier, order) - math.log(delta)) / order
        for order in range(1, MAX_ORDER + 1)
    )


def _cancelling_moment(sampling_rate: float, noise_multiplier: float, order: int) -> float:
    """Return one step's moment by the alternating double sum of 2016, with float64 cancellation.

    The last bits are what remains of these sums. So exp comes from the standard library, since
    NumPy's differs between processors, and terms are added one by one, since ``sum`` compensates
    from Python 3.12 on.
    """

    def exp(exponent: float) -> float:
        return math.exp(exponent) if exponent < 709 else math.inf

    first = second = 0.0
    for i in range(order + 1):
        weight = math.comb(order, i) * sampling_rate**i
        inner_first = inner_second = 0.0
        for j in range(i + 1):
            sign = math.comb(i, j) * (-1.0) ** (i - j)
            inner_first += sign * exp((j * j - j) / (2.0 * noise_multiplier**2))
            inner_second += sign * exp((j * j + j) / (2.0 * noise_multiplier**2))
        first += weight * inner_first
        second += weight * inner_second
    return (1.0 - sampling_rate) * first + sampling_rate * second


@lru_cache(maxsize=1024)
def cancelling_moments_epsilon(
    noise_multiplier: float, steps: int, sampling_rate: float, delta: float
) -> float:
    """Return the ε that the authors' accountant prints: the same formula, with cancellation (§1).

    **Not a bound**: for λ >= 24 or so at σ >= 100 rounding errors make it too small, even negative.
    It exists to show what the released code reports. As in that code, negative or infinite moments
    are left out; infinity where none is left.
    """
    check(steps=steps, delta=delta, rate=sampling_rate, noise=noise_multiplier)
    with np.errstate(over="ignore", invalid="ignore"):
        moments = {
            order: _cancelling_moment(sampling_rate, noise_multiplier, order)
            for order in range(1, MAX_ORDER + 1)
        }
    return min(
        (
            (math.log(moment) * steps - math.log(delta)) / order
            for order, moment in moments.items()
            if math.isfinite(moment) and moment > 0
        ),
        default=math.inf,
    )


@lru_cache(maxsize=512)
def moments_noise(epsilon: float, steps: int, sampling_rate: float, delta: float) -> float:
    """Return the noise multiplier at which the papers' formula (§1) gives at most ``epsilon``.

    UsageError where epsilon <= ln(1/delta)/32, which the formula cannot certify at any noise.
    """
    check(epsilon=epsilon, steps=steps, rate=sampling_rate, delta=delta)
    floor = -math.log(delta) / MAX_ORDER
    if epsilon <= floor:
        raise UsageError(
            f"the moments accountant cannot certify epsilon = {epsilon:g}: at delta = {delta:g} "
            f"it stays above ln(1/delta)/{MAX_ORDER} = {floor:.4f} at any noise; use a larger "
            "epsilon, or the accountant gdp or pld"
        )
    return smallest_noise(
        lambda noise: moments_epsilon(noise, steps, sampling_rate, delta),
        epsilon,
        guess=sampling_rate * math.sqrt(steps) / gdp_mu(epsilon, delta),
    )


def moments_formula(sampling_rate: float, steps: int) -> str:
    """Return the name of the published formula with its arguments, for statements and tables."""
    return f"moments accountant (Abadi et al. 2016) with q = {sampling_rate:g}, T = {steps}"
