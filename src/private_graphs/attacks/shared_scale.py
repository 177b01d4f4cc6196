"""Noise whose coordinates share a scale: what it costs in many dimensions, in closed form.

Symmetric multivariate Laplace noise is √W·N(0, s²I_d), with one W ~ Exp(1) for all d coordinates.
Its projections are Laplace distributions, for which an accountant of one dimension is right. But
the coordinates are uncorrelated, not independent: those on which nothing depends tell W, and given
W the noise is Gaussian with standard deviation s√W, of which P(W < w) ≥ w(1 - w/2) is small.

``epsilon_shown`` bounds ε of a whole training from below; ``single_delta`` is δ(ε) of one release.
``StarTraining`` is the training of HeterPoisson (Xiang, Wang & Wang, S&P 2024), as its code is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import kve
from scipy.stats import binom, chi, chi2, norm
from scipy.stats import t as student

_THRESHOLDS = np.geomspace(4, 400, 60)
"""Thresholds in estimated standard deviations that are tried."""
_CELLS = np.linspace(-9, 9, 361)
"""Ends of the cells over which a normal is integrated."""
_MASSES = np.diff(norm.cdf(_CELLS))
_CERTAIN = 1e-9
"""Probability that the scale is estimated higher than supposed."""
_ORDERS = np.linspace(1.0001, 10, 100)
"""Rényi orders of HeterPoisson's accountant."""
_MOST_STARS = 30
"""Number of stars that a node is supposed to enter at most: more have no probability."""
_EXPANDED = 24
"""Order of a Bessel function from which its uniform expansion is used."""

Mixture = Sequence[tuple[float, float]]
"""(probability, shift) pairs: how far a unit moves one release; with the rest it does not."""


def epsilon_shown(
    scale: float, dimensions: int, steps: int, mixture: Mixture, delta: float
) -> float:
    """Return a lower bound on ε at ``delta`` of ``steps`` releases; 0 where none is found.

    Every event has P(event with the unit) ≤ e^ε P(event without it) + δ: the best of ``event_odds``
    over thresholds.
    """
    odds = (event_odds(threshold, scale, dimensions, steps, mixture) for threshold in _THRESHOLDS)
    return max([0.0, *(math.log(p - delta) - without for p, without in odds if p > delta)])


def event_odds(
    threshold: float, scale: float, dimensions: int, steps: int, mixture: Mixture
) -> tuple[float, float]:
    """Return a lower bound on the probability of an event with the unit, and an upper bound on the
    logarithm of that without it.

    The event: in one of the releases of d ≥ 3 numbers with noise of scale s, the coordinate along
    the shift exceeds ``threshold`` standard deviations, as the other coordinates estimate it.
    Without the unit its ratio is Student's t with d - 1 degrees of freedom.
    """
    degrees = dimensions - 1
    odds, shifts = np.array(mixture).T
    once = float(odds @ _exceeds(shifts / scale, threshold, degrees))
    return -math.expm1(steps * math.log1p(-once)), math.log(steps) + _log_tail(threshold, degrees)


def _exceeds(shifts: np.ndarray, threshold: float, degrees: int) -> np.ndarray:
    """Return lower bounds on P(shift/√W + z > τR): z normal, R² the estimated variance."""
    highest = _highest(degrees)
    gap = threshold * highest - _CELLS[:-1]  # at the low end of each cell
    ratios = np.minimum(shifts[:, None] / np.maximum(gap, 1e-3), 30)
    inside = np.where(gap <= 0, 1.0, -np.expm1(-np.square(ratios)))  # P(W < (shift/gap)²)
    return (1 - _CERTAIN) * (inside @ _MASSES)


@cache
def _highest(degrees: int) -> float:
    """Return what R exceeds with probability ``_CERTAIN`` at most."""
    return math.sqrt(chi2.isf(_CERTAIN, degrees) / degrees)


@cache
def _log_peak(degrees: int) -> float:
    """Return the logarithm of the density of t at 0."""
    return float(student.logpdf(0, degrees))


def _log_tail(threshold: float, degrees: int) -> float:
    """Return an upper bound on log P(t > τ): ∫ (x/τ) f(x) dx over x > τ, f the density of t."""
    return float(
        _log_peak(degrees)
        + math.log(degrees / (threshold * (degrees - 1)))
        - (degrees - 1) / 2 * math.log1p(threshold**2 / degrees)
    )


@dataclass(frozen=True)
class StarTraining:
    """Noisy sums of gradients over stars: a root with sampled neighbours, of a Poisson sample."""

    nodes: int
    """Number of training nodes."""
    batch: int
    """Expected number of roots of a step."""
    epochs: int
    neighbours: int
    """Expected number of stars that a node enters at most if every node is a root, M."""
    dimensions: int
    """Number of parameters."""

    @property
    def rate(self) -> float:
        """Probability of being a root."""
        return self.batch / self.nodes

    @property
    def steps(self) -> int:
        """Number of steps that are accounted for."""
        return int(self.epochs / self.rate)

    @property
    def delta(self) -> float:
        """δ that is claimed, N^-1.1."""
        return self.nodes**-1.1

    def mixture(self, stars: bool = True) -> Mixture:
        """Return how far a node moves a sum, in clip norms: by half of one as a root, else by one
        for each star that it enters; without ``stars`` as a root alone."""
        entered = np.arange(1, _MOST_STARS if stars else 1)
        odds = binom.pmf(entered, self.nodes, self.rate * self.neighbours / self.nodes)
        others = zip((1 - self.rate) * odds, entered, strict=True)
        return [(self.rate, 0.5), *((float(p), float(k)) for p, k in others)]

    def claimed_epsilon(self, scale: float) -> float:
        """Return ε by the accountant of its code: Rényi moments of one-dimensional Laplace noise,
        converted as by Balle et al. (AISTATS 2020)."""
        moves = self.mixture()
        odds, shifts = np.array([*moves, (1 - sum(p for p, _ in moves), 0.0)]).T[:, :, None]
        moved = math.sqrt(2) * shifts / scale
        up = (_ORDERS - 1) * moved + np.log(_ORDERS / (2 * _ORDERS - 1))
        down = -_ORDERS * moved + np.log((_ORDERS - 1) / (2 * _ORDERS - 1))
        moments = np.logaddexp.reduce(np.logaddexp(up, down) + np.log(odds), axis=0)
        spent = self.steps * moments - math.log(self.delta) - np.log(_ORDERS)
        return float((spent / (_ORDERS - 1) + np.log1p(-1 / _ORDERS)).min())

    def scale(self, epsilon: float) -> float:
        """Return the scale s, in clip norms, for which ``epsilon`` is claimed."""
        return float(brentq(lambda s: self.claimed_epsilon(s) - epsilon, 0.1, 1000))


PUBMED = 64_515
"""Parameters of its network on PubMed: 500 words, 128 units, 3 classes."""


def single_delta(epsilons: np.ndarray, shift: float, dimensions: int) -> np.ndarray:
    """Return δ at each of ``epsilons`` of one release in d dimensions, moved by ``shift`` scales s.

    δ(ε) = E[(1 - e^(ε - L))₊], L the privacy loss at a release with the unit. d = 1 is in closed
    form; else the expectation is a sum over a grid of W, of the normal along the shift and of the
    length of the others.
    """
    if dimensions == 1:
        return -np.expm1(np.minimum(0, (epsilons - math.sqrt(2) * shift) / 2))
    w = np.geomspace(1e-12, 60, 400)[:, None, None]
    weight = np.gradient(w[:, 0, 0])[:, None, None] * np.exp(-w)
    middle = (np.arange(60) + 0.5) / 60
    along, across = norm.ppf(middle)[None, :, None], chi.ppf(middle, dimensions - 1)[None, None]
    moved = np.sqrt(w) * np.hypot(along, across)
    unmoved = np.sqrt(w) * np.hypot(along + shift / np.sqrt(w), across)
    loss = _log_density(moved, dimensions) - _log_density(unmoved, dimensions)
    weights = np.broadcast_to(weight / middle.size**2, loss.shape)
    return np.array(
        [(weights * -np.expm1(np.minimum(0, epsilon - loss))).sum() for epsilon in epsilons]
    )


def _log_density(r: np.ndarray, dimensions: int) -> np.ndarray:
    """Return log density, less a constant, of the noise with s = 1 at distance ``r``: with
    ν = d/2 - 1, r^(-ν) K_ν(√2 r)."""
    order, x = dimensions / 2 - 1, math.sqrt(2) * r
    if order < _EXPANDED:
        return np.log(kve(order, x)) - x - order * np.log(x)
    ratio = x / order  # uniform expansion of K_ν(νz), DLMF 10.41.4, to its first term
    root = np.sqrt(1 + ratio**2)
    first = 1 - (3 / root - 5 / root**3) / (24 * order)
    exponent = root + np.log(ratio / (1 + root))
    return -order * exponent - np.log(root) / 2 + np.log(first) - order * np.log(x)
