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
from private_graphs.training.simd import gather_row, scatter_row

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
def _keep(seed, begin, count, threshold, kept):
    """Set ``kept[:count]`` to whether each of the draws from ``begin`` on is not dropped."""
    for i in range(0, count, 4):
        word = _mixed(seed + np.uint64(begin + i))
        for part in range(min(4, count - i)):
            kept[i + part] = ((word >> np.uint64(16 * part)) & np.uint64(0xFFFF)) >= threshold


@njit(nogil=True, cache=True)
def _drop_inputs(x, nodes, seed, counter, threshold, scale, kept, left):
    """Fill the rows of ``left`` with what dropout keeps of the rows ``nodes`` of ``x``, scaled.

    Returns the counter after the draws.
    """
    n = 0
    for k in range(nodes.shape[0]):
        begin, end = x.start[nodes[k]], x.start[nodes[k] + 1]
        _keep(seed, counter, end - begin, threshold, kept)
        counter += end - begin
        left.start[k] = n
        for j in range(begin, end):
            left.columns[n] = x.columns[j]
            left.values[n] = x.values[j] * scale
            n += kept[j - begin]
    left.start[nodes.shape[0]] = n
    return counter


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


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _add_root(lanes, x, rows, i, label, w1, w2, clip, block, fresh, drop, total1, total2, s):
    """Add the clipped gradient of root ``i`` to the totals; return its squared norm.

    ``fresh``: inputs are dropped anew, so that ``block`` has to be filled. ``drop`` are seed,
    counter, threshold and scale of dropout; ``s`` is the scratch of ``_train``.
    """
    left, order, hidden, deltas, kept, dense = s
    first, last = rows.start[i], rows.start[i + 1]
    nodes, weights = rows.columns[first:last], rows.values[first:last]
    size, n_classes, width = last - first, w2.shape[1], w2.shape[0]
    dtype = w1.dtype.type
    seed, counter, threshold, scale = drop
    zeros = np.zeros(width, w1.dtype)
    if fresh:
        counter = _drop_inputs(x, nodes, seed, counter, threshold, scale, kept, left)
        x, nodes = left, order[:size]
        _gram(x, nodes, dense, block)
    for k in range(size):
        begin, end = x.start[nodes[k]], x.start[nodes[k] + 1]
        gather_row(lanes, begin, end, x.columns, x.values, w1, zeros, hidden, k)
    if fresh:
        _keep(seed, counter, size * width, threshold, kept)
        for k in range(size):
            for h in range(width):
                hidden[k, h] = hidden[k, h] * scale if kept[k * width + h] else dtype(0)
    mixed = np.zeros(width, w1.dtype)
    for k in range(size):
        for h in range(width):
            if hidden[k, h] > 0:
                mixed[h] += weights[k] * hidden[k, h]
    logits = np.zeros(n_classes, w1.dtype)
    for h in range(width):
        for c in range(n_classes):
            logits[c] += mixed[h] * w2[h, c]
    peak, sum_ = logits.max(), dtype(0)
    for c in range(n_classes):
        logits[c] = np.exp(logits[c] - peak)
        sum_ += logits[c]
    for c in range(n_classes):
        logits[c] /= sum_
    logits[label] -= dtype(1)
    errors = logits
    norm_s, norm_e = dtype(0), dtype(0)
    for h in range(width):
        norm_s += mixed[h] * mixed[h]
    for c in range(n_classes):
        norm_e += errors[c] * errors[c]
    back = np.zeros(width, w1.dtype)
    for h in range(width):
        for c in range(n_classes):
            back[h] += w2[h, c] * errors[c]
    for k in range(size):
        # a dropped unit has hidden 0, a kept one was scaled
        factor = weights[k] * scale if fresh else weights[k]
        for h in range(width):
            deltas[k, h] = factor * back[h] if hidden[k, h] > 0 else dtype(0)
    squared, longest = norm_s * norm_e, dtype(0)
    for a in range(size):
        for b in range(size):
            product = dtype(0)
            for h in range(width):
                product += deltas[a, h] * deltas[b, h]
            squared += block[a, b] * product
            if a == b:
                longest += np.sqrt(block[a, a] * product)
    if not np.isfinite(squared):
        return squared  # a gradient that is not finite is the zero vector
    # Terms that cancel leave rounding errors of this size: the norm is never too small.
    squared = max(squared, dtype(0)) + longest * longest * dtype(_CANCELLED)
    factor = dtype(1)
    if squared > clip * clip:
        factor = dtype(clip / np.sqrt(squared))
    for h in range(width):
        for c in range(n_classes):
            total2[h, c] += factor * mixed[h] * errors[c]
    for k in range(size):
        for h in range(width):
            deltas[k, h] *= factor
        begin, end = x.start[nodes[k]], x.start[nodes[k] + 1]
        scatter_row(lanes, begin, end, x.columns, x.values, deltas, k, total1)
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
    longest, most = 0, 0
    for i in range(x.start.shape[0] - 1):
        longest = max(longest, x.start[i + 1] - x.start[i])
    for i in range(rows.start.shape[0] - 1):
        most = max(most, rows.start[i + 1] - rows.start[i])
    fresh = threshold > 0
    room = most * longest + 1 if fresh else 1
    left = Matrix(np.zeros(most + 1, np.int64), np.zeros(room, np.int64), np.zeros(room, dtype))
    hidden, deltas = np.zeros((most, width), dtype), np.zeros((most, width), dtype)
    kept, dense = np.zeros(max(longest, most * width) + 4, np.bool_), np.zeros(n_features, dtype)
    scratch = (left, np.arange(most), hidden, deltas, kept, dense)
    block = np.zeros((most, most), dtype)
    total = np.zeros_like(theta)
    n_moments = theta.shape[0] if adam else 0
    m, v = np.zeros(n_moments, dtype), np.zeros(n_moments, dtype)
    w1, total1 = (
        theta[:n_first].reshape(n_features, width),
        total[:n_first].reshape(n_features, width),
    )
    n_classes = (theta.shape[0] - n_first) // width
    w2, total2 = (
        theta[n_first:].reshape(width, n_classes),
        total[n_first:].reshape(width, n_classes),
    )
    n = _CHUNK
    normals, words = np.zeros(4 * n, dtype), np.zeros((4, n), np.uint32)
    exponent, mantissa = np.zeros(n, np.float32), np.zeros(n, np.float32)
    counter = np.int64(0)
    noisy = 0
    for t in range(batches.shape[0]):
        for place in range(batches.shape[1]):
            i = batches[t, place]
            if i < 0:
                continue
            size = rows.start[i + 1] - rows.start[i]
            if fresh:
                own = block[:size, :size].copy()
            else:
                own = grams[gram_start[i] : gram_start[i + 1]].reshape(size, size)
            drop = (seed, counter, threshold, scale)
            _add_root(
                lanes, x, rows, i, labels[i], w1, w2, clip, own, fresh, drop, total1, total2,
                scratch,
            )  # fmt: skip
            if fresh:  # more than a root can draw
                counter += size * (longest + width + 8)
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
    dtype = roots.features.values.dtype.type
    width, n_first = HIDDEN, roots.n_features * HIDDEN
    theta, total = parameters.astype(dtype), np.zeros(len(parameters), dtype)
    most = int(np.diff(roots.rows.start).max())
    scratch = (
        roots.features, np.arange(0), np.zeros((most, width), dtype),
        np.zeros((most, width), dtype), np.zeros(1, np.bool_), np.zeros(roots.n_features, dtype),
    )  # fmt: skip
    norms = np.zeros(len(roots.labels))
    for i, size in enumerate(np.diff(roots.rows.start)):
        block = roots.grams[roots.gram_start[i] : roots.gram_start[i + 1]].reshape(size, size)
        squared = _add_root(
            _LANES, roots.features, roots.rows, i, roots.labels[i],
            theta[:n_first].reshape(-1, width), theta[n_first:].reshape(width, -1), clip_norm,
            block, False, (np.uint64(0), 0, np.uint64(0), dtype(1)),
            total[:n_first].reshape(-1, width), total[n_first:].reshape(width, -1), scratch,
        )  # fmt: skip
        norms[i] = math.sqrt(squared)
    return total, norms
