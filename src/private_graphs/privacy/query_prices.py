"""Privacy cost of queries and of secret samples, alone, composed, and under other relations.

Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import (
    PricedEvent,
    compose_groups,
    lattice_epsilon,
    no_guarantee,
    pld_name,
    price,
    second_route,
)
from private_graphs.privacy.events import Event, NoisyGradients, SecretSample
from private_graphs.privacy.losses import Loss, SampledGaussian, pld_of
from private_graphs.privacy.prices import Claim, proved_by
from private_graphs.privacy.queries import (
    ConcentratedQuery,
    ExponentialChoice,
    GaussianQuery,
    LaplaceQuery,
    PureQuery,
    Query,
)
from private_graphs.privacy.query_losses import (
    ConcentratedLoss,
    LaplaceLoss,
    PureLoss,
    SampledTerms,
    amplified_epsilon,
    pure_epsilon,
    zcdp_epsilon,
    zcdp_epsilon_library,
)

FIXED_NUMBER = "the number of releases is public and fixed in advance"
"""Assumption about the sums, or choices, inside one run."""
_GRID = 200.0
"""ε above which a grid of losses takes long or overflows; another proof is then as good."""


@cache
def zcdp_name() -> str:
    """Name and version of the zCDP conversion, for statements."""
    return (
        "zero-concentrated DP (Canonne, Kamath & Steinke 2020; dp-accounting "
        f"{version('dp-accounting')})"
    )


def composed(losses: tuple[Loss, ...], delta: float) -> tuple[float, str, float | None]:
    """Return ε, accountant and second route of adaptive releases with these losses.

    Candidates are loss distributions, if every loss has one; zCDP, if a release is better described
    by it or by nothing else; and the sum of ε, if all losses are pure. Each is a proof, so the
    smallest ε holds; of two routes to the same proof the larger ε is taken. UserError if none
    covers all losses.
    """
    paths: list[tuple[float, str, float | None]] = []
    pure = [loss for loss in losses if isinstance(loss, LaplaceLoss | PureLoss)]
    if len(pure) == len(losses):
        paths.append((sum(loss.steps * loss.loss_spread for loss in pure), "sum of epsilons", None))
    tighter = [loss for loss in losses if isinstance(loss, ConcentratedLoss | PureLoss)]
    costs = [loss.steps * loss.rho for loss in losses if loss.rho is not None]
    if tighter and len(costs) == len(losses):
        rho = sum(costs)
        first, second = zcdp_epsilon(rho, delta), zcdp_epsilon_library(rho, delta)
        paths.append((max(first, second), zcdp_name(), min(first, second)))
    hopeless = any(epsilon > _GRID for epsilon, *_ in paths)
    if not hopeless and not any(isinstance(loss, ConcentratedLoss) for loss in losses):
        first, route = pld_of(losses, delta), _other_route(losses, delta)
        paths.append((max(first, route or 0.0), pld_name(), route))
    if not paths:
        raise UserError(
            "Poisson-sampled releases have no useful zCDP bound and zCDP bounds no privacy loss "
            "distribution, so that their composition is not priced; describe every release by "
            "its mechanism (Gaussian, Laplace, exponential) instead of by rho"
        )
    return min(paths, key=lambda path: path[0])


def _other_route(losses: tuple[Loss, ...], delta: float) -> float | None:
    """Return ε by a route that shares no code with the loss distributions; None without one."""
    if len(losses) == 1 and isinstance(losses[0], PureLoss):
        return pure_epsilon(losses[0].epsilon, losses[0].steps, delta)
    if len(losses) == 1 and isinstance(losses[0], LaplaceLoss) and losses[0].steps == 1:
        return max(0.0, 1 / losses[0].scale + 2 * math.log1p(-delta))
    from private_graphs.privacy.fourier import fourier_of

    return fourier_of(losses, delta)


def loss_of(event: Query) -> Loss:
    """Return the privacy loss of a query.

    Under every relation, its sensitivity is the distance by which its mean moves.
    """
    if isinstance(event, GaussianQuery):
        return SampledGaussian(event.noise_std / event.sensitivity, event.count, 1.0, "zero_out")
    if isinstance(event, LaplaceQuery):
        epsilon = event.sensitivity / event.scale
        if event.dimension == 1:
            return LaplaceLoss(1 / epsilon, event.count)
        return PureLoss(epsilon, event.count, epsilon**2 / 2)
    if isinstance(event, ExponentialChoice):
        return PureLoss(event.bounded_range, event.count, event.bounded_range**2 / 8)
    if isinstance(event, PureQuery):
        return PureLoss(event.epsilon, event.count, event.epsilon**2 / 2)
    if isinstance(event, ConcentratedQuery):
        return ConcentratedLoss(event.rho, event.count)
    relation = "replace" if event.exchange else event.relation
    return SampledTerms(event.noise_multiplier, event.count, event.rate, event.terms, relation)


def _describe_loss(event: Query) -> str:
    """Return a description of one release of a query, for the proof."""
    if isinstance(event, GaussianQuery):
        kind = "discrete Gaussian" if event.spacing else "Gaussian"
        return f"L2 sensitivity {event.sensitivity:g} under {kind} noise {event.noise_std:g}"
    if isinstance(event, LaplaceQuery):
        return f"L1 sensitivity {event.sensitivity:g} under Laplace noise {event.scale:g}"
    if isinstance(event, ExponentialChoice):
        return f"exponential choice whose loss has range {event.bounded_range:g}"
    if isinstance(event, PureQuery):
        return f"{event.epsilon:g}-DP"
    if isinstance(event, ConcentratedQuery):
        return f"{event.rho:g}-zCDP"
    return (
        f"up to {event.terms} changed terms, each sampled at q = {event.rate:g}, under Gaussian "
        f"noise {event.noise_multiplier:g}·C (§0.2)"
    )


def price_query(event: Query, unit: str, relation: str, delta: float) -> PricedEvent:
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
    loss = loss_of(event)
    mu = None
    if isinstance(event, GaussianQuery):
        mu = event.sensitivity * math.sqrt(event.count) / event.noise_std
        epsilon, accountant = lattice_epsilon(mu, event.total_variation, delta)
        second = second_route(loss, delta)
    else:
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


def price_sample(event: SecretSample, unit: str, relation: str, delta: float) -> PricedEvent:
    """Return the guarantee of releases that read one secret sample, amplified once (§9)."""
    inner_delta = delta / event.rate
    if inner_delta >= 1:
        raise UserError(
            f"delta = {delta:g} is no smaller than the share {event.rate:g} of a secret sample: to "
            "publish all of it would pass; expected a smaller delta"
        )
    inside = tuple(price(release, unit, relation, inner_delta) for release in event.releases)
    inner = compose_groups([(inside, 1)], inner_delta)
    if inner is None:
        return next(part for part in inside if part.epsilon is None)
    epsilon = amplified_epsilon(inner, event.rate)
    conditions = [condition for part in inside for condition in part.conditions]
    return PricedEvent(
        epsilon=epsilon,
        accountant="; ".join(dict.fromkeys(part.accountant for part in inside)),
        proof=(
            f"{'; '.join(part.proof for part in inside)}; a secret sample of {event.rate:.4g} of "
            f"the {unit}s amplifies all of it together, once: ln(1 + q(e^ε - 1)) at qδ (§9)"
        ),
        inside=inside,
        rate=event.rate,
        shared=event.shared,
        claim=(unit, relation),
        conditions=(
            *dict.fromkeys(conditions),
            f"which {unit}s were sampled is secret, in what is released and in logs and run "
            "times; the sample was drawn uniformly without replacement, in random order",
        ),
    )


def compose_samples(
    samples: Sequence[tuple[PricedEvent, int]],
    plain: Sequence[tuple[PricedEvent, int]],
    delta: float,
) -> float:
    """Return ε of runs that read secret samples, composed with all other releases.

    Releases that read one sample compose inside it and are amplified once; each run whose sample
    has no name draws its own. Samples compose by basic composition: each, and the others together,
    get the same share of δ.
    """
    named: dict[str, list[tuple[PricedEvent, int]]] = {}
    for event, n_runs in samples:
        if event.shared:
            named.setdefault(event.shared, []).append((event, n_runs))
    read = [([(event, 1)], n_runs) for event, n_runs in samples if not event.shared]
    read += [(inside, 1) for inside in named.values()]
    share = delta / (sum(n_samples for _, n_samples in read) + bool(plain))
    total = compose_groups([((event,), n_runs) for event, n_runs in plain], share) if plain else 0.0
    assert total is not None  # the caller has refused events that prove nothing
    for runs, n_samples in read:
        rate = max(event.rate for event, _ in runs)
        inner = compose_groups([(event.inside, n_runs) for event, n_runs in runs], share / rate)
        assert inner is not None
        total += n_samples * amplified_epsilon(inner, rate)
    return total


def replacing_epsilon(claim: Claim, events: Sequence[Event]) -> float | None:
    """Return ε of one run where a unit may also be replaced, from events for add/remove.

    A replacement is a removal and an addition, so that each sensitivity at most doubles. None if an
    event has no sensitivity to double, or nothing is proved.
    """
    doubled = [
        replace(event, sensitivity=2 * event.sensitivity, relation="replace")
        for event in events
        if isinstance(event, GaussianQuery | LaplaceQuery | ExponentialChoice)
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
        if isinstance(event, GaussianQuery) and event.vanishing is not None
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
