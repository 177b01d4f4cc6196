"""Noise whose coordinates share a scale: closed forms, held against draws and integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from private_graphs.attacks.shared_scale import (
    PUBMED,
    StarTraining,
    epsilon_shown,
    event_odds,
    single_delta,
)
from private_graphs.privacy.accountants import gdp_delta


def test_what_an_accountant_of_one_dimension_claims_is_refuted_on_pubmed():
    training = StarTraining(15_774, 4096, 9, 1, PUBMED)
    assert training.steps == 34 and training.delta == pytest.approx(2.41e-5, rel=1e-3)
    scale = training.scale(2.0)
    assert scale == pytest.approx(9.794, abs=1e-2)  # by the accountant of the authors' own file
    for stars, least in ((False, 299), (True, 1216)):
        shown = epsilon_shown(scale, PUBMED, 34, training.mixture(stars), training.delta)
        assert shown > least


@pytest.mark.parametrize(("neighbours", "epsilon", "scale"), [(1, 8, 2.812), (3, 2, 17.979)])
def test_scales_are_those_of_the_authors_accountant(neighbours, epsilon, scale):
    training = StarTraining(15_774, 4096, 9, neighbours, PUBMED)
    assert training.scale(epsilon) == pytest.approx(scale, abs=1e-2)
    assert sum(p for p, _ in training.mixture()) < 1


@pytest.mark.parametrize("dimensions", [8, 40, 500])
@pytest.mark.parametrize("threshold", [4.0, 8.0])
def test_the_event_is_at_least_as_likely_with_the_unit_and_at_most_without(dimensions, threshold):
    """Both probabilities from which ε follows are held against 400,000 drawn trainings."""
    scale, steps, runs = 2.0, 3, 400_000
    mixture = [(0.3, 0.5), (0.2, 1.0)]
    least, log_most = event_odds(threshold, scale, dimensions, steps, mixture)
    rng = np.random.default_rng(0)

    def rate(moved: bool) -> float:
        shift = rng.choice([0, 0.5, 1.0], p=[0.5, 0.3, 0.2], size=(runs, steps)) * moved
        w = rng.exponential(size=(runs, steps))
        along = shift + scale * np.sqrt(w) * rng.standard_normal((runs, steps))
        squares = rng.chisquare(dimensions - 1, size=(runs, steps)) / (dimensions - 1)
        return (along > threshold * scale * np.sqrt(w * squares)).any(axis=1).mean()

    with_unit, most = rate(True), math.exp(log_most)
    assert 0 < least < with_unit + 6 * math.sqrt(with_unit / runs)
    assert rate(False) < most + 6 * math.sqrt(most / runs)
    assert dimensions < 500 or least > with_unit / 2


@pytest.mark.parametrize("dimensions", [3, 10, 1000])
def test_no_bound_of_one_release_exceeds_its_exact_profile(dimensions):
    for delta in (0.2, 0.05, 0.01):
        shown = epsilon_shown(2.0, dimensions, 1, [(1.0, 0.7)], delta)
        assert single_delta(np.array([shown]), 0.35, dimensions)[0] >= delta * 0.98


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_delta_in_three_dimensions_is_that_of_its_density(epsilon):
    """In three dimensions the density is e^(-√2 r) / r, and the set of large losses a region of
    the plane of two distances: integrated in polar coordinates around the moved centre."""
    shift, root = 0.7, math.sqrt(2)
    r, cosine = np.linspace(1e-4, 14, 6000)[:, None], np.linspace(-1, 1, 2001)
    other = np.sqrt(r**2 + shift**2 + 2 * r * shift * cosine)
    gain = np.maximum(0, np.exp(-root * r) / r - np.exp(epsilon - root * other) / other)
    exact = np.trapezoid(np.trapezoid(gain, cosine) * r[:, 0] ** 2 / 2, r[:, 0])
    exact /= np.trapezoid(np.exp(-root * r[:, 0]) * r[:, 0], r[:, 0])
    assert single_delta(np.array([epsilon]), shift, 3)[0] == pytest.approx(exact, rel=0.01)


def test_in_very_many_dimensions_the_scale_is_known():
    """δ is the mean over W of that of Gaussian noise with this scale."""
    w = np.geomspace(1e-9, 60, 20_000)
    deltas = [gdp_delta(0.7 / math.sqrt(each), 1.0) for each in w]
    known = np.trapezoid(deltas * np.exp(-w), w)
    assert single_delta(np.array([1.0]), 0.7, 1000)[0] == pytest.approx(known, rel=0.01)


def test_more_dimensions_hide_less():
    epsilons = np.array([0.0, 1.0, 3.0])
    deltas = [single_delta(epsilons, 0.7, dimensions) for dimensions in (1, 3, 10, 1000)]
    assert (np.diff([each[1:] for each in deltas], axis=0) > 0).all()
    np.testing.assert_allclose([each[0] for each in deltas], deltas[0][0], rtol=5e-3)
