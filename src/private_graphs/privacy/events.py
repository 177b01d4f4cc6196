"""Events: the releases of a mechanism, as immutable values for the accountants.

An event alone is no guarantee; ``accountants.price`` derives one for a unit and a relation. Section
numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from private_graphs.core.errors import UserError

Clipping = Literal["gradient_global", "gradient_per_tensor", "per_record", "per_group", "none"]
Bounding = Literal["row", "entry", "per_record", "per_class", "gradient_global", "none"]


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise UserError(f"{name} is {value}; expected at least 1")


@dataclass(frozen=True)
class FullBatch:
    """Sampling in which every release covers all data: one clipped gradient of the whole graph
    (§2), or the sum of the clipped gradients of ``parts`` disjoint subgraphs under one noise draw
    (§3 A′)."""

    parts: int = 1

    def __post_init__(self) -> None:
        _positive("parts", self.parts)

    def describe(self) -> str:
        """Return the name in the privacy statement."""
        return "none"


@dataclass(frozen=True)
class Cyclic:
    """Sampling of one of ``parts`` disjoint subgraphs per release, each once per epoch (§3 A)."""

    parts: int

    def __post_init__(self) -> None:
        _positive("parts", self.parts)

    def describe(self) -> str:
        """Return the name in the privacy statement."""
        return f"cyclic({self.parts})"


@dataclass(frozen=True)
class Shuffled:
    """Sampling as in :class:`Cyclic`, but in a random order every epoch; never amplified (§3 A)."""

    parts: int

    def __post_init__(self) -> None:
        _positive("parts", self.parts)

    def describe(self) -> str:
        """Return the name in the privacy statement."""
        return f"shuffle({self.parts})"


@dataclass(frozen=True)
class Poisson:
    """Poisson sampling: each part joins each release independently at ``rate`` (§3 B)."""

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise UserError(f"sampling rate is {self.rate}; expected a number in (0, 1]")

    def describe(self) -> str:
        """Return the name in the privacy statement."""
        return f"poisson({self.rate:g})"


Sampling = FullBatch | Cyclic | Shuffled | Poisson


@dataclass(frozen=True)
class NoisyGradients:
    """``releases`` noisy sums of per-part gradients, in order.

    Each release is (sum of the gradients of the parts that take part, each clipped to
    ``clip_norm``) + N(0, (noise_multiplier · clip_norm)²) in every coordinate. With clipping
    ``per_record`` every term is the gradient of one record and reads no other record; a part of
    cyclic or shuffled releases is then a minibatch of records. ``per_group`` is the same with
    groups of records in a fixed public partition, whose mean gradient is clipped as one
    (microbatches).
    """

    clipping: Clipping
    clip_norm: float
    noise_multiplier: float
    """Standard deviation of the noise in units of ``clip_norm``."""
    releases: int
    epochs: int
    sampling: Sampling
    n_tensors: int = 4
    """Parameter tensors; per-tensor clipping bounds the joint norm by sqrt(n_tensors) only."""
    relabel_touches: int = 1
    """Parts that one changed node touches: 1, or 3 or 4 under class-stratified subsampling (§3)."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.clip_norm) and self.clip_norm > 0):
            raise UserError(f"clip_norm is {self.clip_norm}; expected a positive number")
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0):
            raise UserError(
                f"noise_multiplier is {self.noise_multiplier}; expected a positive number"
            )
        for name in ("releases", "epochs", "n_tensors", "relabel_touches"):
            _positive(name, getattr(self, name))
        per_epoch = {FullBatch: 1, Cyclic: self.parts, Shuffled: self.parts}.get(
            type(self.sampling)
        )
        if per_epoch is not None and self.releases != per_epoch * self.epochs:
            raise UserError(
                f"{self.releases} releases in {self.epochs} epochs of {self.sampling}; "
                f"expected {per_epoch * self.epochs}"
            )

    @property
    def parts(self) -> int:
        """Number of disjoint parts; 1 for Poisson sampling, whose cost depends on the rate."""
        return getattr(self.sampling, "parts", 1)


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

    def _check(self, **numbers: float) -> None:
        _positive("count", self.count)
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
    """

    sensitivity: float
    noise_std: float
    spacing: float = 0.0
    """Spacing of the lattice; 0: continuous noise."""
    dimension: int = 1
    """Numbers in one release; it affects the privacy cost on a lattice only."""

    def __post_init__(self) -> None:
        self._check(sensitivity=self.sensitivity, noise_std=self.noise_std)
        _positive("dimension", self.dimension)
        if not 0 <= self.spacing <= self.noise_std * LATTICE_RATIO:
            raise UserError(
                f"spacing is {self.spacing:g} with noise {self.noise_std:g}; expected 0 or at most "
                f"{LATTICE_RATIO:g} of the noise"
            )

    @property
    def total_variation(self) -> float:
        """Upper bound on the distance of all releases' noise from a rounded Gaussian (§0.6)."""
        return lattice_distance(self.spacing / self.noise_std, self.dimension * self.count)


def lattice_distance(ratio: float, numbers: int) -> float:
    """Return a bound on the total variation between discrete and rounded Gaussian noise.

    ``ratio`` is the spacing in standard deviations, ``numbers`` the count of numbers drawn: numbers
    · ratio² / 24 (§0.6).
    """
    return numbers * ratio**2 / 24


@dataclass(frozen=True, kw_only=True)
class LaplaceQuery(_Query):
    """Each release is ``dimension`` numbers of joint L1 sensitivity ``sensitivity``, each plus
    independent Laplace noise with density ``exp(-|x|/scale)/(2 scale)``."""

    sensitivity: float
    scale: float
    dimension: int = 1

    def __post_init__(self) -> None:
        self._check(sensitivity=self.sensitivity, scale=self.scale)
        _positive("dimension", self.dimension)


@dataclass(frozen=True, kw_only=True)
class ExponentialChoice(_Query):
    """Each release is one option, drawn with probability proportional to exp(score / scale)
    (or the largest of score + Gumbel(scale) noise, which is the same).

    One unit moves each score by at most ``sensitivity``. With ``monotone`` it moves all scores of
    one release in the same direction.
    """

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

    epsilon: float

    def __post_init__(self) -> None:
        self._check(epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ConcentratedQuery(_Query):
    """Each release is ``rho``-zCDP (Bun & Steinke 2016) by whatever argument ``reason`` gives."""

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

    noise_multiplier: float
    clip_norm: float
    rate: float
    terms: int = 1
    fitted_terms: bool = False
    """Whether the rule that assigns records to terms was fitted on the records themselves, as by
    k-means: then one unit moves the terms of others, and nothing is proved (§6)."""

    def __post_init__(self) -> None:
        self._check(noise_multiplier=self.noise_multiplier, clip_norm=self.clip_norm)
        Poisson(self.rate)
        _positive("terms", self.terms)


Query = (
    GaussianQuery | LaplaceQuery | ExponentialChoice | PureQuery | ConcentratedQuery | PoissonSums
)


@dataclass(frozen=True)
class SecretSample:
    """A run whose ``releases`` all read one secret sample of the units: a fixed number, drawn
    uniformly without replacement, and never published (§9).

    The sample amplifies the joint guarantee of the releases, once, and only where a unit is
    replaced: the sample is kept in random order, so that samples that differ in one member differ
    in one place.
    """

    releases: tuple[Query, ...]
    rate: float
    """Sampling rate: sampled units divided by all units."""
    shared: str = ""
    """Name of a sample that several runs read: their releases compose inside it, and it amplifies
    once. Of two samples with the same name, the smaller is a part of the larger. Empty: every run
    draws its own sample."""

    def __post_init__(self) -> None:
        Poisson(self.rate)
        others = {each.relation for each in self.releases} - {"replace"}
        if others or not self.releases:
            raise UserError(
                f"a secret sample of releases under {', '.join(others) or 'no relation'}; expected "
                "replace: a sample of fixed size amplifies nothing else"
            )


@dataclass(frozen=True)
class Unnoised:
    """A noiseless result of all private records, which proves nothing."""

    reason: str


Event = NoisyGradients | Query | SecretSample | Unnoised
