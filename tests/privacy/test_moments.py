"""The papers' accountant: stable form, published numbers, and the authors' cancellation."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from private_graphs.privacy.accountants import (
    cancelling_moments_epsilon,
    gdp_epsilon,
    moments_epsilon,
    moments_log,
)

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


TABLE_4 = [
    (0.01, 4, 10000, 1.258575, 0.94687, 1.99312),
    (0.1, 4, 1000, 4.244507, 3.44434, 7.48907),
    (1, 4, 100, 15.131463, 13.20671, 33.10373),
    (1, 50, 100, 0.979705, 0.72552, 1.55498),
    (1, 100, 100, 0.524779, 0.34067, 0.72552),
]


def test_cancellation_can_make_epsilon_negative() -> None:
    assert cancelling_moments_epsilon(218, 2000, 1, DELTA) == pytest.approx(-0.5847, abs=5e-3)
    assert moments_epsilon(220, 2000, 1, DELTA) == pytest.approx(0.996, abs=5e-4)


def test_cancellation_is_harmless_at_small_noise() -> None:
    for rate, noise, steps, formula, *_ in TABLE_4[:4]:
        released = cancelling_moments_epsilon(noise, steps, rate, DELTA)
        assert released == pytest.approx(formula, rel=1e-4)


def test_authors_accountant_survives_overflowing_moments() -> None:
    assert cancelling_moments_epsilon(0.05, 10, 1, DELTA) > 1000


def test_run_script_prints_a_third_of_the_formula_on_the_full_graph() -> None:
    assert cancelling_moments_epsilon(112, 10 * 2000, 0.1, DELTA) == pytest.approx(0.6229, abs=5e-5)
    assert moments_epsilon(112, 2000, 1, DELTA) == pytest.approx(1.9958, abs=5e-5)


def test_epsilon_never_falls_below_its_floor() -> None:
    assert moments_epsilon(1e8, 1, 1, DELTA) == pytest.approx(math.log(1e5) / 32, rel=1e-9)


@settings(max_examples=60)
@given(st.floats(0.01, 1), st.floats(1, 300), st.integers(1, 5000), st.floats(1.01, 3))
def test_epsilon_falls_with_noise_and_grows_with_steps_and_rate(
    rate: float, noise: float, steps: int, more: float
) -> None:
    epsilon = moments_epsilon(noise, steps, rate, DELTA)
    slack = 1e-9 * max(1.0, epsilon)
    assert moments_epsilon(noise * more, steps, rate, DELTA) <= epsilon + slack
    assert moments_epsilon(noise, steps + 1, rate, DELTA) >= epsilon - slack
    assert moments_epsilon(noise, steps, min(1.0, rate * more), DELTA) >= epsilon - slack


@settings(max_examples=60)
@given(st.floats(0.01, 1), st.floats(1, 300), st.integers(2, 32))
def test_log_moment_is_positive_and_convex_in_the_order(
    rate: float, noise: float, order: int
) -> None:
    below, here, above = (moments_log(rate, noise, order + step) for step in (-1, 0, 1))
    assert 0 <= here + 1e-13
    assert below + above - 2 * here >= -1e-12 * max(1.0, above)


@settings(max_examples=60)
@given(st.floats(1, 300), st.integers(1, 5000))
def test_formula_bounds_the_exact_value_at_rate_one(noise: float, steps: int) -> None:
    assert moments_epsilon(noise, steps, 1, DELTA) >= gdp_epsilon(math.sqrt(steps) / noise, DELTA)
