"""Class- and subclass-level DP-SGD: prices by two routes, and a theorem that is false."""

from __future__ import annotations

import numpy as np
import pytest

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import price
from private_graphs.privacy.calibration import pld_noise
from private_graphs.privacy.queries import PoissonSums
from private_graphs.studies.inversion import claims

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


def test_delta_above_one_over_the_units_is_refused():
    from private_graphs.privacy.calibration import refuse_large_delta

    with pytest.raises(UserError, match="153"):
        refuse_large_delta(1e-2, 153)
    assert np.isfinite(claims.lemma3(None, None).value) and claims.lemma3(None, None).value > 2
