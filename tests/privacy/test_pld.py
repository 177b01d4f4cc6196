"""Privacy loss distributions: two routes, library traps, monotonicity."""

from __future__ import annotations

import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from private_graphs.core.errors import UsageError, UserError
from private_graphs.privacy import losses
from private_graphs.privacy.accountants import gdp_epsilon
from private_graphs.privacy.fourier import fourier_epsilon
from private_graphs.privacy.gradient_prices import pld_epsilon
from private_graphs.privacy.losses import SampledGaussian, _gaussian_deltas
from private_graphs.privacy.named_accountants import epsilon_for

DELTA = 1e-5

POISSON = [
    (0.1, 4, 5000, "add_remove", 8.79792), (0.1, 4, 5000, "zero_out", 8.79792),
    (0.1, 4, 5000, "replace", 20.60497), (0.25, 20, 8000, "add_remove", 4.99011),
    (0.25, 20, 8000, "zero_out", 4.99011), (0.25, 20, 8000, "replace", 11.47668),
]  # fmt: skip


@pytest.mark.parametrize(("rate", "noise", "steps", "relation", "epsilon"), POISSON)
def test_poisson_sampling_by_two_routes(
    rate: float, noise: float, steps: int, relation: str, epsilon: float
) -> None:
    estimate = fourier_epsilon(noise, steps, rate, DELTA, relation)
    assert estimate == pytest.approx(epsilon, abs=6e-6)
    assert -1e-6 <= pld_epsilon(noise, steps, rate, DELTA, relation) - estimate <= 2e-4


def test_many_steps_are_priced_in_groups_and_hardly_above_the_other_route(monkeypatch) -> None:
    """One composition of 10^8 steps takes minutes."""
    exact = pld_epsilon(20, 30_000, 0.001, 1e-5, "add_remove")
    monkeypatch.setattr(losses, "_AT_ONCE", 1000)
    losses.pld_of.cache_clear()
    grouped = pld_epsilon(20, 30_000, 0.001, 1e-5, "add_remove")
    losses.pld_of.cache_clear()
    assert exact - 1e-9 <= grouped <= exact + 1e-3
    other = fourier_epsilon(20, 10**8, 0.001, 1e-5, "add_remove")
    assert other <= pld_epsilon(20, 10**8, 0.001, 1e-5, "add_remove") <= 1.01 * other
    few, many = ((1, 10**5, 1e-5), (1, 10**9, 1e-9))  # the same product, hardly any loss
    assert pld_epsilon(*many, 1e-5, "add_remove") == pytest.approx(
        pld_epsilon(*few, 1e-5, "add_remove"), rel=0.02
    )


@pytest.mark.parametrize(
    ("noise", "rate", "delta", "relation", "named", "exact"),
    [
        (1, 1, 1e-100, "add_remove", "gdp", 21.6275080936),  # mpmath, 60 digits
        (1, 1, 1e-30, "replace", "gdp", None),
        (1, 0.5, 1e-20, "add_remove", "moments", None),
        (1, 0.5, 1e-20, "replace", None, None),
        (1e300, 1, 1e-100, "add_remove", "gdp", 0.0),
    ],
)
def test_where_there_is_no_answer_the_accountant_that_has_one_is_named(
    noise, rate, delta, relation, named, exact
) -> None:
    with pytest.raises(UserError, match="no finite epsilon") as raised:
        epsilon_for("pld", noise, 1, rate, delta, relation)
    assert "SampledGaussian" not in str(raised.value) and "=(" not in str(raised.value)
    if named is None:
        assert "accountant gdp" not in str(raised.value) and "moments" not in str(raised.value)
        return
    assert f"the accountant {named}" in str(raised.value)
    found = epsilon_for(named, noise, 1, rate, delta, relation)
    assert found == pytest.approx(exact) if exact is not None else 0 < found < 50


@pytest.mark.parametrize("accountant", ["pld", "gdp", "moments"])
def test_a_number_of_steps_that_nobody_takes_is_refused_at_once(accountant) -> None:
    for steps in (10**12 + 1, 10**400, float("inf"), float("nan")):
        with pytest.raises(UsageError, match="expected a whole number of at least 1, at most"):
            epsilon_for(accountant, 1.0, steps, 1.0, 1e-5, "add_remove")


@pytest.mark.parametrize("relation", ["add_remove", "zero_out", "replace"])
@pytest.mark.parametrize(("noise", "steps"), [(4, 100), (50, 100), (112, 2000), (2, 500)])
def test_rate_one_agrees_with_exact_gaussian_dp(noise: float, steps: int, relation: str) -> None:
    factor = 2 if relation == "replace" else 1
    exact = gdp_epsilon(factor * math.sqrt(steps) / noise, DELTA)
    assert -1e-6 <= pld_epsilon(noise, steps, 1, DELTA, relation) - exact <= 2e-4
    assert fourier_epsilon(noise, steps, 1, DELTA, relation) == pytest.approx(exact, abs=1e-7)


def _one_step_delta(noise: float, rate: float, epsilon: float) -> float:
    """δ of one Poisson-sampled step under replace, by thirty-digit quadrature."""
    with mpmath.workdps(30):
        q, sigma, e = mpmath.mpf(rate), mpmath.mpf(noise), mpmath.exp(mpmath.mpf(epsilon))
        assert sigma >= 1  # brackets the crossing below

        def gap(x: mpmath.mpf) -> mpmath.mpf:
            still = (1 - q) * mpmath.npdf(x, 0, sigma)
            upper = still + q * mpmath.npdf(x, 1, sigma)
            lower = still + q * mpmath.npdf(x, -1, sigma)
            return upper - e * lower

        start = mpmath.findroot(gap, (2 * sigma, 6 * sigma), solver="bisect")
        return float(
            mpmath.quad(gap, [start, start + sigma, start + 4 * sigma, start + 20 * sigma])
        )


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.1), (2.0, 0.5)])
def test_one_replaced_step_agrees_with_quadrature(noise: float, rate: float) -> None:
    epsilon = pld_epsilon(noise, 1, rate, DELTA, "replace")
    assert _one_step_delta(noise, rate, epsilon) <= DELTA
    assert _one_step_delta(noise, rate, epsilon - 3e-4) >= DELTA


@settings(max_examples=8)
@given(st.floats(0.1, 0.9), st.floats(2, 60), st.integers(500, 4000), st.booleans())
def test_library_never_undercuts_the_independent_route(
    rate: float, noise: float, steps: int, replaced: bool
) -> None:
    relation = "replace" if replaced else "zero_out"
    # beyond this the losses are in the hundreds, where both routes lose digits and none is of use
    assume(rate * math.sqrt(steps) / noise < 5)
    estimate = fourier_epsilon(noise, steps, rate, DELTA, relation)
    priced = pld_epsilon(noise, steps, rate, DELTA, relation)
    assert estimate is not None
    assert -1e-6 <= priced - estimate <= 2e-4 * max(1.0, priced / 10)


def test_independent_route_admits_where_it_is_unreliable() -> None:
    assert fourier_epsilon(1.0, 1, 0.1, DELTA, "replace") is None
    assert fourier_epsilon(0.01, 100, 0.1, DELTA, "replace") is None


def test_tiny_noise_is_priced_in_bounded_memory() -> None:
    assert pld_epsilon(0.01, 100, 0.1, DELTA, "replace") > 1e5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 1, DELTA, "replace"), "noise multiplier is 0"),
        ((1, 0, 1, DELTA, "replace"), "steps is 0"),
        ((1, 1, 0, DELTA, "replace"), "sampling rate is 0"),
        ((1, 1, 1.5, DELTA, "replace"), "sampling rate is 1.5"),
        ((1, 1, 1, 1.0, "replace"), "delta is 1.0"),
        ((1, 1, 1, DELTA, "replaced"), "did you mean 'replace'"),
    ],
)
def test_wrong_arguments_name_the_value(arguments: tuple, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pld_epsilon(*arguments)


def test_gdp_and_moments_load_neither_dp_accounting_nor_torch() -> None:
    code = (
        "import sys\n"
        "from private_graphs.privacy import statements\n"
        "from private_graphs.privacy.named_accountants import noise_for\n"
        "noise_for('gdp', 2.0, 500, 1, 1e-5, 'replace')\n"
        "noise_for('moments', 2.0, 500, 1, 1e-5, 'add_remove')\n"
        "assert not {'dp_accounting', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("rate", [1.0, 0.5, 0.01, 1e-4])
@pytest.mark.parametrize("noise", [0.3, 1.6, 50.0])
@pytest.mark.parametrize("kind", [*AdjacencyType])
def test_the_deltas_of_a_whole_grid_are_those_of_the_library_point_by_point(rate, noise, kind):
    loss = GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=kind)
    bounds = loss.connect_dots_bounds()
    ends = (bounds.epsilon_lower - 0.01, bounds.epsilon_upper + 0.01)
    epsilons = np.sort([*np.linspace(*ends, 101), 0.0, 1e-9, -1e-9])
    deltas = _gaussian_deltas(loss, epsilons)
    assert deltas == pytest.approx(loss.get_delta_for_epsilon(epsilons), rel=0, abs=1e-14)


@pytest.mark.parametrize(("relation", "same"), [
    ("replace", NeighboringRelation.REPLACE_ONE),
    ("zero_out", NeighboringRelation.REPLACE_SPECIAL),
    ("add_remove", NeighboringRelation.ADD_OR_REMOVE_ONE),
])  # fmt: skip
@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_a_sampled_gaussian_has_the_price_of_the_library(relation, same, rate):
    loss = SampledGaussian(1.6, 20, rate, relation)
    interval = 1e-3
    noise = 1.6 / 20**0.5 if rate == 1 else 1.6
    one = from_gaussian_mechanism(noise, value_discretization_interval=interval,
                                  sampling_prob=rate, neighboring_relation=same)  # fmt: skip
    expected = one if rate == 1 else one.self_compose(20)
    ours = loss.pld(interval)
    for delta in (1e-3, 1e-5, 1e-8):
        assert ours.get_epsilon_for_delta(delta) == pytest.approx(
            expected.get_epsilon_for_delta(delta), rel=1e-7
        )
