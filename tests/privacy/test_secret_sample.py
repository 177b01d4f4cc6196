"""A secret sample amplifies the composition of what was released of it, once."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import compose_groups, gdp_delta, gdp_epsilon, price
from private_graphs.privacy.events import SecretSample
from private_graphs.privacy.queries import ExponentialChoice, GaussianQuery, PoissonSums
from private_graphs.privacy.secret_samples import amplified_epsilon, inner_epsilon

DELTA = 1e-5
GAUSSIAN = {"unit": "node", "relation": "replace", "reason": "by assumption"}
ROWS = GaussianQuery(count=1, sensitivity=math.sqrt(140) * 0.01, noise_std=0.073, **GAUSSIAN)
CHOICES = ExponentialChoice(count=280, sensitivity=0.001, scale=0.01, **GAUSSIAN)
FULL = GaussianQuery(count=100, sensitivity=4.0, noise_std=24.85, **GAUSSIAN)
SUMS = PoissonSums(
    count=400, noise_multiplier=20.0, clip_norm=1.0, rate=60 / 216, terms=2, **GAUSSIAN
)


def _epsilon(*events, delta: float = DELTA) -> float:
    return compose_groups([([price(each, "node", "replace", delta) for each in events], 1)], delta)


@pytest.mark.parametrize(
    ("epsilon", "rate", "amplified"),
    [(8, 0.09, 5.5954406), (8, 0.01, 3.4275010), (8, 0.03, 4.5042302)],
)
def test_amplification_of_one_epsilon_and_back(epsilon, rate, amplified):
    assert amplified_epsilon(epsilon, rate) == pytest.approx(amplified, rel=1e-7)
    assert amplified_epsilon(inner_epsilon(epsilon, rate), rate) == pytest.approx(epsilon)
    assert amplified_epsilon(900.0, rate) == pytest.approx(900 + math.log(rate))


@pytest.mark.parametrize(
    ("event", "epsilon"),
    [(FULL, 7.67460), (replace(ROWS, noise_std=0.05), 12.3238285), (CHOICES, 8.6443977)],
)
def test_prices_of_rows_and_of_full_batches(event, epsilon):
    assert _epsilon(event) == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize(
    ("events", "epsilon"),
    [
        ((ROWS, FULL), 11.79030),
        ((ROWS, SUMS), 9.78123),
        ((CHOICES, FULL), 12.88665),
        ((CHOICES, SUMS), 20.3642),
    ],
)
def test_rows_and_training_compose_before_they_are_amplified(events, epsilon):
    found = _epsilon(*events)
    assert epsilon - 1e-4 < found < epsilon + 3e-4
    sampled = _epsilon(SecretSample(events, 0.09))
    assert sampled == pytest.approx(amplified_epsilon(_epsilon(*events, delta=DELTA / 0.09), 0.09))


@pytest.mark.parametrize("other", [0.0, 0.4, 0.5, 1.0])
def test_two_units_of_which_one_is_read_keep_the_amplified_profile(other):
    """The replaced unit is read with probability ½ and moves the release by μ; else the other
    one is read, which one replacement takes to either."""
    mu, rate, x = 1.0, 0.5, np.linspace(-12, 14, 400_001)
    first, second = ((1 - rate) * norm.pdf(x, other) + rate * norm.pdf(x, mean) for mean in (0, mu))
    for epsilon in (0.3, 1.0, 2.0):
        bound = rate * gdp_delta(mu, epsilon)
        limit = math.exp(amplified_epsilon(epsilon, rate))
        for p, q in ((first, second), (second, first)):
            assert np.maximum(p - limit * q, 0).sum() * (x[1] - x[0]) <= bound * (1 + 1e-6)


def test_several_runs_with_samples_of_their_own_cost_the_sum_at_shares_of_delta():
    event = SecretSample((ROWS, FULL), 0.09)
    priced = price(event, "node", "replace", DELTA)
    alone = price(event, "node", "replace", DELTA / 3)
    plain = price(FULL, "node", "replace", DELTA)
    assert compose_groups([((priced,), 3)], DELTA) == pytest.approx(3 * alone.epsilon)
    beside = compose_groups([((priced,), 2), ((plain,), 1)], DELTA)
    assert beside == pytest.approx(2 * alone.epsilon + _epsilon(FULL, delta=DELTA / 3))


def _delta_of_one_sample(mu: float, rate: float, epsilon: float) -> float:
    """Exact δ where the replaced unit, if sampled, moves Gaussian releases along one direction:
    it is in the one sample of all releases, or in none."""
    x = np.linspace(-mu - 12, mu + 12, 400_001)
    p, q = (
        (1 - rate) * norm.pdf(x) + rate * norm.pdf(x, sign * mu / 2) for sign in (1, -1)
    )  # fmt: skip
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0]))


def test_runs_that_share_a_sample_compose_inside_it():
    """Whoever has seen the first runs of a sample knows who is in it: 80 runs amplified apart would
    promise ε = 5.43 at δ = 1e-4, where δ is 3.6e-4."""
    rate, delta, n_runs = 0.005, 1e-4, 80
    one = replace(FULL, count=1, sensitivity=0.79718, noise_std=1.0)
    named = price(SecretSample((one,), rate, "seed 0"), "node", "replace", delta)
    together = compose_groups([((named,), n_runs)], delta)
    mu = math.sqrt(n_runs) * 0.79718
    assert together == pytest.approx(amplified_epsilon(gdp_epsilon(mu, delta / rate), rate))
    assert _delta_of_one_sample(mu, rate, together) <= delta
    apart = price(SecretSample((one,), rate), "node", "replace", delta)
    promised = compose_groups([((apart,), n_runs)], delta)
    assert promised < together and _delta_of_one_sample(mu, rate, promised) > 3 * delta
    # in groups of any kind: runs of one budget, of others, of a search
    other = price(SecretSample((replace(one, noise_std=2.0),), rate, "seed 0"), "node", "replace",
                  delta)  # fmt: skip
    mixed = compose_groups([((named,), 3), ((other,), 4)], delta)
    mu = 0.79718 * math.sqrt(3 + 4 / 4)
    assert mixed == pytest.approx(amplified_epsilon(gdp_epsilon(mu, delta / rate), rate))


def test_samples_of_different_names_are_amplified_apart_and_nested_ones_as_the_larger():
    def priced(rate, name, count=FULL.count):
        event = SecretSample((replace(FULL, count=count),), rate, name)
        return price(event, "node", "replace", DELTA)

    two = compose_groups([((priced(0.09, "seed 0"),), 1), ((priced(0.09, "seed 1"),), 1)], DELTA)
    assert two == pytest.approx(2 * price(SecretSample((FULL,), 0.09), "node", "replace",
                                          DELTA / 2).epsilon)  # fmt: skip
    nested = compose_groups([((priced(0.03, "seed 0"),), 1), ((priced(0.09, "seed 0"),), 1)], DELTA)
    assert nested == pytest.approx(priced(0.09, "seed 0", 2 * FULL.count).epsilon)
    beside = compose_groups(
        [((priced(0.09, "seed 0"),), 2), ((priced(0.09, ""),), 2),
         ((price(FULL, "node", "replace", DELTA),), 1)], DELTA,
    )  # fmt: skip
    shares = [
        price(SecretSample((replace(FULL, count=count),), 0.09), "node", "replace", DELTA / 4)
        for count in (2 * FULL.count, FULL.count)
    ]
    alone = _epsilon(FULL, delta=DELTA / 4)
    assert beside == pytest.approx(shares[0].epsilon + 2 * shares[1].epsilon + alone)


def test_a_sample_amplifies_nothing_where_a_unit_is_added_and_not_a_whole_delta():
    with pytest.raises(UserError, match="replace"):
        SecretSample((GaussianQuery(count=1, sensitivity=1, noise_std=1,
                                    **GAUSSIAN | {"relation": "add_remove"}),), 0.1)  # fmt: skip
    with pytest.raises(UserError, match="share"):
        price(SecretSample((FULL,), 1e-3), "node", "replace", 2e-3)


def test_a_sample_of_a_release_that_proves_nothing_proves_nothing():
    fitted = SecretSample((ROWS, replace(SUMS, fitted_terms=True)), 0.1)
    priced = price(fitted, "node", "replace", DELTA)
    assert priced.epsilon is None and "fitted" in priced.proof
    assert compose_groups([((priced,), 3)], DELTA) is None
