"""Noise on a lattice: what it is calibrated to, what rounding adds, and what it is priced for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from private_graphs.core.errors import UserError
from private_graphs.methods.lattice import LatticeGaussian
from private_graphs.privacy.accountants import (
    compose_groups,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    price,
)
from private_graphs.privacy.queries import LATTICE_RATIO, GaussianQuery, lattice_distance

CLAIM = ("node", "replace")


def calibrate(epsilon: float, releases: int = 1, size: int = 700) -> LatticeGaussian:
    return LatticeGaussian.calibrate(
        epsilon, 1e-5, math.sqrt(2), dimension=size, entries=size, contributions=2,
        releases=releases,
    )  # fmt: skip


def event_of(lattice: LatticeGaussian, count: int = 1) -> GaussianQuery:
    event = lattice.query(
        unit="node", relation="replace", reason="test", clipping="row", count=count
    )
    assert event is not None
    return event


@pytest.mark.parametrize("releases", [1, 3])
@pytest.mark.parametrize("epsilon", [0.05, 0.25, 1, 2, 8, 16, 30, 60])
def test_the_price_is_at_most_what_was_asked_and_the_noise_hardly_more(epsilon, releases):
    lattice = calibrate(epsilon, releases)
    priced = price(event_of(lattice, releases), *CLAIM, 1e-5)
    assert priced.epsilon <= epsilon
    least = math.sqrt(2 * releases) / gdp_mu(epsilon, 1e-5)
    if epsilon <= 16:  # above, zero-concentrated DP has to prove it, and asks for more noise
        assert priced.epsilon >= epsilon - 0.01 * max(1, epsilon)
        assert lattice.noise_std <= least * 1.001 + 0.0015
    assert lattice.noise_std >= least * (1 - 1e-12)


@pytest.mark.parametrize("epsilon", [0.25, 2, 8])
def test_the_spacing_is_a_power_of_two_far_below_the_noise(epsilon):
    lattice = calibrate(epsilon)
    assert math.frexp(lattice.spacing)[0] == 0.5
    assert LATTICE_RATIO / 2.01 <= lattice.spacing / lattice.noise_std <= LATTICE_RATIO


def test_rounding_moves_a_term_by_less_than_the_sensitivity_says():
    lattice = calibrate(1.0, size=5)
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(10_000, 5))
    terms /= np.linalg.norm(terms, axis=1, keepdims=True)
    error = lattice.rounded(terms) * lattice.spacing - terms
    assert abs(error).max() <= lattice.spacing / 2
    worst = 2 * np.linalg.norm(error, axis=1).max()  # one term in place of another
    assert 0 < worst <= lattice.sensitivity - math.sqrt(2)


def test_sums_that_64_bits_cannot_hold_are_refused():
    with pytest.raises(UserError, match="64-bit"):
        calibrate(2.0).check_total(10**12)
    calibrate(2.0).check_total(10**7)


def rounded_gaussian(ratio: float, reach: int) -> np.ndarray:
    """Masses of a rounded Gaussian of standard deviation 1 on multiples of ``ratio``."""
    k = np.arange(-reach, reach + 1)
    return norm.cdf(ratio * (k + 0.5)) - norm.cdf(ratio * (k - 0.5))


@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.1, 0.02])
def test_the_distance_to_a_rounded_gaussian_is_below_the_bound(ratio):
    """TV <= ratio²/24 (docs/privacy.md §0.6); about half of it for small ratios."""
    reach = math.ceil(12 / ratio)
    discrete = np.exp(-((ratio * np.arange(-reach, reach + 1)) ** 2) / 2)
    discrete /= discrete.sum()
    distance = abs(discrete - rounded_gaussian(ratio, reach)).sum() / 2
    assert 0.3 * lattice_distance(ratio, 1) < distance <= lattice_distance(ratio, 1)


@pytest.mark.parametrize("ratio", [0.5, 0.1])
@pytest.mark.parametrize("shift", [1, 3])
def test_the_priced_profile_covers_the_discrete_gaussian_itself(ratio, shift):
    """δ(ε) of two discrete Gaussians, summed up exactly, against GDP and the distance."""
    k = np.arange(-math.ceil(15 / ratio), math.ceil(15 / ratio) + 1)
    weights = np.exp(-((ratio * k) ** 2) / 2)
    moved = np.exp(-((ratio * (k - shift)) ** 2) / 2)
    total, mu = weights.sum(), ratio * shift
    for epsilon in (0.0, 0.3, 1.0):
        exact = np.maximum(moved - math.exp(epsilon) * weights, 0).sum() / total
        distance = (1 + math.exp(epsilon)) * lattice_distance(ratio, 1)
        assert exact <= gdp_delta(mu, epsilon) + distance


def test_the_distance_is_paid_for_in_compositions():
    event = event_of(calibrate(2.0))
    continuous = replace(event, spacing=0.0)
    ours, theirs = price(event, *CLAIM, 1e-5), price(continuous, *CLAIM, 1e-5)
    assert ours.mu == theirs.mu and ours.total_variation == event.total_variation > 0
    assert theirs.epsilon < ours.epsilon < theirs.epsilon + 1e-5
    both = compose_groups([((ours, ours), 5)], 1e-5)
    mu = math.sqrt(10) * ours.mu
    assert gdp_epsilon(mu, 1e-5) < both < gdp_epsilon(mu, 1e-5) + 1e-4
    assert replace(event, count=7).total_variation / event.total_variation == pytest.approx(7)


@pytest.mark.parametrize("runs", [1, 30])
def test_noise_and_its_distance_together_spend_no_more_than_delta(runs):
    """With a distance so large that what it takes of δ is seen."""
    event = replace(event_of(calibrate(0.3)), spacing=0.0)
    one = replace(price(event, *CLAIM, 1e-5), total_variation=1e-8)
    epsilon = compose_groups([((one,), runs)], 1e-5)
    of_noise = gdp_delta(math.sqrt(runs) * one.mu, epsilon)
    of_distance = (1 + math.exp(epsilon)) * runs * one.total_variation
    assert 0.5e-5 < of_noise + of_distance <= 1e-5 * (1 + 1e-9) and of_distance > 2e-9 * runs
