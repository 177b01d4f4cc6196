"""A second, independent route to the ε of Poisson-sampled Gaussian steps.

The privacy-loss accountant of dp-accounting discretises the loss and rounds it up. Here the
moment generating function of the loss is integrated numerically and inverted along a vertical
line of the complex plane, without discretising the loss: the two share no code. The result is
an estimate (no rounding to the safe side), so it checks a price and never is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp

_MAX_POINTS = 200_000
_MAX_FREQUENCIES = 40_000
_NEGLIGIBLE = math.log(1e-13)


@dataclass(frozen=True)
class _Pair:
    """One step's pair: mixtures of N(center, σ²), as (weight, center) tuples."""

    upper: tuple[tuple[float, float], ...]
    lower: tuple[tuple[float, float], ...]


def _pairs(rate: float, relation: str) -> list[_Pair]:
    """Dominating pairs of one step, noise in units of the clip norm (§0.2)."""
    shifted = ((1 - rate, 0.0), (rate, 1.0))
    if relation == "replace":
        return [_Pair(shifted, ((1 - rate, 0.0), (rate, -1.0)))]
    still = ((1.0, 0.0),)
    return [_Pair(shifted, still), _Pair(still, shifted)]


def _log_density(x: np.ndarray, mixture: tuple[tuple[float, float], ...], sigma: float):
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
        """Size of the grid that is good for tilts up to ``highest``."""
        # densities bend over a length sigma, the loss over sigma squared
        return int(40 * cls._reach(sigma, highest) / min(sigma, sigma**2))

    def real(self, tilt: float) -> float:
        """log E_P[exp(tilt · L)]."""
        return float(logsumexp(self._log_p + tilt * self._loss))

    def variance(self, tilt: float) -> float:
        """Variance of L under the tilted distribution."""
        weights = np.exp(self._log_p + tilt * self._loss - self.real(tilt))
        mean = weights @ self._loss
        return float(weights @ (self._loss - mean) ** 2)

    def line(self, tilt: float, frequencies: np.ndarray) -> np.ndarray:
        """log E_P[exp((tilt + i u) L)] - log E_P[exp(tilt L)] for every u."""
        weights = np.exp(self._log_p + tilt * self._loss - self.real(tilt))
        chunks = np.array_split(frequencies, max(1, frequencies.size // 256))
        values = [np.exp(1j * np.outer(chunk, self._loss)) @ weights for chunk in chunks]
        return np.log(np.concatenate(values))


def _chernoff(
    pair: _Pair, sigma: float, steps: int, delta: float
) -> tuple[_LossMoments, float, float] | None:
    """Loss moments, the tilt R of the best Chernoff bound, and that upper bound on ε."""
    for highest in (50.0, 2000.0, 50_000.0):
        if _LossMoments.n_points(sigma, highest) > _MAX_POINTS:
            return None
        moments = _LossMoments(pair, sigma, highest)

        def bound(log_tilt: float, moments: _LossMoments = moments) -> float:
            # sup over y of (1 - e^-y) e^(-tilt y), the payoff at loss ε + y
            tilt = math.exp(log_tilt)
            payoff = tilt * math.log(tilt) - (tilt + 1) * math.log1p(tilt)
            return (steps * moments.real(tilt) + payoff - math.log(delta)) / tilt

        best = minimize_scalar(bound, bounds=(-12.0, math.log(highest)), method="bounded")
        if best.x < math.log(0.9 * highest):
            return moments, math.exp(best.x), float(best.fun)
    return None


def _epsilon_of_pair(pair: _Pair, sigma: float, steps: int, delta: float) -> float | None:
    """ε of ``steps`` releases: δ(ε) = (1/2π) ∫ M(z)^steps e^{-zε} / (z(z+1)) du, z = R + iu."""
    placed = _chernoff(pair, sigma, steps, delta)
    if placed is None:
        return None
    moments, tilt, bound = placed
    spread = math.sqrt(steps * moments.variance(tilt))
    reach = 9 / spread
    step = min(2 * math.pi / (80 * spread), 2 * math.pi * tilt / 60)
    if reach / step > _MAX_FREQUENCIES:
        return None
    u = step * np.arange(int(reach / step) + 1)
    line = steps * moments.line(tilt, u)
    if line[-1].real > _NEGLIGIBLE:  # too few steps: the integrand has not died away
        return None
    z = tilt + 1j * u
    weights = np.exp(line) / (z * (z + 1)) * step / math.pi
    weights[0] /= 2
    scale = math.log(delta) - steps * moments.real(tilt)

    def excess(epsilon: float) -> float:
        total = float(np.real(weights @ np.exp(-1j * u * epsilon)))
        return total - math.exp(scale + tilt * epsilon)

    # far below the Chernoff bound the integral is smaller than its own rounding error
    lowest = bound - 20 / tilt
    if bound <= 0 or (lowest <= 0 and excess(0.0) <= 0):
        return 0.0
    lowest = max(lowest, 0.0)
    return float(brentq(excess, lowest, bound, xtol=1e-10)) if excess(lowest) > 0 else None


def fourier_epsilon(
    noise_multiplier: float, steps: int, sampling_rate: float, delta: float, relation: str
) -> float | None:
    """Return ε of ``steps`` Poisson-sampled Gaussian releases, or None where it is unreliable.

    Parameters as in :func:`private_graphs.privacy.accountants.pld_epsilon`; the worse direction
    for ``add_remove`` and ``zero_out``. Lewis's inversion of the hockey-stick payoff; the line
    is placed at the Chernoff optimum. None where the integrand decays too slowly (few steps).
    """
    values = [
        _epsilon_of_pair(pair, noise_multiplier, steps, delta)
        for pair in _pairs(sampling_rate, relation)
    ]
    return None if any(value is None for value in values) else max(values)
