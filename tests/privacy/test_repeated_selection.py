"""The best of a random number of runs, by Papernot & Steinke (2022)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import logser, nbinom, norm

from private_graphs.errors import UserError
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.losses import zcdp_epsilon
from private_graphs.privacy.selection import (
    POISSON,
    _library,
    mean_of,
    selection_epsilon,
    stopping_of,
)

DELTA = 1e-5


def test_a_geometric_number_of_runs_by_hand() -> None:
    # mu = .1, gamma = 1/2, eta = 1, E[K] = 2: the best order is sqrt(2 ln 2)/.1 = 11.77410, where
    # the penalty is .1 · sqrt(2 ln 2) - .005 = .1127410, taken twice
    by_hand = zcdp_epsilon(0.005, DELTA / 2) + 2 * 0.1127410
    assert selection_epsilon(0.1, DELTA, 2.0) == pytest.approx(by_hand, abs=1e-4)
    assert selection_epsilon(0.1, DELTA, 2.0) >= by_hand - 1e-6


def test_theorem_2_by_a_search_over_both_orders() -> None:
    mu, mean, shape = 0.3, 6.0, 0.5
    stop = stopping_of(mean, shape)
    orders = 1 + np.geomspace(1e-2, 1e4, 20_001)
    inner = np.append(orders, 1.0)
    penalty = np.min((1 - 1 / inner) * inner * mu**2 / 2 - math.log(stop) / inner)
    renyi = orders * mu**2 / 2 + (1 + shape) * penalty + math.log(mean) / (orders - 1)
    tail = np.log1p(-1 / orders) - (math.log(DELTA) + np.log(orders)) / (orders - 1)
    expected = float(np.min(renyi + tail))
    assert selection_epsilon(mu, DELTA, mean, shape) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0])
def test_library_agrees_on_theorem_2(shape: float) -> None:
    for mu, mean in ((0.05, 3), (0.27, 6), (0.5, 30)):
        library = _library(mu, DELTA, mean, shape)
        assert selection_epsilon(mu, DELTA, mean, shape) == pytest.approx(library, rel=2e-3)


def test_poisson_number_of_runs_stays_below_the_library_which_bounds_delta_by_the_curve() -> None:
    for mu, mean in ((0.05, 3), (0.27, 6), (0.5, 30)):
        epsilon = selection_epsilon(mu, DELTA, mean, POISSON)
        assert gdp_epsilon(mu, DELTA) < epsilon <= _library(mu, DELTA, mean, POISSON) + 1e-6


@pytest.mark.parametrize("stop", [0.02, 0.3, 0.9])
def test_means_of_the_named_distributions(stop: float) -> None:
    assert mean_of(stop, 1.0) == pytest.approx(1 / stop)
    assert mean_of(stop, 0.0) == pytest.approx(logser(1 - stop).mean())
    counted = nbinom(2.5, stop)
    assert mean_of(stop, 2.5) == pytest.approx(counted.mean() / (1 - counted.pmf(0)))
    assert mean_of(stop, 1e-9) == pytest.approx(mean_of(stop, 0.0), rel=1e-6)
    for shape in (-0.5, 0.0, 1.0, 2.5):
        assert stopping_of(mean_of(stop, shape), shape) == pytest.approx(stop, rel=1e-9)


def _best_of_random_delta(mu: float, epsilon: float, stop: float | None, mean: float) -> float:
    """δ(ε) of the largest of K outputs N(0,1) against N(μ,1), geometric or Poisson K."""

    def density(x: float, shift: float) -> float:
        u, slope = ndtr(x - shift), norm.pdf(x - shift)
        if stop is None:
            return mean * math.exp(mean * (u - 1)) * slope
        return stop * slope / (1 - (1 - stop) * u) ** 2

    def excess(x: float, first: float, second: float) -> float:
        return max(0.0, density(x, first) - math.exp(epsilon) * density(x, second))

    cuts = np.linspace(-12, 12, 97)
    return max(
        sum(quad(excess, a, b, args=pair)[0] for a, b in zip(cuts, cuts[1:], strict=False))
        for pair in ((mu, 0.0), (0.0, mu))
    )


@pytest.mark.parametrize("mean", [3.0, 10.0])
@pytest.mark.parametrize("target", [0.5, 2.0])
def test_an_exact_example_stays_below_the_bound(target: float, mean: float) -> None:
    mu, delta = gdp_mu(target, 1e-3), 1e-3
    geometric = selection_epsilon(mu, delta, mean)
    assert _best_of_random_delta(mu, geometric, 1 / mean, mean) <= delta
    poisson = selection_epsilon(mu, delta, mean, POISSON)
    assert _best_of_random_delta(mu, poisson, None, mean) <= delta
    assert _best_of_random_delta(mu, target, 1 / mean, mean) > delta  # selecting is not free


@settings(max_examples=20)
@given(
    st.floats(0.02, 1.5), st.floats(1.5, 60), st.sampled_from([0.0, 0.5, 1.0, 2.0, POISSON]),
    st.floats(1e-8, 1e-3), st.floats(1.05, 2),
)  # fmt: skip
def test_epsilon_grows_with_mu_and_the_mean_and_falls_with_delta(
    mu: float, mean: float, shape: float, delta: float, factor: float
) -> None:
    epsilon = selection_epsilon(mu, delta, mean, shape)
    assert epsilon >= gdp_epsilon(mu, delta)
    assert selection_epsilon(factor * mu, delta, mean, shape) > epsilon
    assert selection_epsilon(mu, delta, factor * mean, shape) > epsilon
    assert selection_epsilon(mu, delta * factor, mean, shape) < epsilon


def test_a_negative_shape_pays_less() -> None:
    costs = [selection_epsilon(0.2, DELTA, 6, shape) for shape in (-0.5, 0.0, 1.0)]
    assert costs == sorted(costs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, DELTA, 6.0), "mu is 0"),
        ((0.2, DELTA, 1.0), "mean_runs is 1.0"),
        ((0.2, DELTA, math.inf), "mean_runs is inf"),
        ((0.2, DELTA, 6.0, -1.0), "shape is -1.0"),
        ((0.2, DELTA, 6.0, math.nan), "shape is nan"),
        ((0.2, DELTA, 1e300, -0.99), "within floating-point range"),
        ((0.2, 0.0, 6.0), "delta is 0"),
    ],
)
def test_what_the_theorems_do_not_cover_is_an_error(arguments: tuple, message: str) -> None:
    with pytest.raises(UserError, match=message):
        selection_epsilon(*arguments)


def test_poisson_has_no_stopping_probability() -> None:
    with pytest.raises(UserError, match="no stopping probability"):
        stopping_of(6.0, POISSON)
