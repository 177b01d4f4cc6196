"""Compiled passes over the rows of small networks, forward and backward, each in one sweep.

Rows are float32, those of a replica and branch lie together, and each such part is finished before
the next one begins: it stays in the cache, and a replica is the same bits alone and in company.
Rows as wide as the tuple ``lanes`` is long fit into vector registers. Nothing here makes an array
of the size of its arguments: results go where the caller says.

Shapes: B parts (replicas, or branches of replicas), n rows each, h channels.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

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
_BLOCK = 128
"""Rows whose sums are added in float32; sums of blocks are added in float64."""
SCALE, ALPHA = _f(1.0507009873554805), _f(1.0507009873554805 * 1.6732632423543772)
"""Of SELU (Klambauer et al., NeurIPS 2017): its slope above 0, and minus its limit below."""


@intrinsic
def _float_of(typing_context, bits):
    """Return the float32 of the bits of an int32."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


@njit(fastmath={"contract"}, forceinline=True)
def _exp(x):
    """e^x for x at most 0, in float32 (Cephes library); e^-64 below, which is far from denormal."""
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


@njit(fastmath=FAST, nogil=True, cache=True)
def scatter_squares(lanes, start, columns, values, index, grad, total, out):
    """Set ``out`` (R, e) to squared norms of what ``scatter`` would add up for each of e examples.

    The rows of an example are neighbours among the n; ``total`` (d, h) is zero, and so it is left.
    """
    width = grad.shape[1] // out.shape[1]
    for r in range(grad.shape[0]):
        rows, g = index[r], grad[r]
        for e in range(out.shape[1]):
            for i in range(e * width, (e + 1) * width):
                scatter_row(lanes, start[rows[i]], start[rows[i] + 1], columns, values, g, i, total)
            found = _f(0)
            for i in range(e * width, (e + 1) * width):
                for k in range(start[rows[i]], start[rows[i] + 1]):
                    for j in range(len(lanes)):
                        found += total[columns[k], j] ** 2
                        total[columns[k], j] = 0
            out[r, e] = found


@njit(fastmath=FAST, nogil=True, cache=True)
def selu(values, out):
    """Set ``out`` (B, n, h) to SELU of ``values``."""
    for b in range(values.shape[0]):
        x, y = values[b].reshape(-1), out[b].reshape(-1)
        for i in range(x.shape[0]):
            low = ALPHA * (_exp(min(x[i], _f(0))) - _f(1))
            y[i] = SCALE * x[i] if x[i] > _f(0) else low


@njit(fastmath=FAST, nogil=True, cache=True)
def selu_back(grad, active, out):
    """Set ``out`` (B, n, h) to the gradient before SELU, whose values are ``active``."""
    for b in range(grad.shape[0]):
        g, y, o = grad[b].reshape(-1), active[b].reshape(-1), out[b].reshape(-1)
        for i in range(g.shape[0]):
            o[i] = g[i] * (SCALE if y[i] > _f(0) else y[i] + ALPHA)


@njit(forceinline=True)
def _before_selu(lanes, grad, active, i):
    """Return the row ``grad`` times the slope of SELU where its values are row i of ``active``."""
    y = load_row(lanes, active, i)
    return grad * where_positive(y, row_of(lanes, SCALE), y + row_of(lanes, ALPHA))


@njit(fastmath=FAST, nogil=True, cache=True)
def layer_norm(lanes, epsilon, values, scale, shift, standard, deviation, out):
    """Normalise each row of ``values`` (B, n, h) into ``standard``, then scale and shift it.

    ``scale`` and ``shift`` are (B, h); ``deviation`` (B, n) gets one over standard deviations.
    """
    share = _f(1) / _f(len(lanes))
    for b in range(values.shape[0]):
        v, s, o = values[b], standard[b], out[b]
        factor, added = load_row(lanes, scale, b), load_row(lanes, shift, b)
        for i in range(values.shape[1]):
            x = load_row(lanes, v, i)
            x = x - row_of(lanes, row_total(x) * share)
            deviation[b, i] = _f(1) / np.sqrt(row_total(x * x) * share + epsilon)
            x = x * row_of(lanes, deviation[b, i])
            store_row(lanes, x, s, i)
            store_row(lanes, x * factor + added, o, i)


@njit(fastmath=FAST, nogil=True, cache=True)
def layer_norm_back(lanes, grad, scale, standard, deviation, active, out):
    """Set ``out`` (B, n, h) to the gradient before ``layer_norm`` and, maybe, SELU before it.

    ``active`` are the values of SELU, of no part where there was none.
    """
    share = _f(1) / _f(len(lanes))
    for b in range(grad.shape[0]):
        g, s, o = grad[b], standard[b], out[b]
        factor = load_row(lanes, scale, b)
        for i in range(grad.shape[1]):
            d, x = load_row(lanes, g, i) * factor, load_row(lanes, s, i)
            along = row_of(lanes, row_total(d * x) * share)
            d = d - row_of(lanes, row_total(d) * share) - x * along
            d = d * row_of(lanes, deviation[b, i])
            if active.shape[0]:
                d = _before_selu(lanes, d, active[b], i)
            store_row(lanes, d, o, i)


@njit(nogil=True, cache=True)
def column_sums(lanes, values, factors, out):
    """Set ``out`` (B, h) to sums over rows of ``values`` (B, n, h), times ``factors`` if any."""
    total = np.empty((1, len(lanes)))
    for b in range(values.shape[0]):
        v, n = values[b], values.shape[1]
        total[:] = 0
        for begin in range(0, n, _BLOCK):
            block = row_of(lanes, _f(0))
            for i in range(begin, min(n, begin + _BLOCK)):
                x = load_row(lanes, v, i)
                block = block + (x * load_row(lanes, factors[b], i) if factors.shape[0] else x)
            store_row(lanes, block, out, b)
            add_row(lanes, _f(1), out, b, total, 0)
        for j in range(len(lanes)):
            out[b, j] = total[0, j]


@njit(nogil=True, cache=True)
def batch_norm(lanes, epsilon, values, scale, shift, mean, variance, standard, out):
    """Normalise each channel of ``values`` (B, n, h) over its rows; as ``layer_norm`` otherwise.

    ``mean`` and ``variance`` (B, h) get what was found.
    """
    n = values.shape[1]
    factor = np.empty((1, len(lanes)), np.float32)
    for b in range(values.shape[0]):
        v, s, o = values[b], standard[b], out[b]
        column_sums(lanes, values[b : b + 1], values[:0], mean[b : b + 1])
        for j in range(len(lanes)):
            mean[b, j] /= _f(n)
        middle = load_row(lanes, mean, b)
        for i in range(n):
            store_row(lanes, load_row(lanes, v, i) - middle, s, i)
        column_sums(lanes, standard[b : b + 1], standard[b : b + 1], variance[b : b + 1])
        for j in range(len(lanes)):
            variance[b, j] /= _f(n)
            factor[0, j] = _f(1) / np.sqrt(variance[b, j] + epsilon)
        divided, added = load_row(lanes, factor, 0), load_row(lanes, shift, b)
        scaled = divided * load_row(lanes, scale, b)
        for i in range(n):
            x = load_row(lanes, s, i)
            store_row(lanes, x * divided, s, i)
            store_row(lanes, x * scaled + added, o, i)


@njit(nogil=True, cache=True)
def batch_norm_back(lanes, grad, factor, standard, active, out):
    """As ``layer_norm_back`` for ``batch_norm``; ``factor`` (B, h): scale over deviation."""
    n = grad.shape[1]
    means = np.empty((2, len(lanes)), np.float32)
    for b in range(grad.shape[0]):
        g, s, o, part = grad[b], standard[b], out[b], grad[b : b + 1]
        column_sums(lanes, part, part[:0], means[:1])
        column_sums(lanes, part, standard[b : b + 1], means[1:])
        for j in range(len(lanes)):
            means[0, j] /= _f(n)
            means[1, j] /= _f(n)
        mean, along = load_row(lanes, means, 0), load_row(lanes, means, 1)
        times = load_row(lanes, factor, b)
        for i in range(n):
            d = load_row(lanes, g, i) - mean - load_row(lanes, s, i) * along
            d = d * times
            if active.shape[0]:
                d = _before_selu(lanes, d, active[b], i)
            store_row(lanes, d, o, i)


@njit(fastmath=FAST, nogil=True, cache=True)
def unit_rows(lanes, branches, out, inverse):
    """Join the k branches (R, k, n, h) into rows ``out`` (R, n·k, h), those of each n of norm 1.

    ``inverse`` (R, n) gets one over the norms they had, at most 1e12.
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

    ``labels`` (R or 1, n) are those of the ``rows`` (n,); others get none.
    """
    classes = logits.shape[2]
    out[:] = 0
    for r in range(logits.shape[0]):
        own = labels[r % labels.shape[0]]
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
            g[own[i]] -= weight


@njit(fastmath=FAST, nogil=True, cache=True)
def row_squares(values, factors, is_product, out):
    """Set ``out`` (m,) to Σ v² over the rows of ``values`` (m, h), or to Σ v²(f² + 1)."""
    for i in range(values.shape[0]):
        total = _f(0)
        if is_product:
            for j in range(values.shape[1]):
                total += values[i, j] ** 2 * (factors[i, j] ** 2 + _f(1))
        else:
            for j in range(values.shape[1]):
                total += values[i, j] ** 2
        out[i] = total


@njit(nogil=True, cache=True)
def take(lanes, values, index, out):
    """Set ``out`` (R, s, n, h) to the rows ``index`` (R, n) of ``values`` (R, s, N, h)."""
    for r in range(out.shape[0]):
        for s in range(out.shape[1]):
            v, o = values[r, s], out[r, s]
            for i in range(out.shape[2]):
                store_row(lanes, load_row(lanes, v, index[r, i]), o, i)
