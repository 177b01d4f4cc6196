"""Privacy cost of queries, and under other relations.

Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from private_graphs.core.errors import UserError
from private_graphs.privacy import queries
from private_graphs.privacy.accountants import (
    PricedEvent,
    lattice_epsilon,
    no_guarantee,
    second_route,
)
from private_graphs.privacy.events import Event, NoisyGradients
from private_graphs.privacy.losses import Loss, gaussian_loss
from private_graphs.privacy.prices import Claim, proved_by

FIXED_NUMBER = "the number of releases is public and fixed in advance"
"""Assumption about the sums, or choices, inside one run."""


def _describe_loss(event: queries.Query) -> str:
    """Return a description of one release of a query, for the proof."""
    if isinstance(event, queries.GaussianQuery):
        kind = "discrete Gaussian" if event.spacing else "Gaussian"
        return f"L2 sensitivity {event.sensitivity:g} under {kind} noise {event.noise_std:g}"
    if isinstance(event, queries.LaplaceQuery):
        return f"L1 sensitivity {event.sensitivity:g} under Laplace noise {event.scale:g}"
    if isinstance(event, queries.ExponentialChoice):
        return f"exponential choice whose loss has range {event.bounded_range:g}"
    if isinstance(event, queries.PureQuery):
        return f"{event.epsilon:g}-DP"
    if isinstance(event, queries.ConcentratedQuery):
        return f"{event.rho:g}-zCDP"
    return (
        f"up to {event.terms} changed terms, each sampled at q = {event.rate:g}, under Gaussian "
        f"noise {event.noise_multiplier:g}·C (§0.2)"
    )


def price_query(event: queries.Query, unit: str, relation: str, delta: float) -> PricedEvent:
    """Return the guarantee of a query; UserError for another unit or relation than its own."""
    if (event.unit, event.relation) != (unit, relation):
        raise UserError(
            f"the sensitivity of this {type(event).__name__} is stated for unit {event.unit!r} "
            f"under {event.relation}, not for {unit!r} under {relation}; derive it for that claim"
        )
    if event.unproved:
        return no_guarantee(event.reason)
    if getattr(event, "fitted_terms", False):
        return no_guarantee(
            f"which records belong to a {unit} was fitted on all records of its class, so that one "
            "changed record moves others (§6)"
        )
    mu = None
    if isinstance(event, queries.GaussianQuery):
        loss: Loss = gaussian_loss(event)
        mu = event.sensitivity * math.sqrt(event.count) / event.noise_std
        epsilon, accountant = lattice_epsilon(mu, event.total_variation, delta)
        second = second_route(loss, delta)
    else:
        from private_graphs.privacy.query_losses import composed, loss_of

        loss = loss_of(event)
        epsilon, accountant, second = composed((loss,), delta)
    conditions = [FIXED_NUMBER]
    if getattr(event, "rate", 1) < 1:
        conditions.append(
            "which terms joined a step is secret and drawn independently every step, and neither "
            "the progress nor the run time of the training is observed or published; the divisor "
            "of the sums is public"
        )
    return PricedEvent(
        epsilon=epsilon,
        accountant=accountant,
        proof=(
            f"{event.count} release{'' if event.count == 1 else 's, each'} "
            f"{_describe_loss(event)}: {event.reason}"
        ),
        second_route=second,
        mu=mu,
        mechanism=loss,
        total_variation=getattr(event, "total_variation", 0.0),
        claim=(unit, relation),
        conditions=tuple(conditions),
    )


def replacing_epsilon(claim: Claim, events: Sequence[Event]) -> float | None:
    """Return ε of one run where a unit may also be replaced, from events for add/remove.

    A replacement is a removal and an addition, so that each sensitivity at most doubles. None if an
    event has no sensitivity to double, or nothing is proved.
    """
    doubled = [
        replace(event, sensitivity=2 * event.sensitivity, relation="replace")
        for event in events
        if isinstance(
            event, queries.GaussianQuery | queries.LaplaceQuery | queries.ExponentialChoice
        )
    ]
    if not events or len(doubled) < len(events):
        return None
    return proved_by(doubled, (claim[0], "replace", *claim[2:]))[1]


def vanishing_epsilon(claim: Claim, events: Sequence[Event]) -> tuple[float | None, str]:
    """Return ε of one run where a unit may be left out, and the relation that this proves.

    The relation is ``add_remove`` where it holds; ``zero_out`` where minibatches or groups have a
    fixed size, so that the record's place must stay, and of queries that state how far they move.
    """
    moved = [
        replace(event, sensitivity=event.vanishing, relation="zero_out")
        for event in events
        if isinstance(event, queries.GaussianQuery) and event.vanishing is not None
    ]
    if moved and len(moved) == len(events):
        return proved_by(moved, (claim[0], "zero_out", *claim[2:]))[1], "zero_out"
    if not events or not all(isinstance(event, NoisyGradients) for event in events):
        return None, "zero_out"
    for relation in ("add_remove", "zero_out"):
        epsilon = proved_by(events, (claim[0], relation, *claim[2:]))[1]
        if epsilon is not None:
            break
    return epsilon, relation
