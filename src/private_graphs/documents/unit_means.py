"""The classifier of ``class_sums``: a linear discriminant, read from one noisy sum by class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from private_graphs.documents.hashing import HashedWords
from private_graphs.documents.unit_sums import Map, PublicTexts, Sums, Terms
from private_graphs.privacy.accountants import gdp_mu

REASON = (
    "a unit's term is a mean over its documents of z e_y^T with z = (u, 1)/sqrt 2 and |u| <= 1: "
    "two documents' terms of one class differ by at most |u - u'|/sqrt 2 <= sqrt 2, of two classes "
    "by at most sqrt 2, and so do two means of such terms (the distance is convex)"
)
_SPREAD = 0.2
"""Prior variance of a class's mean in a coordinate, in units of the coordinate's variance."""
_LEAST_AROUND = 0.05
"""Least share of a row's squared norm that is not that of the mean of all rows."""
COLUMNS = (64, 4096)
"""Fewest and most columns of a row."""
MOST_AXES = 512


def columns_for(
    n_units: int, n_classes: int, epsilon: float, delta: float, per_signal: float = 1.0
) -> int:
    """Return the number of columns of a row, by a rule of public numbers: a power of two.

    ``per_signal`` is the number of columns for each unit of the signal n·μ/K.
    """
    target = per_signal * n_units * gdp_mu(epsilon, delta) / n_classes
    low, high = COLUMNS
    return int(min(high, max(low, 2 ** round(math.log2(max(1.0, target))))))


@dataclass(frozen=True, eq=False)
class ClassSums(Sums):
    """Training by one noisy sum of rows with a constant of half their squared norm."""

    SHARE: ClassVar[float] = 0.5
    REASON: ClassVar[str] = REASON

    @staticmethod
    def map_of(
        public: PublicTexts, n_units: int, n_classes: int, epsilon: float, delta: float
    ) -> Map:
        """See ``Sums.map_of``; columns by ``columns_for``."""
        columns = columns_for(n_units, n_classes, epsilon, delta)
        return public.map(columns, min(max(columns // 2, n_classes), MOST_AXES))

    def read_out(self, noisy: np.ndarray, public: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and sizes, from (columns + 1, K) noisy sums and ``public_sums``."""
        private = ClassMeans.of(noisy, self.lattice.noise_std)
        return weights_of(private, *public), private.sizes

    def alone(self, known: Terms) -> np.ndarray:
        """Return the weights of public documents alone."""
        means, variance = self.public_sums(known)
        return weights_of(means, None, variance)

    def public_sums(self, known: Terms) -> Any:
        """Return the sums of public documents by class, and the mean variance of a coordinate.

        The variance is None where nothing public tells it.
        """
        if not known.texts:
            told = isinstance(self.features, HashedWords)
            return None, 1 / self.features.columns if told else None
        rows, labelled = self.features.rows(known.texts).toarray(), known.labels >= 0
        codes = np.eye(self.n_classes)[known.labels[labelled]]
        variance = max(float(rows.var(axis=0).mean()), 1e-6)
        sums = rows[labelled].T @ codes
        return ClassMeans(sums, np.maximum(codes.sum(axis=0), 1e-9), 0.0), variance


@dataclass(frozen=True, eq=False)
class ClassMeans:
    """Sums of rows by class, and what they are worth."""

    sums: np.ndarray
    """(columns, K)"""
    sizes: np.ndarray
    """(K,) units in each class, at least 1."""
    noise_std: float

    @classmethod
    def of(cls, sums: np.ndarray, noise_std: float) -> ClassMeans:
        """Take (columns + 1, K) sums of z e_y^T apart."""
        scale = math.sqrt(2.0)
        return cls(scale * sums[:-1], np.maximum(scale * sums[-1], 1.0), scale * noise_std)


def weights_of(private: ClassMeans, known: ClassMeans | None, variance: float | None) -> np.ndarray:
    """Return (columns + 1, K) weights of a linear discriminant, computed from released sums.

    ``variance`` is the public mean variance of a coordinate: 1 / columns where rows are hashed.
    None: what the released mean of all rows, which have norm 1, leaves of it. A
    class's mean, less the mean of all, is a posterior mean: the sampling and the noise are known,
    and its prior variance is a fixed share of ``variance``. The sums of public documents ``known``
    are a second observation of the same means.
    """
    parts = [private] if known is None else [private, known]
    sizes: Any = sum(part.sizes for part in parts)
    centre: Any = sum(part.sums.sum(axis=1) for part in parts) / sizes.sum()
    if variance is None:
        noise = len(sizes) * len(centre) * (private.noise_std / sizes.sum()) ** 2
        around = 1 - max(float(centre @ centre) - noise, 0.0)
        variance = max(around, _LEAST_AROUND) / len(centre)
    precision = np.full(len(sizes), 1 / (_SPREAD * variance))
    means = np.zeros_like(private.sums)
    for part in parts:
        uncertain = variance / part.sizes + (part.noise_std / part.sizes) ** 2  # (K,)
        precision += 1 / uncertain
        means += (part.sums / part.sizes - centre[:, None]) / uncertain
    means /= precision
    slopes = means / variance
    constants = np.log(sizes / sizes.sum()) - centre @ slopes - (means * slopes).sum(axis=0) / 2
    return np.vstack([slopes, constants])
