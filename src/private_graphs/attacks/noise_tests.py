"""Tests of noise against its claimed distribution: independent standard normals, entry by entry.

``NoiseSample`` tests many short values: exact bounds on variances (chi square) and on correlations
(Student's t), of the entries and of their sizes. ``NoiseValues`` tests long ones, or all values of
a tape: no number occurs twice, tails, sums, and the correlation at every distance. Both hold the
energy of every release against its law: a scale that the coordinates of a release share, drawn anew
each time, leaves every variance and correlation as claimed (Gaussian scale mixtures, of which
symmetric multivariate Laplace noise is one) and guarantees less, the more coordinates there are.
Each has one joint probability of a false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations

import numpy as np
import scipy.fft
from scipy.special import ndtri
from scipy.stats import binom, chi2, norm, poisson
from scipy.stats import t as student

AXES = ("round", "row", "column")
"""Axes of noise after the first, which counts releases."""
_MOST_PAIRED = 400
"""Maximum number of coordinates that are compared pairwise."""
_THRESHOLDS = (1, 2, 3, 4, 5, 6)
"""Standard deviations beyond which absolute values are counted."""
_DENSITY = 1 / math.sqrt(math.pi)
"""Integral of the squared density of |z|: two numbers share a narrow cell with this probability
per width."""


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


def energy_scores(energies: np.ndarray, n: np.ndarray | int) -> np.ndarray:
    """Return standard normals for sums of squares of ``n`` independent standard normals each.

    The transform is Φ⁻¹(F(energy)), F the law of chi square; the nearer tail is used, and
    what no float tells from certainty ends at 38 standard deviations.
    """
    low, high = chi2.cdf(energies, n), chi2.sf(energies, n)
    return np.clip(np.where(low < high, ndtri(low), -ndtri(high)), -38, 38)


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
            dims = tuple(dim for dim in range(4) if dim != axis)
            count = squares.size // shape[axis]
            groups.append((AXES[axis - 1], squares.mean(axis=dims), count))
        if len(wide) > 1:
            groups.append(("coordinate", squares.mean(axis=0).ravel(), shape[0]))
        if len(wide) > 1:
            sums = self.entries.sum(axis=(2, 3)) / math.sqrt(shape[2] * shape[3])
            groups.append(("sum of a value", np.array([np.mean(sums**2)]), sums.size))
        for name, axes in (("a value", (2, 3)), ("a release", (1, 2, 3))):
            scores = energy_scores(squares.sum(axis=axes), math.prod(shape[dim] for dim in axes))
            groups.append((f"spread of {name}", np.array([np.mean(scores**2)]), scores.size))
        if self.batch > 1:  # equal noise in two releases widens its sum
            sums = self.entries.reshape(-1, self.batch, self.entries[0].size).sum(axis=1)
            groups.append(("sum of a batch", np.array([np.mean(sums**2) / self.batch]), sums.size))
        return groups

    @cached_property
    def _correlations(self) -> list[tuple[str, list[str], np.ndarray, float]]:
        """Yield name, names of pairs, correlations and numbers of entries, by kind of pair."""
        entries, kinds = self.entries, []
        wide = [axis for axis in (1, 2, 3) if entries.shape[axis] > 1]
        flat = entries.reshape(len(entries), -1)
        # Uncorrelated coordinates may depend on each other: then their sizes go together.
        for word, numbers in (("", entries), ("sizes of ", energy_scores(entries**2, 1))):
            for axis in wide:
                values = np.moveaxis(numbers, axis, 0).reshape(entries.shape[axis], -1)
                kinds.append(_pairs(f"{word}{AXES[axis - 1]}s", values))
            if len(wide) > 1 and flat.shape[1] <= _MOST_PAIRED:
                kinds.append(_pairs(f"{word}coordinates", numbers.reshape(flat.shape).T))
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
        violations = []
        for name, squares, n in self._variances:
            low, high = np.sqrt(variance_bounds(n, tail))
            ratios = np.sqrt(squares)
            for i in np.flatnonzero((ratios < low) | (ratios > high)):
                suffix = f" {i}" if len(ratios) > 1 else ""
                violations.append(Found(f"std ratio of {name}{suffix}", ratios[i], low, high))
        for name, pairs, values, n in self._correlations:
            quantile = float(student.isf(tail, n - 2))  # of r sqrt((n - 2)/(1 - r²))
            bound = quantile / math.sqrt(n - 2 + quantile**2)
            for i in np.flatnonzero(~(np.abs(values) <= bound)):
                suffix = f" {pairs[i]}" if pairs[i] else ""
                violations.append(Found(f"correlation of {name}{suffix}", values[i], -bound, bound))
        return violations


def _pairs(name: str, values: np.ndarray) -> tuple[str, list[str], np.ndarray, float]:
    """Return the pairwise correlations between the rows of ``values``."""
    upper = np.triu_indices(len(values), 1)
    with np.errstate(invalid="ignore", divide="ignore"):  # a row without noise has none
        matrix = np.nan_to_num(np.atleast_2d(np.corrcoef(values)))
    names = [f"{i} and {j}" for i, j in combinations(range(len(values)), 2)]
    return name, names, matrix[upper], values.shape[1]


@dataclass(frozen=True, eq=False)
class NoiseValues:
    """Noise of released values in units of the claimed standard deviation, one after the other."""

    values: Sequence[np.ndarray]
    """Each of any shape, not empty."""
    resolution: float
    """Difference below which two absolute values count as equal."""
    window: int = 1
    """Number of consecutive numbers that have to be equal; several where the resolution is coarse.
    """

    @cached_property
    def numbers(self) -> np.ndarray:
        """(N,) all numbers, in order."""
        return np.concatenate([np.ravel(array) for array in self.values]).astype(np.float64)

    def found(self, alarm: float) -> list[Found]:
        """Return the quantities outside their bounds; there are any with probability at most
        ``alarm``, if the noise is as claimed."""
        if not np.isfinite(self.numbers).all():
            return [Found("the number of infinite or undefined entries",
                          float((~np.isfinite(self.numbers)).sum()), 0, 0)]  # fmt: skip
        kinds = (self._repeats, self._tails, self._sums, self._spreads, self._distances)
        return [violation for kind in kinds for violation in kind(alarm / len(kinds))]

    def _repeats(self, alarm: float) -> Iterator[Found]:
        """Count pairs of windows whose absolute values are equal."""
        cells = np.floor(np.abs(self.numbers) / self.resolution).astype(np.int64).view(np.uint64)
        windows = len(cells) - self.window + 1
        if windows < 2:
            return
        keys = np.zeros(windows, np.uint64)  # odd factors: equal keys of one number are equal cells
        for offset in range(self.window):
            keys = keys * np.uint64(0x9E3779B97F4A7C15) + cells[offset : offset + windows]
        counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
        equal = float((counts * (counts - 1) / 2).sum())
        chance = min(1.0, _DENSITY * self.resolution) ** self.window
        most = poisson.isf(alarm, windows * (windows - 1) / 2 * chance)
        if equal > most:
            yield Found("the number of equal pairs", equal, 0, most)

    def _tails(self, alarm: float) -> Iterator[Found]:
        """Count positive numbers, and absolute values beyond each threshold."""
        sizes = np.abs(self.numbers)
        counts = [("positive numbers", 0.5, int((self.numbers > 0).sum()))]
        counts += [
            (f"numbers beyond {threshold} standard deviations", 2 * norm.sf(threshold),
             int((sizes > threshold).sum()))
            for threshold in _THRESHOLDS
        ]  # fmt: skip
        for name, chance, count in counts:
            tail = alarm / len(counts) / 2
            low, high = (
                float(end(tail, len(sizes), chance)) for end in (binom.ppf, binom.isf)
            )  # fmt: skip
            if not low <= count <= high:
                yield Found(f"the count of {name}", count, low, high)

    def _sums(self, alarm: float) -> Iterator[Found]:
        """Compare sums of each value, and of blocks of 1, 2, 4, … numbers, with their variance."""
        sums = [np.sum(array) / math.sqrt(np.size(array)) for array in self.values]
        groups = {"values": np.array(sums)} | {
            f"blocks of {size}": blocks.sum(axis=1) / math.sqrt(size)
            for size, blocks in self._blocks()
        }
        yield from _wide("std ratio of sums of", groups, alarm)

    def _spreads(self, alarm: float) -> Iterator[Found]:
        """Compare energies of each value, and of blocks of 1, 2, 4, … numbers, with their law."""
        energies = np.array([np.sum(np.square(array, dtype=np.float64)) for array in self.values])
        sizes = np.array([np.size(array) for array in self.values])
        groups = {"values": energy_scores(energies, sizes)} | {
            f"blocks of {size}": energy_scores((blocks**2).sum(axis=1), size)
            for size, blocks in self._blocks()
        }
        yield from _wide("spread of the energies of", groups, alarm)

    def _blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the numbers in blocks (n, size) of 1, 2, 4, … numbers, with the size."""
        for power in range(len(self.numbers).bit_length()):
            whole = self.numbers[: len(self.numbers) >> power << power]
            yield 1 << power, whole.reshape(-1, 1 << power)

    def _distances(self, alarm: float) -> Iterator[Found]:
        """Correlate the numbers with those that follow at every distance up to N/2."""
        distances = np.arange(1, len(self.numbers) // 2 + 1)
        if not len(distances):
            return
        sums = products(self.numbers, self.numbers)[distances]
        pairs = len(self.numbers) - distances
        yield from _beyond("numbers at distance", distances, sums, pairs, alarm)


def _wide(name: str, groups: Mapping[str, np.ndarray], alarm: float) -> Iterator[Found]:
    """Yield the groups of standard normals whose mean square is outside its bounds."""
    for group, normals in groups.items():
        low, high = np.sqrt(variance_bounds(len(normals), alarm / len(groups) / 2))
        ratio = math.sqrt(np.square(normals).mean())
        if not low <= ratio <= high:
            yield Found(f"{name} {group}", ratio, low, high)


def products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return (N + M - 1,): the sums of first[i] · second[i + k] for k = 0 … M - 1, then for
    k = 1 - N … -1."""
    size = len(first) + len(second) - 1
    fast = scipy.fft.next_fast_len(size, real=True)
    spectrum = np.conj(scipy.fft.rfft(first, fast)) * scipy.fft.rfft(second, fast)
    sums = scipy.fft.irfft(spectrum, fast)
    return np.r_[sums[: len(second)], sums[len(sums) - len(first) + 1 :]]


def found_together(
    noise: np.ndarray, references: Sequence[tuple[str, np.ndarray]], alarm: float
) -> list[Found]:
    """Return correlations of (N,) noise with other standard normals (N,), shifted by any number.

    There are any with probability at most ``alarm``, if all of them are independent.
    """
    shifts = np.arange(len(noise))
    shifts = np.r_[shifts, shifts[1:] - len(noise)]
    return [
        violation
        for name, reference in references
        for violation in _beyond(
            f"the noise with {name}, shifted by", shifts, products(noise, reference),
            len(noise) - np.abs(shifts), alarm / len(references),
        )
    ]  # fmt: skip


def _beyond(
    name: str, places: np.ndarray, sums: np.ndarray, pairs: np.ndarray, alarm: float
) -> Iterator[Found]:
    """Yield the sums of ``pairs`` products of standard normals that are too large; Chernoff.

    The factors may form chains: with r = (1 + sqrt(1 - 4t²))/2, E[exp(t · sum)] is at most
    r^(-pairs/2), since the determinants D of its tridiagonal matrices follow D_n = D_(n-1) -
    t² D_(n-2), so that D_n/D_(n-1) falls to r. Then mean u = t/(r sqrt(1 - 4t²)) is exceeded with
    probability at most exp(-pairs · (t u + log(r)/2)).
    """
    exponents, bounds = _chernoff()
    allowed = np.interp(-math.log(alarm / len(places) / 2) / pairs, exponents, bounds)
    means = sums / pairs
    for index in np.flatnonzero(~(np.abs(means) <= allowed))[:5]:
        bound = float(allowed[index])
        yield Found(f"mean product of {name} {places[index]}", float(means[index]), -bound, bound)


@cache
def _chernoff() -> tuple[np.ndarray, np.ndarray]:
    """Return exponents t u + log(r)/2, ascending, and the means u, rounded up."""
    x = np.geomspace(1e-9, 1e9, 40_000)  # 2t = x / wide
    wide = np.sqrt(1 + x**2)
    t, less = x / wide / 2, x**2 / (wide * (1 + wide)) / 2  # r = 1 - less
    mean = t * wide / (1 - less)
    return t * mean + np.log1p(-less) / 2, mean * (1 + 1e-6)
