"""Compiled: DP gradient descent of a network whose output for a root mixes a few nodes' outputs.

H_u = W2ᵀ relu(W1ᵀ x_u) without biases, z_i = Σ_u Π_iu H_u for root i and a fixed sparse Π, softmax
cross-entropy (Bojchevski et al. 2020; Zhang 2021, Algorithm 9). With s_i = Σ_u Π_iu h_u,
e_i = softmax(z_i) - y_i, b_i = W2 e_i and d_iu = Π_iu 1[a_u > 0] ∘ b_i, the gradient of root i is
∂W2 = s_i e_iᵀ and ∂W1 = Σ_u x_u d_iuᵀ, of squared norm |s_i|²|e_i|² + Σ_uu' (x_u·x_u')(d_iu·d_iu').
The products x_u·x_u' of a root never change: its Gram block is computed once, and after each
dropout of inputs. No gradient of a root is ever stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numba import njit

from private_graphs.training.noise import FAST, fill_normals
from private_graphs.training.simd import add_row, gather_row, scatter_row

HIDDEN = 32
"""Hidden units, as in the authors' code."""
_LANES = (0,) * HIDDEN
_ROUNDING = 64
"""Clipped norms stay this many units of rounding below C, whatever rounding does."""
_CANCELLED = 2.0**-40
"""Of the largest squared norm that the parts of a gradient could add up to: rounding errors that
are left where they cancel, of rows with up to 8,192 features."""
_CHUNK = 1024
"""Counters of noise that are drawn at a time: a few pages of memory."""
_DROPS = 2**16
"""Resolution of the probability of dropout."""
_G0, _G1, _G2 = (
    np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class Matrix(NamedTuple):
    """Sparse rows in one array each."""

    start: np.ndarray  # (n + 1,) int64
    columns: np.ndarray  # int64, or int32 of features
    values: np.ndarray

    @classmethod
    def of(cls, matrix: scipy.sparse.csr_matrix, dtype: type) -> Matrix:
        """Read a CSR matrix."""
        return cls(
            matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64),
            matrix.data.astype(dtype),
        )  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """How one model is trained."""

    batches: np.ndarray
    """(T, B) int64 roots of each step, -1 where a batch is smaller."""
    noise_std: float
    """Of the sum: noise multiplier times clip norm; 0 for none."""
    divisor: float
    """Public constant that divides the noisy sum."""
    learning_rate: float
    clip_norm: float = 1.0
    """Infinity: nothing is clipped."""
    adam: bool = True
    weight_decay: float = 0.0
    """Of W1 alone, as in the authors' code."""
    dropout: float = 0.0
    """Share of inputs and of hidden units that are dropped."""


@njit(inline="always")
def _mixed(x):
    """SplitMix64: a fixed function of a counter that looks random."""
    x = x * _G0
    x = (x ^ (x >> np.uint64(30))) * _G1
    x = (x ^ (x >> np.uint64(27))) * _G2
    return x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True)
def _draw(seed, begin, words):
    """Fill ``words`` (n,) with the draws from ``begin`` on: four of 16 bits in each."""
    first = seed + np.uint64(begin)
    for i in range(words.shape[0]):
        words[i] = _mixed(first + np.uint64(4 * i))


@njit(nogil=True, cache=True)
def _drop(values, draws, threshold, scale, left):
    """Set ``left`` (n,) to what dropout leaves of ``values`` (n,), scaled."""
    for i in range(values.shape[0]):
        left[i] = values[i] * scale if draws[i] >= threshold else values.dtype.type(0)


@njit(fastmath=FAST, nogil=True, cache=True)
def _gram(x, nodes, dense, block):
    """Fill ``block`` (K, K) with the products of the rows ``nodes`` (K,) of ``x``.

    ``dense`` (F,) is zero, and so it is left.
    """
    for a in range(nodes.shape[0]):
        first, last = x.start[nodes[a]], x.start[nodes[a] + 1]
        for k in range(first, last):
            dense[x.columns[k]] = x.values[k]
        for b in range(a, nodes.shape[0]):
            begin, end = x.start[nodes[b]], x.start[nodes[b] + 1]
            columns, values = x.columns[begin:end], x.values[begin:end]
            total = dense.dtype.type(0)
            for k in range(end - begin):
                total += dense[np.uint64(columns[k])] * values[k]  # unsigned: quicker to address
            block[a, b] = block[b, a] = total
        for k in range(first, last):
            dense[x.columns[k]] = 0


@njit(nogil=True, cache=True)
def _all_grams(x, rows, gram_start, grams, dense):
    for i in range(rows.start.shape[0] - 1):
        nodes = rows.columns[rows.start[i] : rows.start[i + 1]]
        size = nodes.shape[0]
        block = grams[gram_start[i] : gram_start[i + 1]].reshape(size, size)
        _gram(x, nodes, dense, block)


class Mixed(NamedTuple):
    """Features that occur in rows of several nodes: numbered within each row."""

    start: np.ndarray  # (M + 1,) int64: where the features of a row begin
    features: np.ndarray  # int64
    entry: np.ndarray  # of each node of a row, where its numbers begin
    numbers: np.ndarray  # int64: of the features of a node, in its row


class Scratch(NamedTuple):
    """What the gradient of a root is computed in."""

    hidden: np.ndarray  # (K, H): after dropout
    deltas: np.ndarray  # (K, H)
    two: np.ndarray  # (2, H): mixed units, and what goes back to them
    errors: np.ndarray  # (classes,)
    zeros: np.ndarray  # (H,)
    count: np.ndarray  # 0, 1, 2, …
    left: np.ndarray  # values of features after dropout
    words: np.ndarray  # uint64 of draws
    draws: np.ndarray  # the same, as uint16
    own: np.ndarray  # (features of a row, H): the gradient of a root of several nodes


@njit(nogil=True, cache=True)
def _scratch(x, rows, mixed, n_classes, lanes, fresh):
    width, dtype = len(lanes), x.values.dtype
    longest, most, n_own = 0, 1, 0
    for i in range(x.start.shape[0] - 1):
        longest = max(longest, x.start[i + 1] - x.start[i])
    for i in range(rows.start.shape[0] - 1):
        most = max(most, rows.start[i + 1] - rows.start[i])
        n_own = max(n_own, mixed.start[i + 1] - mixed.start[i])
    words = np.zeros(max(longest + 3, most * width) // 4, np.uint64)
    return Scratch(
        np.zeros((most, width), dtype), np.zeros((most, width), dtype), np.zeros((2, width), dtype),
        np.zeros(n_classes, dtype), np.zeros(width, dtype), np.arange(max(most, n_classes)),
        np.zeros(x.values.shape[0] if fresh else 0, dtype), words, words.view(np.uint16),
        np.zeros((n_own, width), dtype),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _mixed_features(x, rows, n_features, fresh):
    """Return the ``Mixed`` of all rows: nothing of those of a single node, or without dropout."""
    n, n_entries = rows.start.shape[0] - 1, 0
    entry, start = np.zeros(rows.columns.shape[0], np.int64), np.zeros(n + 1, np.int64)
    for i in range(n if fresh else 0):
        if rows.start[i + 1] - rows.start[i] > 1:
            for k in range(rows.start[i], rows.start[i + 1]):
                entry[k] = n_entries
                n_entries += x.start[rows.columns[k] + 1] - x.start[rows.columns[k]]
    features, numbers = np.zeros(n_entries, np.int64), np.zeros(n_entries, np.int64)
    number, last = np.zeros(n_features, np.int64), np.full(n_features, -1)
    for i in range(n if fresh else 0):
        found, begin = 0, start[i]
        if rows.start[i + 1] - rows.start[i] > 1:
            for k in range(rows.start[i], rows.start[i + 1]):
                first = x.start[rows.columns[k]]
                for j in range(first, x.start[rows.columns[k] + 1]):
                    feature = x.columns[j]
                    if last[feature] != i:
                        last[feature], number[feature] = i, found
                        features[begin + found] = feature
                        found += 1
                    numbers[entry[k] + j - first] = number[feature]
        start[i + 1] = begin + found
    return Mixed(start, features[: start[n]].copy(), entry, numbers)


@njit(fastmath=FAST, nogil=True, cache=True)
def _dot(a, b):
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(nogil=True, cache=True)
def _positive(values, out):
    for i in range(values.shape[0]):
        out[i] = max(values[i], values.dtype.type(0))


@njit(nogil=True, cache=True)
def _passed(values, factor, active, out):
    """Set ``out`` to ``factor`` · ``values`` where ``active`` is positive, else to 0."""
    for i in range(values.shape[0]):
        out[i] = factor * values[i] if active[i] > 0 else values.dtype.type(0)


@njit(nogil=True, cache=True)
def _scale(values, factor):
    for i in range(values.shape[0]):
        values[i] *= factor


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _add_root(lanes, x, rows, i, label, w1, w2, clip, block, fresh, drop, mixed, total1, total2, s):
    """Add the clipped gradient of root ``i`` to the totals; return its squared norm.

    ``w2`` and ``total2`` are (classes, hidden). ``fresh``: inputs are dropped anew, so that the
    gradient of a root of several nodes is added up in scratch; else ``block`` has its products of
    features. ``drop`` are seed, counter, threshold and scale of dropout; ``s`` is the scratch.
    """
    first, last = rows.start[i], rows.start[i + 1]
    nodes, weights = rows.columns[first:last], rows.values[first:last]
    size, n_classes, width = last - first, w2.shape[0], w2.shape[1]
    dtype = w1.dtype.type
    seed, counter, threshold, scale = drop
    values = s.left if fresh else x.values
    if fresh:
        for k in range(size):
            begin, end = x.start[nodes[k]], x.start[nodes[k] + 1]
            _draw(seed, counter, s.words[: (end - begin + 3) // 4])
            _drop(x.values[begin:end], s.draws, threshold, scale, values[begin:end])
            counter += end - begin
    # deltas are not known yet: their place holds units of other stages for now
    for k in range(size):
        begin, end = x.start[nodes[k]], x.start[nodes[k] + 1]
        out = s.deltas if fresh else s.hidden
        gather_row(lanes, begin, end, x.columns, values, w1, s.zeros, out, k)
    active = s.hidden.reshape(s.hidden.size)[: size * width]
    deltas = s.deltas.reshape(s.deltas.size)[: size * width]
    if fresh:
        _draw(seed, counter, s.words[: size * width // 4])
        _drop(deltas, s.draws, threshold, scale, active)
    _positive(active, deltas)
    gather_row(lanes, 0, size, s.count, weights, s.deltas, s.zeros, s.two, 0)
    units, back = s.two[0], s.two[1]
    errors = s.errors
    for c in range(n_classes):
        errors[c] = _dot(units, w2[c])
    peak, sum_ = errors.max(), dtype(0)
    for c in range(n_classes):
        errors[c] = np.exp(errors[c] - peak)
        sum_ += errors[c]
    for c in range(n_classes):
        errors[c] /= sum_
    errors[label] -= dtype(1)
    gather_row(lanes, 0, n_classes, s.count, errors, w2, s.zeros, s.two, 1)
    for k in range(size):
        # a dropped unit has hidden 0, a kept one was scaled
        factor = weights[k] * scale if fresh else weights[k]
        _passed(back, factor, s.hidden[k], s.deltas[k])
    squared = _dot(units, units) * _dot(errors, errors)
    several = fresh and size > 1
    if several:
        begin, end = mixed.start[i], mixed.start[i + 1]
        features, own = mixed.features[begin:end], s.own
        flat = own.reshape(own.size)[: (end - begin) * width]
        flat[:] = 0
        for k in range(size):
            begin, end = x.start[nodes[k]], x.start[nodes[k] + 1]
            at = mixed.entry[first + k]
            numbers = mixed.numbers[at : at + end - begin]
            scatter_row(lanes, 0, end - begin, numbers, values[begin:end], s.deltas, k, own)
        squared += _dot(flat, flat)
    elif fresh:
        for k in range(size):  # one, or none
            left = values[x.start[nodes[k]] : x.start[nodes[k] + 1]]
            squared += _dot(left, left) * _dot(deltas, deltas)
    else:
        longest, sum_ = dtype(0), dtype(0)
        for a in range(size):
            for b in range(size):
                product = _dot(s.deltas[a], s.deltas[b])
                sum_ += block[a, b] * product
                if a == b:
                    longest += np.sqrt(block[a, a] * product)
        # Terms that cancel leave rounding errors of this size: the norm is never too small.
        squared = max(squared + sum_, dtype(0)) + longest * longest * dtype(_CANCELLED)
    if not np.isfinite(squared):
        return squared  # a gradient that is not finite is the zero vector
    factor = dtype(1)
    if squared > clip * clip:
        factor = dtype(clip / np.sqrt(squared))
    _scale(errors, factor)
    scatter_row(lanes, 0, n_classes, s.count, errors, s.two, 0, total2)
    if several:
        for j in range(features.shape[0]):
            add_row(lanes, factor, own, j, total1, features[j])
        return squared
    _scale(deltas, factor)
    for k in range(size):
        begin, end = x.start[nodes[k]], x.start[nodes[k] + 1]
        scatter_row(lanes, begin, end, x.columns, values, s.deltas, k, total1)
    return squared


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _descend(theta, total, m, v, normals, std, divide, step, root, adam):
    """Descend along (total + std · normals) · ``divide``; clear the total. Arrays are (n,).

    A function of its own: its index starts at 0, so that Numba looks out for no negative ones and
    the loop becomes vector code.
    """
    dtype = theta.dtype.type
    b1, c1, b2, c2 = dtype(0.9), dtype(1 - 0.9), dtype(0.999), dtype(1 - 0.999)
    small = dtype(1e-8)
    for j in range(theta.shape[0]):
        g = (total[j] + std * normals[j]) * divide
        total[j] = 0
        if adam:
            m[j] = b1 * m[j] + c1 * g
            v[j] = b2 * v[j] + c2 * g * g
            theta[j] -= step * m[j] / (np.sqrt(v[j]) * root + small)
        else:
            theta[j] -= step * g


@njit(error_model="numpy", nogil=True, cache=True)
def _update(
    theta, total, m, v, t, std, divide, rate, adam, key, normals, words, exponent, mantissa
):
    """Descend along (total + noise) · ``divide``; clear the total. ``t`` counts steps from 0."""
    dtype = theta.dtype.type
    step = dtype(rate / (1.0 - 0.9 ** (t + 1))) if adam else dtype(rate)
    root = dtype(1.0 / np.sqrt(1.0 - 0.999 ** (t + 1)))
    n = words.shape[1]
    for begin in range(0, theta.shape[0], 4 * n):
        part = slice(begin, min(begin + 4 * n, theta.shape[0]))
        if std > 0:
            fill_normals(key, t, begin // 4, normals, words, exponent, mantissa)
        _descend(
            theta[part], total[part], m[part], v[part], normals, dtype(std), dtype(divide), step,
            root, adam,
        )  # fmt: skip


@njit(error_model="numpy", nogil=True, cache=True)
def _train(
    lanes, x, rows, labels, batches, theta, n_features, clip, std, divisor, rate, adam, decay,
    threshold, scale, key, seed, gram_start, grams,
):  # fmt: skip
    """Train ``theta`` (P,), W1 first, in place; return how many steps had noise."""
    width, dtype = len(lanes), theta.dtype
    n_first = n_features * width
    n_classes = (theta.shape[0] - n_first) // width
    fresh = threshold > 0
    mixed = _mixed_features(x, rows, n_features, fresh)
    scratch = _scratch(x, rows, mixed, n_classes, lanes, fresh)
    longest = 0
    for i in range(x.start.shape[0] - 1):
        longest = max(longest, x.start[i + 1] - x.start[i])
    total = np.zeros_like(theta)
    n_moments = theta.shape[0] if adam else 0
    m, v = np.zeros(n_moments, dtype), np.zeros(n_moments, dtype)
    w1, total1 = (
        theta[:n_first].reshape(n_features, width),
        total[:n_first].reshape(n_features, width),
    )
    w2, total2 = np.zeros((n_classes, width), dtype), np.zeros((n_classes, width), dtype)
    n = _CHUNK
    normals, words = np.zeros(4 * n, dtype), np.zeros((4, n), np.uint32)
    exponent, mantissa = np.zeros(n, np.float32), np.zeros(n, np.float32)
    counter = np.int64(0)
    noisy = 0
    for t in range(batches.shape[0]):
        w2[:] = theta[n_first:].reshape(width, n_classes).T
        for place in range(batches.shape[1]):
            i = batches[t, place]
            if i < 0:
                continue
            size = rows.start[i + 1] - rows.start[i]
            block = grams[gram_start[i] : gram_start[i + 1]].reshape(size, size)
            drop = (seed, counter, threshold, scale)
            _add_root(
                lanes, x, rows, i, labels[i], w1, w2, clip, block, fresh, drop, mixed, total1,
                total2, scratch,
            )  # fmt: skip
            if fresh:  # more than a root can draw
                counter += size * (longest + width + 8)
        total[n_first:].reshape(width, n_classes)[:] = total2.T
        total2[:] = 0
        if decay > 0:
            for j in range(n_first):
                total[j] += theta.dtype.type(decay * divisor) * theta[j]
        _update(
            theta, total, m, v, t, std, 1.0 / divisor, rate, adam, key, normals, words, exponent,
            mantissa,
        )  # fmt: skip
        noisy += std > 0
    return noisy


def initial(n_features: int, n_classes: int, generator: np.random.Generator) -> np.ndarray:
    """Return (P,) parameters, W1 then W2, each uniform by Glorot & Bengio (2010)."""
    parts = []
    for rows, columns in ((n_features, HIDDEN), (HIDDEN, n_classes)):
        bound = math.sqrt(6 / (rows + columns))
        parts.append(generator.uniform(-bound, bound, rows * columns))
    return np.concatenate(parts)


@dataclass(frozen=True)
class Roots:
    """Roots with their rows and labels, over sparse features; shared by all replicas."""

    features: Matrix
    n_features: int
    rows: Matrix
    """Π: of each root its nodes, as rows of the features, and their weights."""
    labels: np.ndarray
    """(M,) int64 of the roots."""
    gram_start: np.ndarray
    grams: np.ndarray

    @classmethod
    def of(
        cls,
        features: scipy.sparse.csr_matrix,
        rows: scipy.sparse.csr_matrix,
        labels: np.ndarray,
        dtype: type = np.float32,
    ) -> Roots:
        """Read (n, F) features, (M, n) rows Π and labels (M,); compute the Gram blocks."""
        x, pi = Matrix.of(features, dtype), Matrix.of(rows, dtype)
        sizes = np.diff(pi.start)
        start = np.r_[0, np.cumsum(sizes**2)]
        grams = np.zeros(start[-1], dtype)
        _all_grams(x, pi, start, grams, np.zeros(features.shape[1], dtype))
        return cls(x, features.shape[1], pi, labels.astype(np.int64), start, grams)


def train(
    roots: Roots, start: np.ndarray, plan: Plan, noise_key: np.ndarray, dropout_seed: int
) -> tuple[np.ndarray, int]:
    """Train from the parameters ``start`` (P,); return those at the end, and the noisy steps.

    ``noise_key`` is that of ``training.noise``; computed in the type of the features.
    """
    dtype = roots.features.values.dtype.type
    theta = start.astype(dtype)
    clip = plan.clip_norm * (1 - _ROUNDING * np.finfo(dtype).eps)
    noisy = _train(
        _LANES, roots.features, roots.rows, roots.labels, plan.batches, theta, roots.n_features,
        clip, plan.noise_std, float(plan.divisor), plan.learning_rate, plan.adam,
        plan.weight_decay, np.uint64(round(plan.dropout * _DROPS)),
        dtype(1 / (1 - plan.dropout)), noise_key, np.uint64(dropout_seed), roots.gram_start,
        roots.grams,
    )  # fmt: skip
    return theta, noisy


def clipped_sum(
    roots: Roots, parameters: np.ndarray, clip_norm: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the (P,) sum of all clipped gradients, and the (M,) norms before clipping."""
    x, rows, dtype = roots.features, roots.rows, roots.features.values.dtype.type
    n_first = roots.n_features * HIDDEN
    theta, total = parameters.astype(dtype), np.zeros(len(parameters), dtype)
    w2 = np.ascontiguousarray(theta[n_first:].reshape(HIDDEN, -1).T)
    total2 = np.zeros_like(w2)
    mixed = _mixed_features(x, rows, roots.n_features, False)
    scratch = _scratch(x, rows, mixed, len(w2), _LANES, False)
    norms = np.zeros(len(roots.labels))
    for i, size in enumerate(np.diff(rows.start)):
        block = roots.grams[roots.gram_start[i] : roots.gram_start[i + 1]].reshape(size, size)
        squared = _add_root(
            _LANES, x, rows, i, roots.labels[i], theta[:n_first].reshape(-1, HIDDEN), w2,
            clip_norm, block, False, (np.uint64(0), 0, np.uint64(0), dtype(1)), mixed,
            total[:n_first].reshape(-1, HIDDEN), total2, scratch,
        )  # fmt: skip
        norms[i] = math.sqrt(squared)
    total[n_first:] = total2.T.ravel()
    return total, norms
