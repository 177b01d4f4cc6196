"""Noise for a requested ε, always rounded up to three decimals so that the guarantee holds.

Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from private_graphs.core.errors import UsageError, UserError, suggest
from private_graphs.privacy.accountants import (
    MAX_ORDER,
    cancelling_moments_epsilon,
    composed,
    gdp_epsilon,
    gdp_mu,
    lattice_epsilon,
    loss_of,
    moments_epsilon,
    pld_epsilon,
)
from private_graphs.privacy.checks import check, delta_too_large
from private_graphs.privacy.events import LATTICE_RATIO, Query, lattice_distance

if TYPE_CHECKING:
    from private_graphs.privacy.losses import Loss
    from private_graphs.privacy.renyi import Releases

ACCOUNTANTS = ("moments", "gdp", "pld", "cancelling")

_LARGEST_NOISE = 1e9


def refuse_large_delta(delta: float, n_units: int) -> None:
    """Raise UserError where ``delta * n_units >= 1``: such a delta proves nothing (§5)."""
    if delta_too_large(delta, n_units):
        raise UserError(
            f"delta = {delta:g} with {n_units} units gives delta x units = {delta * n_units:g}; "
            f"expected less than 1, or a mechanism that publishes one unit at random would pass: "
            f"choose delta below {1 / n_units:.3g}"
        )


def _smallest_noise(epsilon_of: Callable[[float], float], target: float, guess: float) -> float:
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
    found = low * (high / low) ** share
    return min(max(math.ceil(found), low + 1), high - 1)


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
    return _smallest_noise(
        lambda noise: moments_epsilon(noise, steps, sampling_rate, delta),
        epsilon,
        guess=sampling_rate * math.sqrt(steps) / gdp_mu(epsilon, delta),
    )


@lru_cache(maxsize=512)
def gdp_noise(epsilon: float, epochs: int, delta: float, relation: str) -> float:
    """Return the noise multiplier of ``epochs`` full Gaussian releases with at most ``epsilon``.

    The sensitivity is 2C under ``replace``, C under ``add_remove`` and ``zero_out``. Node-level
    guarantees of gradient mechanisms use ``replace`` (§2, §3 A).
    """
    check(epsilon=epsilon, steps=epochs, delta=delta, relation=relation)
    return _smallest_noise(
        lambda noise: gdp_epsilon(_mu(noise, epochs, relation), delta),
        epsilon,
        guess=_mu(1.0, epochs, relation) / gdp_mu(epsilon, delta),
    )


@lru_cache(maxsize=512)
def lattice_noise(epsilon: float, releases: int, delta: float, dimension: int) -> float:
    """Return the noise of each of ``releases`` releases on a lattice, in units of the sensitivity.

    The discrete-Gaussian counterpart of :func:`gdp_noise`, on ``dimension`` numbers, with the
    coarsest allowed spacing (§0.6).
    """
    check(epsilon=epsilon, steps=releases, delta=delta)
    distance = lattice_distance(LATTICE_RATIO, dimension * releases)
    return _smallest_noise(
        lambda noise: lattice_epsilon(math.sqrt(releases) / noise, distance, delta)[0],
        epsilon,
        guess=math.sqrt(releases) / gdp_mu(epsilon, delta),
    )


@lru_cache(maxsize=512)
def pld_noise(
    epsilon: float, steps: int, sampling_rate: float, delta: float, relation: str
) -> float:
    """Return the noise multiplier of Poisson-sampled releases with at most ``epsilon`` (§0.2).

    The independent route of ``fourier`` gives the initial guess; PLD alone decides.
    """
    from private_graphs.privacy.fourier import fourier_epsilon

    check(epsilon=epsilon, steps=steps, rate=sampling_rate, delta=delta, relation=relation)

    def priced(noise: float) -> float:
        return pld_epsilon(noise, steps, sampling_rate, delta, relation)

    def estimated(noise: float) -> float:
        estimate = fourier_epsilon(noise, steps, sampling_rate, delta, relation)
        return priced(noise) if estimate is None else estimate

    first = sampling_rate * _mu(1.0, steps, relation) / gdp_mu(epsilon, delta)
    return _smallest_noise(priced, epsilon, guess=_smallest_noise(estimated, epsilon, first))


def _mu(noise_multiplier: float, steps: int, relation: str) -> float:
    """Return μ of ``steps`` Gaussian releases: sensitivity 2C under replace, C otherwise (§0.1)."""
    return (2 if relation == "replace" else 1) * math.sqrt(steps) / noise_multiplier


def scale_noise(
    epsilon: float, delta: float, queries: Callable[[float], tuple[Query, ...]]
) -> float:
    """Return the smallest scale at which ``queries(scale)`` compose to at most ``epsilon``.

    This serves releases of several kinds whose noise grows with one common scale. The independent
    route of ``fourier`` gives the initial guess; the accountant of the composition alone decides.
    """
    from private_graphs.privacy.fourier import fourier_of

    check(epsilon=epsilon, delta=delta)

    def losses(scale: float) -> tuple[Loss, ...]:
        return tuple(loss_of(query) for query in queries(scale))

    def priced(scale: float) -> float:
        return composed(losses(scale), delta)[0]

    def estimated(scale: float) -> float:
        estimate = fourier_of(losses(scale), delta)
        return priced(scale) if estimate is None else estimate

    return _smallest_noise(priced, epsilon, guess=_smallest_noise(estimated, epsilon, guess=1.0))


def renyi_scale(
    epsilon: float,
    delta: float,
    releases: Callable[[float], tuple[Releases, ...]],
    epsilon_of: Callable[[tuple[Releases, ...], float], float],
) -> float:
    """Return the smallest scale at which an accountant of ``renyi`` prints at most ``epsilon``."""
    check(epsilon=epsilon, delta=delta)
    return _smallest_noise(lambda scale: epsilon_of(releases(scale), delta), epsilon, guess=1.0)


def moments_formula(sampling_rate: float, steps: int) -> str:
    """Return the name of the published formula with its arguments, for statements and tables."""
    return f"moments accountant (Abadi et al. 2016) with q = {sampling_rate:g}, T = {steps}"


def _check_accountant(accountant: str, sampling_rate: float, relation: str) -> None:
    if accountant not in ACCOUNTANTS:
        raise UsageError(
            f"accountant is {accountant!r}; expected one of {', '.join(ACCOUNTANTS)}"
            f"{suggest(accountant, ACCOUNTANTS)}"
        )
    check(relation=relation, rate=sampling_rate)
    if accountant in ("moments", "cancelling") and relation != "add_remove":
        better = "gdp or pld" if sampling_rate == 1 else "pld"
        raise UsageError(
            f"the accountant {accountant} is the published formula and covers add_remove only, not "
            f"{relation}; use the accountant {better}"
        )
    if accountant == "gdp" and sampling_rate != 1:
        better = "pld or moments" if relation == "add_remove" else "pld"
        raise UsageError(
            f"the accountant gdp needs sampling rate 1, not {sampling_rate:g}; "
            f"use the accountant {better}"
        )


def epsilon_for(
    accountant: str,
    noise_multiplier: float,
    steps: int,
    sampling_rate: float,
    delta: float,
    relation: str,
) -> float:
    """Return ε by the named accountant: moments (add_remove), gdp (sampling rate 1) or pld.

    Other combinations raise UsageError, which names the accountant to use. ``cancelling`` is the
    value that the code of LREC 2022 prints (add_remove) and no bound: UserError where it has no
    finite value.
    """
    _check_accountant(accountant, sampling_rate, relation)
    check(noise=noise_multiplier, steps=steps, delta=delta)
    if accountant == "moments":
        return moments_epsilon(noise_multiplier, steps, sampling_rate, delta)
    if accountant == "cancelling":
        printed = cancelling_moments_epsilon(noise_multiplier, steps, sampling_rate, delta)
        if not math.isfinite(printed):
            raise UserError(
                f"the authors' accountant has no finite epsilon for the noise multiplier "
                f"{noise_multiplier:g} at sampling rate {sampling_rate:g}; use the accountant "
                "moments, the same formula without its rounding errors"
            )
        return printed
    if accountant == "gdp":
        return gdp_epsilon(_mu(noise_multiplier, steps, relation), delta)
    return pld_epsilon(noise_multiplier, steps, sampling_rate, delta, relation)


def noise_for(
    accountant: str, epsilon: float, steps: int, sampling_rate: float, delta: float, relation: str
) -> float:
    """Return the noise multiplier by the named accountant, rounded up to three decimals."""
    _check_accountant(accountant, sampling_rate, relation)
    if accountant == "cancelling":
        raise UsageError(
            "the accountant cancelling is too small at large noise and keeps no budget; calibrate "
            "with moments, the same formula, or with gdp or pld"
        )
    if accountant == "moments":
        return moments_noise(epsilon, steps, sampling_rate, delta)
    if accountant == "gdp":
        return gdp_noise(epsilon, steps, delta, relation)
    return pld_noise(epsilon, steps, sampling_rate, delta, relation)
