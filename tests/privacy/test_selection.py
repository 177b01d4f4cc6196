"""Choosing among private runs on public data is free only within their composition."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from private_graphs.privacy.accountants import gdp_delta, gdp_epsilon, gdp_mu

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
from tables import selected_delta

DELTA = 1e-5
K = 6


def _density(x: float, shift: float, n_runs: int) -> float:
    """Density of the largest of ``n_runs`` draws from N(shift, 1)."""
    return n_runs * norm.pdf(x - shift) * norm.cdf(x - shift) ** (n_runs - 1)


def _hockey_stick(mu: float, epsilon: float, n_runs: int) -> float:
    """∫ (p - e^ε q)₊ of the selected output in the worse direction, by quadrature."""

    def gap(x: float, first: float, second: float) -> float:
        excess = _density(x, first, n_runs) - math.exp(epsilon) * _density(x, second, n_runs)
        return max(excess, 0.0)

    cuts = np.linspace(-12, 12 + mu, 97)
    return max(
        sum(
            quad(gap, a, b, args=pair, epsabs=1e-14)[0]
            for a, b in zip(cuts, cuts[1:], strict=False)
        )
        for pair in ((mu, 0.0), (0.0, mu))
    )


def test_best_of_six_breaks_the_budget_of_one_run() -> None:
    epsilon = 2.0
    mu = gdp_mu(epsilon, DELTA)
    assert _hockey_stick(mu, epsilon, 1) == pytest.approx(DELTA, rel=1e-4)
    selected = _hockey_stick(mu, epsilon, K)
    assert selected > 100 * DELTA
    assert selected_delta(mu, epsilon, K) == pytest.approx(selected, rel=1e-5)


@pytest.mark.parametrize("n_runs", [2, 6, 30])
@pytest.mark.parametrize("target", [1.0, 2.0, 5.0])
def test_selected_run_stays_within_the_composition_of_all(n_runs: int, target: float) -> None:
    mu = gdp_mu(target, DELTA)
    together = math.sqrt(n_runs) * mu
    assert selected_delta(mu, gdp_epsilon(together, DELTA), n_runs) <= DELTA
    for epsilon in np.linspace(0.1, 2 * target, 20):
        assert selected_delta(mu, epsilon, n_runs) <= gdp_delta(together, epsilon) * (1 + 1e-9)


def test_one_run_selects_nothing() -> None:
    assert selected_delta(0.5, 1.0, 1) == pytest.approx(gdp_delta(0.5, 1.0), rel=1e-9)
