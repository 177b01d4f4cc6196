"""A second, independent route to the ε of Poisson-sampled Gaussian steps.

The privacy-loss accountant of dp-accounting discretises the loss and rounds it up. This module
integrates the moment generating function of the loss numerically and inverts it along a vertical
line of the complex plane, without discretising the loss: the two share no code. The result is an
estimate (not rounded to the safe side), so it checks a privacy cost and never is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp

from private_graphs.privacy.losses import Distributed, Loss, SampledGaussian
from private_graphs.privacy.query_losses import (
    ConcentratedLoss,
    LaplaceLoss,
    PureLoss,
    SampledTerms,
)

_MAX_POINTS = 200_000
_MAX_FREQUENCIES = 40_000
_NEGLIGIBLE = math.log(1e-13)


@dataclass(frozen=True)
class _Pair:
    """Dominating pair of one step: mixtures of N(center, σ²), as (weight, center) tuples."""

    upper: tuple[tuple[float, float], ...]
    lower: tuple[tuple[float, float], ...]


def _pairs(rate: float, relation: str) -> list[_Pair]:
    """Return the dominating pairs of one step, with noise in units of the clip norm (§0.2)."""
    shifted = ((1 - rate, 0.0), (rate, 1.0))
    if relation == "replace":
        return [_Pair(shifted, ((1 - rate, 0.0), (rate, -1.0)))]
    still = ((1.0, 0.0),)
    return [_Pair(shifted, still), _Pair(still, shifted)]


def _log_density(
    x: np.ndarray, mixture: tuple[tuple[float, float], ...], sigma: float
) -> np.ndarray:
    terms = [
        math.log(weight) - (x - center) ** 2 / (2 * sigma**2)
        for weight, center in mixture
        if weight > 0
    ]
    return logsumexp(terms, axis=0) - math.log(sigma * math.sqrt(2 * math.pi))


class _LossMoments:
    """log E_P[exp(z · L)] of one step's privacy loss L = log(P/Q), by the trapezoid rule."""

    def __init__(self, pair: _Pair, sigma: float, highest: float) -> None:
        reach = self._reach(sigma, highest)
        x, spacing = np.linspace(-reach, reach, self.n_points(sigma, highest), retstep=True)
        self._log_p = _log_density(x, pair.upper, sigma) + math.log(spacing)
        self._loss = _log_density(x, pair.upper, sigma) - _log_density(x, pair.lower, sigma)

    @staticmethod
    def _reach(sigma: float, highest: float) -> float:
        return 12 * sigma + 2 * highest + 2  # a tilt of R moves the mass by at most 2R

    @classmethod
    def n_points(cls, sigma: float, highest: float) -> int:
        """Return the size of a grid that is accurate for tilts up to ``highest``."""
        # densities bend over a length sigma, the loss over sigma squared
        return int(40 * cls._reach(sigma, highest) / min(sigma, sigma**2))

    def real(self, tilt: float) -> float:
        """Return log E_P[exp(tilt · L)]."""
        return float(logsumexp(self._log_p + tilt * self._loss))

    def variance(self, tilt: float) -> float:
        """Return the variance of L under the tilted distribution."""
        weights = np.exp(self._log_p + tilt * self._loss - self.real(tilt))
        mean = weights @ self._loss
        return float(weights @ (self._loss - mean) ** 2)

    def line(self, tilt: float, frequencies: np.ndarray) -> np.ndarray:
        """Return log E_P[exp((tilt + i u) L)] - log E_P[exp(tilt L)] for every u."""
        weights = np.exp(self._log_p + tilt * self._loss - self.real(tilt))
        chunks = np.array_split(frequencies, max(1, frequencies.size // 256))
        values = [np.exp(1j * np.outer(chunk, self._loss)) @ weights for chunk in chunks]
        return np.log(np.concatenate(values))

    def beyond(self, tilt: float, reach: float) -> float:
        """Return the largest log size beyond ``reach``: a smooth density's transform decays."""
        return float(self.line(tilt, np.array([reach]))[0].real)


@dataclass(frozen=True)
class _Normal:
    """Log moments of a μ-GDP release's loss: N(μ²/2, μ²) in both directions."""

    mu: float

    def real(self, tilt: float) -> float:
        return self.mu**2 / 2 * (tilt**2 + tilt)

    def variance(self, tilt: float) -> float:
        return self.mu**2

    def line(self, tilt: float, frequencies: np.ndarray) -> np.ndarray:
        z = tilt + 1j * frequencies
        return self.mu**2 / 2 * (z**2 + z) - self.real(tilt)

    def beyond(self, tilt: float, reach: float) -> float:
        return -((self.mu * reach) ** 2) / 2


@dataclass(frozen=True)
class _Flat:
    """Log moments of the loss of a number moved by ``size`` scales of Laplace noise (``laplace``),
    or of ``size``-DP randomised response: in both cases a sum of two exponentials."""

    size: float
    laplace: bool

    def _parts(self, z: complex | np.ndarray) -> tuple[Any, Any]:
        """Return the logarithm of the larger term, and the ratio of the smaller one to it."""
        if self.laplace:
            high, low = (1 + z) / (1 + 2 * z), z / (1 + 2 * z)
        else:
            high = low = 1 / (1 + math.exp(-self.size))
        return self.size * z + np.log(high), low / high * np.exp(-self.size * (1 + 2 * z))

    def real(self, tilt: float) -> float:
        log_high, ratio = self._parts(tilt)
        return float(log_high + np.log1p(ratio))

    def variance(self, tilt: float) -> float:
        step = min(1e-3, tilt / 2)
        around = [self.real(tilt + shift) for shift in (-step, 0, step)]
        return max((around[0] - 2 * around[1] + around[2]) / step**2, 1e-12)

    def line(self, tilt: float, frequencies: np.ndarray) -> np.ndarray:
        log_high, ratio = self._parts(tilt + 1j * frequencies)
        return log_high + np.log(1 + ratio) - self.real(tilt)

    def beyond(self, tilt: float, reach: float) -> float:
        """Return the log share of the tilted mass in the two atoms, whose phases keep meeting."""
        if not self.laplace:
            return 0.0
        atoms = np.logaddexp(self.size * tilt, -self.size * (1 + tilt)) - math.log(2)
        return float(atoms) - self.real(tilt)


class _Sum:
    """Log moments of a sum of independent losses, each with its number of steps."""

    def __init__(self, parts: Sequence[tuple[Any, int]]) -> None:
        self.parts = parts

    def real(self, tilt: float) -> float:
        return sum(steps * part.real(tilt) for part, steps in self.parts)

    def variance(self, tilt: float) -> float:
        return sum(steps * part.variance(tilt) for part, steps in self.parts)

    def line(self, tilt: float, frequencies: np.ndarray) -> np.ndarray:
        return sum(steps * part.line(tilt, frequencies) for part, steps in self.parts)

    def beyond(self, tilt: float, reach: float) -> float:
        return sum(steps * part.beyond(tilt, reach) for part, steps in self.parts)


def _moments(loss: Distributed, direction: int, highest: float) -> Any:
    """Return log moments of one step of ``loss``, accurate for tilts up to ``highest``; None if
    that needs too large a grid."""
    if isinstance(loss, PureLoss):
        return _Flat(loss.epsilon, laplace=False)
    if isinstance(loss, LaplaceLoss):
        return _Flat(1 / loss.scale, laplace=True)
    sigma = loss.noise_multiplier
    if isinstance(loss, SampledTerms):
        pairs = _terms_pairs(loss)
    elif loss.sampling_rate == 1:
        return _Normal((2 if loss.relation == "replace" else 1) / sigma)
    else:
        pairs = _pairs(loss.sampling_rate, loss.relation)
    if _LossMoments.n_points(sigma, highest) > _MAX_POINTS:
        return None
    return _LossMoments(pairs[direction % len(pairs)], sigma, highest)


def _terms_pairs(loss: SampledTerms) -> list[_Pair]:
    shifted = tuple((weight, float(j)) for j, weight in enumerate(loss.weights))
    if loss.relation == "replace":
        return [_Pair(shifted, tuple((weight, -j) for weight, j in shifted))]
    still = ((1.0, 0.0),)
    return [_Pair(shifted, still), _Pair(still, shifted)]


def _total(losses: Sequence[Distributed], direction: int, highest: float) -> _Sum | None:
    parts = [(_moments(loss, direction, highest), loss.steps) for loss in losses]
    return None if any(part is None for part, _ in parts) else _Sum(parts)


def _chernoff(
    losses: Sequence[Distributed], direction: int, delta: float
) -> tuple[_Sum, float, float] | None:
    """Return loss moments, the tilt R of the best Chernoff bound, and that upper bound on ε."""
    for highest in (50.0, 2000.0, 50_000.0):
        moments = _total(losses, direction, highest)
        if moments is None:
            return None

        def bound(log_tilt: float, moments: _Sum = moments) -> float:
            # sup over y of (1 - e^-y) e^(-tilt y), the payoff at loss ε + y
            tilt = math.exp(log_tilt)
            payoff = tilt * math.log(tilt) - (tilt + 1) * math.log1p(tilt)
            return (moments.real(tilt) + payoff - math.log(delta)) / tilt

        best = minimize_scalar(bound, bounds=(-12.0, math.log(highest)), method="bounded")
        if best.x < math.log(0.9 * highest):
            return moments, math.exp(best.x), float(best.fun)
    return None


def _epsilon_of(losses: Sequence[Distributed], direction: int, delta: float) -> float | None:
    """Return ε of all releases: δ(ε) = (1/2π) ∫ M(z) e^{-zε} / (z(z+1)) du, z = R + iu."""
    placed = _chernoff(losses, direction, delta)
    if placed is None:
        return None
    moments, tilt, bound = placed
    spread = math.sqrt(moments.variance(tilt))
    limits = (factor / spread for factor in (9, 14, 25))
    reach = next((limit for limit in limits if moments.beyond(tilt, limit) <= _NEGLIGIBLE), None)
    if reach is None:  # the integrand does not decay for good
        return None
    step = min(2 * math.pi / (80 * spread), 2 * math.pi * tilt / 60)
    if reach / step > _MAX_FREQUENCIES:
        return None
    u = step * np.arange(int(reach / step) + 1)
    line = moments.line(tilt, u)
    z = tilt + 1j * u
    weights = np.exp(line) / (z * (z + 1)) * step / math.pi
    weights[0] /= 2
    scale = math.log(delta) - moments.real(tilt)

    def excess(epsilon: float) -> float:
        total = float(np.real(weights @ np.exp(-1j * u * epsilon)))
        return total - math.exp(scale + tilt * epsilon)

    # far below the Chernoff bound the integral is smaller than its own rounding error
    lowest = bound - 20 / tilt
    if bound <= 0 or (lowest <= 0 and excess(0.0) <= 0):
        return 0.0
    lowest = max(lowest, 0.0)
    return float(brentq(excess, lowest, bound, xtol=1e-10)) if excess(lowest) > 0 else None


def fourier_of(losses: Sequence[Loss], delta: float) -> float | None:
    """Return ε of adaptive releases in the worse direction, or None where it is unreliable.

    The method is Lewis's inversion of the hockey-stick payoff, with the line at the Chernoff
    optimum. The result is None where the integrand decays too slowly (few steps; releases of pure
    DP alone, whose losses have atoms) and for zCDP bounds, which have no distribution.
    """
    known = [loss for loss in losses if not isinstance(loss, ConcentratedLoss)]
    if len(known) < len(losses):
        return None
    asymmetric = any(getattr(loss, "relation", "replace") != "replace" for loss in losses)
    values = [_epsilon_of(known, direction, delta) for direction in range(1 + asymmetric)]
    epsilons = [value for value in values if value is not None]
    return max(epsilons) if len(epsilons) == len(values) else None


def fourier_epsilon(
    noise_multiplier: float, steps: int, sampling_rate: float, delta: float, relation: str
) -> float | None:
    """Return ε of ``steps`` Poisson-sampled Gaussian releases, or None where it is unreliable.

    Parameters as in :func:`private_graphs.privacy.gradient_prices.pld_epsilon`; the worse direction
    applies for ``add_remove`` and ``zero_out``.
    """
    return fourier_of(
        [SampledGaussian(noise_multiplier, int(steps), sampling_rate, relation)], delta
    )
