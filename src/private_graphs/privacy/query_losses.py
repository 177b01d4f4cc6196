"""Privacy losses of queries that are not Gaussian, and of Gaussian sums of several terms.

Each kind is a dominating pair, written for dp-accounting's privacy loss distributions, or a zCDP
bound. Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp

from private_graphs.core.errors import UserError
from private_graphs.privacy import queries
from private_graphs.privacy.accountants import pld_name
from private_graphs.privacy.checks import check_relation
from private_graphs.privacy.losses import (
    Loss,
    composed_pld,
    gaussian_loss,
    gaussian_steps,
    pld_of,
)
from private_graphs.privacy.zcdp import zcdp_epsilon, zcdp_epsilon_library, zcdp_name


@dataclass(frozen=True)
class LaplaceLoss:
    """``steps`` single numbers moved by 1 under Laplace noise of scale ``scale``."""

    scale: float
    steps: int
    kind: ClassVar[Literal["laplace"]] = "laplace"

    @property
    def loss_spread(self) -> float:
        """Size of one step's privacy loss."""
        return 1 / self.scale

    @property
    def reach(self) -> float:
        """Largest loss of one step that a grid must contain."""
        return self.loss_spread

    @property
    def rho(self) -> float:
        """zCDP of one step: ε²/2 of an ε-DP release (Bun & Steinke 2016, Proposition 1.4)."""
        return self.scale**-2 / 2

    def pld(self, interval: float) -> Any:
        """Return dp-accounting's PLD of all steps."""
        from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism

        one = from_laplace_mechanism(self.scale, value_discretization_interval=interval)
        return composed_pld(one, self.steps)


@dataclass(frozen=True)
class PureLoss:
    """``steps`` releases, each ``epsilon``-DP: randomised response dominates them (Kairouz, Oh &
    Viswanath 2015)."""

    epsilon: float
    steps: int
    rho: float
    """zCDP of one step: ε²/2, or ε²/8 where ε bounds the range of the loss."""
    kind: ClassVar[Literal["pure"]] = "pure"

    @property
    def loss_spread(self) -> float:
        """Size of one step's privacy loss."""
        return self.epsilon

    @property
    def reach(self) -> float:
        """Largest loss of one step that a grid must contain."""
        return self.epsilon

    def pld(self, interval: float) -> Any:
        """Return dp-accounting's PLD of all steps."""
        return composed_pld(_pure_pld(self, interval), self.steps)


@dataclass(frozen=True)
class ConcentratedLoss:
    """``steps`` releases, each ``rho``-zCDP; no dominating pair exists for this."""

    rho: float
    steps: int
    kind: ClassVar[Literal["zcdp"]] = "zcdp"


@dataclass(frozen=True)
class SampledTerms:
    """Loss like ``losses.SampledGaussian`` with up to ``terms`` affected terms, sampled
    independently: J ~ Bin(terms, rate) of them join (§0.2)."""

    noise_multiplier: float
    steps: int
    sampling_rate: float
    terms: int
    relation: str
    rho: None = None
    kind: ClassVar[Literal["terms"]] = "terms"

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

    @property
    def reach(self) -> float:
        """Largest loss of one step that a grid must contain."""
        shift = (2 if self.relation == "replace" else 1) * self.terms / self.noise_multiplier
        return shift * shift / 2 + 10 * shift

    def pld(self, interval: float) -> Any:
        """Return dp-accounting's PLD of all steps."""
        if self.terms == 1:
            return gaussian_steps(self, interval)
        if self.relation == "replace":
            return composed_pld(_terms_pld(self, interval), self.steps)
        from dp_accounting.pld.privacy_loss_distribution import from_mixture_gaussian_mechanism

        one = from_mixture_gaussian_mechanism(
            self.noise_multiplier, list(range(self.terms + 1)), self.weights.tolist(),
            value_discretization_interval=interval,
        )  # fmt: skip
        return composed_pld(one, self.steps)


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
    # any half-line bounds δ from below, by the square of the error of its end: the larger of two
    # counts, the second after a step of the secant within the cell
    cuts = np.interp(epsilons * interval, ratios, x)
    with np.errstate(all="ignore"):  # where the loss is constant each end is as good
        step = (loss.log_ratio(cuts) - epsilons * interval) / np.interp(
            cuts, x, np.gradient(ratios, x)
        )
    step[~(np.abs(step) <= x[1] - x[0])] = 0.0
    deltas = np.zeros(len(epsilons))
    for ends in (cuts[:, None], (cuts - step)[:, None]):
        log_above = logsumexp(log_ndtr((j - ends) / sigma), b=weights, axis=1)
        log_below = logsumexp(log_ndtr((-j - ends) / sigma), b=weights, axis=1)
        log_kept = np.minimum(epsilons * interval + log_below - log_above, 0.0)
        deltas = np.maximum(deltas, np.clip(-np.exp(log_above) * np.expm1(log_kept), 0, 1))
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


_GRID = 200.0
"""ε above which a grid of losses takes long or overflows; another proof is then as good."""


def composed(losses: tuple[Loss, ...], delta: float) -> tuple[float, str, float | None]:
    """Return ε, accountant and second route of adaptive releases with these losses.

    Candidates are loss distributions, if every loss has one; zCDP, if a release is better described
    by it or by nothing else; and the sum of ε, if all losses are pure. Each is a proof, so the
    smallest ε holds; of two routes to the same proof the larger ε is taken. UserError if none
    covers all losses.
    """
    paths: list[tuple[float, str, float | None]] = []
    pure = [loss for loss in losses if isinstance(loss, LaplaceLoss | PureLoss)]
    if len(pure) == len(losses):
        paths.append((sum(loss.steps * loss.loss_spread for loss in pure), "sum of epsilons", None))
    tighter = [loss for loss in losses if isinstance(loss, ConcentratedLoss | PureLoss)]
    costs = [loss.steps * loss.rho for loss in losses if loss.rho is not None]
    if tighter and len(costs) == len(losses):
        rho = sum(costs)
        first, second = zcdp_epsilon(rho, delta), zcdp_epsilon_library(rho, delta)
        paths.append((max(first, second), zcdp_name(), min(first, second)))
    hopeless = any(epsilon > _GRID for epsilon, *_ in paths)
    if not hopeless and not any(isinstance(loss, ConcentratedLoss) for loss in losses):
        first, route = pld_of(losses, delta), _other_route(losses, delta)
        paths.append((max(first, route or 0.0), pld_name(), route))
    if not paths:
        raise UserError(
            "Poisson-sampled releases have no useful zCDP bound and zCDP bounds no privacy loss "
            "distribution, so that their composition is not priced; describe every release by "
            "its mechanism (Gaussian, Laplace, exponential) instead of by rho"
        )
    return min(paths, key=lambda path: path[0])


def _other_route(losses: tuple[Loss, ...], delta: float) -> float | None:
    """Return ε by a route that shares no code with the loss distributions; None without one."""
    if len(losses) == 1 and isinstance(losses[0], PureLoss):
        return pure_epsilon(losses[0].epsilon, losses[0].steps, delta)
    if len(losses) == 1 and isinstance(losses[0], LaplaceLoss) and losses[0].steps == 1:
        return max(0.0, 1 / losses[0].scale + 2 * math.log1p(-delta))
    from private_graphs.privacy.fourier import fourier_of

    return fourier_of(losses, delta)


def loss_of(event: queries.Query) -> Loss:
    """Return the privacy loss of a query.

    Under every relation, its sensitivity is the distance by which its mean moves.
    """
    if isinstance(event, queries.GaussianQuery):
        return gaussian_loss(event)
    if isinstance(event, queries.LaplaceQuery):
        epsilon = event.sensitivity / event.scale
        if event.dimension == 1:
            return LaplaceLoss(1 / epsilon, event.count)
        return PureLoss(epsilon, event.count, epsilon**2 / 2)
    if isinstance(event, queries.ExponentialChoice):
        return PureLoss(event.bounded_range, event.count, event.bounded_range**2 / 8)
    if isinstance(event, queries.PureQuery):
        return PureLoss(event.epsilon, event.count, event.epsilon**2 / 2)
    if isinstance(event, queries.ConcentratedQuery):
        return ConcentratedLoss(event.rho, event.count)
    relation = "replace" if event.exchange else event.relation
    return SampledTerms(event.noise_multiplier, event.count, event.rate, event.terms, relation)
