"""What the best of a random number of runs costs (Papernot & Steinke, ICLR 2022).

It applies where the number of runs K is itself drawn, before any of them, from one of the
distributions below, each run draws its configuration anew and independently, the best of the K by
any score is released, and nothing else is: neither the other runs, nor their scores, nor K. A fixed
grid of configurations is none of this: it costs the composition of all its runs
(``docs/privacy.md`` §5).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from private_graphs.errors import UserError
from private_graphs.privacy.accountants import gdp_delta
from private_graphs.privacy.checks import check_delta
from private_graphs.privacy.losses import zcdp_epsilon

POISSON = math.inf
"""Shape that stands for the Poisson distribution, the limit of the negative binomial ones."""


def _check(mu: float, mean_runs: float, shape: float) -> None:
    if not (math.isfinite(mu) and mu > 0):
        raise UserError(f"mu is {mu}; expected a positive number: that of one run")
    if not (math.isfinite(mean_runs) and mean_runs > 1):
        raise UserError(
            f"mean_runs is {mean_runs}; expected the mean of the random number of runs, above 1"
        )
    if not shape > -1:
        raise UserError(
            f"shape is {shape}; expected a number above -1 (0: logarithmic, 1: geometric) or "
            "infinity (Poisson)"
        )


def mean_of(stopping: float, shape: float) -> float:
    """Return E[K] of the truncated negative binomial distribution (Definition 1).

    P[K = k] ∝ (1-γ)^k ∏_{l<k} (l+η)/(l+1) for k >= 1, with γ = ``stopping`` in (0, 1) and
    η = ``shape`` above -1; η = 0 is the logarithmic, η = 1 the geometric distribution.
    """
    log_stop = -math.log(stopping)
    if shape == 0:
        return math.expm1(log_stop) / log_stop
    return shape * math.expm1(log_stop) / -math.expm1(-shape * log_stop)


def stopping_of(mean_runs: float, shape: float) -> float:
    """Return γ of the truncated negative binomial distribution with this mean, above 1."""
    _check(1.0, mean_runs, shape)
    if shape == POISSON:
        raise UserError("the Poisson distribution has no stopping probability")

    def excess(log_stop: float) -> float:
        return math.log(mean_of(math.exp(-log_stop), shape) / mean_runs)

    highest = 1.0
    while excess(highest) < 0:
        highest *= 2
        if highest > 700:
            raise UserError(
                f"no truncated negative binomial distribution of shape {shape} has the mean "
                f"{mean_runs} within floating-point range; use a larger shape or a smaller mean"
            )
    lowest = highest
    while excess(lowest) > 0:
        lowest /= 2
    if lowest == highest:
        return math.exp(-highest)
    return math.exp(-brentq(excess, lowest, highest, xtol=1e-15, rtol=1e-14))


def _negative_binomial(mu: float, delta: float, mean_runs: float, shape: float) -> float:
    """Theorem 2 for a run with Rényi curve αμ²/2.

    ε'(λ) = λμ²/2 + (1+η) min over λ̂ >= 1 of ((λ̂-1)μ²/2 + ln(1/γ)/λ̂) + ln E[K] / (λ-1). The last
    term divides δ by E[K] in the conversion to ε.
    """
    log_stop = -math.log(stopping_of(mean_runs, shape))
    order = max(1.0, math.sqrt(2 * log_stop) / mu)
    penalty = (order - 1) * mu**2 / 2 + log_stop / order
    return zcdp_epsilon(mu**2 / 2, delta / mean_runs) + (1 + shape) * penalty


def _library(mu: float, delta: float, mean_runs: float, shape: float) -> float:
    """The same by dp-accounting, on a grid of orders."""
    from dp_accounting import ZCDpEvent
    from dp_accounting.dp_event import RepeatAndSelectDpEvent
    from dp_accounting.rdp import RdpAccountant

    best = math.sqrt(2 * math.log(mean_runs / delta)) / mu
    orders = 1 + np.geomspace(best / 300, best * 300, 700)
    orders = np.sort(np.append(orders, 1.0))
    event = RepeatAndSelectDpEvent(ZCDpEvent(mu**2 / 2), mean_runs, shape)
    return float(RdpAccountant(orders=orders).compose(event).get_epsilon(delta))


def _poisson(mu: float, delta: float, mean_runs: float) -> float:
    """Theorem 6: ε'(λ) = λμ²/2 + m·δ̂ + ln(m)/(λ-1), δ̂ that of one run at ε̂ = ln(1 + 1/(λ-1))."""

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)
        order = 1 + excess
        hidden = gdp_delta(mu, math.log1p(1 / excess))
        renyi = order * mu**2 / 2 + mean_runs * hidden + math.log(mean_runs) / excess
        tail = math.log1p(1 / excess) + (math.log(delta) + math.log(order)) / excess
        return renyi - tail

    grid = np.linspace(-8, 12, 801)
    at = int(np.argmin([bound(each) for each in grid]))
    around = (grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)])
    return max(0.0, float(minimize_scalar(bound, bounds=around, method="bounded").fun))


def selection_epsilon(mu: float, delta: float, mean_runs: float, shape: float = 1.0) -> float:
    """Return ε of releasing only the best of K runs, each μ-GDP, where K is random.

    K is drawn beforehand, independently of the data, from the truncated negative binomial
    distribution of shape η = ``shape`` (0: logarithmic, 1: geometric; above -1) with mean
    ``mean_runs``, or from the Poisson distribution (``shape`` = infinity), where K = 0 releases
    something that does not depend on the data. The runs are independent copies of one mechanism
    that draws its configuration itself; the best is chosen by a score that each run outputs (or
    that is computed from what it outputs and public data). K may not be cut off, and neither it nor
    any other run or score may be released. Both units and relation are those of μ.

    Theorems 2 and 6 of Papernot & Steinke (2022). Of two routes to Theorem 2, here and in
    dp-accounting (shape >= 0), the larger. Raises UserError for other distributions.
    """
    check_delta(delta)
    _check(mu, mean_runs, shape)
    if shape == POISSON:
        return _poisson(mu, delta, mean_runs)
    epsilon = _negative_binomial(mu, delta, mean_runs, shape)
    return max(epsilon, _library(mu, delta, mean_runs, shape)) if shape >= 0 else epsilon
