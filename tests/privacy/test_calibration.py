"""Noise for a wanted ε: published tables, the safe side, refusals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from private_graphs.core.errors import UsageError, UserError
from private_graphs.privacy import calibration
from private_graphs.privacy.calibration import gdp_noise, pld_noise, refuse_large_delta
from private_graphs.privacy.gradient_prices import pld_epsilon
from private_graphs.privacy.moments import moments_noise
from private_graphs.privacy.named_accountants import epsilon_for, noise_for

DELTA = 1e-5
EPOCHS = 500

CYCLIC = [(1, 166.839, 83.420), (2, 89.166, 44.583), (5, 39.886, 19.943), (10, 22.356, 11.178)]
POISSON = [  # ε, splits: by subgraph, by node, the paper's formula
    (1, 2, 59.016, 117.972, 77.539), (1, 100, 8.379, 16.684, 10.993),
    (2, 10, 14.137, 28.195, 17.715), (5, 4, 10.018, 19.938, 11.842),
    (10, 2, 7.943, 15.800, 9.056), (10, 100, 1.309, 2.240, 1.452),
]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "node", "zero_out"), CYCLIC)
def test_noise_of_the_cyclic_schedule(epsilon: int, node: float, zero_out: float) -> None:
    assert gdp_noise(epsilon, EPOCHS, DELTA, "replace") == pytest.approx(node, abs=1.5e-3)
    assert gdp_noise(epsilon, EPOCHS, DELTA, "zero_out") == pytest.approx(zero_out, abs=1.5e-3)
    assert gdp_noise(epsilon, EPOCHS, DELTA, "add_remove") == gdp_noise(
        epsilon, EPOCHS, DELTA, "zero_out"
    )


@pytest.mark.parametrize(("epsilon", "splits", "subgraph", "node", "formula"), POISSON)
def test_noise_of_poisson_splits_and_of_the_paper(
    epsilon: int, splits: int, subgraph: float, node: float, formula: float
) -> None:
    steps, rate = splits * EPOCHS, 1 / splits
    assert moments_noise(epsilon, steps, rate, DELTA) == pytest.approx(formula, abs=1.5e-3)
    for relation, expected in (("zero_out", subgraph), ("replace", node)):
        enough, less = (pld_epsilon(expected + step, steps, rate, DELTA, relation)
                        for step in (1.5e-3, -1.5e-3))  # fmt: skip
        assert enough <= epsilon < less, relation


def _check_safe_side(epsilon_of, noise: float, target: float) -> None:
    assert round(1000 * noise) / 1000 == noise
    assert epsilon_of(noise) <= target
    assert noise <= 0.001 or epsilon_of(noise - 0.001) > target


@settings(max_examples=40)
@given(
    st.floats(0.05, 100),
    st.integers(1, 5000),
    st.floats(1e-10, 1e-2),
    st.sampled_from(["add_remove", "zero_out", "replace"]),
)
def test_gdp_noise_is_the_smallest_that_holds(
    epsilon: float, epochs: int, delta: float, relation: str
) -> None:
    noise = gdp_noise(epsilon, epochs, delta, relation)
    _check_safe_side(lambda x: epsilon_for("gdp", x, epochs, 1, delta, relation), noise, epsilon)


@settings(max_examples=4)
@given(st.floats(0.5, 15), st.integers(100, 3000), st.floats(0.05, 0.9))
def test_pld_noise_is_the_smallest_that_holds(epsilon: float, steps: int, rate: float) -> None:
    noise = pld_noise(epsilon, steps, rate, DELTA, "replace")
    _check_safe_side(lambda x: pld_epsilon(x, steps, rate, DELTA, "replace"), noise, epsilon)


def test_moments_floor_is_named() -> None:
    with pytest.raises(UsageError, match=r"0\.3598"):
        moments_noise(0.3, 2000, 1, DELTA)
    with pytest.raises(UsageError, match=r"0\.3598"):
        noise_for("moments", math.log(1e5) / 32, 2000, 1, DELTA, "add_remove")
    assert moments_noise(0.36, 2000, 1, DELTA) > 1000


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("accountant", ["moments", "gdp", "pld"])
def test_epsilon_must_be_positive(accountant: str, epsilon: float) -> None:
    with pytest.raises(UsageError, match="epsilon is"):
        noise_for(accountant, epsilon, 100, 1, DELTA, "add_remove")


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, math.nan])
def test_delta_must_lie_between_zero_and_one(delta: float) -> None:
    for accountant in ("moments", "gdp", "pld"):
        with pytest.raises(UsageError, match="delta is"):
            noise_for(accountant, 2, 100, 1, delta, "add_remove")
        with pytest.raises(UsageError, match="delta is"):
            epsilon_for(accountant, 2, 100, 1, delta, "add_remove")


def test_delta_that_could_publish_a_unit_is_refused() -> None:
    refuse_large_delta(1e-5, 99_999)
    with pytest.raises(UserError, match="delta x units = 1.2"):
        refuse_large_delta(1e-3, 1200)


@pytest.mark.parametrize("steep", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("guess", [0.02, 1.0, 50.0])
def test_the_search_finds_the_smallest_thousandth_from_any_guess(steep, guess):
    asked = []

    def epsilon_of(noise):
        asked.append(noise)
        return noise**-steep + math.exp(-3 * noise) if noise > 0.01 else math.inf

    for target in (0.3, 1.0, 5.0):
        asked.clear()
        found = calibration.smallest_noise(epsilon_of, target, guess)
        count = len(asked)
        assert epsilon_of(found) <= target < epsilon_of(found - 0.001)
        assert count <= 25
