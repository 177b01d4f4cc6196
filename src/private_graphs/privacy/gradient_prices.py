"""Privacy cost of clipped and noisy gradients.

Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math

from private_graphs.core.errors import UserError, suggest
from private_graphs.privacy.accountants import (
    PricedEvent,
    gdp_epsilon,
    gdp_name,
    no_guarantee,
    pld_name,
    second_route,
)
from private_graphs.privacy.checks import check
from private_graphs.privacy.events import Cyclic, FullBatch, NoisyGradients, Poisson, Shuffled
from private_graphs.privacy.losses import SampledGaussian, pld_of


def pld_epsilon(
    noise_multiplier: float, steps: int, sampling_rate: float, delta: float, relation: str
) -> float:
    """Return ε of ``steps`` Gaussian releases under Poisson sampling, rounded up (pessimistic).

    ``relation``: ``replace`` (the affected term becomes another one of norm <= C), ``add_remove``
    or ``zero_out`` (it vanishes or appears; the worse direction). The noise multiplier is relative
    to C under every relation; the library doubles the sensitivity for ``replace``. The result is
    too large by less than 2e-4 for ε of practical size.

    >>> round(pld_epsilon(1.0, 100, 0.01, 1e-5, "replace"), 2)
    0.9
    """
    check(noise=noise_multiplier, steps=steps, rate=sampling_rate, delta=delta, relation=relation)
    mechanism = SampledGaussian(noise_multiplier, int(steps), sampling_rate, relation)
    return pld_of((mechanism,), delta)


PRICED_UNITS = ("node", "record", "subgraph", "graph")


def _moves_a_term(event: NoisyGradients, unit: str) -> bool:
    """Return whether a unit is part of a clipped term, which it moves even by vanishing."""
    return unit == "node" or (unit == "record" and event.clipping != "per_record")


def sensitivity(event: NoisyGradients, unit: str, relation: str) -> float | None:
    """Return how far one unit moves one release that it touches, or None without a bound.

    The result is in the units of the gradient. A node's data moves the clipped gradient of its part
    from one vector of norm <= C to any other, whatever the relation: 2C. So does a record's data
    where groups of records are clipped as one. A whole term that vanishes, of a subgraph, a graph
    or a record clipped by itself, takes a vector of norm <= C away: C; replaced, 2C (§2, §3).
    """
    if event.clipping == "none":
        return None
    factor = 2.0 if _moves_a_term(event, unit) or relation == "replace" else 1.0
    if isinstance(event.sampling, FullBatch):
        touched = {"node": min(event.relabel_touches, event.parts), "graph": event.parts}
        factor *= touched.get(unit, 1)
    if event.clipping == "gradient_per_tensor":
        factor *= math.sqrt(event.n_tensors)
    return factor * event.clip_norm


def touching_releases(event: NoisyGradients, unit: str) -> int:
    """Releases that one unit can touch, without sampling."""
    if isinstance(event.sampling, FullBatch):
        return event.epochs
    touched = {"node": min(event.relabel_touches, event.parts), "graph": event.parts}
    return touched.get(unit, 1) * event.epochs


def _conditions(event: NoisyGradients, unit: str, relation: str) -> tuple[str, ...]:
    listed = ["the number of steps and the divisor of the sums are public and fixed in advance"]
    if event.clipping == "per_record":
        listed.append("the gradient of each record reads no other private record")
    elif event.clipping == "per_group":
        listed.append(
            "the gradient of each group of records reads no other private record; which group a "
            "record is in is public and does not depend on the data"
        )
    elif event.parts > 1 or isinstance(event.sampling, Poisson):
        listed.append(
            "each part's forward pass sees its induced subgraph alone; the partition and the "
            "order of visits are drawn independently of the private graph"
        )
        if unit == "node" and relation == "add_remove":
            listed.append("each node's part is drawn independently of all other nodes")
    if isinstance(event.sampling, Poisson):
        listed.append(
            "which parts joined a step is secret and drawn independently every step; neither the "
            "progress nor the run time of the training is observed or published"
        )
    return tuple(listed)


def _refused(event: NoisyGradients, unit: str, relation: str) -> PricedEvent | None:
    sampled = isinstance(event.sampling, Poisson)
    if event.clipping == "per_group" and not sampled:
        return no_guarantee(
            "groups of records that are clipped as one are priced where whole groups join a step "
            "by independent coins, and not otherwise"
        )
    fixed = event.clipping == "per_group" or isinstance(event.sampling, Cyclic | Shuffled)
    if unit == "record" and relation == "add_remove" and fixed:
        return no_guarantee(
            "one record more or less moves others to other lots or groups of a fixed size"
        )
    if event.clipping == "none":
        return no_guarantee("nothing is clipped, so one unit can move a gradient without bound")
    if event.clipping == "gradient_per_tensor":
        return no_guarantee(
            f"clipping per tensor bounds the joint norm of {event.n_tensors} tensors by "
            f"sqrt({event.n_tensors})·C, not by C"
        )
    return None


def _price_gaussian(event: NoisyGradients, unit: str, relation: str, delta: float) -> PricedEvent:
    bound = sensitivity(event, unit, relation)
    assert bound is not None  # _refused has said why it would be
    moved = bound / event.clip_norm
    count = touching_releases(event, unit)
    mu = moved * math.sqrt(count) / event.noise_multiplier
    section = {FullBatch: "§2" if event.parts == 1 else "§3 A′", Cyclic: "§3 A"}.get(
        type(event.sampling), "§3 A; a shuffled order is never amplified"
    )
    loss = "replace" if _moves_a_term(event, unit) else relation
    mechanism = SampledGaussian((2 if loss == "replace" else 1) / mu, 1, 1.0, loss)
    return PricedEvent(
        epsilon=gdp_epsilon(mu, delta),
        accountant=gdp_name(),
        proof=(
            f"one {unit} touches {count} releases and moves each by at most {moved:g}C: "
            f"mu = {moved:g}·sqrt({count})/{event.noise_multiplier:g} = {mu:.6g} ({section})"
        ),
        second_route=second_route(mechanism, delta),
        mu=mu,
        mechanism=mechanism,
        claim=(unit, relation),
        conditions=_conditions(event, unit, relation),
    )


def _price_poisson(event: NoisyGradients, unit: str, relation: str, delta: float) -> PricedEvent:
    if unit == "graph":
        raise UserError(
            "a whole graph moves every part that joins a Poisson step, which is not priced; "
            "state the guarantee for unit 'node' or 'subgraph'"
        )
    if unit == "node" and event.relabel_touches > 1:
        raise UserError(
            f"a node touches up to {event.relabel_touches} Poisson-sampled parts under "
            "class-stratified subsampling, which is not priced; draw an independent keyed coin "
            "per node instead (docs/privacy.md §3)"
        )
    from private_graphs.privacy.fourier import fourier_epsilon

    loss = "replace" if _moves_a_term(event, unit) else relation
    assert isinstance(event.sampling, Poisson)
    rate = event.sampling.rate
    mechanism = SampledGaussian(event.noise_multiplier, event.releases, rate, loss)
    term = "a record's" if event.clipping == "per_record" and unit == "record" else "a part's"
    pair = {
        "replace": f"{term} clipped term is replaced, so both sides move: (1-q)N(0)+qN(±C)",
    }.get(loss, f"{term} clipped term vanishes or appears: subsampled Gaussian, worse direction")
    return PricedEvent(
        epsilon=pld_of((mechanism,), delta),
        accountant=pld_name(),
        proof=f"{event.releases} Poisson steps at q = {rate:g}; {pair} (§3 B, §0.2)",
        second_route=fourier_epsilon(event.noise_multiplier, event.releases, rate, delta, loss),
        mechanism=mechanism,
        claim=(unit, relation),
        conditions=_conditions(event, unit, relation),
    )


def price_gradients(event: NoisyGradients, unit: str, relation: str, delta: float) -> PricedEvent:
    """Return the guarantee of noisy gradients; see ``accountants.price``."""
    if unit not in PRICED_UNITS:
        raise UserError(
            f"no proof for unit {unit!r}; expected one of {', '.join(PRICED_UNITS)}"
            f"{suggest(unit, PRICED_UNITS)}"
        )
    refused = _refused(event, unit, relation)
    if refused is not None:
        return refused
    if isinstance(event.sampling, Poisson):
        return _price_poisson(event, unit, relation, delta)
    return _price_gaussian(event, unit, relation, delta)
