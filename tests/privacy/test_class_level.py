"""Class- and subclass-level DP-SGD: prices by two routes, and a theorem that is false."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from private_graphs.errors import UserError
from private_graphs.privacy.accountants import price
from private_graphs.privacy.calibration import pld_noise
from private_graphs.privacy.events import PoissonSums
from private_graphs.privacy.renyi import Releases, renyi_epsilon
from private_graphs.studies.inversion import claims
from private_graphs.study import load_study

VECTORS = [  # (q, σ, T, δ), replace relation
    (0.2, 1.6, 100, 1e-3, 9.91143), (0.2, 3.0, 100, 1e-3, 4.45402), (0.2, 3.65, 100, 1e-3, 3.49338),
    (0.2, 1.6, 97, 1e-3, 9.71196), (0.2, 3.0, 159, 1e-3, 5.98585), (0.2, 3.65, 204, 1e-3, 5.47650),
    (0.33, 0.8, 24, 1e-2, 14.68085), (0.33, 1.2, 56, 1e-2, 15.77452),
    (0.33, 1.6, 127, 1e-2, 19.63127), (0.33, 3.0, 100, 1e-3, 8.46989), (0.33, 8, 100, 1e-3, 2.4725),
    (0.2, 1.6, 691, 1e-3, 39.5145), (0.33, 1.6, 735, 1e-2, 81.9744),
]  # fmt: skip


def event(rate, noise, steps, terms=1, fitted=False) -> PoissonSums:
    return PoissonSums(
        unit="class", relation="replace", count=steps, reason="r", clipping="per_class",
        noise_multiplier=noise, clip_norm=3.0, rate=rate, terms=terms, fitted_terms=fitted,
    )  # fmt: skip


@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "epsilon"), VECTORS)
def test_prices_are_the_known_ones_by_two_routes(rate, noise, steps, delta, epsilon):
    priced = price(event(rate, noise, steps), "class", "replace", delta)
    assert priced.epsilon == pytest.approx(epsilon, abs=2e-4)
    assert -1e-6 < priced.epsilon - priced.second_route < 2e-4


def test_a_record_that_changes_its_part_costs_two_terms():
    priced = price(event(0.2, 1.6, 100, terms=2), "class", "replace", 1e-3)
    assert priced.epsilon == pytest.approx(25.400037, abs=2e-4)


def test_parts_that_were_fitted_on_the_records_prove_nothing():
    priced = price(event(0.2, 1.6, 100, fitted=True), "class", "replace", 1e-3)
    assert priced.epsilon is None and "fitted" in priced.proof


@pytest.mark.parametrize(
    ("epsilon", "rate", "noise"),
    [(2, 0.2, 5.769), (5, 0.2, 2.735), (10, 0.2, 1.589), (3, 0.33, 6.830), (8, 0.33, 3.136)],
)
def test_noise_for_an_epsilon(epsilon, rate, noise):
    assert abs(pld_noise(epsilon, 100, rate, 1e-3, "replace") - noise) <= 0.005


def test_theorem_5_is_false_by_a_factor_of_a_hundred():
    noise = claims.theorem5_noise(0.001, 1, 1.0, 1e-5)
    assert noise == pytest.approx(0.0135723, abs=1e-7)
    # its condition on q holds
    assert 0.001 < math.sqrt(1 / (64 * math.sqrt(math.log(1e5)))) * 1.01

    def excess(x: float) -> float:
        out = norm.pdf(x, 0, noise)
        return max(0.0, 0.999 * out + 0.001 * norm.pdf(x, 1, noise) - math.e * out)

    by_quadrature = quad(excess, 0.2, 1.2, points=[0.9, 1, 1.1], limit=500)[0]
    exact = claims.sampled_delta(0.001, noise, 1.0)
    assert exact == pytest.approx(by_quadrature, abs=1e-9) == pytest.approx(1e-3, abs=1e-9)
    assert exact > 99 * 1e-5


def test_the_closed_form_of_delta_is_that_of_a_plain_gaussian_at_rate_one():
    from private_graphs.privacy.accountants import gdp_delta

    for noise in (0.5, 1.0, 3.0):
        assert claims.sampled_delta(1.0, noise, 1.0) == pytest.approx(gdp_delta(1 / noise, 1.0))


@pytest.mark.parametrize(
    ("name", "rate", "delta"), [("faces_class", 0.33, 1e-2), ("mnist_subclass", 0.2, 1e-3)]
)
def test_the_steps_of_printed_rows_are_those_at_which_the_thesis_prints_its_epsilon(
    name, rate, delta
):
    printed = load_study("inversion").configurations[name].settings["printed"]
    for text, (noise, steps) in list(printed.items())[:3]:
        found = renyi_epsilon((Releases(noise / 2, steps, rate),), delta)
        assert found == pytest.approx(float(text), rel=0.02), (name, text)


def test_no_reading_gives_one_number_of_steps():
    class Results:
        study = load_study("inversion")

    for name in ("faces_class", "mnist_subclass"):
        assert claims.steps_ratio(Results, None, name).low > 1.3


def test_delta_above_one_over_the_units_is_refused():
    from private_graphs.privacy.calibration import refuse_large_delta

    with pytest.raises(UserError, match="153"):
        refuse_large_delta(1e-2, 153)
    assert np.isfinite(claims.lemma3(None, None).value) and claims.lemma3(None, None).value > 2
