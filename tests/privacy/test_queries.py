"""Gaussian, Laplace, exponential, pure, concentrated and sampled releases, and how they add up."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import laplace, norm

from private_graphs.core.errors import UserError
from private_graphs.privacy import query_losses
from private_graphs.privacy.accountants import compose_groups, gdp_epsilon, price
from private_graphs.privacy.events import FullBatch, NoisyGradients
from private_graphs.privacy.fourier import fourier_of
from private_graphs.privacy.losses import SampledGaussian, pld_of
from private_graphs.privacy.queries import (
    ConcentratedQuery,
    ExponentialChoice,
    GaussianQuery,
    LaplaceQuery,
    PoissonSums,
    PureQuery,
    Query,
)
from private_graphs.privacy.query_losses import (
    ConcentratedLoss,
    LaplaceLoss,
    PureLoss,
    SampledTerms,
    composed,
    pure_epsilon,
    zcdp_epsilon,
    zcdp_epsilon_library,
)

DELTA = 1e-5
CLAIM = ("node", "replace")


def _of(kind: type, count: int = 1, **fields: object) -> Query:
    given = {"unit": "node", "relation": "replace", "count": count, "reason": "by assumption"}
    return kind(**{**given, **fields})


def _epsilon(event: Query, delta: float = DELTA) -> float:
    return price(event, event.unit, event.relation, delta).epsilon


# --- pure DP ------------------------------------------------------------------------------------


def _advanced(count: int, epsilon: float) -> float:
    """Corollary 3: basic composition, or KOV's advanced one, of choices that are 2ε-DP each."""
    each = 2 * epsilon
    drift = count * each * math.tanh(each / 2)
    return min(count * each, drift + each * math.sqrt(-2 * count * math.log(DELTA)))


@pytest.mark.parametrize(("count", "published"), [(4, 0.8), (100, 11.59041)])
def test_exponential_choices_stay_below_the_published_composition(
    count: int, published: float
) -> None:
    assert _advanced(count, 0.1) == pytest.approx(published, abs=6e-6)
    event = _of(ExponentialChoice, count, sensitivity=1, scale=10)
    assert event.bounded_range == 0.2
    assert _epsilon(event) <= published
    assert pure_epsilon(0.2, count, DELTA) <= published
    rho = count * 0.1**2 / 2
    assert _epsilon(event) <= rho + 2 * math.sqrt(-rho * math.log(DELTA))


def test_monotone_scores_halve_the_range() -> None:
    plain = _of(ExponentialChoice, 50, sensitivity=1, scale=2)
    monotone = replace(plain, monotone=True)
    assert (plain.bounded_range, monotone.bounded_range) == (1.0, 0.5)
    assert _epsilon(monotone) < _epsilon(plain)


def test_range_of_the_exponential_mechanism_is_attained_and_never_passed() -> None:
    rng = np.random.default_rng(0)
    event = _of(ExponentialChoice, sensitivity=1, scale=2)
    widest = 0.0
    for _ in range(200):
        scores = rng.uniform(-5, 5, 6)
        moved = scores + rng.choice([-1, 1], 6)
        logs = [each / 2 - np.logaddexp.reduce(each / 2) for each in (scores, moved)]
        ratio = logs[0] - logs[1]
        widest = max(widest, float(np.ptp(ratio)))
        assert np.abs(ratio).max() <= event.bounded_range + 1e-12
    assert widest == pytest.approx(event.bounded_range)


def _randomised_response_delta(epsilon0: float, steps: int, epsilon: float) -> float:
    """δ(ε) by enumerating all answers of both worlds."""
    p = 1 / (1 + math.exp(-epsilon0))
    total = 0.0
    for answers in range(2**steps):
        ones = answers.bit_count()
        first = p**ones * (1 - p) ** (steps - ones)
        second = (1 - p) ** ones * p ** (steps - ones)
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


@pytest.mark.parametrize(("epsilon0", "steps"), [(1.0, 5), (0.3, 8)])
def test_exact_composition_of_pure_releases_by_enumeration(epsilon0: float, steps: int) -> None:
    epsilon = pure_epsilon(epsilon0, steps, 1e-3)
    assert _randomised_response_delta(epsilon0, steps, epsilon) == pytest.approx(1e-3, rel=1e-6)
    assert pld_of((PureLoss(epsilon0, steps, 0.5),), 1e-3) == pytest.approx(epsilon, abs=1e-6)


# --- Laplace ------------------------------------------------------------------------------------


def _laplace_delta(size: float, epsilon: float) -> float:
    """δ(ε) of one number moved by ``size`` scales, by quadrature."""

    def excess(x: float) -> float:
        return max(0.0, laplace.pdf(x, size) - math.exp(epsilon) * laplace.pdf(x))

    return quad(excess, size / 2, size + 40, points=[size], limit=200)[0]


def test_one_laplace_release_is_priced_by_its_closed_form() -> None:
    event = _of(LaplaceQuery, sensitivity=2, scale=1.5)
    priced = price(event, *CLAIM, 0.05)
    assert priced.second_route == pytest.approx(4 / 3 + 2 * math.log1p(-0.05))
    assert priced.epsilon == pytest.approx(priced.second_route, abs=1e-4)
    assert priced.epsilon >= priced.second_route
    assert _laplace_delta(4 / 3, priced.second_route) == pytest.approx(0.05, abs=1e-6)


def test_a_vector_under_laplace_noise_is_priced_as_pure_privacy() -> None:
    scalar = _of(LaplaceQuery, 10, sensitivity=1, scale=5)
    vector = replace(scalar, dimension=3)
    assert _epsilon(vector) == _epsilon(_of(PureQuery, 10, epsilon=0.2))
    assert _epsilon(scalar) < _epsilon(vector) <= 2.0


@pytest.mark.parametrize("steps", [700, 1000])
def test_many_laplace_releases_by_two_routes(steps: int) -> None:
    loss = (LaplaceLoss(10.0, steps),)
    second = fourier_of(loss, DELTA)
    assert second is not None
    assert -1e-6 <= pld_of(loss, DELTA) - second <= 2e-4


@pytest.mark.parametrize(
    ("event", "epsilon"),
    [
        (_of(LaplaceQuery, sensitivity=1000, scale=1), 1000.0),
        (_of(PureQuery, 1000, epsilon=50.0), 50_000.0),
        (_of(PureQuery, 2, epsilon=0.5), 1.0),
    ],
)
def test_pure_releases_never_cost_more_than_their_sum(event: Query, epsilon: float) -> None:
    assert epsilon * (1 - 1e-4) <= _epsilon(event) <= epsilon


# --- zCDP ---------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.floats(1e-3, 100), st.floats(1e-9, 1e-2))
def test_concentrated_privacy_by_two_routes(rho: float, delta: float) -> None:
    own, library = zcdp_epsilon(rho, delta), zcdp_epsilon_library(rho, delta)
    stated, _, second = composed((ConcentratedLoss(rho, 1),), delta)
    assert (stated, second) == (max(own, library), min(own, library)), "the larger is stated"
    assert -1e-9 <= library - own <= 2e-4 * max(1, own)
    assert own <= rho + 2 * math.sqrt(-rho * math.log(delta))
    assert own >= gdp_epsilon(math.sqrt(2 * rho), delta) - 1e-9


def test_the_larger_of_two_routes_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (SampledGaussian(2.0, 10, 0.1, "replace"),)
    for other in (0.01, 99.0, None):
        monkeypatch.setattr(query_losses, "_other_route", lambda *_, other=other: other)
        stated, _, second = composed(steps, DELTA)
        assert stated == max(pld_of(steps, DELTA), other or 0) and second == other


# --- sampled terms ------------------------------------------------------------------------------

TERMS = [
    ((0, 0.05, 2, 200, 2e-3), 1.88801),
    ((4, 0.05, 8, 200, 2e-3), 2.48888),
    ((0, 0.05, 2, 200, 1e-5), 2.94882),
    ((4, 0.05, 8, 200, 1e-5), 3.78941),
    ((0, 60 / 216, 12, 400, 1e-5), 4.00183),
    ((1, 60 / 216, 20, 400, 1e-5), 4.94447),
]


@pytest.mark.parametrize(("setting", "expected"), TERMS)
def test_sampled_roots_that_share_a_node(setting: tuple, expected: float) -> None:
    extra, rate, noise, steps, delta = setting
    event = _of(
        PoissonSums, steps, noise_multiplier=noise, clip_norm=0.3, rate=rate, terms=extra + 1
    )
    priced = price(event, *CLAIM, delta)
    assert priced.epsilon == pytest.approx(expected, abs=2e-4)
    assert -1e-6 <= priced.epsilon - priced.second_route <= 2e-4
    assert any("secret" in each for each in priced.conditions)


def test_one_sampled_term_is_the_sampled_gaussian() -> None:
    one, other = SampledTerms(4, 500, 0.1, 1, "replace"), SampledGaussian(4, 500, 0.1, "replace")
    assert pld_of((one,), DELTA) == pytest.approx(pld_of((other,), DELTA), abs=1e-6)


@pytest.mark.parametrize("noise, terms", [(1.0, 1), (0.5, 3), (4.0, 40)])
def test_one_step_of_sampled_terms_spends_no_more_than_delta(noise: float, terms: int) -> None:
    """δ(ε) of the pair by a search for the best half-line."""
    loss, j = SampledTerms(noise, 1, 0.05, terms, "replace"), np.arange(terms + 1)
    epsilon = pld_of((loss,), DELTA)

    def negative(cut: float) -> float:
        above, below = (loss.weights @ norm.cdf((sign * j - cut) / noise) for sign in (1, -1))
        return math.exp(epsilon) * below - above

    ends = minimize_scalar(negative, bounds=(-10 * noise, terms + 10 * noise), method="bounded",
                           options={"xatol": 1e-12})  # fmt: skip
    assert 0.9 * DELTA <= -ends.fun <= DELTA * (1 + 1e-9)


def test_terms_that_hardly_ever_join_cost_nothing() -> None:
    """The loss is so flat that rounding decides where it is ε."""
    assert pld_of((SampledTerms(5, 1, 1e-9, 1, "replace"),), DELTA) == 0


def test_all_terms_at_rate_one_move_the_sum_by_all_of_them() -> None:
    event = _of(PoissonSums, 50, noise_multiplier=60, clip_norm=1, rate=1.0, terms=3)
    exact = gdp_epsilon(2 * 3 * math.sqrt(50) / 60, DELTA)
    assert -1e-6 <= _epsilon(event) - exact <= 2e-4


# --- composition --------------------------------------------------------------------------------


def _some() -> dict[str, Query]:
    return {
        "gaussian": _of(GaussianQuery, 4, sensitivity=1, noise_std=2),
        "laplace": _of(LaplaceQuery, 3, sensitivity=1, scale=5),
        "exponential": _of(ExponentialChoice, 5, sensitivity=1, scale=20),
        "poisson": _of(PoissonSums, 300, noise_multiplier=8, clip_norm=1, rate=0.1),
        "terms": _of(PoissonSums, 200, noise_multiplier=20, clip_norm=1, rate=0.05, terms=3),
        "rho": _of(ConcentratedQuery, 2, rho=0.02),
    }


@pytest.mark.parametrize(
    "names",
    [
        ("gaussian", "exponential", "laplace"),
        ("poisson", "laplace", "exponential"),
        ("terms", "poisson", "gaussian"),
        ("rho", "exponential", "gaussian"),
    ],
)
def test_releases_of_all_kinds_have_one_price(names: tuple[str, ...]) -> None:
    priced = [price(_some()[name], *CLAIM, DELTA) for name in names]
    together = compose_groups([(priced, 1)], DELTA)
    assert max(each.epsilon for each in priced) < together < sum(each.epsilon for each in priced)
    assert together < compose_groups([(priced, 2)], DELTA) < 2 * together
    backwards = compose_groups([(priced[::-1], 1)], DELTA)
    assert together == pytest.approx(backwards, abs=1e-4)


def test_a_mixture_agrees_with_the_independent_route() -> None:
    losses = (SampledGaussian(1, 1, 1.0, "zero_out"), LaplaceLoss(5, 10), PureLoss(0.2, 10, 0.02))
    second = fourier_of(losses, DELTA)
    assert second is not None
    assert -1e-6 <= pld_of(losses, DELTA) - second <= 2e-4


def test_a_mixture_of_gaussians_agrees_with_exact_gaussian_privacy() -> None:
    gradients = NoisyGradients("gradient_global", 1.0, 89.167, 500, 500, FullBatch())
    first, second = price(gradients, *CLAIM, DELTA), price(_some()["gaussian"], *CLAIM, DELTA)
    exact = gdp_epsilon(math.hypot(first.mu, second.mu), DELTA)
    assert compose_groups([([first, second], 1)], DELTA) == pytest.approx(exact)
    weak = price(_of(PureQuery, epsilon=1e-6), *CLAIM, DELTA)
    assert compose_groups([([first, second, weak], 1)], DELTA) == pytest.approx(exact, abs=2e-3)


def test_what_cannot_be_composed_soundly_is_an_error() -> None:
    poisson, rho = (price(_some()[name], *CLAIM, DELTA) for name in ("poisson", "rho"))
    with pytest.raises(UserError, match="not priced"):
        compose_groups([([poisson, rho], 1)], DELTA)
    with pytest.raises(UserError, match="no privacy loss distribution"):
        pld_of((rho.mechanism,), DELTA)
    edge = _of(LaplaceQuery, sensitivity=1, scale=5, unit="edge_undirected", relation="add_remove")
    priced = price(edge, "edge_undirected", "add_remove", DELTA)
    with pytest.raises(UserError, match="different relations or units"):
        compose_groups([([poisson], 1), ([priced], 1)], DELTA)


@pytest.mark.parametrize(("unit", "relation"), [("edge_directed", "replace"), ("node", "zero_out")])
def test_a_sensitivity_holds_for_its_own_claim_only(unit: str, relation: str) -> None:
    with pytest.raises(UserError, match="stated for unit 'node' under replace"):
        price(_some()["gaussian"], unit, relation, DELTA)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("gaussian", {"sensitivity": 0}, "sensitivity is 0"),
        ("gaussian", {"noise_std": math.inf}, "noise_std is inf"),
        ("laplace", {"scale": -1}, "scale is -1"),
        ("laplace", {"dimension": 0}, "dimension is 0"),
        ("exponential", {"count": 0}, "count is 0"),
        ("poisson", {"rate": 1.5}, "sampling rate is 1.5"),
        ("terms", {"terms": 0}, "terms is 0"),
        ("rho", {"rho": math.nan}, "rho is nan"),
    ],
)
def test_impossible_releases_are_refused(name: str, changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(_some()[name], **changes)
