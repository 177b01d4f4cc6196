"""Philox and Box-Muller: known answers, the distribution, and no draw that is used twice."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from private_graphs.training import noise
from private_graphs.training.streams import Streams

ONES = 0xFFFFFFFF
KNOWN = [  # the known answers of the Random123 distribution: counter, key, result
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def philox_in_python(counter, key):
    """Philox4x32-10 in plain integers (Salmon et al., SC 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) & ONES, (k[1] + 0xBB67AE85) & ONES]
    return tuple(c)


def normals(key, step, n, dtype="float64"):
    """The first 4n normals of (key, step)."""
    out, words = np.empty(4 * n, dtype), np.empty((4, n), np.uint32)
    noise.fill_normals(key, step, 0, out, words, np.empty(n, np.float32), np.empty(n, np.float32))
    return out


def key_of(text: str) -> np.ndarray:
    return Streams(text).key("noise")


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_the_known_answers_of_random123(counter, key, expected):
    arguments = [np.uint32(word) for word in (*counter, *key)]
    assert tuple(int(word) for word in noise.philox(*arguments)) == expected
    assert philox_in_python(counter, key) == expected


def test_words_are_philox_of_position_and_step_under_all_128_bits_of_the_key():
    key = np.array([1, 2**31 + 5, ONES, 77], np.uint32)
    words, flat = np.empty((4, 9), np.uint32), np.empty(36, np.uint32)
    noise.fill_words(key, 123456, 0, words)
    noise.fill_flat_words(key, 123456, 1000, flat)
    for i in range(9):
        k0, k1, k2, k3 = key.tolist()
        assert tuple(words[:, i].tolist()) == philox_in_python((i, 123456, k2, k3), (k0, k1))
        expected = philox_in_python((1000 + i, 123456, k2, k3), (k0, k1))
        assert tuple(flat[4 * i : 4 * i + 4].tolist()) == expected


def test_float32_normals_agree_with_libm_in_float64():
    errors = []
    for step in range(10):
        key = key_of(f"agree {step}")
        errors.append(normals(key, step, 50_000, "float32") - normals(key, step, 50_000))
    errors = np.abs(np.concatenate(errors))
    assert np.quantile(errors, 0.9999) < 3e-6
    assert errors.max() < 4e-4  # where 1 - radius bits / 2^40 is below float32's resolution of 1


def test_extreme_bits_give_finite_normals_within_the_stated_bound():
    extreme = np.array([0, 1, 2, 0x7FFFFFFF, 0x80000000, ONES - 1, ONES], np.uint32)
    angles = np.array([0, 1, 2**21, 2**21 - 1, 2**22, 2**23, 3 * 2**22, 2**24 - 1], np.uint32)
    high, low = (grid.ravel() for grid in np.meshgrid(extreme, angles))
    for top in (np.uint32(0), np.uint32(0xFF000000)):  # the radius' lowest eight bits
        low_word = (low | top).astype(np.uint32)
        out64 = np.empty((2, len(high)))
        noise._normals64(high, low_word, out64[0], out64[1])
        out32 = np.empty((2, len(high)), np.float32)
        scratch = np.empty((2, len(high)), np.float32)
        noise._normals32(high, low_word, out32[0], out32[1], scratch[0], scratch[1])
        assert np.isfinite(out32).all() and np.isfinite(out64).all()
        assert np.abs(out64).max() <= np.sqrt(2 * 41 * np.log(2)) + 1e-12
        np.testing.assert_allclose(out32, out64, atol=4e-4, rtol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normals_are_normal(dtype):
    draws = np.concatenate([normals(key_of(f"normal {i}"), i, 65_536, dtype) for i in range(8)])
    draws, n = draws.astype(np.float64), draws.size
    assert n == 2**21
    assert stats.kstest(draws, "norm").pvalue > 1e-4
    assert abs(draws.mean()) < 5 / np.sqrt(n)
    assert abs(draws.var() - 1) < 5 * np.sqrt(2 / n)
    assert abs(stats.skew(draws)) < 5 * np.sqrt(6 / n)
    assert abs(stats.kurtosis(draws)) < 5 * np.sqrt(24 / n)
    for bound in (2.0, 3.0, 4.0, 4.5):
        for found in (np.sum(draws > bound), np.sum(draws < -bound)):
            expected = n * stats.norm.sf(bound)
            assert abs(found - expected) < 5 * np.sqrt(expected)


def test_each_quarter_of_the_draws_is_normal():
    """The four lanes come from sine and cosine of two words; each must be normal by itself."""
    draws = normals(key_of("quarters"), 3, 100_000).reshape(4, -1)
    for lane in draws:
        assert stats.kstest(lane, "norm").pvalue > 1e-4
        assert abs(lane.var() - 1) < 5 * np.sqrt(2 / lane.size)


def test_replicas_steps_and_coordinates_are_uncorrelated():
    n = 50_000
    key = key_of("a")
    flipped = [key ^ np.array([int(i == word) for i in range(4)], np.uint32) for word in range(4)]
    rows = [normals(key, 0, n), normals(key, 1, n), normals(key_of("b"), 0, n)]
    rows += [normals(each, 0, n) for each in flipped]  # each word of the key matters
    rows += [np.roll(rows[0], shift) for shift in (1, 2, n, 2 * n, 3 * n)]
    limit = 6 / np.sqrt(4 * n)
    for sample in (np.array(rows), np.array(rows) ** 2):  # squares: common radius of a pair
        correlation = np.corrcoef(sample) - np.eye(len(rows))
        assert np.abs(correlation).max() < limit


def test_no_word_occurs_at_two_steps_or_in_two_purposes():
    """Blocks of 128 bits: a collision by chance has probability below 1e-25."""
    seen = set()
    stream, n = Streams("one replica"), 2_000
    for purpose in ("noise", "dropout"):
        for step in range(10):
            words = np.empty((4, n), np.uint32)
            noise.fill_words(stream.key(purpose), step, 0, words)
            seen.update(map(bytes, np.ascontiguousarray(words.T)))
    assert len(seen) == 2 * 10 * n


def test_a_number_of_draws_changes_no_earlier_draw():
    key = key_of("prefix")
    long, short = normals(key, 5, 100).reshape(4, -1), normals(key, 5, 60).reshape(4, -1)
    np.testing.assert_array_equal(long[:, :60], short)
