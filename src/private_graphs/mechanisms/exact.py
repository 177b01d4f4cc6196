"""Exact sampling from random bits: discrete Gaussian and Laplace noise.

All samplers use only uniform integers and comparisons of integers, so that no floating-point
rounding enters a distribution that a proof relies on. The bits come from any NumPy bit generator
(``Streams.generator``): ChaCha20 under secret randomness, PCG64 under a seed.
"""

from __future__ import annotations

import numpy as np

from private_graphs.core.compiled import njit

LARGEST_STEPS = 2**32
"""Largest standard deviation of :func:`discrete_gaussian` and scale of :func:`discrete_laplace`, in
steps."""
_WORDS_PER_DRAW = 24
"""Average number of random words per draw, slightly overestimated."""

_w = np.uint64
_SHARES = np.array([0, *(2**32 // count for count in range(1, 64))], np.uint64)
"""Number of words in one of ``count`` equal shares of all words, indexed by ``count``."""


@njit(inline="always")
def _below(words, at, bound, bits):
    """Return (uniform integer below ``bound``, next word); ``bits``: bit length of bound - 1."""
    shift = _w(32 - bits)
    while at < words.shape[0]:
        value = _w(words[at]) >> shift
        at += 1
        if value < bound:
            return value, at
    return _w(0), words.shape[0] + 1


@njit(inline="always")
def _one_in(words, at, count):
    """Return (True with probability 1/count, next word)."""
    share = _SHARES[count] if count < _SHARES.shape[0] else _w(4294967296) // _w(count)
    while at < words.shape[0]:
        value = _w(words[at])
        at += 1
        if value < share * _w(count):  # else the word lies outside the equal shares
            return value < share, at
    return False, words.shape[0] + 1


@njit(cache=True, nogil=True)
def _exp_minus(words, at, remainder, steps, bits, powers, halves):
    """Return (True with probability exp(-x^powers / halves), next word), x = remainder/steps < 1.

    Von Neumann's alternating series: toss coins, the k-th of which shows heads with probability
    x^powers / (halves · k), until the first tails; the number of heads is even with that
    probability. ``powers`` is 0, 1 or 2.
    """
    length = 0
    while True:
        heads, at = _one_in(words, at, halves * (length + 1))
        for _ in range(powers):
            if heads:
                value, at = _below(words, at, steps, bits)
                heads = value < remainder
        if at > words.shape[0]:
            return False, at
        if not heads:
            return length % 2 == 0, at
        length += 1


@njit(cache=True, nogil=True)
def _draw(words, at, steps, bits):
    """Return (one discrete Gaussian, next word); the next word is past the end if they run out.

    Karney (2016), Algorithm D, for mean 0 and an integer number of steps: k·steps + j with a sign,
    where k has probability proportional to exp(-k²/2) and j < steps is accepted with probability
    exp(-x(2k + x)/2), x = j/steps.
    """
    zero = _w(0)
    while True:
        k, heads = 0, True
        while True:
            heads, at = _exp_minus(words, at, zero, steps, bits, 0, 2)
            if not heads:
                break
            k += 1
        accepted = True
        for _ in range(k * (k - 1)):
            if accepted:
                accepted, at = _exp_minus(words, at, zero, steps, bits, 0, 2)
        if accepted and at <= words.shape[0]:
            negative, at = _one_in(words, at, 2)
            remainder, at = _below(words, at, steps, bits)
            accepted = not (negative and k == 0 and remainder == zero)  # zero has one sign only
            for _ in range(k):
                if accepted:
                    accepted, at = _exp_minus(words, at, remainder, steps, bits, 1, 1)
            if accepted:
                accepted, at = _exp_minus(words, at, remainder, steps, bits, 2, 2)
            if at <= words.shape[0] and accepted:
                value = np.int64(k) * np.int64(steps) + np.int64(remainder)
                return -value if negative else value, at
        if at > words.shape[0]:
            return np.int64(0), at


@njit(cache=True, nogil=True)
def _draw_laplace(words, at, steps, bits):
    """Return (one discrete Laplace number, next word); words run out as in :func:`_draw`.

    Canonne, Kamath & Steinke (2020), Algorithm 2: k·steps + j with a sign, where j < steps is
    accepted with probability exp(-j/steps) and k has probability proportional to exp(-k).
    """
    zero = _w(0)
    while True:
        remainder, at = _below(words, at, steps, bits)
        accepted, at = _exp_minus(words, at, remainder, steps, bits, 1, 1)
        if accepted:
            k, heads = 0, True
            while heads:
                heads, at = _exp_minus(words, at, zero, steps, bits, 0, 1)
                k += heads
            negative, at = _one_in(words, at, 2)
            if at <= words.shape[0] and not (negative and k == 0 and remainder == zero):
                value = np.int64(k) * np.int64(steps) + np.int64(remainder)
                return -value if negative else value, at
        if at > words.shape[0]:
            return np.int64(0), at


@njit(cache=True, nogil=True)
def _fill(words, steps, bits, laplace, out):
    """Fill ``out`` from ``words``; return the number of draws and the first unused word."""
    at = 0
    for i in range(out.shape[0]):
        if laplace:
            value, after = _draw_laplace(words, at, steps, bits)
        else:
            value, after = _draw(words, at, steps, bits)
        if after > words.shape[0]:
            return i, at
        out[i] = value
        at = after
    return out.shape[0], at


def discrete_gaussian(
    generator: np.random.Generator, steps: int, shape: int | tuple[int, ...]
) -> np.ndarray:
    """Return int64 draws of the discrete Gaussian: P[i] proportional to exp(-i²/(2 steps²)).

    ``steps`` is an integer from 1 to ``LARGEST_STEPS``. Exact: only integers are compared (Karney
    2016, "Sampling exactly from the normal distribution", Algorithm D; the distribution is that of
    Canonne, Kamath & Steinke 2020). The first draws of a call do not depend on how many it draws;
    left-over words are discarded.
    """
    return _draws(generator, steps, shape, laplace=False)


def discrete_laplace(
    generator: np.random.Generator, steps: int, shape: int | tuple[int, ...]
) -> np.ndarray:
    """Return int64 draws of the discrete Laplace: P[i] proportional to exp(-|i|/steps).

    ``steps`` is an integer from 1 to ``LARGEST_STEPS``. Exact like :func:`discrete_gaussian`
    (Canonne, Kamath & Steinke 2020, Algorithm 2).
    """
    return _draws(generator, steps, shape, laplace=True)


def _draws(generator, steps: int, shape: int | tuple[int, ...], laplace: bool) -> np.ndarray:
    if not 1 <= steps <= LARGEST_STEPS:
        raise ValueError(f"steps is {steps}; expected a whole number from 1 to {LARGEST_STEPS}")
    out = np.empty(shape, np.int64)
    flat, bits = out.reshape(-1), max(1, int(steps - 1).bit_length())
    done, words = 0, np.empty(0, np.uint32)
    while done < len(flat):
        count = _WORDS_PER_DRAW * (len(flat) - done) // 2 + 32
        fresh = generator.bit_generator.random_raw(count).astype("<u8").view("<u4")
        words = np.concatenate([words, fresh])
        drawn, used = _fill(words, _w(steps), bits, laplace, flat[done:])
        done, words = done + drawn, words[used:]
    return out
