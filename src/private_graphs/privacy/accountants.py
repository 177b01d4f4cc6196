"""Two accountants, and the privacy cost of an event.

``gdp`` is exact Gaussian differential privacy, ``pld`` dp-accounting's privacy loss distributions;
the published papers' formula is in ``moments``. ``price`` alone decides which of them applies to an
event; ``query_prices``, ``gradient_prices`` and ``secret_samples`` have the proofs. dp-accounting
is imported only where needed, because the import takes seconds. Section numbers refer to
``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.metadata import version

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from private_graphs.core.errors import UserError
from private_graphs.privacy.checks import check, check_delta, check_steps
from private_graphs.privacy.events import Event, NoisyGradients, SecretSample, Unnoised
from private_graphs.privacy.losses import Loss, SampledGaussian, pld_of

# --- exact Gaussian differential privacy (§0) -------------------------------------------------


def gdp_log_delta(mu: float, epsilon: float) -> float:
    """Return log δ of μ-GDP at ε (§0.1); minus infinity where δ underflows the difference."""
    log_hit = log_ndtr(-epsilon / mu + mu / 2)
    if log_hit == -math.inf:
        return -math.inf
    log_ratio = epsilon + log_ndtr(-epsilon / mu - mu / 2) - log_hit
    return float(log_hit + np.log(-np.expm1(log_ratio))) if log_ratio < 0 else -math.inf


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return δ(ε) = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) of μ-GDP (Dong, Roth & Su 2022).

    >>> round(gdp_delta(1.0, 1.0), 4)
    0.1269
    """
    return math.exp(gdp_log_delta(mu, epsilon))


_SEARCHED = 1e8
"""Largest μ at which ε is searched for. Above, rounding hides δ at the end of the search, and the
tail bound exceeds ε by a share of at most 1e-6."""


@lru_cache(maxsize=4096)
def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε >= 0 with δ(ε) <= delta for μ-GDP.

    >>> round(gdp_epsilon(1.0, 1e-5), 3)
    4.377
    """
    check_delta(delta)
    if not (math.isfinite(mu) and mu > 0):
        raise UserError(f"mu is {mu}; expected a positive number")
    log_delta = math.log(delta)
    if gdp_log_delta(mu, 0.0) <= log_delta:
        return 0.0
    highest = mu * mu / 2 + mu * math.sqrt(-2 * log_delta)  # the Gaussian tail bound
    if mu > _SEARCHED:
        return highest
    return float(
        brentq(lambda epsilon: gdp_log_delta(mu, epsilon) - log_delta, 0.0, highest, xtol=1e-13)
    )


_SHARES = (1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.5)
"""Shares of δ reserved for the distance between the actual noise and the noise of the proof."""


def despite_distance(
    epsilon_of: Callable[[float], float], total_variation: float, delta: float
) -> float:
    """Return ε of noise at distance ``total_variation`` from noise with ``epsilon_of(δ)``.

    δ grows by (1 + e^ε) · ``total_variation`` (§0.6). Infinity where that is too much.
    """
    if total_variation == 0:
        return epsilon_of(delta)
    for share in _SHARES:
        epsilon = epsilon_of(delta * (1 - share))
        if epsilon < 600 and (1 + math.exp(epsilon)) * total_variation <= share * delta:
            return epsilon
    return math.inf


def lattice_epsilon(mu: float, total_variation: float, delta: float) -> tuple[float, str]:
    """Return ε of discrete Gaussian noise on a lattice at ratio ``mu``, and the accountant (§0.6).

    The proof uses exact Gaussian DP of rounded Gaussian noise at distance ``total_variation``; at
    too large an ε, zCDP of the discrete Gaussian (Canonne, Kamath & Steinke 2020, Theorem 4).
    """
    epsilon = despite_distance(lambda left: gdp_epsilon(mu, left), total_variation, delta)
    if math.isfinite(epsilon):
        return epsilon, gdp_name()
    from private_graphs.privacy.zcdp import zcdp_epsilon, zcdp_epsilon_library, zcdp_name

    rho = mu**2 / 2
    return max(zcdp_epsilon(rho, delta), zcdp_epsilon_library(rho, delta)), zcdp_name()


@lru_cache(maxsize=4096)
def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ whose ε at delta is at most epsilon (epsilon >= 0).

    >>> round(gdp_mu(2.0, 1e-5), 3)
    0.502
    """
    check_delta(delta)
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise UserError(f"epsilon is {epsilon}; expected a number of at least 0")
    log_delta = math.log(delta)

    def excess(mu: float) -> float:
        return max(gdp_log_delta(mu, epsilon), -1e9) - log_delta

    lowest = delta  # since δ(ε) <= δ(0) < 0.4 μ
    highest = 1.0
    while excess(highest) < 0:
        highest *= 2
    return float(brentq(excess, lowest, highest, xtol=1e-300, rtol=1e-14, maxiter=2000))


@cache
def gdp_name() -> str:
    """Name and version of the exact accountant, for statements."""
    return f"exact Gaussian DP (scipy {version('scipy')})"


@cache
def pld_name() -> str:
    """Name and version of the PLD accountant, for statements."""
    return f"privacy loss distribution (dp-accounting {version('dp-accounting')})"


# --- privacy cost of events -------------------------------------------------------------------


@dataclass(frozen=True)
class PricedEvent:
    """Guarantee of one event for a unit and a relation; ``epsilon`` None: nothing is proved."""

    epsilon: float | None
    accountant: str
    proof: str
    second_route: float | None = None
    """ε by an independent computation, for comparison; None if there is none."""
    mu: float | None = None
    """μ of exact Gaussian DP; None if ε comes from PLD or nothing is proved."""
    mechanism: Loss | None = None
    """Privacy loss, for composition."""
    total_variation: float = 0.0
    """Distance of the noise from the noise that ``mu`` and ``mechanism`` describe (§0.6)."""
    inside: tuple[PricedEvent, ...] = ()
    """Guarantees of the releases inside a secret sample, before amplification."""
    rate: float = 1.0
    """Sampling rate of the secret sample."""
    shared: str = ""
    """Name of the secret sample where several runs read it (``SecretSample``)."""
    claim: tuple[str, str] | None = None
    """Unit and relation of the guarantee; only events with the same claim compose."""
    conditions: tuple[str, ...] = ()
    """Assumptions of the proof about the code that trained."""


def no_guarantee(reason: str) -> PricedEvent:
    """Return the price of an event for which nothing is proved."""
    return PricedEvent(None, "none", f"none: {reason}")


def second_route(mechanism: Loss, delta: float) -> float | None:
    """Return ε by PLD to compare with an exact value; None if too large for the library's grid."""
    try:
        return pld_of((mechanism,), delta)
    except UserError:
        return None


@lru_cache(maxsize=1024)
def price(event: Event, unit: str, relation: str, delta: float) -> PricedEvent:
    """Return the guarantee that ``event`` proves for one unit under the relation, at delta.

    ``unit`` is node, record, subgraph or graph for gradients; a query proves a guarantee for its
    own unit and relation only. Gradients that are not clipped jointly prove nothing (``epsilon``
    None, ``proof`` says why). A shuffled order is treated as the cyclic one. An event without a
    sound proof raises UserError.

    >>> from private_graphs.privacy.events import FullBatch, NoisyGradients
    >>> event = NoisyGradients(clipping="per_record", clip_norm=1.0, noise_multiplier=20.0,
    ...                        releases=100, epochs=100, sampling=FullBatch(parts=500))
    >>> cost = price(event, "record", "replace", 1e-5)
    >>> round(cost.epsilon, 3)
    4.377
    >>> cost.proof
    'one record touches 100 releases and moves each by at most 2C: mu = 2·sqrt(100)/20 = 1 (§3 A′)'
    """
    check(delta=delta, relation=relation)
    if isinstance(event, Unnoised):
        return no_guarantee(event.reason)
    if isinstance(event, SecretSample):
        from private_graphs.privacy.secret_samples import price_sample

        return price_sample(event, unit, relation, delta)
    if not isinstance(event, NoisyGradients):
        from private_graphs.privacy.query_prices import price_query

        return price_query(event, unit, relation, delta)
    from private_graphs.privacy.gradient_prices import price_gradients

    return price_gradients(event, unit, relation, delta)


def compose_groups(
    groups: Sequence[tuple[Sequence[PricedEvent], int]], delta: float
) -> float | None:
    """Return ε of releasing several groups of runs, each given by its events and number of runs.

    None if an event proves nothing. Exact Gaussian DP is used if all events have a μ, PLD
    otherwise. Raises UserError where no accountant covers all events, where PLD gives no finite ε,
    and for events of different units or relations, which do not compose.
    """
    check_delta(delta)
    for _, n_runs in groups:
        check_steps(n_runs)
    counted = [(event, n_runs) for events, n_runs in groups for event in events]
    if not counted or any(event.epsilon is None for event, _ in counted):
        return None
    if len(claims := {event.claim for event, _ in counted}) > 1:
        named = sorted(filter(None, claims))
        raise UserError(f"events of different relations or units do not compose: {named}")
    samples = [(event, n_runs) for event, n_runs in counted if event.inside]
    if samples:
        from private_graphs.privacy.secret_samples import compose_samples

        return compose_samples(
            samples, [(event, n_runs) for event, n_runs in counted if not event.inside], delta
        )
    distance = sum(n_runs * event.total_variation for event, n_runs in counted)
    squares = [n_runs * event.mu**2 for event, n_runs in counted if event.mu is not None]
    if len(squares) == len(counted):
        mu = math.sqrt(sum(squares))
        return lattice_epsilon(mu, distance, delta)[0]
    mechanisms = tuple(
        replace(event.mechanism, steps=n_runs * event.mechanism.steps)
        for event, n_runs in counted if event.mechanism is not None
    )  # fmt: skip
    assert len(mechanisms) == len(counted)  # what has no μ has a loss
    if all(isinstance(mechanism, SampledGaussian) for mechanism in mechanisms):
        epsilon = despite_distance(lambda left: pld_of(mechanisms, left), distance, delta)
    else:
        from private_graphs.privacy.query_losses import composed

        epsilon = despite_distance(lambda left: composed(mechanisms, left)[0], distance, delta)
    if math.isinf(epsilon):
        raise UserError("noise on a lattice is not priced beside others at so large an epsilon")
    return epsilon
