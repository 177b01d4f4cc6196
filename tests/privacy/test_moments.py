"""The papers' accountant: stable form, published numbers, and the authors' cancellation."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from private_graphs.privacy.accountants import gdp_epsilon
from private_graphs.privacy.moments import cancelling_moments_epsilon, moments_epsilon, moments_log

DELTA = 1e-5


@pytest.mark.parametrize(
    ("rate", "noise", "order", "alpha"),
    [
        (0.01, 4, 19, 0.00123999946),
        (0.1, 4, 6, 0.01395411358),
        (1, 112, 12, 0.00621811224),
        (0.2, 1.6, 5, 0.4329867824),
    ],
)
def test_log_moment(rate: float, noise: float, order: int, alpha: float) -> None:
    assert moments_log(rate, noise, order) == pytest.approx(alpha, rel=5e-9)


@settings(max_examples=60)
@given(st.floats(1e-3, 1), st.floats(0.5, 500), st.integers(1, 32))
def test_log_moment_agrees_with_sixty_digits(rate: float, noise: float, order: int) -> None:
    with mpmath.workdps(60):
        q, variance = mpmath.mpf(rate), mpmath.mpf(noise) ** 2
        exact = mpmath.log(
            mpmath.fsum(
                mpmath.binomial(order + 1, k)
                * (1 - q) ** (order + 1 - k)
                * q**k
                * mpmath.exp(mpmath.mpf(k * (k - 1)) / (2 * variance))
                for k in range(order + 2)
            )
        )
    assert moments_log(rate, noise, order) == pytest.approx(float(exact), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize(
    ("noise_sgd", "noise_adam", "formula", "zero_out", "replace"),
    [
        (4, 2, 136.512925, 109.33692, 344.45102),
        (26, 13, 9.754802, 8.31503, 19.94126),
        (48, 24, 4.906752, 4.03372, 9.16598),
        (112, 56, 1.995762, 1.55196, 3.38015),
    ],
)
def test_table_3_for_both_optimizers(
    noise_sgd: int, noise_adam: int, formula: float, zero_out: float, replace: float
) -> None:
    for noise, steps in ((noise_sgd, 2000), (noise_adam, 500)):
        mu = math.sqrt(steps) / noise
        assert moments_epsilon(noise, steps, 1, DELTA) == pytest.approx(formula, abs=6e-7)
        assert gdp_epsilon(mu, DELTA) == pytest.approx(zero_out, abs=6e-6)
        assert gdp_epsilon(2 * mu, DELTA) == pytest.approx(replace, abs=6e-6)


def test_cancellation_can_make_epsilon_negative() -> None:
    assert cancelling_moments_epsilon(218, 2000, 1, DELTA) == pytest.approx(-0.5847, abs=5e-3)
    assert moments_epsilon(220, 2000, 1, DELTA) == pytest.approx(0.996, abs=5e-4)


def test_run_script_prints_a_third_of_the_formula_on_the_full_graph() -> None:
    assert cancelling_moments_epsilon(112, 10 * 2000, 0.1, DELTA) == pytest.approx(0.6229, abs=5e-5)
    assert moments_epsilon(112, 2000, 1, DELTA) == pytest.approx(1.9958, abs=5e-5)


@settings(max_examples=60)
@given(st.floats(1, 300), st.integers(1, 5000))
def test_formula_bounds_the_exact_value_at_rate_one(noise: float, steps: int) -> None:
    assert moments_epsilon(noise, steps, 1, DELTA) >= gdp_epsilon(math.sqrt(steps) / noise, DELTA)
