"""Events of queries: releases of numbers, rows and choices, each with its own sensitivity.

Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from private_graphs.core.errors import UserError
from private_graphs.privacy.events import Bounding, Poisson, positive


@dataclass(frozen=True, kw_only=True)
class _Query:
    """``count`` adaptive releases, each moved by a change of one ``unit`` under ``relation``.

    The sensitivity holds for this unit and relation and for no other claim. ``reason`` says in
    words why it does and goes into the proof.
    """

    unit: str
    relation: str
    count: int
    reason: str
    clipping: Bounding = "none"
    """Clipping on which the sensitivity rests; none where it follows otherwise."""
    calls: int = 0
    """Number of releases, where these read parts of the data and one unit moves ``count`` numbers
    or rows among them; 0: ``count``."""
    unproved: bool = False
    """Whether the sensitivity is what published code supposes and nothing bounds: then nothing is
    proved, for this ``reason``."""

    def _check(self, **numbers: float) -> None:
        positive("count", self.count)
        for name, value in numbers.items():
            if not (math.isfinite(value) and value > 0):
                raise UserError(f"{name} is {value}; expected a positive number")


LATTICE_RATIO = 2.0**-30
"""Largest spacing of a lattice, in standard deviations of its noise."""


@dataclass(frozen=True, kw_only=True)
class GaussianQuery(_Query):
    """Each release is a vector of L2 sensitivity ``sensitivity`` plus N(0, noise_std² I).

    With a ``spacing`` the vector lies on a lattice with that spacing and the noise is the discrete
    Gaussian on it (§0.6).

    >>> from private_graphs.privacy.accountants import price
    >>> counts = GaussianQuery(unit="document", relation="replace", count=1, sensitivity=2**0.5,
    ...                        noise_std=5.0, reason="a changed label moves two class counts by 1")
    >>> round(price(counts, "document", "replace", 1e-5).epsilon, 3)
    1.061
    """

    type: ClassVar[Literal["gaussian"]] = "gaussian"
    sensitivity: float
    noise_std: float
    spacing: float = 0.0
    """Spacing of the lattice; 0: continuous noise."""
    dimension: int = 1
    """Numbers in one release; it affects the privacy cost on a lattice only."""
    vanishing: float | None = None
    """L2 sensitivity where a unit's contribution becomes zero; None where none is stated."""

    def __post_init__(self) -> None:
        self._check(sensitivity=self.sensitivity, noise_std=self.noise_std)
        if self.vanishing is not None:
            self._check(vanishing=self.vanishing)
        positive("dimension", self.dimension)
        if not 0 <= self.spacing <= self.noise_std * LATTICE_RATIO:
            raise UserError(
                f"spacing is {self.spacing:g} with noise {self.noise_std:g}; expected 0 or at most "
                f"{LATTICE_RATIO:g} of the noise"
            )

    @property
    def total_variation(self) -> float:
        """Upper bound on the distance of all releases' noise from a rounded Gaussian (§0.6)."""
        return lattice_distance(self.spacing / self.noise_std, self.dimension * self.count)


def lattice_distance(ratio: float, numbers: float) -> float:
    """Return a bound on the total variation between discrete and rounded Gaussian noise.

    ``ratio`` is the spacing in standard deviations, ``numbers`` the count of numbers drawn: numbers
    · ratio² / 24 (§0.6).
    """
    return numbers * ratio**2 / 24


@dataclass(frozen=True, kw_only=True)
class LaplaceQuery(_Query):
    """Each release is ``dimension`` numbers of joint L1 sensitivity ``sensitivity``, each plus
    independent Laplace noise with density ``exp(-|x|/scale)/(2 scale)``."""

    type: ClassVar[Literal["laplace"]] = "laplace"
    sensitivity: float
    scale: float
    dimension: int = 1

    def __post_init__(self) -> None:
        self._check(sensitivity=self.sensitivity, scale=self.scale)
        positive("dimension", self.dimension)


@dataclass(frozen=True, kw_only=True)
class ExponentialChoice(_Query):
    """Each release is one option, drawn with probability proportional to exp(score / scale)
    (or the largest of score + Gumbel(scale) noise, which is the same).

    One unit moves each score by at most ``sensitivity``. With ``monotone`` it moves all scores of
    one release in the same direction.
    """

    type: ClassVar[Literal["exponential"]] = "exponential"
    sensitivity: float
    scale: float
    monotone: bool = False

    def __post_init__(self) -> None:
        self._check(sensitivity=self.sensitivity, scale=self.scale)

    @property
    def bounded_range(self) -> float:
        """η: log ratios of probabilities lie within an interval of this length, hence η-DP."""
        return (1 if self.monotone else 2) * self.sensitivity / self.scale


@dataclass(frozen=True, kw_only=True)
class PureQuery(_Query):
    """Each release is ``epsilon``-DP by whatever argument ``reason`` gives."""

    type: ClassVar[Literal["pure"]] = "pure"
    epsilon: float

    def __post_init__(self) -> None:
        self._check(epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ConcentratedQuery(_Query):
    """Each release is ``rho``-zCDP (Bun & Steinke 2016) by whatever argument ``reason`` gives."""

    type: ClassVar[Literal["concentrated"]] = "concentrated"
    rho: float

    def __post_init__(self) -> None:
        self._check(rho=self.rho)


@dataclass(frozen=True, kw_only=True)
class PoissonSums(_Query):
    """Each release is the sum of independently sampled terms of norm at most ``clip_norm``, plus
    N(0, (noise_multiplier · clip_norm)²) (§0.2).

    One unit changes at most ``terms`` of them, the same ones on both sides, each of which joins
    with probability ``rate`` whatever the data.
    """

    type: ClassVar[Literal["gaussian_sum"]] = "gaussian_sum"
    noise_multiplier: float
    clip_norm: float
    rate: float
    terms: int = 1
    exchange: bool = False
    """Whether a unit that is added or removed exchanges its terms for others, as one that is
    replaced does, instead of adding them."""
    fitted_terms: bool = False
    """Whether the rule that assigns records to terms was fitted on the records themselves, as by
    k-means: then one unit moves the terms of others, and nothing is proved (§6)."""

    def __post_init__(self) -> None:
        self._check(noise_multiplier=self.noise_multiplier, clip_norm=self.clip_norm)
        Poisson(self.rate)
        positive("terms", self.terms)


Query = (
    GaussianQuery | LaplaceQuery | ExponentialChoice | PureQuery | ConcentratedQuery | PoissonSums
)
