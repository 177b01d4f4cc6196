"""ε of releases that are ρ-zCDP."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from importlib.metadata import version

import numpy as np
from scipy.optimize import minimize_scalar


@lru_cache(maxsize=4096)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest ε that ρ-zCDP implies at delta by its Rényi curve.

    min over α > 1 of αρ + ln(1 - 1/α) - ln(δα)/(α - 1) (Canonne, Kamath & Steinke 2020,
    Proposition 12), never above ρ + 2 sqrt(ρ ln(1/δ)) (Bun & Steinke 2016).
    """

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1 + excess
        return alpha * rho - math.log1p(1 / excess) - (math.log(delta) + math.log(alpha)) / excess

    best = 0.5 * math.log(-math.log(delta) / rho)  # optimum of the simpler conversion
    optimum = minimize_scalar(
        bound, bounds=(best - 6, best + 6), method="bounded", options={"xatol": 1e-10}
    )
    return max(0.0, float(optimum.fun))


@lru_cache(maxsize=4096)
def zcdp_epsilon_library(rho: float, delta: float) -> float:
    """Return :func:`zcdp_epsilon` by dp-accounting's Rényi accountant, on a grid of orders."""
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    best = math.sqrt(-math.log(delta) / rho)
    orders = 1 + best * np.geomspace(math.exp(-6), math.exp(6), 4001)
    return float(RdpAccountant(orders=orders).compose(ZCDpEvent(rho)).get_epsilon(delta))


@cache
def zcdp_name() -> str:
    """Name and version of the zCDP conversion, for statements."""
    return (
        "zero-concentrated DP (Canonne, Kamath & Steinke 2020; dp-accounting "
        f"{version('dp-accounting')})"
    )
