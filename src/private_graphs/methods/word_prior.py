"""Weights of words from noisy sums of non-negative rows, under a prior fitted to the sums.

A row u >= 0 of words, |u| <= 1, of class y has the term z e_y^T with z = (sqrt(1-c^2) u, c). No
entry is negative and |z| <= 1, so that two terms, or two means of terms, lie sqrt 2 apart at most:
|v - v'|^2 = |v|^2 + |v'|^2 - 2<v, v'> <= 2. Everything here follows from the noisy sum of terms,
from public documents and from public numbers. No product is left to BLAS, so that a release is the
same to the bit with any number of threads (docs/privacy.md §16, "Word sums").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

CONSTANT_SHARE = 0.04
"""c^2: share of the constant, which counts the units of a class, in the squared norm of a row."""
COLUMNS = 4096
FREQUENCIES, SPREADS, ROUNDS = 40, (0.03, 0.1, 0.3, 1.0, 3.0), 60
"""Grid of the prior: mean entries of a word, and squared spread over classes, relative to it."""
_LEAST_SIZE, _LEAST_RATIO = 0.05, 0.05
"""Least size of a class and least ratio of a word in a class, relative to their means."""
REASON = (
    "a unit's term is a mean over its documents of z e_y^T with z = (sqrt(1-c^2) u, c), u >= 0 and "
    "|u| <= 1: terms have no negative entry and norm 1 at most, so that |v - v'|^2 = |v|^2 + "
    "|v'|^2 - 2<v, v'> <= 2"
)


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums of rows by class, exact or noisy."""

    sums: np.ndarray
    """(columns, K)"""
    sizes: np.ndarray
    """(K,)"""
    noise_std: float = 0.0
    """Noise of a sum."""
    size_noise: float = 0.0
    """Noise of a size."""

    @classmethod
    def of(cls, noisy: np.ndarray, noise_std: float) -> Totals:
        """Take (columns + 1, K) sums of z e_y^T apart."""
        row, constant = math.sqrt(1 - CONSTANT_SHARE), math.sqrt(CONSTANT_SHARE)
        return cls(noisy[:-1] / row, noisy[-1] / constant, noise_std / row, noise_std / constant)


@dataclass(frozen=True, eq=False)
class WordWeights:
    """A linear classifier of rows, and what it was computed from."""

    weights: np.ndarray
    """(columns + 1, K); the last row is the constant."""
    reads_known: bool
    """Whether public documents passed the gate."""


@dataclass(frozen=True, eq=False)
class _Cell:
    """What the noisy sums and the public ones say of every word, at one point of the grid."""

    frequency: float
    spread: float
    noise: np.ndarray
    """(K,) variance of a class's mean entry about its own frequency."""


def weights_of(noisy: Totals, units: int, known: Totals | None = None) -> WordWeights:
    """Return the classifier; ``units`` is the public number of units that the sums are about.

    The mean entry of a word in class y is f_y, with mean f and variance t f^2 over classes. f and t
    of a word are drawn from a mixture over a grid, whose shares are fitted to the sums of all words
    by expectation maximisation. A slope is 2(sqrt(f_y / f) - 1) at the posterior mean of f_y, in
    units of the mean entry of a word that is there. ``known``, the sums of labelled public
    documents, are a second observation, if they have two classes and if the mixture that is fitted
    to them predicts the noisy sums better than the one that is fitted to these alone: else they
    enter nothing.
    """
    (columns, n_classes), total = noisy.sums.shape, min(max(float(noisy.sizes.sum()), 1.0), units)
    sizes = shrunk_sizes(noisy.sizes, noisy.size_noise, total / n_classes)
    mass = min(max(float(noisy.sums.sum()) / total, 1.0), math.sqrt(columns))
    means = noisy.sums / sizes
    cells = [
        _Cell(f, t, f / (mass * sizes) + (noisy.noise_std / sizes) ** 2)
        for f in (mass / columns * np.geomspace(1 / 64, 256, FREQUENCIES)).tolist() if f < 1
        for t in SPREADS
    ]  # fmt: skip
    likelihood = np.stack([
        _gaussian(means - cell.frequency, cell.noise + cell.spread * cell.frequency**2)
        for cell in cells
    ], axis=1)  # fmt: skip
    mixture, alone = _fitted(likelihood)
    if known is not None:
        public = _counts(known, cells)
        if public is None or not _alike(means, cells, known, public, alone):
            known = None
        else:
            mixture, _ = _fitted(likelihood + public)
    slopes, frequency = np.zeros((columns, n_classes)), np.zeros(columns)
    for cell, share in zip(cells, mixture.T, strict=True):
        f, tau, value, variance = cell.frequency, cell.spread * cell.frequency**2, means, cell.noise
        if known is not None:
            precision = 1 / variance + known.sizes / (_entry(known) * f)
            value = (means / variance + known.sums / (_entry(known) * f)) / precision
            variance = 1 / precision
        ratio = 1 + (value - f) * (tau / (tau + variance)) / f
        root = np.sqrt(np.maximum(ratio, _LEAST_RATIO))
        slopes += share[:, None] * (2 * mass * (root - 1))
        frequency += share * f
    constants = np.log(sizes / sizes.sum()) - (frequency[:, None] * slopes).sum(axis=0)
    constants -= (frequency[:, None] / mass * slopes**2).sum(axis=0) / 2
    return WordWeights(np.vstack([slopes, constants]), known is not None)


def shrunk_sizes(sizes: np.ndarray, noise: float, mean: float) -> np.ndarray:
    """Return sizes of classes, moved towards their mean by as much as their noise is large."""
    spread = max(float(((sizes - mean) ** 2).mean()) - noise**2, 0.0)
    moved = mean + (sizes - mean) * spread / max(spread + noise**2, 1e-12)
    return np.maximum(moved, _LEAST_SIZE * mean)


def _gaussian(difference: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return (columns,) logarithms of densities, but for a constant."""
    return -0.5 * (difference**2 / variance + np.log(variance)).sum(axis=1)


def _fitted(likelihood: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (columns, cells) shares of the mixture's cells in each word, and log likelihoods."""
    top = likelihood.max(axis=1, keepdims=True)
    scaled = np.exp(likelihood - top)
    prior = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(ROUNDS):
        shares = scaled * prior
        shares /= shares.sum(axis=1, keepdims=True)
        prior = shares.mean(axis=0) + 1e-12
    shares = scaled * prior
    whole = shares.sum(axis=1, keepdims=True)
    return shares / whole, (np.log(whole) + top)[:, 0]


def _entry(known: Totals) -> float:
    """Return the mean entry of a word that is there, in public documents."""
    return float(known.sizes.sum() / known.sums.sum())


def _counts(known: Totals, cells: list[_Cell]) -> np.ndarray | None:
    """Return (columns, cells) log likelihoods of public counts: negative binomial ones.

    None unless public documents have words and at least two classes.
    """
    if (known.sizes > 0).sum() < 2 or not known.sums.any():
        return None
    counts, entry, found = known.sums / _entry(known), _entry(known), []
    orders = {t: (gammaln(counts + 1 / t) - gammaln(1 / t)).sum(axis=1) for t in SPREADS}
    for cell in cells:
        shape, expected = 1 / cell.spread, known.sizes * cell.frequency / entry
        odds = np.log(np.maximum(expected, 1e-12) / (shape + expected))
        empty = (shape * np.log(shape / (shape + expected))).sum()
        found.append(orders[cell.spread] + (counts * odds).sum(axis=1) + empty)
    return np.stack(found, axis=1)


def _alike(
    means: np.ndarray, cells: list[_Cell], known: Totals, public: np.ndarray, alone: np.ndarray
) -> bool:
    """Return whether public documents predict the noisy means better than a mixture of their own.

    ``public`` are the log likelihoods of the public counts, ``alone`` those of the noisy means.
    """
    counts, entry, found = known.sums / _entry(known), _entry(known), []
    for cell in cells:
        shape = 1 / cell.spread
        rate = shape / cell.frequency + known.sizes / entry
        posterior = (counts + shape) / rate
        found.append(_gaussian(means - posterior, cell.noise + posterior / rate))
    predicted = np.stack(found, axis=1)
    top = predicted.max(axis=1, keepdims=True)
    shares, _ = _fitted(public)
    told = np.log((shares * np.exp(predicted - top)).sum(axis=1) + 1e-300) + top[:, 0]
    return float((told - alone).sum()) > 0
