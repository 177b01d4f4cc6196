"""Counter-based Gaussian noise and dropout bits: any draw of any replica, at any time, alone.

Philox4x32-10 (Salmon et al., SC 2011, "Parallel random numbers: as easy as 1, 2, 3") turns
(key, counter) into four 32-bit words; Box-Muller turns 40 bits of radius and 24 bits of angle into
two normals. The largest normal is sqrt(2 · 41 · ln 2) = 7.54; its tail mass, 5e-14 per draw, and
the rounding of float32 are named in every privacy statement.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FAST = {"reassoc", "contract", "nsz", "arcp"}  # no assumption that numbers are finite
_f, _i, _u, _w = np.float32, np.int32, np.uint32, np.uint64

_M0, _M1 = _w(0xD2511F53), _w(0xCD9E8D57)
_W0, _W1 = _u(0x9E3779B9), _u(0xBB67AE85)
_LOW, _32, _8, _24 = _w(0xFFFFFFFF), _w(32), _w(8), _u(24)
_ANGLE = _u(0xFFFFFF)
_MANTISSA, _ONE_BITS, _SHIFT, _BIAS = _i(0x7FFFFF), _i(0x3F800000), _i(23), _i(127)
_TWO_PI = _f(2 * np.pi)


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


@njit(fastmath=FAST, nogil=True, cache=True)
def fill_words(key, step, begin, words):
    """Fill ``words`` (4, n) uint32: column i is Philox of (begin + i, step, key[2], key[3])."""
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
    """ln x for x in [sqrt(1/2), sqrt(2)] in float32 (minimax polynomial of the Cephes library)."""
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
    """Box-Muller in float32, written as plain loops that vectorise (no call into libm)."""
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
    """Box-Muller on the same bits in float64 through libm; the oracle of the float32 loops."""
    for i in range(high.shape[0]):
        bits = (_w(high[i]) << _8) | _w(low[i] >> _24)
        radius = np.sqrt(-2.0 * np.log((np.float64(bits) + 0.5) * 2.0**-40))
        angle = 2.0 * np.pi * np.float64(low[i] & _ANGLE) * 2.0**-24
        first[i] = radius * np.cos(angle)
        second[i] = radius * np.sin(angle)


@njit(nogil=True, cache=True)
def fill_normals(key, step, begin, out, words, exponent, mantissa):
    """Fill ``out`` (4n,) with standard normals: n counters of (key, step) from ``begin`` on.

    ``key`` (4,) uint32; ``words`` (4, n) uint32 and, for float32, ``exponent`` and ``mantissa``
    (n,) float32 are scratch. float32 and float64 read the same bits and agree to 3e-6 but for
    about one draw in 100,000, whose radius is near 0, and in every draw to 4e-4.
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
    """Fill ``words`` (4n,) uint32 with the blocks first, first + 1, … of (key, step)."""
    k0, k1, k2, k3 = key[0], key[1], key[2], key[3]
    for i in range(words.shape[0] // 4):
        a, b, c, d = philox(_u(first + i), _u(step), k2, k3, k0, k1)
        words[4 * i] = a
        words[4 * i + 1] = b
        words[4 * i + 2] = c
        words[4 * i + 3] = d
