"""Rényi accountants as used in papers: the ε that they print, looser than ``pld``.

They apply to add_remove and zero_out, where one unit moves a Gaussian release by one unit of its
noise multiplier, and to Poisson sampling. Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from private_graphs.privacy.checks import check, check_delta
from private_graphs.privacy.moments import moments_log


@dataclass(frozen=True)
class Releases:
    """``count`` Gaussian releases with a noise multiplier, Poisson-sampled at ``rate``."""

    noise_multiplier: float
    count: int
    rate: float = 1.0

    def __post_init__(self) -> None:
        check(noise=self.noise_multiplier, steps=self.count, rate=self.rate)


_ORDERS = range(2, 257)


@lru_cache(maxsize=2048)
def simple_epsilon(mu: float, delta: float) -> float:
    """Return μ²/2 + μ·sqrt(2 ln(1/δ)), the simplest ε of μ-GDP (Bun & Steinke 2016)."""
    check_delta(delta)
    return mu**2 / 2 + mu * math.sqrt(-2 * math.log(delta))


def simple_mu(epsilon: float, delta: float) -> float:
    """Return the μ at which ``simple_epsilon`` is ``epsilon``."""
    check_delta(delta)
    return math.sqrt(2) * (math.sqrt(epsilon - math.log(delta)) - math.sqrt(-math.log(delta)))


@lru_cache(maxsize=2048)
def mironov_epsilon(releases: tuple[Releases, ...], delta: float) -> float:
    """Return ε at integer orders by the conversion of Mironov (2017), Proposition 3.

    min over α of Σ T·R_α + ln(1/δ)/(α-1), with R_α = α/(2σ²), or the log moment of the sampled
    Gaussian (Mironov, Talwar & Zhang 2019) divided by α-1.
    """
    check_delta(delta)

    def curve(group: Releases, order: int) -> float:
        if group.rate == 1:
            return order / (2 * group.noise_multiplier**2)
        return moments_log(group.rate, group.noise_multiplier, order - 1) / (order - 1)

    return min(
        sum(group.count * curve(group, order) for group in releases) - math.log(delta) / (order - 1)
        for order in _ORDERS
    )


@lru_cache(maxsize=2048)
def renyi_epsilon(releases: tuple[Releases, ...], delta: float) -> float:
    """Return ε by dp-accounting's Rényi accountant, with the conversion of Canonne et al. 2020."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    for group in releases:
        event = GaussianDpEvent(group.noise_multiplier)
        if group.rate < 1:
            event = PoissonSampledDpEvent(group.rate, event)
        accountant.compose(event, group.count)
    return float(accountant.get_epsilon(delta))


def occurrence_epsilon(
    noise_multiplier: float, occurrences: int, batch: int, terms: int, steps: int, delta: float
) -> float:
    """Return the ε of Daigavane et al. (2021), Theorem 1, for ``steps`` batches of fixed size.

    One node occurs in at most ``occurrences`` of ``terms`` training rows, of which each step draws
    ``batch`` without replacement; noise has ``noise_multiplier`` · 2 · ``occurrences`` · C. The
    result is a claim only: it needs independent batches and a valid bound on occurrences (§6).
    Orders and the conversion (Canonne et al. 2020) are those of their code, which certifies nothing
    below about .93 at δ = 1e-5.
    """
    from scipy.stats import hypergeom  # the import takes half a second

    check(noise=noise_multiplier, steps=steps, delta=delta)
    drawn = np.arange(min(occurrences, batch) + 1)
    log_mass = hypergeom.logpmf(drawn, terms, occurrences, batch)
    moved = (drawn / occurrences / noise_multiplier) ** 2 / 2

    def bound(order: float) -> float:
        log_moment = np.logaddexp.reduce(log_mass + order * (order - 1) * moved)
        tail = math.log(delta) + math.log(order)
        return (steps * log_moment - tail) / (order - 1) + math.log1p(-1 / order)

    return float(max(0.0, min(bound(order) for order in np.arange(1.1, 10, 0.1))))


_WHOLE_ORDERS = (*range(2, 17), 20, 24, 28, 32, 40, 48, 64)


@lru_cache(maxsize=2048)
def fixed_lots_epsilon(
    noise_multiplier: float, steps: int, lot: int, population: int, others: int, delta: float
) -> float:
    """Return ε, one record replaced, of ``steps`` sums over ``lot`` records out of ``population``,
    drawn without replacement, and of ``others`` Gaussian releases of everything.

    Noise is ``noise_multiplier`` times what the record moves. dp-accounting's Rényi accountant
    (Wang, Balle & Kasiviswanathan 2019).
    """
    from dp_accounting import (
        GaussianDpEvent,
        NeighboringRelation,
        SampledWithoutReplacementDpEvent,
        SelfComposedDpEvent,
    )
    from dp_accounting.rdp import RdpAccountant

    check(noise=noise_multiplier, steps=steps, delta=delta)
    noise = GaussianDpEvent(noise_multiplier)
    accountant = RdpAccountant(_WHOLE_ORDERS, NeighboringRelation.REPLACE_ONE)
    sampled = SampledWithoutReplacementDpEvent(population, min(lot, population), noise)
    accountant.compose(SelfComposedDpEvent(sampled, steps))
    if others:
        accountant.compose(noise, others)
    return float(accountant.get_epsilon(delta))


_CLASSIC_ORDERS = np.r_[1 + np.arange(1, 100) / 10, np.arange(12, 64)]


@lru_cache(maxsize=2048)
def classic_renyi_epsilon(releases: tuple[Releases, ...], delta: float) -> float:
    """Return ε as TensorFlow Privacy's accountant of 2019 prints it.

    It uses orders 1.1 … 10.9, 12 … 63 and ε = Σ T·R_α - ln(δ)/(α-1) (Mironov 2017, Proposition 3),
    with R_α of the sampled Gaussian against N(0, σ²) (Mironov, Talwar & Zhang 2019) by quadrature,
    which holds at fractional orders too. dp-accounting omits orders below 2 in such cases.
    """
    check_delta(delta)
    total = np.zeros(len(_CLASSIC_ORDERS))
    for group in releases:
        sigma, rate = group.noise_multiplier, group.rate
        if rate == 1:
            total += group.count * _CLASSIC_ORDERS / (2 * sigma**2)
            continue
        x, step = np.linspace(
            -10 * sigma, _CLASSIC_ORDERS[-1] + 10 * sigma,
            math.ceil(12 * (_CLASSIC_ORDERS[-1] / sigma + 20)), retstep=True,
        )  # fmt: skip
        log_ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * sigma**2))
        log_base = -(x**2) / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi) / step)
        moments = np.array(
            [np.logaddexp.reduce(log_base + order * log_ratio) for order in _CLASSIC_ORDERS]
        )
        total += group.count * np.maximum(moments, 0) / (_CLASSIC_ORDERS - 1)
    return float((total - math.log(delta) / (_CLASSIC_ORDERS - 1)).min())
