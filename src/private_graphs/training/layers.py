"""Compiled forward and backward passes over the rows of small networks, each in one sweep.

Rows are float32. The rows of one replica and branch are contiguous, and each such part is finished
before the next one begins: it stays in the cache, and a replica's results are the same bits alone
and in a batch. Rows with the width that ``lanes`` encodes fit into SIMD registers. No function
allocates an array of the size of its arguments: results go to the given output.

Shapes: B parts (replicas, or branches of replicas), n rows each, h channels.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from private_graphs.core.compiled import njit
from private_graphs.training.noise import FAST
from private_graphs.training.simd import (
    add_row,
    gather_row,
    load_row,
    row_of,
    row_total,
    scatter_row,
    store_row,
    where_positive,
)

_f, _i = np.float32, np.int32
_BLOCK = 64
"""Rows whose sums are added in float32; sums of blocks are added in float64."""
SCALE, ALPHA = _f(1.0507009873554805), _f(1.0507009873554805 * 1.6732632423543772)
"""SELU (Klambauer et al., NeurIPS 2017): slope above 0, and minus the limit below 0."""


@intrinsic
def _float_of(typing_context, bits):
    """Reinterpret the bits of an int32 as float32."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


@njit(fastmath={"contract"}, forceinline=True)
def _exp(x):
    """Return e^x for x <= 0 in float32 (Cephes library); at least e^-64, far from denormal."""
    x = max(x, _f(-64))
    n = _i(x * _f(1.44269504088896341) - _f(0.5))
    x = x - _f(n) * _f(0.693359375)
    x = x - _f(n) * _f(-2.12194440e-4)
    y = _f(1.9875691500e-4)
    y = y * x + _f(1.3981999507e-3)
    y = y * x + _f(8.3334519073e-3)
    y = y * x + _f(4.1665795894e-2)
    y = y * x + _f(1.6666665459e-1)
    y = y * x + _f(5.0000001201e-1)
    return (y * x * x + x + _f(1)) * _float_of(_i(_i(n + _i(127)) << _i(23)))


@njit(nogil=True, cache=True)
def gather(lanes, start, columns, values, index, weight, out):
    """Set ``out`` (R, n, h) to the sparse rows ``index`` (R or 1, n) times ``weight`` (R, d, h)."""
    zero = np.zeros(len(lanes), np.float32)
    for r in range(out.shape[0]):
        rows, w, o = index[r % index.shape[0]], weight[r], out[r]
        for i in range(out.shape[1]):
            gather_row(lanes, start[rows[i]], start[rows[i] + 1], columns, values, w, zero, o, i)


@njit(nogil=True, cache=True)
def scatter(lanes, start, columns, values, index, grad, out):
    """Add to ``out`` (R, d, h) the transposed rows ``index`` (R or 1, n) times (R, n, h)."""
    for r in range(grad.shape[0]):
        rows, g, o = index[r % index.shape[0]], grad[r], out[r]
        for i in range(grad.shape[1]):
            scatter_row(lanes, start[rows[i]], start[rows[i] + 1], columns, values, g, i, o)


@njit(nogil=True, cache=True)
def scatter_exactly(start, columns, values, index, grad, out):
    """``scatter`` in float64: in float32 one row could change how others are rounded."""
    for r in range(grad.shape[0]):
        rows, g, o = index[r % index.shape[0]], grad[r], out[r]
        for i in range(grad.shape[1]):
            for k in range(start[rows[i]], start[rows[i] + 1]):
                column, value = columns[k], np.float64(values[k])
                for j in range(grad.shape[2]):
                    o[column, j] += value * g[i, j]


@njit(nogil=True, cache=True)
def column_sums_exactly(values, factors, is_product, out):
    """``column_sums`` of float64 ``values``, row by row."""
    out[:] = 0
    for r in range(values.shape[0]):
        for b in range(values.shape[1]):
            v, f, o = values[r, b], factors[r, b], out[r, b]
            for i in range(values.shape[2]):
                for j in range(values.shape[3]):
                    o[j] += v[i, j] * np.float64(f[i, j]) if is_product else v[i, j]


@njit(nogil=True, cache=True)
def scatter_squares(start, columns, values, index, grad, total, out):
    """Set ``out`` (R, e) to the squared norms of the ``scatter_exactly`` sums of e examples.

    The rows of an example are adjacent among the n; ``total`` (d, h) is zero before and after.
    """
    width = grad.shape[1] // out.shape[1]
    for r in range(grad.shape[0]):
        rows, g = index[r], grad[r]
        for e in range(out.shape[1]):
            for i in range(e * width, (e + 1) * width):
                for k in range(start[rows[i]], start[rows[i] + 1]):
                    column, value = columns[k], np.float64(values[k])
                    for j in range(grad.shape[2]):
                        total[column, j] += value * g[i, j]
            square = 0.0
            for i in range(e * width, (e + 1) * width):
                for k in range(start[rows[i]], start[rows[i] + 1]):
                    for j in range(grad.shape[2]):
                        square += total[columns[k], j] ** 2
                        total[columns[k], j] = 0
            out[r, e] = square


@njit(fastmath=FAST, forceinline=True)
def _selu(x):
    """Apply SELU in place to the row-contiguous ``x`` (n, h)."""
    y = x.reshape(-1)
    for i in range(y.shape[0]):
        low = ALPHA * (_exp(min(y[i], _f(0))) - _f(1))
        y[i] = SCALE * y[i] if y[i] > _f(0) else low


@njit(nogil=True, cache=True)
def selu(values):
    """Apply SELU in place to ``values`` (R, k, n, h)."""
    for r in range(values.shape[0]):
        for b in range(values.shape[1]):
            _selu(values[r, b])


@njit(forceinline=True)
def _before_selu(lanes, grad, active, i):
    """Return ``grad`` times the derivative of SELU, given its outputs in row i of ``active``."""
    y = load_row(lanes, active, i)
    return grad * where_positive(y, row_of(lanes, SCALE), y + row_of(lanes, ALPHA))


@njit(nogil=True, cache=True)
def selu_back(lanes, grad, active, out):
    """Set ``out`` (R, k, n, h) to the gradient before SELU, given SELU's outputs ``active``."""
    for r in range(grad.shape[0]):
        for b in range(grad.shape[1]):
            g, y, o = grad[r, b], active[r, b], out[r, b]
            for i in range(grad.shape[2]):
                store_row(lanes, _before_selu(lanes, load_row(lanes, g, i), y, i), o, i)


@njit(fastmath=FAST, nogil=True, cache=True)
def layer_norm(lanes, epsilon, after_selu, values, scale, shift, standard, deviation, out):
    """Normalise each row of ``values`` (R, k, n, h) into ``standard``, then scale and shift it.

    ``scale`` and ``shift`` are (R, k, h); ``deviation`` (R, k, n) receives inverse standard
    deviations. ``after_selu``: first apply SELU to ``values`` in place.
    """
    share = _f(1) / _f(len(lanes))
    for r in range(values.shape[0]):
        for b in range(values.shape[1]):
            v, s, d, o = values[r, b], standard[r, b], deviation[r, b], out[r, b]
            if after_selu:
                _selu(v)
            factor, added = load_row(lanes, scale[r], b), load_row(lanes, shift[r], b)
            for i in range(values.shape[2]):
                x = load_row(lanes, v, i)
                x = x - row_of(lanes, row_total(x) * share)
                d[i] = _f(1) / np.sqrt(row_total(x * x) * share + epsilon)
                x = x * row_of(lanes, d[i])
                store_row(lanes, x, s, i)
                store_row(lanes, x * factor + added, o, i)


@njit(fastmath=FAST, nogil=True, cache=True)
def layer_norm_back(lanes, after_selu, grad, active, scale, standard, deviation, out):
    """Set ``out`` (R, k, n, h) to the gradient before ``layer_norm`` with inputs ``active``."""
    share = _f(1) / _f(len(lanes))
    for r in range(grad.shape[0]):
        for b in range(grad.shape[1]):
            g, y, s, o = grad[r, b], active[r, b], standard[r, b], out[r, b]
            factor, deviations = load_row(lanes, scale[r], b), deviation[r, b]
            for i in range(grad.shape[2]):
                d, x = load_row(lanes, g, i) * factor, load_row(lanes, s, i)
                along = row_of(lanes, row_total(d * x) * share)
                d = d - row_of(lanes, row_total(d) * share) - x * along
                d = d * row_of(lanes, deviations[i])
                if after_selu:
                    d = _before_selu(lanes, d, y, i)
                store_row(lanes, d, o, i)


@njit(forceinline=True)
def _flush(lanes, block, scratch, total, number):
    """Add the row ``block`` to row ``number`` of ``total`` in float64."""
    store_row(lanes, block, scratch, 0)
    add_row(lanes, _f(1), scratch, 0, total, number)


@njit(nogil=True, cache=True)
def column_sums(lanes, values, factors, is_product, out):
    """Set ``out`` (R, k, h) to sums over the rows of (R, k, n, h), optionally times ``factors``."""
    total, scratch = np.empty((1, len(lanes))), np.empty((1, len(lanes)), np.float32)
    n = values.shape[2]
    for r in range(values.shape[0]):
        for b in range(values.shape[1]):
            v, f = values[r, b], factors[r, b]
            total[:] = 0
            for begin in range(0, n, _BLOCK):
                block = row_of(lanes, _f(0))
                for i in range(begin, min(n, begin + _BLOCK)):
                    x = load_row(lanes, v, i)
                    block = block + (x * load_row(lanes, f, i) if is_product else x)
                _flush(lanes, block, scratch, total, 0)
            for j in range(len(lanes)):
                out[r, b, j] = total[0, j]


@njit(nogil=True, cache=True)
def batch_norm(lanes, epsilon, after_selu, values, scale, shift, mean, variance, out):
    """Normalise each channel of ``values`` (R, k, n, h) over its rows; else as ``layer_norm``.

    ``mean`` and ``variance`` (R, k, h) receive the batch statistics.
    """
    n = values.shape[2]
    total, scratch = np.empty((1, len(lanes))), np.empty((1, len(lanes)), np.float32)
    for r in range(values.shape[0]):
        for b in range(values.shape[1]):
            v, o = values[r, b], out[r, b]
            if after_selu:
                _selu(v)
            middle = row_of(lanes, _f(0))
            for moment in range(2):
                total[:] = 0
                for begin in range(0, n, _BLOCK):
                    block = row_of(lanes, _f(0))
                    for i in range(begin, min(n, begin + _BLOCK)):
                        x = load_row(lanes, v, i) - middle
                        block = block + (x * x if moment else x)
                    _flush(lanes, block, scratch, total, 0)
                for j in range(len(lanes)):
                    if moment:
                        variance[r, b, j] = total[0, j] / n
                    else:
                        mean[r, b, j] = total[0, j] / n
                middle = load_row(lanes, mean[r], b)
            for j in range(len(lanes)):
                scratch[0, j] = scale[r, b, j] / np.sqrt(variance[r, b, j] + epsilon)
            factor, added = load_row(lanes, scratch, 0), load_row(lanes, shift[r], b)
            for i in range(n):
                store_row(lanes, (load_row(lanes, v, i) - middle) * factor + added, o, i)


@njit(nogil=True, cache=True)
def batch_norm_back(lanes, epsilon, after_selu, grad, active, scale, mean, variance, sums, out):
    """``layer_norm_back`` for ``batch_norm``.

    ``sums`` (2, R, k, h) receives the gradients of the scale and of the shift.
    """
    n = grad.shape[2]
    total, scratch = np.empty((2, len(lanes))), np.empty((1, len(lanes)), np.float32)
    for r in range(grad.shape[0]):
        for b in range(grad.shape[1]):
            g, y, o = grad[r, b], active[r, b], out[r, b]
            for j in range(len(lanes)):
                scratch[0, j] = _f(1) / np.sqrt(variance[r, b, j] + epsilon)
            middle, divided = load_row(lanes, mean[r], b), load_row(lanes, scratch, 0)
            total[:] = 0
            for begin in range(0, n, _BLOCK):
                along, block = row_of(lanes, _f(0)), row_of(lanes, _f(0))
                for i in range(begin, min(n, begin + _BLOCK)):
                    d = load_row(lanes, g, i)
                    block = block + d
                    along = along + d * ((load_row(lanes, y, i) - middle) * divided)
                _flush(lanes, along, scratch, total, 0)
                _flush(lanes, block, scratch, total, 1)
            for part in range(2):
                for j in range(len(lanes)):
                    sums[part, r, b, j] = total[part, j]
            share = row_of(lanes, _f(1) / _f(n))
            along = load_row(lanes, sums[0, r], b) * share
            block = load_row(lanes, sums[1, r], b) * share
            factor = divided * load_row(lanes, scale[r], b)
            for i in range(n):
                x = (load_row(lanes, y, i) - middle) * divided
                d = (load_row(lanes, g, i) - block - x * along) * factor
                if after_selu:
                    d = _before_selu(lanes, d, y, i)
                store_row(lanes, d, o, i)


@njit(fastmath=FAST, nogil=True, cache=True)
def unit_rows(lanes, branches, out, inverse):
    """Join the k branches (R, k, n, h) into ``out`` (R, n·k, h); each of n joined rows has norm 1.

    ``inverse`` (R, n) receives the inverse norms before, at most 1e12.
    """
    k = branches.shape[1]
    for r in range(branches.shape[0]):
        o = out[r]
        for i in range(branches.shape[2]):
            square = row_of(lanes, _f(0))
            for b in range(k):
                x = load_row(lanes, branches[r, b], i)
                square = square + x * x
            inverse[r, i] = _f(1) / max(np.sqrt(row_total(square)), _f(1e-12))
            factor = row_of(lanes, inverse[r, i])
            for b in range(k):
                store_row(lanes, load_row(lanes, branches[r, b], i) * factor, o, i * k + b)


@njit(fastmath=FAST, nogil=True, cache=True)
def unit_rows_back(lanes, grad, unit, inverse, out):
    """Set ``out`` (R, k, n, h) to the gradient before ``unit_rows``, from ``grad`` (R, n·k, h)."""
    k = out.shape[1]
    for r in range(out.shape[0]):
        g, u = grad[r], unit[r]
        for i in range(out.shape[2]):
            product = row_of(lanes, _f(0))
            for b in range(k):
                product = product + load_row(lanes, g, i * k + b) * load_row(lanes, u, i * k + b)
            along, factor = row_of(lanes, row_total(product)), row_of(lanes, inverse[r, i])
            for b in range(k):
                d = load_row(lanes, g, i * k + b) - load_row(lanes, u, i * k + b) * along
                store_row(lanes, d * factor, out[r, b], i)


@njit(fastmath=FAST, nogil=True, cache=True)
def residuals(logits, labels, rows, weight, out):
    """Set ``out`` (R, N, C) to the gradient of cross-entropy in ``logits``, times ``weight``.

    ``labels`` (R or 1, n) belong to the ``rows`` (n,); the gradient of other rows is zero.
    """
    classes = logits.shape[2]
    out[:] = 0
    for r in range(logits.shape[0]):
        targets = labels[r % labels.shape[0]]
        for i in range(rows.shape[0]):
            z, g = logits[r, rows[i]], out[r, rows[i]]
            top = z[0]
            for c in range(1, classes):
                top = max(top, z[c])
            total = _f(0)
            for c in range(classes):
                g[c] = _exp(z[c] - top)
                total += g[c]
            total = weight / total
            for c in range(classes):
                g[c] *= total
            g[targets[i]] -= weight


@njit(nogil=True, cache=True)
def row_squares(lanes, given, grad, inputs, is_linear, is_affine, out):
    """Set ``out`` (R, n) to the squared gradient norms of rows, summed over all k branches.

    A linear layer with bias has |g|²(|x|² + 1), an affine one Σ g²(x² + 1), any other |g|².
    ``lanes`` and ``given`` encode the widths of ``grad`` (R, k, n, o) and ``inputs`` (R, k, n, i).
    """
    out[:] = 0
    for r in range(grad.shape[0]):
        for b in range(grad.shape[1]):
            g, x, o = grad[r, b], inputs[r, b], out[r]
            for i in range(grad.shape[2]):
                row = load_row(lanes, g, i)
                square = row * row
                if is_affine:
                    block = load_row(lanes, x, i)
                    o[i] += row_total(square * (block * block + row_of(lanes, _f(1))))
                elif is_linear:
                    wide = load_row(given, x, i)
                    o[i] += row_total(square) * (row_total(wide * wide) + _f(1))
                else:
                    o[i] += row_total(square)


@njit(nogil=True, cache=True)
def take(lanes, values, index, out):
    """Set ``out`` (R, s, n, h) to the rows ``index`` (R, n) of ``values`` (R, s, N, h)."""
    for r in range(out.shape[0]):
        for s in range(out.shape[1]):
            v, o = values[r, s], out[r, s]
            for i in range(out.shape[2]):
                store_row(lanes, load_row(lanes, v, index[r, i]), o, i)
