"""Noisy sums along edges and Poisson steps together: what papers print, what is proved.

The numbers of ProGAP and GAP (Sajadmanesh & Gatica-Perez) are those of their accountant, of the
formulas written out and of dp-accounting, computed apart from this code.
"""

from __future__ import annotations

import math

import pytest

from private_graphs.privacy.accountants import compose_groups, gdp_epsilon, gdp_mu, price
from private_graphs.privacy.queries import GaussianQuery, PoissonSums
from private_graphs.privacy.query_calibration import renyi_scale, scale_noise
from private_graphs.privacy.renyi import (
    Releases,
    mironov_epsilon,
    renyi_epsilon,
    simple_epsilon,
    simple_mu,
)

RATE, BOUND = 256 / 19804, 100


def mixed(scale: float, hops: int, steps: int, relation: str = "replace", ratio: float = 1.0):
    """``hops`` noisy sums over lists of at most BOUND and ``steps`` Poisson steps."""
    moved = (2 if relation == "replace" else 1) * math.sqrt(BOUND)
    words = {"unit": "node_out_list", "relation": relation, "reason": "a test"}
    return (
        GaussianQuery(
            count=hops, sensitivity=moved, noise_std=ratio * scale * math.sqrt(BOUND), **words
        ),
        PoissonSums(count=steps, noise_multiplier=scale, clip_norm=1.0, rate=RATE, **words),
    )


def proved(events, delta: float = 1e-5, runs: int = 1) -> float:
    priced = [price(each, each.unit, each.relation, delta) for each in events]
    return compose_groups([(priced, runs)], delta)


@pytest.mark.parametrize(
    ("hops", "noise", "delta", "printed", "directed", "undirected"),
    [(1, 1, 1e-5, 5.298526, 4.377178, 6.572970), (2, 5, 1e-7, 1.645894, 1.348289, 1.956074)],
)
def test_edge_level_formulas(hops, noise, delta, printed, directed, undirected):
    mu = math.sqrt(hops) / noise
    assert simple_epsilon(mu, delta) == pytest.approx(printed, abs=1e-6)
    assert gdp_epsilon(mu, delta) == pytest.approx(directed, abs=1e-6)
    assert gdp_epsilon(math.sqrt(2) * mu, delta) == pytest.approx(undirected, abs=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "released", "paper"),
    [
        (1, 1e-7, (4.6787, 6.6166, 8.1037, 9.3573, 10.4618), 5.7644),
        (4, 1e-7, (1.2978, 1.8354, 2.2479, 2.5957, 2.9021), 1.5026),
        (1, 1e-8, (5.1003, 7.2129, 8.8340, 10.2006, 11.4046), 6.1510),
    ],
)
def test_noise_at_edge_level(epsilon, delta, released, paper):
    for hops, noise in enumerate(released, start=1):
        assert math.sqrt(hops) / gdp_mu(epsilon, delta) == pytest.approx(noise, abs=6e-5)
    assert 1 / simple_mu(epsilon, delta) == pytest.approx(paper, abs=6e-5)


@pytest.mark.parametrize(
    ("delta", "proved_at"),
    [
        (1e-7, {0.25: 0.3604, 0.5: 0.7216, 1: 1.4476, 2: 2.9132, 4: 5.8929}),
        (1e-8, {0.25: 0.3593, 0.5: 0.7193, 1: 1.4426, 2: 2.9012, 4: 5.8620}),
    ],
)
def test_an_undirected_edge_moves_two_rows(delta, proved_at):
    for printed, epsilon in proved_at.items():
        noise = math.sqrt(5) / gdp_mu(printed, delta)
        event = GaussianQuery(
            unit="edge_undirected", relation="add_remove", reason="a test",
            count=5, sensitivity=math.sqrt(2), noise_std=noise,
        )  # fmt: skip
        assert proved((event,), delta) == pytest.approx(epsilon, abs=6e-5)
        if printed == 1 and delta == 1e-7:  # 20 configurations, 10 repeats
            assert proved((event,), delta, 200) == pytest.approx(30.7, abs=0.05)


def test_node_level_values():
    releases = (Releases(2, 2), Releases(1, 2310, RATE))
    assert mironov_epsilon(releases, 1e-5) == pytest.approx(5.98847, abs=1e-5)
    assert renyi_epsilon(releases, 1e-5) == pytest.approx(5.36297, rel=3e-3)
    for relation, epsilon in (("zero_out", 4.92222), ("replace", 9.62931)):
        found = proved(mixed(1, 2, 2310, relation, ratio=2))
        assert epsilon - 1e-6 < found < epsilon + 2e-4


@pytest.mark.parametrize(
    ("hops", "accounted", "taken", "released", "zero_out", "replace", "needed"),
    [(4, 1930, 1925, 1.3438, 7.4343, 17.390, 2.4958)],
)
def test_one_scale_for_all_noise(hops, accounted, taken, released, zero_out, replace, needed):
    def printed(scale):
        return Releases(scale, hops), Releases(scale, accounted, RATE)

    scale = renyi_scale(8, 1e-5, printed, renyi_epsilon)
    assert scale == pytest.approx(released, rel=0.01)
    assert renyi_scale(8, 1e-5, printed, mironov_epsilon) > scale
    for relation, epsilon in (("zero_out", zero_out), ("replace", replace)):
        assert proved(mixed(released, hops, taken, relation)) == pytest.approx(epsilon, abs=3e-3)
    scale = scale_noise(8, 1e-5, lambda scale: mixed(scale, hops, taken))
    assert scale == pytest.approx(needed, rel=1e-3)
    assert 7.99 < proved(mixed(scale, hops, taken)) <= 8
