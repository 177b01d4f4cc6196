"""What a mechanism released, as immutable values that the accountants price.

An event says nothing about privacy by itself; ``accountants.price`` does, for a unit and a
relation. Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from private_graphs.errors import UserError

Clipping = Literal["gradient_global", "gradient_per_tensor", "none"]


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise UserError(f"{name} is {value}; expected at least 1")


@dataclass(frozen=True)
class FullBatch:
    """Every release covers everything: one clipped gradient of the whole graph (§2), or the sum
    of the clipped gradients of ``parts`` disjoint subgraphs under one noise draw (§3 A′)."""

    parts: int = 1

    def __post_init__(self) -> None:
        _positive("parts", self.parts)

    def describe(self) -> str:
        """Name in the privacy statement."""
        return "none"


@dataclass(frozen=True)
class Cyclic:
    """One of ``parts`` disjoint subgraphs per release, each once per epoch (§3 A)."""

    parts: int

    def __post_init__(self) -> None:
        _positive("parts", self.parts)

    def describe(self) -> str:
        """Name in the privacy statement."""
        return f"cyclic({self.parts})"


@dataclass(frozen=True)
class Shuffled:
    """As :class:`Cyclic`, in a fresh random order every epoch; never amplified (§3 A)."""

    parts: int

    def __post_init__(self) -> None:
        _positive("parts", self.parts)

    def describe(self) -> str:
        """Name in the privacy statement."""
        return f"shuffle({self.parts})"


@dataclass(frozen=True)
class Poisson:
    """Each part joins each release independently with probability ``rate`` (§3 B)."""

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise UserError(f"sampling rate is {self.rate}; expected a number in (0, 1]")

    def describe(self) -> str:
        """Name in the privacy statement."""
        return f"poisson({self.rate:g})"


Sampling = FullBatch | Cyclic | Shuffled | Poisson


@dataclass(frozen=True)
class NoisyGradients:
    """``releases`` noisy sums of per-part gradients, in order.

    Each release is (sum of the gradients of the parts that take part, each clipped to
    ``clip_norm``) + N(0, (noise_multiplier · clip_norm)²) in every coordinate.
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
    """Parts that one changed node can touch: 1, or 3 under class-stratified subsampling (§3)."""

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
        """Number of disjoint parts; 1 for Poisson sampling, whose price depends on the rate."""
        return getattr(self.sampling, "parts", 1)
