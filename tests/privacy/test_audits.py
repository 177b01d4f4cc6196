"""Lower bounds on ε from error counts: known values, order, and how often they may be wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import gdp_delta, gdp_epsilon
from private_graphs.privacy.audits import (
    Errors,
    gaussian_epsilon,
    gaussian_mu,
    one_run_epsilon,
    one_run_p_value,
    rate_upper_bound,
    refutes_profile,
    two_point_epsilon,
)

DELTA = 1e-5
THIRD = Errors(345, 1000, 345, 1000)
EVEN = st.integers(20, 2000).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n)))


def randomised_response(epsilon: float):
    """Profile δ(ε') of a coin that tells the truth with probability e^ε/(1 + e^ε)."""
    truth = 1 / (1 + math.exp(-epsilon))
    return lambda other: max(0.0, truth - math.exp(other) * (1 - truth))


# --- values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "expected"), [(30, 2.03375), (100, 3.28134), (200, 3.98375), (1000, 5.60058)]
)
def test_bounds_of_an_attack_that_never_errs(runs, expected):
    assert two_point_epsilon(Errors(0, runs, 0, runs), DELTA) == pytest.approx(expected, abs=6e-6)


def test_bounds_of_an_attack_that_errs_in_a_third_of_the_runs():
    assert two_point_epsilon(THIRD, DELTA) == pytest.approx(0.50916, abs=6e-6)
    assert gaussian_mu(THIRD) == pytest.approx(0.63524, abs=6e-6)
    assert gaussian_epsilon(THIRD, DELTA) == pytest.approx(2.60728, abs=6e-6)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((30, 30, 30), 2.25278),
        ((60, 60, 60), 2.97040),
        ((100, 100, 90), 1.63036),
        ((1000, 1000, 600), 0.29723),
    ],
)
def test_bounds_of_one_run(counts, expected):
    assert one_run_epsilon(*counts, DELTA) == pytest.approx(expected, abs=6e-6)


@pytest.mark.parametrize(("errors", "runs"), [(0, 30), (1, 30), (17, 40), (999, 1000)])
def test_the_upper_bound_is_that_of_scipy(errors, runs):
    interval = stats.binomtest(errors, runs).proportion_ci(0.95, method="exact")
    assert rate_upper_bound(errors, runs, 0.025) == pytest.approx(interval.high, rel=1e-9)


def test_an_attack_that_guesses_shows_nothing():
    blind = Errors(500, 1000, 500, 1000)
    assert two_point_epsilon(blind, DELTA) == 0
    assert gaussian_mu(blind) == gaussian_epsilon(blind, DELTA) == 0
    assert gaussian_mu(Errors(5, 5, 0, 5)) == 0
    assert one_run_epsilon(100, 100, 50, DELTA) == 0
    assert one_run_p_value(10, 0, 0, 1.0, DELTA) == 1


def test_delta_is_lost_on_every_canary_and_not_on_the_guesses_alone():
    few, many = (one_run_p_value(m, 30, 28, 1.0, DELTA) for m in (1000, 3000))
    without = stats.binom.sf(27, 30, 1 / (1 + math.exp(-1)))
    assert (many - without) / (few - without) == pytest.approx(3)


def test_counts_that_cannot_be_are_refused():
    for counts in ((-1, 5, 0, 5), (0, 0, 0, 5), (0, 5, 6, 5)):
        with pytest.raises(UserError, match="errors"):
            Errors(*counts)
    for counts in ((0, 0, 0), (10, 11, 5), (10, 5, 6)):
        with pytest.raises(UserError, match="canaries"):
            one_run_epsilon(*counts, DELTA)
    with pytest.raises(UserError, match="confidence"):
        two_point_epsilon(THIRD, DELTA, confidence=1.0)


# --- order -----------------------------------------------------------------------------------


@given(first=EVEN, second=EVEN)
def test_more_errors_and_more_confidence_never_raise_a_bound(first, second):
    errors = Errors(*first, *second)
    worse = Errors(first[0] + 1, first[1], *second)
    for bound in (
        lambda e, c=0.95: two_point_epsilon(e, DELTA, c),
        lambda e, c=0.95: gaussian_epsilon(e, DELTA, c),
    ):
        assert bound(worse) <= bound(errors) + 1e-9
        assert bound(errors, 0.999) <= bound(errors) + 1e-9


# --- how often they are wrong -----------------------------------------------------------------

TRIES = 2_000


def allowed(level: float) -> float:
    """A share of TRIES that a mechanism refuted with probability ``level`` exceeds once in 1e5."""
    return stats.binom.ppf(1 - 1e-5, TRIES, level) / TRIES


@pytest.mark.parametrize("mu", [0.3, 0.8, 2.0])
@pytest.mark.parametrize("threshold", [0.5, 0.9])
def test_a_gaussian_mechanism_is_refuted_as_seldom_as_the_confidence_says(mu, threshold):
    """Scores N(0, 1) against N(μ, 1), cut at a threshold (in units of μ) fixed in advance."""
    generator = np.random.default_rng(7)
    runs, at = 300, threshold * mu
    first = generator.binomial(runs, stats.norm.sf(at), TRIES)
    second = generator.binomial(runs, stats.norm.cdf(at - mu), TRIES)
    found = [Errors(int(a), runs, int(b), runs) for a, b in zip(first, second, strict=True)]
    epsilon = gdp_epsilon(mu, DELTA)
    assert np.mean([two_point_epsilon(each, DELTA) > epsilon for each in found]) <= allowed(0.05)
    assert np.mean([gaussian_mu(each) > mu for each in found]) <= allowed(0.05)
    few = found[:200]
    refuted = np.mean([refutes_profile(each, lambda e: gdp_delta(mu, e)) for each in few])
    assert refuted <= np.mean([gaussian_mu(each) > mu for each in few]) + 1e-12


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomised_response_is_not_refuted_by_the_profile_but_by_the_gaussian_bound(epsilon):
    generator = np.random.default_rng(11)
    runs, lie = 4000, 1 / (1 + math.exp(epsilon))
    profile = randomised_response(epsilon)
    counts = generator.binomial(runs, lie, size=(300, 2))
    found = [Errors(int(a), runs, int(b), runs) for a, b in counts]
    assert np.mean([refutes_profile(each, profile) for each in found]) <= 0.05 + 0.05
    assert np.mean([two_point_epsilon(each, DELTA) > epsilon for each in found]) <= 0.05 + 0.05
    wrongly = [gaussian_epsilon(each, DELTA) > epsilon for each in found]
    assert np.mean(wrongly) > 0.99  # why the Gaussian bound is kept for Gaussian proofs alone


def test_a_profile_that_promises_too_much_is_refuted():
    exact = Errors(345, 1000, 345, 1000)
    assert refutes_profile(exact, lambda epsilon: gdp_delta(0.5, epsilon))
    for uneven in (Errors(0, 1000, 900, 1000), Errors(900, 1000, 0, 1000)):  # at one end alone
        assert refutes_profile(uneven, lambda epsilon: 0.1 if epsilon < 0.5 else 0.01)
    assert not refutes_profile(exact, lambda epsilon: gdp_delta(0.8, epsilon))
    coin = Errors(round(2000 / (1 + math.e)), 2000, round(2000 / (1 + math.e)), 2000)
    assert refutes_profile(coin, randomised_response(0.7))


@pytest.mark.parametrize(("epsilon", "canaries", "guesses"), [(1.0, 100, 100), (3.0, 400, 60)])
def test_one_run_of_randomised_response_is_refuted_as_seldom_as_it_says(epsilon, canaries, guesses):
    """Each canary's inclusion is reported truthfully with probability e^ε/(1 + e^ε)."""
    generator = np.random.default_rng(13)
    rights = generator.binomial(guesses, 1 / (1 + math.exp(-epsilon)), TRIES)
    bounds = {right: one_run_epsilon(canaries, guesses, int(right), DELTA) for right in set(rights)}
    assert np.mean([bounds[right] > epsilon for right in rights]) <= allowed(0.05)
