"""Counter-based Gaussian noise and dropout bits: each draw of each replica can be computed alone.

Four 32-bit words, a *unit*, come from a key, a step and a counter. Under a key of four words they
are one block of Philox4x32-10 (Salmon et al., SC 2011, "Parallel random numbers: as easy as 1, 2,
3"); under a key of eight words, a quarter of a block of ChaCha20 (RFC 8439), which is a
cryptographic generator. Box-Muller turns 40 bits of radius and 24 bits of angle into two normals.
The largest normal is sqrt(2 · 41 · ln 2) = 7.54; every privacy statement names the tail mass beyond
it, 5e-14 per draw, and the rounding of float32.
"""

from __future__ import annotations

import numpy as np

from private_graphs.core.compiled import njit

FAST = {"reassoc", "contract", "nsz", "arcp"}  # no assumption that numbers are finite
_f, _i, _u, _w = np.float32, np.int32, np.uint32, np.uint64

_M0, _M1 = _w(0xD2511F53), _w(0xCD9E8D57)
_W0, _W1 = _u(0x9E3779B9), _u(0xBB67AE85)
_LOW, _32, _8, _24 = _w(0xFFFFFFFF), _w(32), _w(8), _u(24)
_ANGLE = _u(0xFFFFFF)
_MANTISSA, _ONE_BITS, _SHIFT, _BIAS = _i(0x7FFFFF), _i(0x3F800000), _i(23), _i(127)
_TWO_PI = _f(2 * np.pi)
_C0, _C1, _C2, _C3 = _u(0x61707865), _u(0x3320646E), _u(0x79622D32), _u(0x6B206574)


@njit(inline="always")
def philox(c0, c1, c2, c3, k0, k1):
    """Return the four uint32 words of Philox4x32-10 for a 128-bit counter and a 64-bit key."""
    for _ in range(10):
        p0 = _M0 * _w(c0)
        p1 = _M1 * _w(c2)
        c0, c1, c2, c3 = (
            _u(p1 >> _32) ^ c1 ^ k0,
            _u(p1 & _LOW),
            _u(p0 >> _32) ^ c3 ^ k1,
            _u(p0 & _LOW),
        )
        k0 = _u(k0 + _W0)
        k1 = _u(k1 + _W1)
    return c0, c1, c2, c3


def _rotation(bits: int):
    """Return a compiled function that rotates a uint32 to the left by ``bits``."""
    left, right = _u(bits), _u(32 - bits)

    @njit(forceinline=True)
    def rotate(x):
        return _u(_u(x << left) | _u(x >> right))

    return rotate


_rotate16, _rotate12, _rotate8, _rotate7 = (_rotation(bits) for bits in (16, 12, 8, 7))


@njit(forceinline=True)
def quarter_round(a, b, c, d):
    """Apply the quarter round of ChaCha (RFC 8439 §2.1) to four uint32 words."""
    a = _u(a + b)
    d = _rotate16(_u(d ^ a))
    c = _u(c + d)
    b = _rotate12(_u(b ^ c))
    a = _u(a + b)
    d = _rotate8(_u(d ^ a))
    c = _u(c + d)
    b = _rotate7(_u(b ^ c))
    return a, b, c, d


@njit(forceinline=True)
def _double_round(s):
    """Apply two rounds of ChaCha, columns then diagonals, to a tuple of 16 words."""
    x0, x4, x8, x12 = quarter_round(s[0], s[4], s[8], s[12])
    x1, x5, x9, x13 = quarter_round(s[1], s[5], s[9], s[13])
    x2, x6, x10, x14 = quarter_round(s[2], s[6], s[10], s[14])
    x3, x7, x11, x15 = quarter_round(s[3], s[7], s[11], s[15])
    x0, x5, x10, x15 = quarter_round(x0, x5, x10, x15)
    x1, x6, x11, x12 = quarter_round(x1, x6, x11, x12)
    x2, x7, x8, x13 = quarter_round(x2, x7, x8, x13)
    x3, x4, x9, x14 = quarter_round(x3, x4, x9, x14)
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15


@njit(forceinline=True)
def _twenty_rounds(s):
    """Apply 20 rounds, unrolled: the vectoriser takes no loop within the loop over blocks."""
    s = _double_round(_double_round(_double_round(_double_round(_double_round(s)))))
    return _double_round(_double_round(_double_round(_double_round(_double_round(s)))))


@njit(nogil=True, cache=True)
def chacha_tile(key, nonce, first, tile):
    """Fill ``tile`` (4, 64) uint32 with the 16 blocks of ChaCha20 from counter ``first`` on.

    ``key`` (8,) uint32, ``nonce`` three integers below 2^32. Word 4q + w of block first + j goes to
    ``tile[w, 16q + j]``, so that neighbouring blocks are computed in one vector.
    """
    k0, k1, k2, k3 = key[0], key[1], key[2], key[3]
    k4, k5, k6, k7 = key[4], key[5], key[6], key[7]
    n0, n1, n2 = _u(nonce[0]), _u(nonce[1]), _u(nonce[2])
    for j in range(16):
        c = _u(first + j)
        s = (_C0, _C1, _C2, _C3, k0, k1, k2, k3, k4, k5, k6, k7, c, n0, n1, n2)
        x = _twenty_rounds(s)
        tile[0, j] = x[0] + _C0
        tile[1, j] = x[1] + _C1
        tile[2, j] = x[2] + _C2
        tile[3, j] = x[3] + _C3
        tile[0, 16 + j] = x[4] + k0
        tile[1, 16 + j] = x[5] + k1
        tile[2, 16 + j] = x[6] + k2
        tile[3, 16 + j] = x[7] + k3
        tile[0, 32 + j] = x[8] + k4
        tile[1, 32 + j] = x[9] + k5
        tile[2, 32 + j] = x[10] + k6
        tile[3, 32 + j] = x[11] + k7
        tile[0, 48 + j] = x[12] + c
        tile[1, 48 + j] = x[13] + n0
        tile[2, 48 + j] = x[14] + n1
        tile[3, 48 + j] = x[15] + n2


@njit(nogil=True, cache=True)
def _fill_secret(key, step, begin, columns):
    """Set column i of ``columns`` (4, n) to unit begin + i of the ChaCha20 stream (key, step).

    Unit u is column u % 64 of the tile whose first counter is 16 · (u // 64); the nonce is the
    step. ``columns`` may be any view.
    """
    tile = np.empty((4, 64), np.uint32)
    nonce = (step & 0xFFFFFFFF, step >> 32, 0)
    i, n = 0, columns.shape[1]
    while i < n:
        number, skip = (begin + i) // 64, (begin + i) % 64
        chacha_tile(key, nonce, 16 * number, tile)
        count = min(64 - skip, n - i)
        for w in range(4):
            for t in range(count):
                columns[w, i + t] = tile[w, skip + t]
        i += count


@njit(fastmath=FAST, nogil=True, cache=True)
def fill_words(key, step, begin, words):
    """Fill ``words`` (4, n) uint32: column i is unit begin + i of (key, step).

    ``key`` (4,) uint32: Philox of (begin + i, step, key[2], key[3]) under key[0], key[1]. ``key``
    (8,) uint32: ChaCha20 (``_fill_secret``).
    """
    if key.shape[0] == 8:
        _fill_secret(key, step, begin, words)
        return
    k0, k1, k2, k3 = key[0], key[1], key[2], key[3]
    w0, w1, w2, w3 = words[0], words[1], words[2], words[3]
    for i in range(words.shape[1]):
        a, b, c, d = philox(_u(begin + i), _u(step), k2, k3, k0, k1)
        w0[i] = a
        w1[i] = b
        w2[i] = c
        w3[i] = d


@njit(fastmath=FAST, inline="always")
def _log_near_one(x):
    """Return ln x for x in [sqrt(1/2), sqrt(2)] in float32 (Cephes minimax polynomial)."""
    z = x - _f(1)
    y = _f(7.0376836292e-2)
    y = y * z + _f(-1.1514610310e-1)
    y = y * z + _f(1.1676998740e-1)
    y = y * z + _f(-1.2420140846e-1)
    y = y * z + _f(1.4249322787e-1)
    y = y * z + _f(-1.6668057665e-1)
    y = y * z + _f(2.0000714765e-1)
    y = y * z + _f(-2.4999993993e-1)
    y = y * z + _f(3.3333331174e-1)
    square = z * z
    return y * z * square - _f(0.5) * square + z


@njit(fastmath=FAST, nogil=True, cache=True)
def _normals32(high, low, first, second, exponent, mantissa):
    """Box-Muller in float32, as plain loops that vectorise (no call into libm)."""
    n = high.shape[0]
    bits = mantissa.view(np.int32)
    for i in range(n):
        radius = (_w(high[i]) << _8) | _w(low[i] >> _24)
        mantissa[i] = (_f(np.int64(radius)) + _f(0.5)) * _f(2.0**-40)
    for i in range(n):
        b = bits[i]
        exponent[i] = _f((b >> _SHIFT) - _BIAS)
        bits[i] = _i((b & _MANTISSA) | _ONE_BITS)
    for i in range(n):
        x, power = mantissa[i], exponent[i]
        large = x > _f(1.4142135)
        x = x * _f(0.5) if large else x
        power = power + _f(1) if large else power
        log = _log_near_one(x) + power * _f(0.6931471805599453)
        log = log if log < _f(0) else _f(0)
        radius = np.sqrt(_f(-2) * log)
        turn = _f(_i(low[i] & _ANGLE)) * _f(2.0**-24)
        quarter = _i(_f(4) * turn + _f(0.5))
        a = (turn - _f(0.25) * _f(quarter)) * _TWO_PI  # in [-pi/4, pi/4]
        a2 = a * a
        sine = (_f(-1.9515295891e-4) * a2 + _f(8.3321608736e-3)) * a2 + _f(-1.6666654611e-1)
        sine = sine * a2 * a + a
        cosine = (_f(2.443315711809948e-5) * a2 + _f(-1.388731625493765e-3)) * a2
        cosine = (cosine + _f(4.166664568298827e-2)) * a2 * a2 - _f(0.5) * a2 + _f(1)
        odd = (quarter & _i(1)) != 0
        c = sine if odd else cosine
        s = cosine if odd else sine
        first[i] = -radius * c if ((quarter + _i(1)) & _i(2)) != 0 else radius * c
        second[i] = -radius * s if (quarter & _i(2)) != 0 else radius * s


@njit(nogil=True, cache=True)
def _normals64(high, low, first, second):
    """Box-Muller on the same bits in float64 through libm: reference of the float32 loops."""
    for i in range(high.shape[0]):
        bits = (_w(high[i]) << _8) | _w(low[i] >> _24)
        radius = np.sqrt(-2.0 * np.log((np.float64(bits) + 0.5) * 2.0**-40))
        angle = 2.0 * np.pi * np.float64(low[i] & _ANGLE) * 2.0**-24
        first[i] = radius * np.cos(angle)
        second[i] = radius * np.sin(angle)


@njit(nogil=True, cache=True)
def fill_normals(key, step, begin, out, words, exponent, mantissa):
    """Fill ``out`` (4n,) with standard normals: n counters of (key, step) from ``begin`` on.

    ``key`` (4,) or (8,) uint32; ``words`` (4, n) uint32 and, for float32, ``exponent`` and
    ``mantissa`` (n,) float32 are scratch. float32 and float64 use the same bits. They agree to 4e-4
    in every draw, and to 3e-6 except in about one draw in 100,000, whose radius is near 0.
    """
    n = words.shape[1]
    fill_words(key, step, begin, words)
    for pair in range(2):
        first = out[2 * pair * n : (2 * pair + 1) * n]
        second = out[(2 * pair + 1) * n : (2 * pair + 2) * n]
        if out.itemsize == 4:
            _normals32(words[2 * pair], words[2 * pair + 1], first, second, exponent, mantissa)
        else:
            _normals64(words[2 * pair], words[2 * pair + 1], first, second)


@njit(fastmath=FAST, nogil=True, cache=True)
def fill_flat_words(key, step, first, words):
    """Fill ``words`` (4n,) uint32 with the units first, first + 1, … of (key, step)."""
    if key.shape[0] == 8:
        _fill_secret(key, step, first, words.reshape(words.shape[0] // 4, 4).T)
        return
    k0, k1, k2, k3 = key[0], key[1], key[2], key[3]
    for i in range(words.shape[0] // 4):
        a, b, c, d = philox(_u(first + i), _u(step), k2, k3, k0, k1)
        words[4 * i] = a
        words[4 * i + 1] = b
        words[4 * i + 2] = c
        words[4 * i + 3] = d
