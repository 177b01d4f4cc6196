"""Philox, ChaCha20 and Box-Muller: known answers, the distribution, and no draw used twice."""

from __future__ import annotations

import numpy as np
import pytest
from randomgen import ChaCha
from scipy import stats

from private_graphs.core.streams import Streams
from private_graphs.training import noise

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


def key_of(text: str, secret: bool = False) -> np.ndarray:
    return Streams(text, secret).of_door.key("noise")


BOTH = pytest.mark.parametrize("secret", [False, True], ids=["seeded", "secret"])
RFC_8439 = [  # appendix A.1, test vectors 1 to 5: key, counter, last word of the nonce, key stream
    (bytes(32), 0, 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
                      "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"),
    (bytes(32), 1, 0, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
                      "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"),
    (bytes(31) + b"\1", 1, 0, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
                              "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"),
    (b"\0\xff" + bytes(30), 2, 0, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
                                  "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096"),
    (bytes(32), 0, 0x02000000, "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
                               "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d"),
]  # fmt: skip


def chacha_block(key: bytes, counter: int, nonce) -> str:
    """Block ``counter`` of the compiled ChaCha20, as hexadecimal bytes."""
    words, tile = np.frombuffer(key, "<u4").copy(), np.empty((4, 64), np.uint32)
    blocks = set()
    for lane in range(min(16, counter + 1)):  # the block is the same in every lane of the vector
        noise.chacha_tile(words, nonce, counter - lane, tile)
        blocks.add(tile.reshape(4, 4, 16)[:, :, lane].T.astype("<u4").tobytes().hex())
    (block,) = blocks
    return block


@pytest.mark.parametrize(("key", "counter", "nonce", "expected"), RFC_8439)
def test_chacha20_gives_the_key_streams_of_rfc_8439(key, counter, nonce, expected):
    assert chacha_block(key, counter, (0, 0, nonce)) == expected
    if nonce == 0:
        source = ChaCha(key=int.from_bytes(key, "little"), rounds=20)
        blocks = source.random_raw(8 * (counter + 1)).astype("<u8").tobytes().hex()
        assert blocks[128 * counter :] == expected


def test_under_a_secret_all_draws_are_chacha20_of_256_bits_that_differ_by_purpose():
    stream = Streams.of({"seed": 0}, b"secret")
    door = stream.of_door
    keys = [door.key("noise").tobytes(), stream.key("dropout").tobytes()]
    assert [len(key) for key in keys] == [32, 32] and keys[0] != keys[1]
    units = np.empty((4, 100), np.uint32)
    noise.fill_words(door.key("noise"), 2**33 + 5, 7, units)
    for i in (0, 56, 57, 99):  # unit 64 begins the second tile
        tile, lane = divmod(7 + i, 64)
        quarter, block = divmod(lane, 16)
        expected = chacha_block(keys[0], 16 * tile + block, (5, 2, 0))
        assert units[:, i].astype("<u4").tobytes().hex() == expected[32 * quarter :][:32]
    order = door.generator("order")
    raw = order.bit_generator.random_raw(8).astype("<u8").tobytes().hex()
    assert raw == chacha_block(door.key("order").tobytes()[::-1], 0, (0, 0, 0))
    drawn = order.integers(2**63, size=4)
    other = Streams.of({"seed": 0}, b"other").of_door
    assert (drawn != other.generator("order").integers(2**63)).all()
    assert (drawn != stream.generator("partition").integers(2**63, size=4)).all()
    assert stream.public_id != Streams.of({"seed": 0}).public_id


@BOTH
def test_draws_of_any_counter_are_those_of_one_long_draw(secret):
    """In columns and flat: no unit is in two draws whose counters do not overlap."""
    key, long = key_of("units", secret), np.empty((4, 1000), np.uint32)
    noise.fill_words(key, 9, 0, long)
    assert len(set(map(bytes, np.ascontiguousarray(long.T)))) == 1000
    for begin, n in ((0, 1), (3, 64), (63, 2), (64, 128), (129, 500), (999, 1)):
        words, flat = np.empty((4, n), np.uint32), np.empty(4 * n, np.uint32)
        noise.fill_words(key, 9, begin, words)
        noise.fill_flat_words(key, 9, begin, flat)
        np.testing.assert_array_equal(words, long[:, begin : begin + n])
        np.testing.assert_array_equal(flat.reshape(n, 4).T, words)


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


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normals_are_normal(dtype, secret):
    keys = [key_of(f"normal {i}", secret) for i in range(8)]
    draws = np.concatenate([normals(key, i, 65_536, dtype) for i, key in enumerate(keys)])
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


@BOTH
def test_replicas_steps_and_coordinates_are_uncorrelated(secret):
    n = 50_000
    key = key_of("a", secret)
    flipped = [key ^ row for row in np.eye(len(key), dtype=np.uint32)]
    rows = [normals(key, 0, n), normals(key, 1, n), normals(key_of("b", secret), 0, n)]
    rows += [normals(each, 0, n) for each in flipped]  # each word of the key matters
    rows += [np.roll(rows[0], shift) for shift in (1, 2, n, 2 * n, 3 * n)]
    limit = 6 / np.sqrt(4 * n)
    for sample in (np.array(rows), np.array(rows) ** 2):  # squares: common radius of a pair
        correlation = np.corrcoef(sample) - np.eye(len(rows))
        assert np.abs(correlation).max() < limit
