"""Noise for a requested ε, always rounded up to three decimals so that the guarantee holds.

Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.checks import check, delta_too_large

_LARGEST_NOISE = 1e9


def refuse_large_delta(delta: float, n_units: int) -> None:
    """Raise UserError where ``delta * n_units >= 1``: such a delta proves nothing (§5)."""
    if delta_too_large(delta, n_units):
        raise UserError(
            f"delta = {delta:g} with {n_units} units gives delta x units = {delta * n_units:g}; "
            f"expected less than 1, or a mechanism that publishes one unit at random would pass: "
            f"choose delta below {1 / n_units:.3g}"
        )


def smallest_noise(epsilon_of: Callable[[float], float], target: float, guess: float) -> float:
    """Return the smallest noise in whole thousandths with ``epsilon_of(noise) <= target``.

    ``epsilon_of`` decreases in the noise. The search walks away from ``guess`` in growing strides
    until the answer is enclosed, then interpolates and sometimes bisects; an exact guess needs two
    or three evaluations.
    """
    value = lru_cache(maxsize=None)(lambda thousandths: epsilon_of(thousandths / 1000))
    low = high = max(1, math.ceil(1000 * guess))
    stride = 1
    while not value(high) <= target:
        if high > 1000 * _LARGEST_NOISE:
            raise UserError(f"no noise up to {_LARGEST_NOISE:g} reaches epsilon = {target:g}")
        low, high, stride = high, high + stride, 4 * stride
    while low > 0 and value(low) <= target:
        low, high, stride = (max(low - stride, low // 2), low, 4 * stride)
    turn = 0
    while high - low > 1:  # low fails (or is zero noise), high holds
        turn, middle = turn + 1, (low + high) // 2
        if low > 0 and turn % 3:  # bisects every third time, whatever the shape of the function
            middle = _crossing(low, high, value(low), value(high), target, middle)
        low, high = (low, middle) if value(middle) <= target else (middle, high)
    return high / 1000


def _crossing(
    low: int, high: int, at_low: float, at_high: float, target: float, otherwise: int
) -> int:
    """Return the point between ``low`` and ``high`` where a power law reaches ``target``."""
    if not 0 < at_high < at_low < math.inf:
        return otherwise
    share = math.log(at_low / target) / math.log(at_low / at_high)
    point = low * (high / low) ** share
    return min(max(math.ceil(point), low + 1), high - 1)


@lru_cache(maxsize=512)
def gdp_noise(epsilon: float, epochs: int, delta: float, relation: str) -> float:
    """Return the noise multiplier of ``epochs`` full Gaussian releases with at most ``epsilon``.

    The sensitivity is 2C under ``replace``, C under ``add_remove`` and ``zero_out``. Node-level
    guarantees of gradient mechanisms use ``replace`` (§2, §3 A).

    >>> gdp_noise(2.0, 100, 1e-5, "replace")
    39.877
    """
    check(epsilon=epsilon, steps=epochs, delta=delta, relation=relation)
    return smallest_noise(
        lambda noise: gdp_epsilon(mu_of(noise, epochs, relation), delta),
        epsilon,
        guess=mu_of(1.0, epochs, relation) / gdp_mu(epsilon, delta),
    )


@lru_cache(maxsize=512)
def pld_noise(
    epsilon: float, steps: int, sampling_rate: float, delta: float, relation: str
) -> float:
    """Return the noise multiplier of Poisson-sampled releases with at most ``epsilon`` (§0.2).

    The independent route of ``fourier`` gives the initial guess; PLD alone decides.

    >>> pld_noise(2.0, 100, 0.01, 1e-5, "replace")
    0.753
    """
    from private_graphs.privacy.fourier import fourier_epsilon
    from private_graphs.privacy.gradient_prices import pld_epsilon

    check(epsilon=epsilon, steps=steps, rate=sampling_rate, delta=delta, relation=relation)

    def priced(noise: float) -> float:
        return pld_epsilon(noise, steps, sampling_rate, delta, relation)

    def estimated(noise: float) -> float:
        estimate = fourier_epsilon(noise, steps, sampling_rate, delta, relation)
        return priced(noise) if estimate is None else estimate

    # At small rates q the steps are near μ = q·sqrt(T)·Δ/σ (Bu et al. 2020): a start, no bound.
    first = sampling_rate * mu_of(1.0, steps, relation) / gdp_mu(epsilon, delta)
    return smallest_noise(priced, epsilon, guess=smallest_noise(estimated, epsilon, first))


def mu_of(noise_multiplier: float, steps: int, relation: str) -> float:
    """Return μ of ``steps`` Gaussian releases: sensitivity 2C under replace, C otherwise (§0.1)."""
    return (2 if relation == "replace" else 1) * math.sqrt(steps) / noise_multiplier
