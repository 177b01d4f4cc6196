"""The mechanisms of a run as events of Google's dp-accounting, as JSON.

Whoever has a statement and dp-accounting can price a run again without this code
(docs/privacy.md §11). Events get the names and parameters of ``dp_accounting.dp_event``; its noise
multipliers are in units of the sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from private_graphs.privacy.accountants import price
from private_graphs.privacy.events import Event, NoisyGradients, Poisson, SecretSample
from private_graphs.privacy.losses import Loss, SampledGaussian
from private_graphs.privacy.queries import GaussianQuery

if TYPE_CHECKING:
    from private_graphs.privacy.query_losses import SampledTerms

Tree = dict[str, Any]
"""``class`` names a class of dp_accounting, the other keys are its parameters."""
ADD_OR_REMOVE, REPLACE = "ADD_OR_REMOVE_ONE", "REPLACE_ONE"
_NON_PRIVATE: Tree = {"class": "NonPrivateDpEvent"}
_MOST_COPIES = 64
"""``PLDAccountant`` of dp-accounting 0.6 counts a self-composed randomised response once, so that
responses are listed one by one; more of them are written as zCDP."""


_LARGEST = 1e100
"""Largest number in an event, and the inverse of the smallest; squares of them are numbers, too."""
_PARAMETERS = {
    "GaussianDpEvent": ("noise_multiplier",),
    "SelfComposedDpEvent": ("event", "count"),
    "ComposedDpEvent": ("events",),
}
"""Parameters without which releases together cannot be priced."""


def _well_formed(tree: Tree) -> Tree:
    """Return the tree of a statement; ValueError unless it has classes and positive numbers."""
    for key, value in tree.items():
        if key in ("event", "events"):
            inner = value if key == "events" else [value]
            if not isinstance(inner, list) or not all(isinstance(child, dict) for child in inner):
                raise ValueError(f"{key}: expected an event")
            for child in inner:
                _well_formed(child)
        elif key != "class":
            several = isinstance(value, list) and key in ("sensitivities", "sampling_probs")
            numbers, least = (value, 0.0) if several else ([value], 1 / _LARGEST)
            if not all(type(n) in (int, float) and least <= n <= _LARGEST for n in numbers):
                raise ValueError(
                    f"{key}: expected positive numbers up to {_LARGEST:g}, not {value!r}"
                )
    name = tree.get("class")
    missing = set(_PARAMETERS.get(name, ()) if isinstance(name, str) else ["class"]) - set(tree)
    if missing or not isinstance(name, str):
        raise ValueError(f"{name!r}: expected an event of dp-accounting, with {sorted(missing)}")
    return tree


NUMBERS = 2**20
"""Most numbers in a release with lattice noise, unless ``DpEvents.lattice_numbers`` has more: sums
over 4,097 columns for 255 classes have fewer."""


class DpEvents(BaseModel):
    """What one run releases about one group of units, for an accountant of dp-accounting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: Annotated[Tree, AfterValidator(_well_formed)] | None
    """Null where dp-accounting has no event that describes it."""
    neighboring_relation: str = ADD_OR_REMOVE
    """Of the accountant: under ``REPLACE_ONE`` its Gaussian moves by twice its unit."""
    secret_sample: float | None = None
    """Share of the units that the event reads, drawn once: ε at δ is ln(1 + q(e^ε' - 1)), of the
    event's ε' at δ/q."""
    reason: str = ""
    """Why ``event`` is null."""
    lattice_numbers: int | None = Field(None, ge=1)
    """Numbers drawn with lattice noise in all; left out up to ``NUMBERS`` for each release, which
    whoever composes supposes (docs/privacy.md §16)."""

    @model_serializer(mode="wrap")
    def _without_few_numbers(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = whole(self)
        return {key: value for key, value in fields.items() if key != "lattice_numbers" or value}


def dp_events(
    events: Sequence[Event],
    apart: Sequence[Event],
    claim: tuple[str, str, float],
    reads_private: bool,
) -> tuple[DpEvents, ...]:
    """Return what a run releases; ``claim`` is unit, relation and delta.

    ``events`` and ``apart`` are about different units, so that the run costs the larger of the
    two. The rest as in ``statements.build_statement``.
    """
    if not events:
        return (DpEvents(event=_NON_PRIVATE if reads_private else {"class": "NoOpDpEvent"}),)
    return tuple(_translated(group, claim) for group in (events, apart) if group)


def _translated(events: Sequence[Event], claim: tuple[str, str, float]) -> DpEvents:
    if isinstance(events[0], SecretSample) and len(events) == 1:
        inside = _translated(events[0].releases, (*claim[:2], claim[2] / events[0].rate))
        return inside.model_copy(update={"secret_sample": events[0].rate})
    if any(isinstance(release, SecretSample) for release in events):
        return DpEvents(event=None, reason="a secret sample and other releases share delta")
    if any(price(release, *claim).epsilon is None for release in events):
        return DpEvents(event=_NON_PRIVATE)
    losses = [_loss(release, claim) for release in events]
    pure = [loss for loss in losses if loss.kind == "pure"]
    zcdp = any(loss.kind == "zcdp" for loss in losses)
    zcdp |= any(loss.steps > _MOST_COPIES for loss in pure)
    replaced = any(
        (loss.kind == "gaussian" or loss.kind == "terms")
        and loss.sampling_rate < 1
        and loss.relation == "replace"
        for loss in losses
    )
    if replaced and zcdp:
        return DpEvents(event=None, reason="no accountant composes zCDP with replaced terms")
    doubled = replaced or (bool(pure) and not zcdp)
    if doubled and any(getattr(loss, "terms", 1) > 1 for loss in losses):
        reason = "dp-accounting has no event for several sampled terms that are replaced"
        return DpEvents(event=None, reason=reason)
    trees = [tree for loss in losses for tree in _trees(loss, doubled)]
    event = trees[0] if len(trees) == 1 else {"class": "ComposedDpEvent", "events": trees}
    return DpEvents(
        event=event, neighboring_relation=REPLACE if doubled else ADD_OR_REMOVE,
        lattice_numbers=_many_numbers(events),
    )  # fmt: skip


def _many_numbers(events: Sequence[Event]) -> int | None:
    """Return the numbers drawn on lattices, where one release has more than ``NUMBERS``."""
    drawn = [event for event in events if isinstance(event, GaussianQuery) and event.spacing]
    if not any(event.dimension > NUMBERS for event in drawn):
        return None
    return sum(event.dimension * event.count for event in drawn)


def _loss(event: Event, claim: tuple[str, str, float]) -> Loss:
    """Loss of an event, with one step for each release that the unit touches."""
    loss = price(event, *claim).mechanism
    assert loss is not None
    if not isinstance(event, NoisyGradients) or isinstance(event.sampling, Poisson):
        return loss
    from private_graphs.privacy.gradient_prices import sensitivity, touching_releases

    bound = sensitivity(event, *claim[:2])
    assert bound is not None  # the caller prices events that prove something alone
    moved = bound / event.clip_norm
    count = touching_releases(event, claim[0])
    return SampledGaussian(event.noise_multiplier / moved, count, 1.0, "zero_out")


def _trees(loss: Loss, doubled: bool) -> Iterable[Tree]:
    """Events of all steps of a loss, under a relation of the accountant."""
    if doubled and loss.kind == "laplace":
        from private_graphs.privacy.query_losses import PureLoss

        loss = PureLoss(1 / loss.scale, loss.steps, loss.rho)
    if doubled and loss.kind == "pure":
        share = 2 / (1 + math.exp(loss.epsilon))
        response = {
            "class": "RandomizedResponseDpEvent", "noise_parameter": share, "num_buckets": 2,
        }  # fmt: skip
        return [response] * loss.steps
    if loss.kind == "pure" or loss.kind == "zcdp":
        one = {"class": "ZCDpEvent", "rho": loss.rho}
    elif loss.kind == "laplace":
        one = {"class": "LaplaceDpEvent", "noise_multiplier": loss.scale}
    elif loss.kind == "terms" and loss.terms > 1:
        one = {
            "class": "MixtureOfGaussiansDpEvent", "standard_deviation": loss.noise_multiplier,
            "sensitivities": list(range(loss.terms + 1)), "sampling_probs": loss.weights.tolist(),
        }  # fmt: skip
    else:
        one = _gaussian(loss, doubled)
    if loss.steps == 1:
        return [one]
    return [{"class": "SelfComposedDpEvent", "event": one, "count": loss.steps}]


def _gaussian(loss: SampledGaussian | SampledTerms, doubled: bool) -> Tree:
    """Event of one step: the unit moves it by one or two clip norms, the accountant's by either."""
    ratio = (2 if doubled else 1) / (2 if loss.relation == "replace" else 1)
    one = {"class": "GaussianDpEvent", "noise_multiplier": loss.noise_multiplier * ratio}
    if loss.sampling_rate == 1:
        return one
    return {
        "class": "PoissonSampledDpEvent", "sampling_probability": loss.sampling_rate, "event": one,
    }  # fmt: skip
