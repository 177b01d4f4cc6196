"""Exact sampling: discrete noise against its definition and OpenDP."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from private_graphs.mechanisms.exact import (
    LARGEST_STEPS,
    discrete_gaussian,
    discrete_laplace,
)

randomgen = pytest.importorskip("randomgen")


def generator(seed: int, kind: str = "chacha") -> np.random.Generator:
    bits = randomgen.ChaCha(key=seed, rounds=20) if kind == "chacha" else np.random.PCG64(seed)
    return np.random.Generator(bits)


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """p-value, cells with fewer than 10 expected draws joined."""
    expected = counts.sum() * probabilities
    rare = expected < 10
    if rare.any():
        counts = np.r_[counts[~rare], counts[rare].sum()]
        expected = np.r_[expected[~rare], expected[rare].sum()]
    return stats.chisquare(counts, expected).pvalue


GAUSSIAN = discrete_gaussian, lambda values, steps: -(values**2) / (2 * steps**2)
LAPLACE = discrete_laplace, lambda values, steps: -abs(values) / steps
each_noise = pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])


@each_noise
@pytest.mark.parametrize("kind", ["chacha", "pcg64"])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 64])
def test_small_widths_have_the_probabilities_of_the_definition(noise, steps, kind):
    draw, log_weight = noise
    drawn = draw(generator(3, kind), steps, 100_000)
    reach = 25 * steps
    values = np.arange(-reach, reach + 1)
    weights = np.exp(log_weight(values, steps))
    counts = np.bincount(np.clip(drawn + reach, 0, 2 * reach), minlength=2 * reach + 1)
    assert chi_square(counts, weights / weights.sum()) > 1e-5


@pytest.mark.parametrize("steps", [2**30 + 12345, 2**31, LARGEST_STEPS])
def test_wide_noise_is_gaussian_to_the_last_moment(steps):
    drawn = discrete_gaussian(generator(5), steps, (1000, 400)) / steps
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-5
    assert abs(drawn.mean()) < 5 / math.sqrt(drawn.size)
    assert drawn.std() == pytest.approx(1, abs=5 / math.sqrt(2 * drawn.size))
    # the lowest bits are uniform: nothing is rounded to a coarser lattice
    low = discrete_gaussian(generator(6), steps, 200_000) & 7
    assert stats.chisquare(np.bincount(low, minlength=8)).pvalue > 1e-5


@pytest.mark.parametrize("steps", [2**30 + 12345, LARGEST_STEPS])
def test_wide_laplace_noise_is_that_of_the_continuous_law(steps):
    drawn = discrete_laplace(generator(5), steps, 400_000)
    assert stats.kstest(drawn / steps, "laplace").pvalue > 1e-5
    assert stats.chisquare(np.bincount(drawn & 7, minlength=8)).pvalue > 1e-5
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 5 / math.sqrt(len(drawn))


@pytest.mark.parametrize("steps", [1, 4])
def test_opendp_draws_the_same_distribution(steps):
    """OpenDP is the oracle: its discrete Gaussian by rational arithmetic (Canonne et al. 2020)."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    n = 20_000
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=n), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=float(steps))([0] * n))
    ours = discrete_gaussian(generator(11), steps, 50 * n)
    edges = np.r_[-np.inf, np.arange(-3 * steps, 3 * steps + 1) - 0.5, np.inf]
    table = np.stack([np.histogram(each, edges)[0] for each in (theirs, ours)])
    assert stats.chi2_contingency(table).pvalue > 1e-5


def test_draws_are_a_function_of_the_bits_alone():
    many = discrete_gaussian(generator(7), 2**30, 5000)
    np.testing.assert_array_equal(discrete_gaussian(generator(7), 2**30, 40), many[:40])
    assert (discrete_gaussian(generator(8), 2**30, 5000) != many).all()


@pytest.mark.parametrize("steps", [0, LARGEST_STEPS + 1])
def test_other_widths_are_refused(steps):
    with pytest.raises(ValueError, match="steps"):
        discrete_gaussian(generator(0), steps, 1)
