"""Gaussian noise on a public lattice, for one-shot releases of sums (docs/privacy.md §0).

Every contribution is rounded to multiples of a public spacing before summation, sums are integers,
and the noise is an exactly sampled discrete Gaussian: no release depends on floating-point
summation order or on the computation of a continuous random number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.mechanisms.door import WITHOUT_NOISE
from private_graphs.privacy.events import Bounding
from private_graphs.privacy.queries import LATTICE_RATIO, GaussianQuery
from private_graphs.privacy.query_calibration import lattice_noise

NOISE_GENERATOR = "discrete_gaussian"
"""Key of ``privacy.statements.NOISE_GENERATORS``."""
_SMALLEST_SPACING = 2.0**-44
"""Smallest spacing: below it, float64 contributions would be off by more than half a spacing."""
_LARGEST_SUM = 2.0**62


@dataclass(frozen=True)
class LatticeGaussian:
    """Noise of releases that share one budget."""

    spacing: float
    """g, a power of two; at most the standard deviation times ``LATTICE_RATIO``."""
    steps: int
    """Noise standard deviation in spacings; 0 without DP."""
    sensitivity: float
    """L2 sensitivity of a release, including the effect of rounding."""
    dimension: int
    """Number of entries of one release."""

    @classmethod
    def calibrate(
        cls,
        epsilon: float,
        delta: float,
        sensitivity: float,
        *,
        dimension: int,
        entries: int,
        contributions: int,
        releases: int = 1,
        share: float | None = None,
    ) -> LatticeGaussian:
        """Return the smallest noise with which ``releases`` adaptive releases keep (ε, δ).

        ``share``: part of μ² that one of these releases has, of unequal ones whose shares add up to
        1; None: all have the same.

        One unit changes at most ``contributions`` terms (2: replacement) of at most ``entries``
        numbers each, by at most ``sensitivity`` (L2) before rounding. A rounded number is within
        g/2 of the computed one, and that within g/2 of the exact one, so rounding adds at most
        contributions · g · sqrt(entries). Infinite ``epsilon``: no noise.
        """
        if math.isinf(epsilon):
            return cls(WITHOUT_NOISE, 0, sensitivity, dimension)
        multiplier = lattice_noise(epsilon, releases, delta, dimension)
        if share is not None:
            multiplier /= math.sqrt(share * releases)
        # Δ' = Δ + added·g with g = std·2^-30, and std = multiplier·Δ', solved for std (§0.6).
        added = contributions * math.sqrt(entries)  # in spacings
        std = multiplier * sensitivity / (1 - added * multiplier * LATTICE_RATIO)
        spacing = 2.0 ** math.floor(math.log2(std * LATTICE_RATIO))
        if spacing < _SMALLEST_SPACING:
            raise UserError(
                f"noise of standard deviation {std:g} is too little for exact sampling; expected "
                f"at least {_SMALLEST_SPACING / LATTICE_RATIO:g}: choose a smaller epsilon"
            )
        moved = sensitivity + added * spacing
        return cls(spacing, math.ceil(multiplier * moved / spacing), moved, dimension)

    @property
    def noise_std(self) -> float:
        """Noise standard deviation, in the units of the sums."""
        return self.steps * self.spacing

    def rounded(self, contributions: np.ndarray) -> np.ndarray:
        """Round float64 contributions of any shape to spacings; return int64.

        Multiplication by a power of two is exact; ties go to the even number.
        """
        return np.rint(contributions * (1 / self.spacing)).astype(np.int64)

    def check_total(self, terms: int) -> None:
        """Raise UserError if ``terms`` contributions of size 1 could overflow 64-bit integers.

        ``terms`` is a public number: the message shows it.
        """
        if terms / self.spacing >= _LARGEST_SUM:
            raise UserError(
                f"sums of up to {terms:,} contributions at spacing {self.spacing:g} could exceed "
                "64-bit integers; expected fewer nodes, or a smaller epsilon"
            )

    def query(
        self, *, unit: str, relation: str, reason: str, clipping: Bounding, count: int = 1,
        vanishing: float | None = None,
    ) -> GaussianQuery | None:  # fmt: skip
        """Return the query of ``count`` releases; None without DP.

        ``vanishing``: L2 norm of what a unit contributes, before it is rounded.
        """
        if not self.steps:
            return None
        return GaussianQuery(
            unit=unit,
            relation=relation,
            count=count,
            reason=reason,
            clipping=clipping,
            sensitivity=self.sensitivity,
            noise_std=self.noise_std,
            spacing=self.spacing,
            dimension=self.dimension,
            vanishing=vanishing and vanishing + self.spacing * math.sqrt(self.dimension),
        )
