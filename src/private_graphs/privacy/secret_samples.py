"""Privacy cost of releases that read a secret sample.

Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import PricedEvent, compose_groups, price
from private_graphs.privacy.events import SecretSample


def amplified_epsilon(epsilon: float, rate: float) -> float:
    """Return ln(1 + rate·(e^ε - 1)), the ε under a secret sample without replacement (§9).

    Its δ is ``rate`` times that of the releases (Balle, Barthe & Gaboardi 2018, Theorem 10).
    """
    if epsilon > 30:  # e^ε overflows from 710 on; the 1 is below rounding
        return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))
    return math.log1p(rate * math.expm1(epsilon))


def inner_epsilon(epsilon: float, rate: float) -> float:
    """Return the inverse of ``amplified_epsilon``."""
    return math.log1p(math.expm1(epsilon) / rate)


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
