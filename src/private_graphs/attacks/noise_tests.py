"""Tests of noise against its claimed distribution: independent standard normals, entry by entry.

Exact bounds on variances (chi square) and on correlations (Fisher's z), with one joint probability
of a false alarm. Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.special import ndtri
from scipy.stats import chi2

AXES = ("round", "row", "column")
"""Axes of noise after the first, which counts releases."""
_MOST_PAIRED = 400
"""Maximum number of coordinates that are compared pairwise."""


@dataclass(frozen=True)
class Found:
    """One quantity that lies outside its bounds."""

    name: str
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.name} is {self.value:.4f}, outside {self.low:.4f} to {self.high:.4f}"


def variance_bounds(n: np.ndarray | float, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds that ``n`` normals' mean square leaves with probability ``tail`` each."""
    return chi2.ppf(tail, n) / n, chi2.isf(tail, n) / n


@dataclass(frozen=True, eq=False)
class NoiseSample:
    """Noise of n releases in units of the claimed standard deviation."""

    entries: np.ndarray
    """(n, rounds, rows, columns)"""
    batch: int
    """Number of consecutive releases made by one call; n is a multiple of it."""

    @cached_property
    def _variances(self) -> list[tuple[str, np.ndarray, float]]:
        """Yield name, mean squares and numbers of entries of every group."""
        squares = self.entries**2
        shape = squares.shape
        groups = [("all entries", np.array([squares.mean()]), squares.size)]
        wide = [axis for axis in (1, 2, 3) if shape[axis] > 1]
        for axis in wide:
            others = tuple(each for each in range(4) if each != axis)
            count = squares.size // shape[axis]
            groups.append((AXES[axis - 1], squares.mean(axis=others), count))
        if len(wide) > 1:
            groups.append(("coordinate", squares.mean(axis=0).ravel(), shape[0]))
        if self.batch > 1:  # equal noise in two releases widens its sum
            sums = self.entries.reshape(-1, self.batch, self.entries[0].size).sum(axis=1)
            groups.append(("sum of a batch", np.array([np.mean(sums**2) / self.batch]), sums.size))
        return groups

    @cached_property
    def _correlations(self) -> list[tuple[str, list[str], np.ndarray, float]]:
        """Yield name, names of pairs, correlations and numbers of entries, by kind of pair."""
        entries, kinds = self.entries, []
        wide = [axis for axis in (1, 2, 3) if entries.shape[axis] > 1]
        for axis in wide:
            values = np.moveaxis(entries, axis, 0).reshape(entries.shape[axis], -1)
            kinds.append(_pairs(f"{AXES[axis - 1]}s", values))
        flat = entries.reshape(len(entries), -1)
        if len(wide) > 1 and flat.shape[1] <= _MOST_PAIRED:
            kinds.append(_pairs("coordinates", flat.T))
        if self.batch > 1:
            batches = entries.reshape(-1, self.batch, flat.shape[1])
            first, second = batches[:, :-1].ravel(), batches[:, 1:].ravel()
            value = np.corrcoef(first, second)[0, 1]
            kinds.append(("neighbours in a batch", [""], np.array([value]), first.size))
        return kinds

    @property
    def count(self) -> int:
        """Number of tested quantities."""
        return sum(len(group[1]) for group in self._variances) + sum(
            len(kind[2]) for kind in self._correlations
        )

    def std_ratio(self, confidence: float) -> tuple[float, float, float]:
        """Return the ratio of the standard deviation to the claimed one, and its bounds."""
        _, [square], n = self._variances[0]
        low, high = variance_bounds(n, (1 - confidence) / 2)
        return math.sqrt(square), math.sqrt(square / high), math.sqrt(square / low)

    def found(self, alarm: float) -> list[Found]:
        """Return the quantities outside their bounds; there are any with probability at most
        ``alarm``, if the noise is as claimed."""
        tail = alarm / self.count / 2
        found = []
        for name, squares, n in self._variances:
            low, high = np.sqrt(variance_bounds(n, tail))
            ratios = np.sqrt(squares)
            for i in np.flatnonzero((ratios < low) | (ratios > high)):
                place = f" {i}" if len(ratios) > 1 else ""
                found.append(Found(f"std ratio of {name}{place}", ratios[i], low, high))
        for name, pairs, values, n in self._correlations:
            bound = math.tanh(-float(ndtri(tail)) / math.sqrt(n - 3))
            for i in np.flatnonzero(~(np.abs(values) <= bound)):
                place = f" {pairs[i]}" if pairs[i] else ""
                found.append(Found(f"correlation of {name}{place}", values[i], -bound, bound))
        return found


def _pairs(name: str, values: np.ndarray) -> tuple[str, list[str], np.ndarray, float]:
    """Return the pairwise correlations between the rows of ``values``."""
    upper = np.triu_indices(len(values), 1)
    with np.errstate(invalid="ignore", divide="ignore"):  # a row without noise has none
        matrix = np.nan_to_num(np.atleast_2d(np.corrcoef(values)))
    names = [f"{i} and {j}" for i, j in combinations(range(len(values)), 2)]
    return name, names, matrix[upper], values.shape[1]
