"""One Gaussian release of sums by class, over units whose documents are averaged.

A document with row u (norm at most 1) and class y has the term z e_y^T, z = (sqrt(1-c) u, sqrt(c))
with c = ``Sums.SHARE``. A unit's term is the mean over its labelled documents, or zero. Replacing a
unit moves the sum by at most the diameter of the set of documents' terms, sqrt 2, because the
distance is convex in both terms (docs/privacy.md §16). Averaging is what makes this hold for units
of several documents: a sum that is clipped would move by more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import scipy.sparse

from private_graphs.documents.hashing import HashedWords, PublicWords
from private_graphs.mechanisms.door import Door
from private_graphs.methods.lattice import LatticeGaussian
from private_graphs.privacy.queries import GaussianQuery

if TYPE_CHECKING:
    from private_graphs.documents.vectors import ModelVectors

Map: TypeAlias = "HashedWords | PublicWords | ModelVectors"
SENSITIVITY = math.sqrt(2.0)
_BLOCK = 4096
LEAST_CLASS = 10.0
"""Units of a class that can be learned, in standard deviations of the noise of its sum."""
FEWEST_TEXTS = 200
"""Public texts from which their words and axes are read in place of hashed words."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Units whose terms are summed, with their documents."""

    texts: Sequence[str]
    """Texts of the documents, those of a unit side by side."""
    labels: np.ndarray
    """(documents,) classes, -1 for none."""
    unit_of: np.ndarray
    """(documents,) number of the unit, not decreasing."""

    def part(self, rows: np.ndarray) -> Terms:
        """Return some of the documents."""
        texts = [self.texts[row] for row in rows.tolist()]
        return Terms(texts, self.labels[rows], self.unit_of[rows])

    def shares(self, n_classes: int) -> np.ndarray:
        """Return (units, K): the shares of the classes among a unit's labelled documents."""
        labelled = self.labels >= 0
        return unit_shares(self.labels[labelled], self.unit_of[labelled], n_classes)

    def sum(
        self, features: Map, n_classes: int, lattice: LatticeGaussian, share: float = 0.5
    ) -> np.ndarray:
        """Return the (columns + 1, K) int64 sum of the units' rounded terms, in spacings.

        ``share`` is that of the constant in |z|^2.

        Each term is rounded for its unit alone, and integers are added, so that the order and the
        number of the other units leave no trace.
        """
        total = np.zeros((features.columns + 1, n_classes), np.int64)
        for _, label, terms in self.blocks(features, lattice, share):
            np.add.at(total[:, label], terms.indices, terms.data)
        return total

    def blocks(
        self, features: Map, lattice: LatticeGaussian, share: float = 0.5
    ) -> Iterator[tuple[np.ndarray, int, scipy.sparse.csr_matrix]]:
        """Yield units, a class, and the (units, columns + 1) rounded terms of that class."""
        labelled = np.flatnonzero(self.labels >= 0)
        starts = np.flatnonzero(np.diff(self.unit_of[labelled], prepend=-1))
        begin = 0
        while begin < len(starts):
            end = min(begin + _BLOCK, len(starts))
            last = starts[end] if end < len(starts) else len(labelled)
            yield from self._block(labelled[starts[begin] : last], features, lattice, share)
            begin = end

    def _block(
        self, rows: np.ndarray, features: Map, lattice: LatticeGaussian, share: float
    ) -> Iterator[tuple[np.ndarray, int, scipy.sparse.csr_matrix]]:
        """Yield the terms of the units of some labelled documents."""
        z = features.rows([self.texts[row] for row in rows]) * math.sqrt(1 - share)
        z = scipy.sparse.hstack([z, np.full((len(rows), 1), math.sqrt(share))], format="csr")
        names, units = np.unique(self.unit_of[rows], return_inverse=True)
        weights = 1.0 / np.bincount(units)[units]
        shape = (units.max() + 1, len(rows))
        for label in np.unique(self.labels[rows]):
            members = np.flatnonzero(self.labels[rows] == label)
            mean = scipy.sparse.csr_matrix((weights[members], (units[members], members)), shape) @ z
            terms = lattice.rounded(mean.data)
            whole = (terms, mean.indices, mean.indptr)
            yield names, label, scipy.sparse.csr_matrix(whole, mean.shape)


def calibrated(epsilon: float, delta: float, columns: int, n_classes: int) -> LatticeGaussian:
    """Return the noise of one release at (ε, δ)."""
    size = (columns + 1) * n_classes
    return LatticeGaussian.calibrate(
        epsilon, delta, SENSITIVITY, dimension=size, entries=size, contributions=2
    )


def query_of(
    lattice: LatticeGaussian, unit: str, reason: str, count: int = 1, norm: float = 1.0
) -> GaussianQuery:
    """Return the event of ``count`` releases; ``norm`` bounds that of a unit's term."""
    query = lattice.query(
        unit=unit, relation="replace", reason=reason, clipping="row", count=count, vanishing=norm
    )
    assert query is not None  # budgets are finite
    return query


@dataclass(frozen=True, eq=False)
class PublicTexts:
    """What is public of the texts, and how they are read."""

    known: Sequence[str] = ()
    """Public texts; their words are read."""
    words: tuple[str, ...] = ()
    """Public list of words; empty: all."""
    model: ModelVectors | None = None
    """Model that reads texts in place of words."""

    def map(self, columns: int, axes: int) -> Map:
        """Return the map of texts to rows: by the model, else on so many axes of many ``known``,
        else by a hash into ``columns``."""
        if self.model is not None:
            return self.model
        if len(self.known) >= FEWEST_TEXTS:
            return PublicWords.of(self.known, axes)
        return HashedWords(columns, self.words)


def mu_of(queries: Sequence[GaussianQuery]) -> float:
    """Return μ of all releases together: their μ² add up."""
    return math.sqrt(sum(term.count * (term.sensitivity / term.noise_std) ** 2 for term in queries))


@dataclass(frozen=True, eq=False)
class Sums(ABC):
    """Training by one noisy sum, with everything that is decided before a private read."""

    CARD: ClassVar = "one noisy sum"
    TEXTS_AT_ONCE, COPIES = _BLOCK, 1.0
    """Texts whose rows are computed at once, and copies of all rows that are kept."""
    SHARE: ClassVar[float]
    """Share of the constant in the squared norm of a row."""
    REASON: ClassVar[str]
    """Why a unit moves the sum by ``SENSITIVITY`` at most."""
    features: Map
    n_classes: int
    lattice: LatticeGaussian
    unit: str
    n_units: int
    """Public number of units that train, labelled or not."""

    @classmethod
    def of(
        cls, public: PublicTexts, n_units: int, n_classes: int, epsilon: float, delta: float,
        unit: str,
    ) -> Self:  # fmt: skip
        """Return the training of ``n_units`` units at (ε, δ)."""
        features = cls.map_of(public, n_units, n_classes, epsilon, delta)
        lattice = calibrated(epsilon, delta, features.columns, n_classes)
        return cls(features, n_classes, lattice, unit, n_units)

    @staticmethod
    @abstractmethod
    def map_of(
        public: PublicTexts, n_units: int, n_classes: int, epsilon: float, delta: float
    ) -> Map:
        """Return the map of texts to rows, by public numbers alone."""

    @property
    def queries(self) -> tuple[GaussianQuery, ...]:
        """Return the events."""
        return (query_of(self.lattice, self.unit, self.REASON),)

    @property
    def size_noise(self) -> float:
        """Return the standard deviation of the noisy numbers of units."""
        return self.lattice.noise_std / math.sqrt(self.SHARE)

    @property
    def least_class(self) -> float:
        """Return the number of units below which a class is lost in the noise of its sum."""
        return LEAST_CLASS * self.lattice.noise_std

    @property
    def noise(self) -> str:
        """Return the noise in words."""
        std = self.lattice.noise_std / math.sqrt(1 - self.SHARE)
        return f"standard deviation {std:.3g} in each number"

    def check_total(self, units: int) -> None:
        """See ``LatticeGaussian.check_total``."""
        self.lattice.check_total(units)

    def weights(self, terms: Terms, known: Terms, door: Door) -> tuple[np.ndarray, np.ndarray]:
        """Return (columns + 1, K) weights and the (K,) noisy numbers of units, by the door.

        ``terms`` are training units; ``known`` are public.
        """
        return self.read_out(self.released(terms, door), self.public_sums(known))

    def released(self, terms: Terms, door: Door) -> np.ndarray:
        """Return (columns + 1, K) noisy sums, the only read of the training units ``terms``."""
        queries = self.queries
        door.plan([queries])
        exact = terms.sum(self.features, self.n_classes, self.lattice, self.SHARE)
        [noisy] = door.gaussian(exact[None], queries, stream="class_sums")
        return noisy

    @abstractmethod
    def read_out(self, noisy: np.ndarray, public: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and sizes, from (columns + 1, K) noisy sums and ``public_sums``."""

    @abstractmethod
    def alone(self, known: Terms) -> np.ndarray:
        """Return the weights of public documents alone."""

    @abstractmethod
    def public_sums(self, known: Terms) -> Any:
        """Return what ``read_out`` takes of the public documents."""


def scores_of(weights: np.ndarray, features: Map, texts: Sequence[str]) -> np.ndarray:
    """Return (texts, K) scores, in blocks."""
    slopes = np.ascontiguousarray(weights[:-1])
    parts = [
        features.rows(texts[start : start + _BLOCK]) @ slopes
        for start in range(0, len(texts), _BLOCK)
    ]
    return np.vstack([np.empty((0, weights.shape[1])), *parts]) + weights[-1]


def cells_of(
    predicted: np.ndarray, baseline: np.ndarray, labels: np.ndarray, unit_of: np.ndarray
) -> np.ndarray:
    """Return (units, 4): shares of a unit's labelled documents in the cells of ``Counts``."""
    labelled = labels >= 0
    cell = 2 * (predicted != labels) + (baseline != labels)
    return unit_shares(cell[labelled], unit_of[labelled], 4)


def unit_shares(cells: np.ndarray, unit_of: np.ndarray, n_cells: int) -> np.ndarray:
    """Return (units, n_cells): the shares of the cells among each unit's documents."""
    units = np.unique(unit_of, return_inverse=True)[1]
    shares = np.zeros((units.max(initial=-1) + 1, n_cells))
    np.add.at(shares, (units, cells), 1.0)
    return shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0)


@dataclass(frozen=True)
class Counts:
    """Shares of test units: (both right, only the model, only the other one, neither)."""

    cells: tuple[float, ...]
    gain_variance: float
    """Variance of the noise of the gain, in units; 0: exact counts of public documents."""
    tested: int
    """Public number of test units, labelled or not."""

    @property
    def labelled(self) -> float:
        """Number of labelled test units, at most that of all test units whatever the noise."""
        return min(max(sum(self.cells), 1.0), max(self.tested, 1.0))

    @property
    def score(self) -> float:
        """Share of right answers of the model."""
        return min(1.0, max(0.0, (self.cells[0] + self.cells[1]) / self.labelled))

    @property
    def other(self) -> float:
        """Share of right answers of the majority class, or of public data alone."""
        return min(1.0, max(0.0, (self.cells[0] + self.cells[2]) / self.labelled))

    @property
    def gain(self) -> float:
        """Difference of the two shares."""
        return min(1.0, max(-1.0, (self.cells[1] - self.cells[2]) / self.labelled))

    @property
    def error(self) -> float:
        """Standard error of the gain: of the sample of test units, and of the noise."""
        differ = max(self.cells[1] + self.cells[2], 0.0) + self.gain_variance
        return math.sqrt(max(differ, 1.0)) / self.labelled
