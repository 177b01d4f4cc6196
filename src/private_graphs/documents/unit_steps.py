"""Noisy gradient steps of a linear classifier over units whose documents are averaged.

A document with row z = (u, b), |u| <= 1, and class y has at weights W the term r z^T: the residual
r = e_y - softmax(zW), scaled so that |r| |z| <= C. A unit's term is the mean over its labelled
documents, or zero, hence of norm at most C: replacing a unit moves the sum of a step by at most
2C. Every unit is in every step, so that the steps are Gaussian releases whose mu^2 add up
(docs/privacy.md, "Documents of an owner"). A first release counts the units of each class: it tells
the largest class, and how many units have a label.

Settings follow from public sizes and the counts by a fixed rule, whose constants were chosen on
public papers of PubMed and on invented letters (docs/benchmarks.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse

from private_graphs.documents.unit_means import MOST_AXES, columns_for
from private_graphs.documents.unit_sums import (
    LEAST_CLASS,
    SENSITIVITY,
    Map,
    PublicTexts,
    Terms,
    mu_of,
    query_of,
)
from private_graphs.mechanisms.door import Door
from private_graphs.methods.exact_sums import (
    CLIP_NORM,
    RESIDUAL_BITS,
    ROW_BITS,
    bounded,
    clipped_residuals,
    on_grid,
    to_lattice,
)
from private_graphs.methods.lattice import LatticeGaussian
from private_graphs.privacy.queries import GaussianQuery

STEPS = 64
"""Number of steps; the last half of the iterates is averaged."""
COUNT_SHARE = 0.02
"""Share of the class counts in μ²."""
COLUMNS_PER_SIGNAL, RATE, RATES = 4.0, 1.5, (10.0, 100.0)
"""Columns by the signal n·μ/K; learning rate by its square root, and the limits of the rate."""
BIAS = 0.3
"""Constant entry of every row."""
STEP_REASON = (
    "a unit's term is a mean over its documents of residual times row, clipped to norm C each: it "
    "lies in the ball of radius C before and after, and every unit is in every step"
)
CLASS_REASON = (
    "a unit adds the shares of the classes among its labelled documents, or zero: two such vectors "
    "differ by at most sqrt 2"
)
_BLOCK = 2**16
"""Documents whose products are summed in float64: integers below 2^53, hence exact in any order."""


@dataclass(frozen=True, eq=False)
class LinearSteps:
    """Training by noisy steps, with everything that is decided before a private value is read."""

    CARD: ClassVar = f"noisy class counts and {STEPS} noisy gradient sums"
    TEXTS_AT_ONCE, COPIES = _BLOCK, 2.5
    """See ``Sums``; sparse rows take half as much again as dense ones."""
    features: Map
    n_classes: int
    count_lattice: LatticeGaussian
    step_lattice: LatticeGaussian
    unit: str

    @classmethod
    def of(
        cls, public: PublicTexts, n_units: int, n_classes: int, epsilon: float, delta: float,
        unit: str,
    ) -> LinearSteps:  # fmt: skip
        """See ``Sums.of``."""
        columns = columns_for(n_units, n_classes, epsilon, delta, COLUMNS_PER_SIGNAL)
        features = public.map(columns, min(columns, MOST_AXES))
        size = (features.columns + 1) * n_classes
        counts, steps = (
            LatticeGaussian.calibrate(
                epsilon, delta, moved, dimension=size, entries=entries, contributions=2,
                releases=1 + STEPS, share=share,
            )
            for moved, entries, share in (
                (SENSITIVITY, n_classes, COUNT_SHARE),
                (2 * CLIP_NORM, size, (1 - COUNT_SHARE) / STEPS),
            )
        )  # fmt: skip
        return cls(features, n_classes, counts, steps, unit)

    @property
    def queries(self) -> tuple[GaussianQuery, GaussianQuery]:
        """Return the events: the class counts, and all steps."""
        return (
            query_of(self.count_lattice, self.unit, CLASS_REASON),
            query_of(self.step_lattice, self.unit, STEP_REASON, STEPS, CLIP_NORM),
        )

    @property
    def size_noise(self) -> float:
        """See ``Sums.size_noise``."""
        return self.count_lattice.noise_std

    @property
    def least_class(self) -> float:
        """See ``Sums.least_class``: at equal ε."""
        return LEAST_CLASS * SENSITIVITY / mu_of(self.queries)

    @property
    def noise(self) -> str:
        """Return the noise in words."""
        return f"standard deviation {self.step_lattice.noise_std:.3g} in each number of a step"

    def check_total(self, units: int) -> None:
        """See ``LatticeGaussian.check_total``."""
        for lattice in (self.count_lattice, self.step_lattice):
            lattice.check_total(units)

    def weights(self, terms: Terms, known: Terms, door: Door) -> tuple[np.ndarray, np.ndarray]:
        """See ``Sums.weights``."""
        return self.read_out(self.released(terms, door), None)

    def public_sums(self, known: Terms) -> None:
        """Return nothing: no step reads public documents."""

    def read_out(self, noisy: tuple[np.ndarray, np.ndarray], public: None) -> tuple[
        np.ndarray, np.ndarray
    ]:  # fmt: skip
        """See ``Sums.read_out``: the weights are released."""
        return noisy

    def released(self, terms: Terms, door: Door) -> tuple[np.ndarray, np.ndarray]:
        """Return (columns + 1, K) weights and the (K,) noisy numbers of units, by the door."""
        queries = self.queries
        door.plan([queries])
        exact = self.count_lattice.rounded(terms.shares(self.n_classes)).sum(axis=0)
        [sizes] = door.gaussian(exact[None], [queries[0]], stream="counts")
        labelled = max(float(sizes.sum()), 1.0)
        signal = labelled * mu_of(queries) / self.n_classes
        rate = float(np.clip(RATE * math.sqrt(signal), *RATES)) / labelled
        sums = self.sums(terms)
        iterate = np.zeros((self.features.columns + 1, self.n_classes))
        average = np.zeros_like(iterate)
        for step in range(STEPS):
            exact = sums.at(iterate)
            [noisy] = door.gaussian(exact[None], [queries[1]], stream="steps")
            iterate = bounded(iterate + rate * noisy)
            if step >= STEPS // 2:
                average += iterate / (STEPS - STEPS // 2)
        average[-1] *= BIAS
        return average, sizes

    def sums(self, terms: Terms) -> ResidualSums:
        """Return the sums of steps over units."""
        return ResidualSums.of(terms, self.features, self.step_lattice)


@dataclass(frozen=True, eq=False)
class ResidualSums:
    """Sums of the units' mean clipped residuals, at given weights; released with noise alone."""

    rows: list[scipy.sparse.csr_matrix]
    """(documents, columns + 1) labelled documents, whole numbers in units of 2^-20; in blocks."""
    norms: np.ndarray
    """(documents,)"""
    labels: np.ndarray
    shares: np.ndarray
    """(documents, 1) share of a document in its unit's mean."""
    lattice: LatticeGaussian

    @classmethod
    def of(cls, terms: Terms, features: Map, lattice: LatticeGaussian) -> ResidualSums:
        """Compute the rows once; those of a block at a time, to bound memory."""
        labelled = np.flatnonzero(terms.labels >= 0)
        blocks, norms = [], np.zeros(len(labelled))
        for start in range(0, len(labelled), _BLOCK):
            block = slice(start, start + _BLOCK)
            rows = features.rows([terms.texts[int(row)] for row in labelled[block]])
            constant = np.full((rows.shape[0], 1), BIAS)
            rows = scipy.sparse.hstack([rows, constant], format="csr")
            rows.data = on_grid(rows.data, ROW_BITS)
            squares = np.add.reduceat(np.square(rows.data), rows.indptr[:-1])
            norms[block] = np.sqrt(squares) / 2.0**ROW_BITS
            blocks.append(rows)
        units = np.unique(terms.unit_of[labelled], return_inverse=True)[1]
        shares = 1.0 / np.bincount(units)[units]
        return cls(blocks, norms, terms.labels[labelled], shares[:, None], lattice)

    def at(self, weights: np.ndarray) -> np.ndarray:
        """Return the (columns + 1, K) int64 sum at ``weights`` (columns + 1, K), in spacings."""
        return to_lattice(self.exact(weights), 1, ROW_BITS + RESIDUAL_BITS, self.lattice)

    def exact(self, weights: np.ndarray) -> np.ndarray:
        """Return the (columns + 1, K) int64 sum in units of 2^-36.

        A document's residual is computed from its own row alone, to the bit, and rounded towards
        zero, so that no norm grows; whole numbers are added, whose order leaves no trace.
        """
        total = np.zeros(weights.shape, np.int64)
        for start, rows in zip(range(0, len(self.labels), _BLOCK), self.rows, strict=True):
            block = slice(start, start + _BLOCK)
            logits = (rows @ weights) * 2.0**-ROW_BITS
            terms = clipped_residuals(logits[:, None], self.labels[block], self.norms[block])[:, 0]
            terms = on_grid(terms * self.shares[block], RESIDUAL_BITS)
            total += (rows.T @ terms).astype(np.int64)
        return total
