"""Noise of queries for a requested ε, rounded up as in :mod:`private_graphs.privacy.calibration`.

Section numbers refer to ``docs/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from private_graphs.privacy.accountants import gdp_mu, lattice_epsilon
from private_graphs.privacy.calibration import smallest_noise
from private_graphs.privacy.checks import check
from private_graphs.privacy.losses import Loss
from private_graphs.privacy.queries import LATTICE_RATIO, Query, lattice_distance

if TYPE_CHECKING:
    from private_graphs.privacy.renyi import Releases


@lru_cache(maxsize=512)
def lattice_noise(epsilon: float, releases: int, delta: float, dimension: int) -> float:
    """Return the noise of each of ``releases`` releases on a lattice, in units of the sensitivity.

    The discrete-Gaussian counterpart of ``calibration.gdp_noise``, on ``dimension`` numbers, with
    the coarsest allowed spacing (§0.6).
    """
    check(epsilon=epsilon, steps=releases, delta=delta)
    distance = lattice_distance(LATTICE_RATIO, dimension * releases)
    return smallest_noise(
        lambda noise: lattice_epsilon(math.sqrt(releases) / noise, distance, delta)[0],
        epsilon,
        guess=math.sqrt(releases) / gdp_mu(epsilon, delta),
    )


def scale_noise(
    epsilon: float, delta: float, queries: Callable[[float], tuple[Query, ...]]
) -> float:
    """Return the smallest scale at which ``queries(scale)`` compose to at most ``epsilon``.

    This serves releases of several kinds whose noise grows with one common scale. The independent
    route of ``fourier`` gives the initial guess; the accountant of the composition alone decides.
    """
    from private_graphs.privacy.fourier import fourier_of
    from private_graphs.privacy.query_losses import composed, loss_of

    check(epsilon=epsilon, delta=delta)

    def losses(scale: float) -> tuple[Loss, ...]:
        return tuple(loss_of(query) for query in queries(scale))

    def priced(scale: float) -> float:
        return composed(losses(scale), delta)[0]

    def estimated(scale: float) -> float:
        estimate = fourier_of(losses(scale), delta)
        return priced(scale) if estimate is None else estimate

    return smallest_noise(priced, epsilon, guess=smallest_noise(estimated, epsilon, guess=1.0))


def renyi_scale(
    epsilon: float,
    delta: float,
    releases: Callable[[float], tuple[Releases, ...]],
    epsilon_of: Callable[[tuple[Releases, ...], float], float],
) -> float:
    """Return the smallest scale at which an accountant of ``renyi`` prints at most ``epsilon``."""
    check(epsilon=epsilon, delta=delta)
    return smallest_noise(lambda scale: epsilon_of(releases(scale), delta), epsilon, guess=1.0)
