"""Privacy losses that compose: the effect of one unit on one release, and their sum.

Each kind is a dominating pair, written for dp-accounting's privacy loss distributions, or a zCDP
bound. dp-accounting is imported only where needed, because the import takes seconds. Section
numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, logsumexp

from private_graphs.core.errors import UserError
from private_graphs.privacy.checks import check_relation


@dataclass(frozen=True)
class SampledGaussian:
    """``steps`` Gaussian releases of sums whose affected term joins with ``sampling_rate``.

    ``relation`` is the change of the affected term of norm <= C: it is replaced by another such
    term (``replace``) or vanishes (``zero_out``, ``add_remove``).
    """

    noise_multiplier: float
    steps: int
    sampling_rate: float
    relation: str

    def __post_init__(self) -> None:
        check_relation(self.relation)

    @property
    def loss_spread(self) -> float:
        """Size of one step's privacy loss: its standard deviation for small losses."""
        shift = (2 if self.relation == "replace" else 1) / self.noise_multiplier
        return min(self.sampling_rate * math.sqrt(math.expm1(min(shift**2, 700.0))), shift)

    @property
    def rho(self) -> float | None:
        """zCDP of one step; None if sampling leaves no useful bound."""
        shift = (2 if self.relation == "replace" else 1) / self.noise_multiplier
        return shift**2 / 2 if self.sampling_rate == 1 else None


@dataclass(frozen=True)
class LaplaceLoss:
    """``steps`` single numbers moved by 1 under Laplace noise of scale ``scale``."""

    scale: float
    steps: int

    @property
    def loss_spread(self) -> float:
        """Size of one step's privacy loss."""
        return 1 / self.scale

    @property
    def rho(self) -> float:
        """zCDP of one step: ε²/2 of an ε-DP release (Bun & Steinke 2016, Proposition 1.4)."""
        return self.scale**-2 / 2


@dataclass(frozen=True)
class PureLoss:
    """``steps`` releases, each ``epsilon``-DP: randomised response dominates them (Kairouz, Oh &
    Viswanath 2015)."""

    epsilon: float
    steps: int
    rho: float
    """zCDP of one step: ε²/2, or ε²/8 where ε bounds the range of the loss."""

    @property
    def loss_spread(self) -> float:
        """Size of one step's privacy loss."""
        return self.epsilon


@dataclass(frozen=True)
class ConcentratedLoss:
    """``steps`` releases, each ``rho``-zCDP; no dominating pair exists for this."""

    rho: float
    steps: int


@dataclass(frozen=True)
class SampledTerms:
    """Loss like :class:`SampledGaussian` with up to ``terms`` affected terms, sampled
    independently: J ~ Bin(terms, rate) of them join (§0.2)."""

    noise_multiplier: float
    steps: int
    sampling_rate: float
    terms: int
    relation: str
    rho: None = None

    def __post_init__(self) -> None:
        check_relation(self.relation)

    @property
    def loss_spread(self) -> float:
        """Size of one step's privacy loss, which determines the size of the composed loss."""
        reach = self.terms + 10 * self.noise_multiplier
        x = np.linspace(-reach, reach, max(2001, 100_000 // (self.terms + 1)))
        ratio, log_density = self.log_ratio(x), self.log_density(x)
        density = np.exp(log_density - logsumexp(log_density))
        mean = float(density @ ratio)
        return max(math.sqrt(float(density @ ratio**2)), math.sqrt(2 * max(mean, 0.0)))

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log density of Σ w_j N(j, σ²) at ``x``, up to a constant."""
        j, sigma = np.arange(self.terms + 1), self.noise_multiplier
        return logsumexp(-((x[:, None] - j) ** 2) / (2 * sigma**2), b=self.weights, axis=1)

    def log_ratio(self, x: np.ndarray) -> np.ndarray:
        """Return the loss at ``x`` under replace: log of that mixture over its mirror image."""
        return self.log_density(x) - self.log_density(-x)

    @property
    def weights(self) -> np.ndarray:
        """(terms + 1,) probabilities of J."""
        from scipy.stats import binom  # the import takes half a second

        return binom.pmf(np.arange(self.terms + 1), self.terms, self.sampling_rate)


Distributed = SampledGaussian | SampledTerms | LaplaceLoss | PureLoss
Loss = Distributed | ConcentratedLoss


def amplified_epsilon(epsilon: float, rate: float) -> float:
    """Return ln(1 + rate·(e^ε - 1)), the ε under a secret sample without replacement (§9).

    Its δ is ``rate`` times that of the releases (Balle, Barthe & Gaboardi 2018, Theorem 10).
    """
    if epsilon > 30:  # e^ε overflows from 710 on; the 1 is below rounding
        return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))
    return math.log1p(rate * math.expm1(epsilon))


def inner_epsilon(epsilon: float, rate: float) -> float:
    """Return the inverse of ``amplified_epsilon``."""
    return math.log1p(math.expm1(epsilon) / rate)


def _gaussian_interval(mechanism: SampledGaussian) -> float:
    """Return the interval of the discretised loss; a coarser one is only more pessimistic.

    Rounding up costs about steps·interval² in ε: the first term keeps that near 1e-6. A grid of the
    composed loss with more points loses accuracy in its tails, and a grid of one step with more
    points takes seconds: the other two terms limit these.
    """
    shift = (2 if mechanism.relation == "replace" else 1) / mechanism.noise_multiplier
    mu = math.sqrt(mechanism.steps) * mechanism.loss_spread
    composed = mu * mu / 2 + 10 * mu
    if mechanism.sampling_rate == 1:  # one Gaussian: nothing accumulates
        return composed / 3e4
    one_step = shift * shift / 2 + 10 * shift
    fine = min(1e-3, mu / 40) / math.sqrt(mechanism.steps)
    return max(fine, composed / 4e5, one_step / 1e5)


def _reach(loss: Distributed) -> float:
    """Return the largest loss of one step that a grid must contain."""
    if isinstance(loss, SampledGaussian | SampledTerms):
        terms = getattr(loss, "terms", 1)
        shift = (2 if loss.relation == "replace" else 1) * terms / loss.noise_multiplier
        return shift * shift / 2 + 10 * shift
    return loss.loss_spread


def _interval(losses: Sequence[Distributed]) -> float:
    """Return the interval for a sum of losses, by the rules of :func:`_gaussian_interval`."""
    gaussian = [each for each in losses if isinstance(each, SampledGaussian)]
    if len(gaussian) == len(losses):
        finest = min(map(_gaussian_interval, gaussian))
        if len(losses) == 1:
            return finest
        # fine grids of several kinds of many steps take seconds; 3e-3 costs about 1e-3 in ε
        steps = sum(each.steps for each in losses)
        return max(finest, min(1e-3, math.sqrt(3e-3 / steps)))
    squares = [each.steps * each.loss_spread**2 for each in losses]
    mu = math.sqrt(sum(squares))
    # the atoms of pure and Laplace losses lie between the dots, and cost more
    atoms = any(isinstance(each, PureLoss | LaplaceLoss) for each in losses)
    fine = min(1e-4, mu / 400) if atoms else min(1e-3, mu / 40)
    finest = min(fine / math.sqrt(each.steps) for each in losses)
    one_step = max(_reach(each) for each in losses)
    return max(finest, (mu * mu / 2 + 10 * mu) / 4e5, one_step / 1e5)


def _terms_pld(loss: SampledTerms, interval: float) -> Any:
    """Return the PLD of Σ w_j N(j, σ²) against Σ w_j N(-j, σ²), pessimistic by connecting dots.

    The pair is symmetric and its loss increases in x, so that half-lines are optimal.
    """
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    sigma, weights, j = loss.noise_multiplier, loss.weights, np.arange(loss.terms + 1)
    reach = loss.terms + 10 * sigma
    x = np.linspace(-reach, reach, max(20_001, 1_000_000 // (loss.terms + 1)))
    ratios = loss.log_ratio(x)
    top = math.ceil(ratios[-1] / interval)
    epsilons = np.arange(-top, top + 1)
    # any half-line gives a δ that is too small by the square of the error of its end at most
    cuts = np.interp(epsilons * interval, ratios, x)[:, None]
    log_above = logsumexp(log_ndtr((j - cuts) / sigma), b=weights, axis=1)
    log_below = logsumexp(log_ndtr((-j - cuts) / sigma), b=weights, axis=1)
    log_kept = np.minimum(epsilons * interval + log_below - log_above, 0.0)
    deltas = np.clip(-np.exp(log_above) * np.expm1(log_kept), 0, 1)
    deltas[-1] = max(deltas[-1], math.exp(log_above[-1]))
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]
    return PrivacyLossDistribution(create_pmf_pessimistic_connect_dots(interval, epsilons, deltas))


def _pure_pld(loss: PureLoss, interval: float) -> Any:
    """Return the PLD of one randomised response, pessimistic by connecting dots: δ(e) is linear in
    exp(e) between -ε and ε, so that the dots beside these two suffice."""
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    units = math.ceil(loss.epsilon / interval)
    support = np.array(sorted({-units, 1 - units, units - 1, units}))
    gaps = -np.expm1(np.minimum(support * interval - loss.epsilon, 0.0))
    deltas = gaps / (1 + math.exp(-loss.epsilon))
    deltas[0] = -math.expm1(-units * interval)
    return PrivacyLossDistribution(create_pmf_pessimistic_connect_dots(interval, support, deltas))


def _gaussian_deltas(loss: Any, epsilons: np.ndarray) -> np.ndarray:
    """Return (n,) δ at (n,) ε of dp-accounting's ``GaussianPrivacyLoss`` of sensitivity 1.

    The privacy loss is monotone in the output, so it is at least ε on one side of a cut. The
    library's ``get_delta_for_epsilon`` computes that cut for one ε after the other, which took most
    of the accountant's time.
    """
    rate, variance, kind = loss.sampling_prob, loss.standard_deviation**2, loss.adjacency_type.name
    deltas, inside = np.zeros(len(epsilons)), np.ones(len(epsilons), bool)
    if rate < 1 and kind == "ADD":
        inside = epsilons < -math.log1p(-rate)
    elif rate < 1 and kind == "REMOVE":
        inside = epsilons > math.log1p(-rate)
        deltas[~inside] = -np.expm1(epsilons[~inside])
    within = epsilons[inside]
    sign = -1 if kind == "ADD" else 1
    with np.errstate(divide="ignore"):  # log 0 at the ends
        if kind == "REPLACE":
            arc = 0.0
            if rate < 1:
                half = np.abs(within) / 2
                log_sinh = half + np.log1p(-np.exp(-2 * half)) - math.log(2)
                log_sinh += 0.5 / variance + math.log1p(-rate) - math.log(rate)
                arc = np.logaddexp(0.5 * np.logaddexp(0, 2 * log_sinh), log_sinh)
            cuts = -variance * (np.sign(within) * arc + within / 2)
        else:
            unsampled = sign * within
            if rate < 1:
                still = np.minimum((1 - rate) * np.exp(-unsampled), 1)
                unsampled = unsampled - math.log(rate) + np.log1p(-still)
            cuts = -sign * (variance * unsampled + 0.5)
    deltas[inside] = loss.mu_upper_cdf(cuts) - np.exp(within + loss.mu_lower_log_cdf(cuts))
    return np.clip(deltas, 0, 1)


def _gaussian_pld(noise: float, rate: float, relation: str, interval: float) -> Any:
    """Return the PLD of one Poisson-sampled Gaussian sum, as dp-accounting's
    ``from_gaussian_mechanism``."""
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    def one(adjacency: AdjacencyType) -> Any:
        loss = GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=adjacency)
        bounds = loss.connect_dots_bounds()
        first = math.floor(bounds.epsilon_lower / interval)
        last = math.ceil(bounds.epsilon_upper / interval)
        deltas = _gaussian_deltas(loss, np.arange(first, last + 1) * interval)
        return create_pmf_pessimistic_connect_dots_fixed_gap(interval, first, last, deltas)

    if relation == "replace":
        return PrivacyLossDistribution(one(AdjacencyType.REPLACE))
    ways = [AdjacencyType.REMOVE] if rate == 1 else [AdjacencyType.REMOVE, AdjacencyType.ADD]
    return PrivacyLossDistribution(*map(one, ways))


_AT_ONCE = 10**6
"""Most steps in one composition, whose time grows with them, to minutes."""


def _composed(one: Any, steps: int) -> Any:
    """Return the PLD of ``steps`` steps or slightly more: many steps compose in two levels.

    Truncated tails count as infinite loss each time, so the result stays pessimistic.
    """
    if steps <= _AT_ONCE:
        return one.self_compose(steps)
    group = 1 << (math.isqrt(steps).bit_length())
    return one.self_compose(group).self_compose(-(-steps // group))


def _pld(loss: Distributed, interval: float) -> Any:
    """Return dp-accounting's PLD of all steps of one loss."""
    from dp_accounting.pld import privacy_loss_distribution as library

    if isinstance(loss, PureLoss):
        return _composed(_pure_pld(loss, interval), loss.steps)
    if isinstance(loss, LaplaceLoss):
        one = library.from_laplace_mechanism(loss.scale, value_discretization_interval=interval)
        return _composed(one, loss.steps)
    if isinstance(loss, SampledTerms) and loss.terms > 1:
        if loss.relation == "replace":
            return _composed(_terms_pld(loss, interval), loss.steps)
        one = library.from_mixture_gaussian_mechanism(
            loss.noise_multiplier, list(range(loss.terms + 1)), loss.weights.tolist(),
            value_discretization_interval=interval,
        )  # fmt: skip
        return _composed(one, loss.steps)
    full = loss.sampling_rate == 1  # T releases are one with noise sigma/sqrt(T)
    noise = loss.noise_multiplier / (math.sqrt(loss.steps) if full else 1)
    one = _gaussian_pld(noise, loss.sampling_rate, loss.relation, interval)
    return one if full else _composed(one, loss.steps)


@lru_cache(maxsize=512)
def pld_of(losses: tuple[Loss, ...], delta: float) -> float:
    """Return ε of adaptive releases with these losses at delta, rounded up (pessimistic).

    Raises UserError where PLD gives no finite ε, and for zCDP bounds, which have no loss
    distribution. The caller ensures that all losses belong to one claim (unit and relation).
    """
    known = [each for each in losses if not isinstance(each, ConcentratedLoss)]
    if len(known) < len(losses):
        raise UserError("a zCDP bound has no privacy loss distribution to compose")
    interval, too_large = _interval(known), False
    try:
        total = _pld(known[0], interval)
        for each in known[1:]:
            total = total.compose(_pld(each, interval))
        epsilon = float(total.get_epsilon_for_delta(delta))
    except OverflowError:  # a loss too large for the library's grid
        epsilon, too_large = math.inf, True
    if not math.isfinite(epsilon):
        raise UserError(_no_answer(losses, delta, too_large))
    return epsilon


def _no_answer(losses: tuple[Loss, ...], delta: float, too_large: bool) -> str:
    """Return the message why loss distributions have no finite ε, and which accountant has one."""
    if too_large:
        why, remedy = "its grid holds no losses so large or so small", "noise of another size"
    else:
        why, remedy = (
            "it cuts tails of about 1e-15 off, which such a delta forbids",
            "a larger delta",
        )
    gaussian = [each for each in losses if isinstance(each, SampledGaussian)]
    alone = len(gaussian) == len(losses)
    if alone and all(each.sampling_rate == 1 for each in gaussian):
        remedy = f"the accountant gdp, which is exact at sampling rate 1, or {remedy}"
    elif alone and len(losses) == 1 and gaussian[0].relation == "add_remove":
        remedy = f"the accountant moments, which bounds it, or {remedy}"
    return f"the accountant pld has no finite epsilon at delta = {delta:g}: {why}; use {remedy}"


@lru_cache(maxsize=512)
def pure_epsilon(epsilon: float, steps: int, delta: float) -> float:
    """Return the exact ε at delta of ``steps`` adaptive releases that are ``epsilon``-DP each.

    The binomial sum of Kairouz, Oh & Viswanath (2015), Theorem 3.3, for every ε: δ(ε) = Σ_j
    C(k,j) (e^{jε₀} - e^{ε+(k-j)ε₀})₊ / (1+e^{ε₀})^k.
    """
    j = np.arange(steps + 1)
    from scipy.stats import binom  # the import takes half a second

    log_mass = binom.logpmf(j, steps, 1 / (1 + math.exp(-epsilon)))
    losses = (2 * j - steps) * epsilon

    def excess(target: float) -> float:
        gaps = -np.expm1(np.minimum(target - losses, 0))
        return float(np.exp(log_mass) @ gaps) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, steps * epsilon, xtol=1e-12))


@lru_cache(maxsize=4096)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest ε that ρ-zCDP implies at delta by its Rényi curve.

    min over α > 1 of αρ + ln(1 - 1/α) - ln(δα)/(α - 1) (Canonne, Kamath & Steinke 2020,
    Proposition 12), never above ρ + 2 sqrt(ρ ln(1/δ)) (Bun & Steinke 2016).
    """

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1 + excess
        return alpha * rho - math.log1p(1 / excess) - (math.log(delta) + math.log(alpha)) / excess

    best = 0.5 * math.log(-math.log(delta) / rho)  # optimum of the simpler conversion
    found = minimize_scalar(
        bound, bounds=(best - 6, best + 6), method="bounded", options={"xatol": 1e-10}
    )
    return max(0.0, float(found.fun))


@lru_cache(maxsize=4096)
def zcdp_epsilon_library(rho: float, delta: float) -> float:
    """Return :func:`zcdp_epsilon` by dp-accounting's Rényi accountant, on a grid of orders."""
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    best = math.sqrt(-math.log(delta) / rho)
    orders = 1 + best * np.geomspace(math.exp(-6), math.exp(6), 4001)
    return float(RdpAccountant(orders=orders).compose(ZCDpEvent(rho)).get_epsilon(delta))
