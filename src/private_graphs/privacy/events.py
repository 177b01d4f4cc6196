"""Events: the releases of a mechanism, as immutable values for the accountants.

Events of queries are in ``queries``. An event alone is no guarantee; ``accountants.price`` derives
one for a unit and a relation. Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from private_graphs.core.errors import UserError

if TYPE_CHECKING:
    from private_graphs.privacy.queries import Query

Clipping = Literal["gradient_global", "gradient_per_tensor", "per_record", "per_group", "none"]
Bounding = Literal["row", "entry", "per_record", "per_class", "gradient_global", "none"]


def positive(name: str, value: int) -> None:
    """Raise UserError unless a count is at least 1."""
    if value < 1:
        raise UserError(f"{name} is {value}; expected at least 1")


@dataclass(frozen=True)
class FullBatch:
    """Sampling in which every release covers all data: one clipped gradient of the whole graph
    (§2), or the sum of the clipped gradients of ``parts`` disjoint subgraphs under one noise draw
    (§3 A′)."""

    parts: int = 1

    def __post_init__(self) -> None:
        positive("parts", self.parts)

    def describe(self) -> str:
        """Return the name in the privacy statement."""
        return "none"


@dataclass(frozen=True)
class Cyclic:
    """Sampling of one of ``parts`` disjoint subgraphs per release, each once per epoch (§3 A)."""

    parts: int

    def __post_init__(self) -> None:
        positive("parts", self.parts)

    def describe(self) -> str:
        """Return the name in the privacy statement."""
        return f"cyclic({self.parts})"


@dataclass(frozen=True)
class Shuffled:
    """Sampling as in :class:`Cyclic`, but in a random order every epoch; never amplified (§3 A)."""

    parts: int

    def __post_init__(self) -> None:
        positive("parts", self.parts)

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
            positive(name, getattr(self, name))
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
        names = {release.relation for release in self.releases} - {"replace"}
        if names or not self.releases:
            raise UserError(
                f"a secret sample of releases under {', '.join(names) or 'no relation'}; expected "
                "replace: a sample of fixed size amplifies nothing else"
            )


@dataclass(frozen=True)
class Unnoised:
    """A noiseless result of all private records, which proves nothing."""

    reason: str


Event: TypeAlias = "NoisyGradients | Query | SecretSample | Unnoised"
