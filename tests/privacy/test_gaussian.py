"""Exact Gaussian DP against published vectors, high-precision arithmetic and itself."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import gdp_delta, gdp_epsilon

DELTA = 1e-5


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [
        (0.1, 0.3406694),
        (0.25, 0.9263415),
        (0.5, 1.9930914),
        (1, 4.3771781),
        (2, 9.9972561),
        (5, 33.1037323),
    ],
)
def test_epsilon_of_mu(mu: float, epsilon: float) -> None:
    assert gdp_epsilon(mu, DELTA) == pytest.approx(epsilon, abs=6e-8)


def _exact_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@settings(max_examples=60)
@given(st.floats(1e-3, 60), st.floats(0, 1500))
def test_delta_agrees_with_sixty_digits(mu: float, epsilon: float) -> None:
    exact = _exact_delta(mu, epsilon)
    if exact < 1e-290:  # float64 has nothing to compare
        assert gdp_delta(mu, epsilon) < 1e-280
    else:
        assert gdp_delta(mu, epsilon) == pytest.approx(float(exact), rel=1e-7)


@settings(max_examples=60)
@given(st.floats(1e-3, 50), st.floats(1e-14, 0.5))
def test_epsilon_spends_exactly_delta(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    if epsilon == 0:
        assert _exact_delta(mu, 0) <= delta * (1 + 1e-9)
    else:
        assert float(_exact_delta(mu, epsilon)) == pytest.approx(delta, rel=1e-6)


@given(st.floats(1e6, 1e200), st.floats(1e-300, 0.5))
def test_next_to_no_noise_has_an_epsilon_that_is_no_smaller(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    assert gdp_epsilon(mu / 2, delta) < epsilon or epsilon == math.inf
    if mu < 1e7:  # where the search ends
        tail = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
        assert tail * (1 - 1e-5) < epsilon <= tail


@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        (1, 2.0000),
        (2, 1.9151),
        (4, 1.8268),
        (6, 1.7734),
        (8, 1.7347),
        (10, 1.7041),
        (100, 1.3573),
    ],
)
def test_edge_level_epsilon_of_the_cyclic_schedule(parts: int, epsilon: float) -> None:
    mu = 2 * math.sqrt(500) / 89.166
    # An edge has an effect where both of its ends fall into one part.
    assert gdp_epsilon(mu, parts * DELTA) == pytest.approx(epsilon, abs=6e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_delta_outside_the_unit_interval_is_refused(delta: float) -> None:
    with pytest.raises(UserError, match="delta is"):
        gdp_epsilon(1.0, delta)


@pytest.mark.parametrize("mu", [0.0, -1.0, math.inf])
def test_mu_must_be_positive_and_finite(mu: float) -> None:
    with pytest.raises(UserError, match="mu is"):
        gdp_epsilon(mu, DELTA)
