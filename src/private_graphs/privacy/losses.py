"""Privacy loss of Gaussian releases, and ε of composed privacy losses of any kind.

A loss is a dominating pair, written for dp-accounting's privacy loss distributions; the losses of
other queries are in ``query_losses``. dp-accounting is imported only where needed: the import
takes seconds. Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.privacy.checks import check_relation

if TYPE_CHECKING:
    from private_graphs.privacy.queries import GaussianQuery
    from private_graphs.privacy.query_losses import (
        ConcentratedLoss,
        LaplaceLoss,
        PureLoss,
        SampledTerms,
    )


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
    kind: ClassVar[Literal["gaussian"]] = "gaussian"

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

    @property
    def reach(self) -> float:
        """Largest loss of one step that a grid must contain."""
        shift = (2 if self.relation == "replace" else 1) / self.noise_multiplier
        return shift * shift / 2 + 10 * shift

    def pld(self, interval: float) -> Any:
        """Return dp-accounting's PLD of all steps."""
        return gaussian_steps(self, interval)


Distributed: TypeAlias = "SampledGaussian | SampledTerms | LaplaceLoss | PureLoss"
Loss: TypeAlias = "Distributed | ConcentratedLoss"


def _gaussian_interval(mechanism: SampledGaussian) -> float:
    """Return the interval of the discretised loss; a coarser one is only more pessimistic.

    Rounding up costs about steps·interval² in ε: the first term keeps that near 1e-6. A grid of the
    composed loss with more points loses accuracy in its tails, and a grid of one step with more
    points takes seconds: the other two terms limit these.
    """
    mu = math.sqrt(mechanism.steps) * mechanism.loss_spread
    composed = mu * mu / 2 + 10 * mu
    if mechanism.sampling_rate == 1:  # one Gaussian: nothing accumulates
        return composed / 3e4
    fine = min(1e-3, mu / 40) / math.sqrt(mechanism.steps)
    return max(fine, composed / 4e5, mechanism.reach / 1e5)


def _interval(losses: Sequence[Distributed]) -> float:
    """Return the interval for a sum of losses, by the rules of :func:`_gaussian_interval`."""
    gaussian = [loss for loss in losses if isinstance(loss, SampledGaussian)]
    if len(gaussian) == len(losses):
        finest = min(map(_gaussian_interval, gaussian))
        if len(losses) == 1:
            return finest
        # fine grids of several kinds of many steps take seconds; 3e-3 costs about 1e-3 in ε
        steps = sum(loss.steps for loss in losses)
        return max(finest, min(1e-3, math.sqrt(3e-3 / steps)))
    squares = [loss.steps * loss.loss_spread**2 for loss in losses]
    mu = math.sqrt(sum(squares))
    # the atoms of pure and Laplace losses lie between the dots, and cost more
    atoms = any(loss.kind in ("pure", "laplace") for loss in losses)
    fine = min(1e-4, mu / 400) if atoms else min(1e-3, mu / 40)
    finest = min(fine / math.sqrt(loss.steps) for loss in losses)
    one_step = max(loss.reach for loss in losses)
    return max(finest, (mu * mu / 2 + 10 * mu) / 4e5, one_step / 1e5)


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


def composed_pld(one: Any, steps: int) -> Any:
    """Return the PLD of ``steps`` steps or slightly more: many steps compose in two levels.

    Truncated tails count as infinite loss each time, so the result stays pessimistic.
    """
    if steps <= _AT_ONCE:
        return one.self_compose(steps)
    group = 1 << (math.isqrt(steps).bit_length())
    return one.self_compose(group).self_compose(-(-steps // group))


def gaussian_steps(loss: SampledGaussian | SampledTerms, interval: float) -> Any:
    """Return the PLD of all steps of a loss with one affected term."""
    full = loss.sampling_rate == 1  # T releases are one with noise sigma/sqrt(T)
    noise = loss.noise_multiplier / (math.sqrt(loss.steps) if full else 1)
    one = _gaussian_pld(noise, loss.sampling_rate, loss.relation, interval)
    return one if full else composed_pld(one, loss.steps)


@lru_cache(maxsize=512)
def pld_of(losses: tuple[Loss, ...], delta: float) -> float:
    """Return ε of adaptive releases with these losses at delta, rounded up (pessimistic).

    Raises UserError where PLD gives no finite ε, and for zCDP bounds, which have no loss
    distribution. The caller ensures that all losses belong to one claim (unit and relation).
    """
    known = [loss for loss in losses if loss.kind != "zcdp"]
    if len(known) < len(losses):
        raise UserError("a zCDP bound has no privacy loss distribution to compose")
    interval, too_large = _interval(known), False
    try:
        total = known[0].pld(interval)
        for loss in known[1:]:
            total = total.compose(loss.pld(interval))
        epsilon = float(total.get_epsilon_for_delta(delta))
    except OverflowError:  # a loss too large for the library's grid
        epsilon, too_large = math.inf, True
    if not math.isfinite(epsilon):
        raise UserError(_no_answer(losses, delta, too_large))
    return epsilon


def gaussian_loss(query: GaussianQuery) -> SampledGaussian:
    """Return the privacy loss of a Gaussian query, whose mean moves by its sensitivity."""
    return SampledGaussian(query.noise_std / query.sensitivity, query.count, 1.0, "zero_out")


def _no_answer(losses: tuple[Loss, ...], delta: float, too_large: bool) -> str:
    """Return the message why loss distributions have no finite ε, and which accountant has one."""
    if too_large:
        why, remedy = "its grid holds no losses so large or so small", "noise of another size"
    else:
        why, remedy = (
            "it cuts tails of about 1e-15 off, which such a delta forbids",
            "a larger delta",
        )
    gaussian = [loss for loss in losses if isinstance(loss, SampledGaussian)]
    all_gaussian = len(gaussian) == len(losses)
    if all_gaussian and all(loss.sampling_rate == 1 for loss in gaussian):
        remedy = f"the accountant gdp, which is exact at sampling rate 1, or {remedy}"
    elif all_gaussian and len(losses) == 1 and gaussian[0].relation == "add_remove":
        remedy = f"the accountant moments, which bounds it, or {remedy}"
    return f"the accountant pld has no finite epsilon at delta = {delta:g}: {why}; use {remedy}"
