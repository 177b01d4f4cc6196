"""Compiled DP gradient descent of a network that mixes several nodes' outputs per target (*root*).

H_u = W2ᵀ relu(W1ᵀ x_u) without biases, z_i = Σ_u Π_iu H_u for target node i and a fixed sparse Π,
softmax cross-entropy (Bojchevski et al. 2020; Zhang 2021, Algorithm 9). With s_i = Σ_u Π_iu h_u,
e_i = softmax(z_i) - y_i, b_i = W2 e_i and d_iu = Π_iu 1[a_u > 0] ∘ b_i, the gradient of target i is
∂W2 = s_i e_iᵀ and ∂W1 = Σ_u x_u d_iuᵀ, of squared norm |s_i|²|e_i|² + Σ_uu' (x_u·x_u')(d_iu·d_iu').

Without input dropout the products x_u·x_u' of a target never change: its Gram block is computed
once. With input dropout they would change in every step; the gradient of a multi-node target is
then summed over the features that its nodes have, which is less work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse

from private_graphs.core.compiled import njit
from private_graphs.mechanisms.descent import Descent
from private_graphs.training.dpsgd import safe_norm
from private_graphs.training.noise import FAST, fill_normals
from private_graphs.training.simd import add_row, copy_row, gather_row, scatter_row

HIDDEN = 32
"""Number of hidden units, as in the authors' code."""
_LANES = (0,) * HIDDEN
_CANCELLED = 2.0**-40
"""Rounding error of a squared gradient norm, relative to the largest value that its parts could
add up to; it remains where they cancel. For rows with up to 8,192 features."""
_CHUNK = 1024
"""Noise counters that are drawn at a time: a few pages of memory."""
_APART = 2**32
"""Distance of the dropout counters of two batch positions, if these must be public."""
_DROPS = 2**16
"""Resolution of the dropout probability."""
_G0, _G1, _G2 = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class Matrix(NamedTuple):
    """Sparse matrix, as one array each of row starts, columns and values."""

    start: np.ndarray  # (n + 1,) int64
    columns: np.ndarray  # int32
    values: np.ndarray


class RootRows(NamedTuple):
    """Sparse Π: number and weights of the nodes that each target mixes, in order of targets."""

    start: np.ndarray  # (M + 1,) int64
    weights: np.ndarray
    gram_start: np.ndarray  # (M + 1,) int64: where a target's Gram block begins


@dataclass(frozen=True)
class RootTraining:
    """Training settings of one model."""

    batches: np.ndarray
    """(T, B) int64 target nodes of each step, -1 as padding."""
    divisor: float
    """Public constant that divides the noisy sum."""
    learning_rate: float
    clip_norm: float = 1.0
    """Clip norm; infinity: no clipping."""
    adam: bool = True
    weight_decay: float = 0.0
    """Weight decay of W1 only, as in the authors' code."""
    dropout: float = 0.0
    """Probability that an input or a hidden unit is dropped."""


@njit(inline="always")
def _mixed(x):
    """SplitMix64: a fixed pseudo-random function of a counter."""
    x = x * _G0
    x = (x ^ (x >> np.uint64(30))) * _G1
    x = (x ^ (x >> np.uint64(27))) * _G2
    return x ^ (x >> np.uint64(31))


# The functions below get whole arrays and offsets for every target. Numba counts references to
# part of an array, atomically: for a small target that costs as much as its work. Indices are
# unsigned, as Numba vectorises no loops over signed ones that do not start at 0.


@njit(nogil=True, cache=True)
def _draw(seed, begin, n, words):
    """Set the first words to the draws from ``begin`` on: ``n`` draws of 16 bits, four per word."""
    first = seed + np.uint64(begin)
    for i in range(np.uint64(n + 3) // np.uint64(4)):
        words[i] = _mixed(first + np.uint64(4) * i)


@njit(nogil=True, cache=True)
def _drop(values, begin, n, draws, threshold, scale, left):
    """Set ``n`` entries of ``left`` to those of ``values``, after dropout and scaling."""
    first = np.uint64(begin)
    for i in range(np.uint64(n)):
        value = values[first + i] * scale
        left[first + i] = value if draws[i] >= threshold else values.dtype.type(0)


@njit(fastmath=FAST, nogil=True, cache=True)
def _dot(a, begin_a, b, begin_b, n):
    """Return the dot product of ``n`` values of ``a`` and of ``b``."""
    first, second, total = np.uint64(begin_a), np.uint64(begin_b), a.dtype.type(0)
    for i in range(np.uint64(n)):
        total += a[first + i] * b[second + i]
    return total


@njit(nogil=True, cache=True)
def _positive(values, n, out):
    for i in range(np.uint64(n)):
        out[i] = max(values[i], values.dtype.type(0))


@njit(nogil=True, cache=True)
def _pass_back(values, factor, active, begin, n, out):
    """Set ``n`` entries of ``out`` to ``factor`` · ``values`` where ``active`` > 0, else to 0."""
    first = np.uint64(begin)
    for i in range(np.uint64(n)):
        value = factor * values[i]
        out[first + i] = value if active[first + i] > 0 else values.dtype.type(0)


@njit(nogil=True, cache=True)
def _scale(values, n, factor):
    for i in range(np.uint64(n)):
        values[i] *= factor


@njit(nogil=True, cache=True)
def _clear(values, n):
    for i in range(np.uint64(n)):
        values[i] = 0


@njit(fastmath=FAST, nogil=True, cache=True)
def _all_grams(x, row_start, gram_start, dense, grams):
    """Fill ``grams`` with the (K, K) Gram block of the features of every target's nodes.

    ``dense`` (F,) is zero before and after.
    """
    for i in range(row_start.shape[0] - 1):
        first, last = row_start[i], row_start[i + 1]
        size = last - first
        for a in range(size):
            begin, end = x.start[first + a], x.start[first + a + 1]
            for k in range(begin, end):
                dense[x.columns[k]] = x.values[k]
            for b in range(a, size):
                total = dense.dtype.type(0)
                for k in range(x.start[first + b], x.start[first + b + 1]):
                    total += dense[np.uint64(x.columns[k])] * x.values[np.uint64(k)]
                grams[gram_start[i] + a * size + b] = total
                grams[gram_start[i] + b * size + a] = total
            for k in range(begin, end):
                dense[x.columns[k]] = 0


class Own(NamedTuple):
    """Index of the features that a target's nodes have, numbered from 0."""

    start: np.ndarray  # (M + 1,) int64: where the features of a target begin
    features: np.ndarray  # int32
    numbers: np.ndarray  # int32: number of the feature, for every value of the targets' features


@njit(nogil=True, cache=True)
def _own(x, row_start, n_features, fresh):
    """Index the features of every multi-node target; empty for single nodes and without dropout."""
    n = row_start.shape[0] - 1
    start, n_numbers = np.zeros(n + 1, np.int64), x.columns.shape[0] if fresh else 0
    features, numbers = np.zeros(n_numbers, np.int32), np.zeros(n_numbers, np.int32)
    number, last = np.zeros(n_features, np.int32), np.full(n_features, -1)
    for i in range(n):
        end = start[i]
        if fresh and row_start[i + 1] - row_start[i] > 1:
            for j in range(x.start[row_start[i]], x.start[row_start[i + 1]]):
                feature = x.columns[j]
                if last[feature] != i:
                    last[feature], number[feature] = i, end - start[i]
                    features[end] = feature
                    end += 1
                numbers[j] = number[feature]
        start[i + 1] = end
    return Own(start, features[: start[n]].copy(), numbers)


@njit(fastmath=FAST, nogil=True, cache=True)
def _length(lanes, grams, begin, size, deltas):
    """Return the squared norm of XᵀD, for D = ``deltas`` and X's Gram block from ``begin`` on.

    Second result: the largest value of the norm, if no terms of the sum cancelled.
    """
    width, first = np.uint64(len(lanes)), np.uint64(begin)
    total, longest = deltas.dtype.type(0), deltas.dtype.type(0)
    for a in range(np.uint64(size)):
        square = deltas.dtype.type(0)
        for h in range(width):
            square += deltas[a * width + h] * deltas[a * width + h]
        square *= grams[first + a * np.uint64(size) + a]
        longest += np.sqrt(square)
        total += square
        for b in range(a):
            product = deltas.dtype.type(0)
            for h in range(width):
                product += deltas[a * width + h] * deltas[b * width + h]
            total += deltas.dtype.type(2) * grams[first + a * np.uint64(size) + b] * product
    return total, longest


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _add_roots(
    lanes, batch, x, rows, labels, theta, w2, clip, grams, fresh, drop, cols, scratch, total,
    total2, squares,
):  # fmt: skip
    """Add the clipped gradients of the targets ``batch`` to the totals; -1 is padding.

    Their squared norms are written to ``squares``. ``theta`` and ``total`` hold W1 first; ``w2``
    and ``total2`` (classes · hidden,) hold W2 by classes. ``fresh``: inputs are dropped anew, so
    that the gradient of a multi-node target is summed by itself; otherwise ``grams`` holds the Gram
    blocks. ``drop``: dropout seed and counter, counter increment of a node, threshold, scale, and
    the distance between the counters of two batch positions (0: a target begins where the last one
    ended). Returns the counter after the draws.
    """
    row_start, weights, gram_start = rows
    start, columns, inputs = x
    own_start, features, numbers = cols
    hidden, deltas, units, back, errors, zeros, classes, left, words, draws, gradient = scratch
    seed, counter, stride, threshold, scale, apart = drop
    begun = counter
    n_classes, width, dtype = errors.shape[0], len(lanes), theta.dtype.type
    values, first_layer = inputs, hidden
    if fresh:  # the first layer after dropout needs its own memory
        values, first_layer = left, deltas
    for slot in range(batch.shape[0]):
        i = batch[slot]
        if apart > 0:
            counter = begun + slot * apart
        if i < 0:
            continue
        first, size = row_start[i], row_start[i + 1] - row_start[i]
        several = fresh and size > 1
        drawn = counter
        if fresh:
            for k in range(first, first + size):
                count = start[k + 1] - start[k]
                _draw(seed, drawn, count, words)
                _drop(inputs, start[k], count, draws, threshold, scale, left)
                drawn += count
            counter += size * stride
        for k in range(size):
            begin, end = start[first + k], start[first + k + 1]
            gather_row(lanes, begin, end, columns, values, theta, zeros, first_layer, k)
        if fresh:
            _draw(seed, drawn, size * width, words)
            _drop(deltas, 0, size * width, draws, threshold, scale, hidden)
        _positive(hidden, size * width, deltas)
        copy_row(lanes, zeros, 0, units, 0)
        for k in range(size):
            add_row(lanes, weights[first + k], deltas, k, units, 0)
        for c in range(n_classes):
            errors[c] = _dot(units, 0, w2, c * width, width)
        peak, sum_ = errors[0], dtype(0)
        for c in range(n_classes):
            peak = max(peak, errors[c])
        for c in range(n_classes):
            errors[c] = np.exp(errors[c] - peak)
            sum_ += errors[c]
        for c in range(n_classes):
            errors[c] /= sum_
        errors[labels[i]] -= dtype(1)
        gather_row(lanes, 0, n_classes, classes, errors, w2, zeros, back, 0)
        for k in range(size):
            # a dropped unit has hidden 0, a kept one was scaled
            factor = weights[first + k] * scale if fresh else weights[first + k]
            _pass_back(back, factor, hidden, k * width, width, deltas)
        squared = _dot(units, 0, units, 0, width) * _dot(errors, 0, errors, 0, n_classes)
        begin, end = start[first], start[first + size]
        if several:
            n_own = own_start[i + 1] - own_start[i]
            _clear(gradient, n_own * width)
            for k in range(size):
                begin, end = start[first + k], start[first + k + 1]
                scatter_row(lanes, begin, end, numbers, left, deltas, k, gradient)
            squared += _dot(gradient, 0, gradient, 0, n_own * width)
        elif fresh:
            length = _dot(left, begin, left, begin, end - begin)
            squared += length * _dot(deltas, 0, deltas, 0, size * width)
        else:
            length, longest = _length(lanes, grams, gram_start[i], size, deltas)
            # Terms that cancel leave errors of this size: never underestimate the norm.
            squared = max(squared + length, dtype(0)) + longest * longest * dtype(_CANCELLED)
        squares[slot] = squared
        if not np.isfinite(squared):
            continue  # a non-finite gradient counts as the zero vector
        factor = dtype(1)
        if squared > clip * clip:
            factor = dtype(clip / np.sqrt(squared))
        _scale(errors, n_classes, factor)
        scatter_row(lanes, 0, n_classes, classes, errors, units, 0, total2)
        if several:
            for j in range(np.uint64(n_own)):
                feature = features[np.uint64(own_start[i]) + j]
                add_row(lanes, factor, gradient, np.int64(j), total, np.int64(feature))
            continue
        _scale(deltas, size * width, factor)
        for k in range(size):
            begin, end = start[first + k], start[first + k + 1]
            scatter_row(lanes, begin, end, columns, values, deltas, k, total)
    return begun + batch.shape[0] * apart if apart > 0 else counter


@njit(nogil=True, cache=True)
def _scratch(lanes, x, row_start, own_start, n_classes, fresh):
    """Allocate the work space of ``_add_roots``; (n, hidden) arrays are flat."""
    width, dtype = len(lanes), x.values.dtype
    longest, most, n_own = 0, 1, 0
    for k in range(x.start.shape[0] - 1):
        longest = max(longest, x.start[k + 1] - x.start[k])
    for i in range(row_start.shape[0] - 1):
        most = max(most, row_start[i + 1] - row_start[i])
        n_own = max(n_own, own_start[i + 1] - own_start[i])
    words = np.zeros((max(longest, most * width) + 3) // 4, np.uint64)
    return (
        np.zeros(most * width, dtype),  # first layer, after dropout
        np.zeros(most * width, dtype),  # its gradient
        np.zeros(width, dtype),  # mixed units
        np.zeros(width, dtype),  # their gradient
        np.zeros(n_classes, dtype),  # errors
        np.zeros(width, dtype),
        np.arange(n_classes),
        np.zeros(x.values.shape[0] if fresh else 0, dtype),  # features after dropout
        words,
        words.view(np.uint16),
        np.zeros(n_own * width, dtype),  # the gradient of W1 of a multi-node target
    )  # fmt: skip


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _descend(theta, total, m, v, normals, std, divide, step, root, adam):
    """Descend along (total + std · normals) · ``divide``; clear the total. Arrays are (n,).

    This is a separate function so that its index starts at 0: Numba then checks for no negative
    indices and vectorises the loop.
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
def _started(lanes, x, row_start, theta, n_features, n_batch, adam, fresh):
    """Allocate the arrays of the steps: feature index, scratch, the sum and the moments."""
    width, dtype = len(lanes), theta.dtype
    n_classes = (theta.shape[0] - n_features * width) // width
    cols = _own(x, row_start, n_features, fresh)
    scratch = _scratch(lanes, x, row_start, cols.start, n_classes, fresh)
    total, squares = np.zeros_like(theta), np.zeros(n_batch, dtype)
    n_moments = theta.shape[0] if adam else 0
    m, v = np.zeros(n_moments, dtype), np.zeros(n_moments, dtype)
    w2, total2 = np.zeros(n_classes * width, dtype), np.zeros(n_classes * width, dtype)
    n = _CHUNK
    normals, words = np.zeros(4 * n, dtype), np.zeros((4, n), np.uint32)
    exponent, mantissa = np.zeros(n, np.float32), np.zeros(n, np.float32)
    return cols, scratch, (total, squares, w2, total2), (m, v), (normals, words, exponent, mantissa)


@njit(error_model="numpy", nogil=True, cache=True)
def _accumulate(
    lanes, batch, x, rows, labels, grams, theta, n_features, longest, clip, threshold, scale, seed,
    counter, apart, cols, scratch, sums,
):  # fmt: skip
    """Sum a batch's clipped gradients into the first of ``sums``: the only private read.

    Returns the next dropout counter.
    """
    total, squares, w2, total2 = sums
    width = len(lanes)
    n_first = n_features * width
    n_classes = (theta.shape[0] - n_first) // width
    w2.reshape(n_classes, width)[:] = theta[n_first:].reshape(width, n_classes).T
    # a node moves the counter by more than the number of its draws
    drop = (seed, counter, longest + width + 8, threshold, scale, apart)
    counter = _add_roots(
        lanes, batch, x, rows, labels, theta, w2, clip, grams, threshold > 0, drop, cols, scratch,
        total, total2, squares,
    )  # fmt: skip
    total[n_first:].reshape(width, n_classes)[:] = total2.reshape(n_classes, width).T
    total2[:] = 0
    return counter


@njit(error_model="numpy", nogil=True, cache=True)
def _finish(theta, total, moments, t, n_first, std, divisor, rate, adam, decay, key, drawn):
    """Add the noise of step ``t``, by the door's key (``mechanisms.door``), and descend."""
    m, v = moments
    normals, words, exponent, mantissa = drawn
    if decay > 0:
        for j in range(n_first):
            total[j] += theta.dtype.type(decay * divisor) * theta[j]
    _update(
        theta, total, m, v, t, std, 1.0 / divisor, rate, adam, key, normals, words, exponent,
        mantissa,
    )  # fmt: skip


@njit(error_model="numpy", nogil=True, cache=True)
def _train(
    lanes, x, rows, labels, grams, batches, theta, n_features, longest, clip, std, divisor,
    rate, adam, decay, threshold, scale, apart, key, seed,
):  # fmt: skip
    """Train ``theta`` (P,), W1 first, in place."""
    cols, scratch, sums, moments, drawn = _started(
        lanes, x, rows.start, theta, n_features, batches.shape[1], adam, threshold > 0
    )
    counter = np.int64(0)
    for t in range(batches.shape[0]):
        counter = _accumulate(
            lanes, batches[t], x, rows, labels, grams, theta, n_features, longest, clip, threshold,
            scale, seed, counter, apart, cols, scratch, sums,
        )  # fmt: skip
        _finish(
            theta, sums[0], moments, t, n_features * len(lanes), std, divisor, rate, adam, decay,
            key, drawn,
        )  # fmt: skip


def _train_watched(
    descent, lanes, x, rows, labels, grams, batches, theta, n_features, longest, clip, std, divisor,
    rate, adam, decay, threshold, scale, apart, key, seed,
):  # fmt: skip
    """``_train`` with the same compiled functions, showing every sum to the watch."""
    cols, scratch, sums, moments, drawn = _started(
        lanes, x, rows.start, theta, n_features, batches.shape[1], adam, threshold > 0
    )
    counter = np.int64(0)
    for t in range(batches.shape[0]):
        counter = _accumulate(
            lanes, batches[t], x, rows, labels, grams, theta, n_features, longest, clip, threshold,
            scale, seed, counter, apart, cols, scratch, sums,
        )  # fmt: skip
        exact = sums[0].astype(np.float64)
        _finish(
            theta, sums[0], moments, t, n_features * len(lanes), std, divisor, rate, adam, decay,
            key, drawn,
        )  # fmt: skip
        after = [theta, *moments]
        update = descent.passed(0, "compiled_step", exact, np.concatenate(after))
        cuts = np.cumsum([len(array) for array in after])[:-1]
        for own_part, new in zip(after, np.split(update, cuts), strict=True):
            own_part[:] = new


def initial(n_features: int, n_classes: int, generator: np.random.Generator) -> np.ndarray:
    """Return (P,) Glorot-uniform parameters (Glorot & Bengio 2010), W1 then W2."""
    parts = []
    for rows, columns in ((n_features, HIDDEN), (HIDDEN, n_classes)):
        bound = math.sqrt(6 / (rows + columns))
        parts.append(generator.uniform(-bound, bound, rows * columns))
    return np.concatenate(parts)


@dataclass(frozen=True)
class Roots:
    """Target nodes with their rows and labels, over sparse features; shared by all replicas."""

    features: Matrix
    """One row for every node of every target: what a step reads is contiguous."""
    n_features: int
    longest: int
    """Largest number of features of a node."""
    rows: RootRows
    labels: np.ndarray
    """(M,) int64 labels of the target nodes."""
    grams: np.ndarray
    """(K, K) Gram block of the features of each target's nodes."""

    @classmethod
    def of(
        cls,
        features: scipy.sparse.csr_matrix,
        rows: scipy.sparse.csr_matrix,
        labels: np.ndarray,
        dtype: type = np.float32,
    ) -> Roots:
        """Build from (n, F) features, (M, n) rows Π and labels (M,); compute the Gram blocks."""
        part, start = features[rows.indices], rows.indptr.astype(np.int64)
        x = Matrix(
            part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data.astype(dtype)
        )
        gram_start = np.r_[0, np.cumsum(np.diff(start) ** 2)]
        grams = np.zeros(gram_start[-1], dtype)
        _all_grams(x, start, gram_start, np.zeros(features.shape[1], dtype), grams)
        longest = int(np.diff(features.indptr).max(initial=0))
        pi = RootRows(start, rows.data.astype(dtype), gram_start)
        return cls(x, features.shape[1], longest, pi, labels.astype(np.int64), grams)


def train(
    roots: Roots, start: np.ndarray, plan: RootTraining, descent: Descent, dropout_seed: int
) -> np.ndarray:
    """Train one replica from the parameters ``start`` (P,); return the final ones.

    ``descent`` provides the noise. Computation is in the type of the features.
    """
    descent.check_clip(plan.clip_norm)
    dtype = roots.features.values.dtype.type
    theta = start.astype(dtype)
    clip = dtype(safe_norm(plan.clip_norm, dtype))
    public = descent.public_places
    longest, apart = (roots.n_features, _APART) if public else (roots.longest, 0)
    arguments = (
        _LANES, roots.features, roots.rows, roots.labels, roots.grams, plan.batches, theta,
        roots.n_features, longest, clip, float(descent.stds[0]), float(plan.divisor),
        plan.learning_rate, plan.adam, plan.weight_decay,
        np.uint64(round(plan.dropout * _DROPS)), dtype(1 / (1 - plan.dropout)), apart,
        descent.keys()[0], np.uint64(dropout_seed),
    )  # fmt: skip
    if descent.door.watch.active:
        _train_watched(descent, *arguments)
    else:
        _train(*arguments)
    descent.taken([0], len(plan.batches))
    return theta


def clipped_sum(
    roots: Roots, parameters: np.ndarray, clip_norm: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the (P,) sum of all clipped gradients, and the (M,) norms before clipping."""
    x, rows, dtype = roots.features, roots.rows, roots.features.values.dtype.type
    theta, total = parameters.astype(dtype), np.zeros(len(parameters), dtype)
    n_first, n = roots.n_features * HIDDEN, len(roots.labels)
    w2 = theta[n_first:].reshape(HIDDEN, -1).T.ravel()
    total2, squares = np.zeros_like(w2), np.zeros(n, dtype)
    cols = _own(x, rows.start, roots.n_features, False)
    _add_roots(
        _LANES, np.arange(n), x, rows, roots.labels, theta, w2, clip_norm, roots.grams, False,
        (np.uint64(0), 0, 0, np.uint64(0), dtype(1), 0), cols,
        _scratch(_LANES, x, rows.start, cols.start, len(w2) // HIDDEN, False), total, total2,
        squares,
    )  # fmt: skip
    total[n_first:] = total2.reshape(-1, HIDDEN).T.ravel()
    return total, np.sqrt(squares)
