"""Compiled CPU kernels: one training step, and one evaluation, of many replicas of a 2-layer GCN.

A *visit* is one forward and backward pass of one replica over one block (a part of the training
graph). Only the rows that the block's loss depends on are computed: logits on ``rows2``, hidden
units on ``rows1`` (their neighbours), X·W1 on ``rows0`` (their neighbours' neighbours). A step
adds the visits' clipped gradients, then noise, then updates, replica by replica, so that one
replica's parameters stay in the cache. Nothing here depends on which replicas train together.

Several visits are added in float64: rounded to float32 after each of thousands of terms, the sum
could move by more than the sensitivity that the noise is made for (docs/privacy.md §3).

Noise and updates are in ``updates``.

Parameters of a replica are one flat row: W1 (features, hidden), b1, W2 (hidden, classes), b2, and
unused numbers up to a whole cache line: a vector that straddles two lines costs a third more time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from private_graphs.core.compiled import njit
from private_graphs.training.noise import FAST, fill_flat_words
from private_graphs.training.simd import add_row, copy_row, gather_row, scatter_row
from private_graphs.training.updates import catch_up, draw, lazy_update, update

_i = np.int32
_CHUNK = 256
"""Hidden rows that are computed together while they fit in the first-level cache."""
_CLIP_MARGIN32, _CLIP_MARGIN64 = 1e-5, 1e-12
"""Relative safety margins, so that rounding never leaves a clipped norm above the bound."""


class Inputs(NamedTuple):
    """Data that all visits read. N nodes; G propagation graphs are stored one after the other."""

    x_pointers: np.ndarray  # (N + 1,) int64, CSR features
    x_indices: np.ndarray  # (nnz,) int32
    x_values: np.ndarray  # (nnz,)
    a_pointers: np.ndarray  # (G, N + 1) int64, CSR propagation matrices
    a_indices: np.ndarray  # int32, node ids
    a_values: np.ndarray
    labels: np.ndarray  # (N,) int32
    n_features: int
    n_classes: int
    n_hidden: int
    hidden_lanes: tuple[bool, ...]
    """SIMD width of hidden rows: a tuple of length n_hidden with any values, so that Numba
    specialises on the length."""
    class_lanes: tuple[bool, ...]
    """SIMD width of class rows: the same for the padded number of classes."""


class Blocks(NamedTuple):
    """B blocks; lists are stored one after the other, ``*_start`` (B + 1,) int64."""

    graph: np.ndarray  # (B,) int64, which propagation graph
    rows0_start: np.ndarray
    rows0: np.ndarray  # int32 node ids
    rows1_start: np.ndarray
    rows1: np.ndarray
    rows2_start: np.ndarray
    rows2: np.ndarray
    n_loss: np.ndarray  # (B,) int64, leading rows2 that enter the loss; the others are only scored
    closed: np.ndarray  # (B,) bool, whether rows0 equals rows1: no edge of Â leaves the block
    words_start: np.ndarray
    words: np.ndarray  # int32 columns of X with a non-zero in rows0
    part: np.ndarray  # (B,) int64, number of the part of a replica's training graph; 0 for others


class Step(NamedTuple):
    """One step: replica ``replicas[a]`` visits ``visits[visit_start[a]:visit_start[a + 1]]``."""

    replicas: np.ndarray  # (A,) int64
    visit_start: np.ndarray  # (A + 1,) int64
    visits: np.ndarray  # int64 block numbers
    number: int  # 0, 1, … within the run; the counter of noise and dropout
    dropout: bool
    stop_at: np.ndarray  # (A,) a replica steps only if its scored-only loss is below; NaN: always


class Rule(NamedTuple):
    """Clipping, noise and update settings, the same for all replicas of a batch."""

    clip: float  # bound of each visit's gradient norm; infinity means no clipping
    divisor: float  # public constant that divides the noisy sum
    weight_decay: float
    adam: bool
    lazy: bool
    """Whether noise is delayed (plain SGD without weight decay only): a row of W1 that a step
    does not read gets its noise when it is read next, all missed draws as one draw of their
    summed variance."""
    keep_threshold: int  # a hidden unit is dropped if its random byte is smaller
    keep_scale: float
    apart: int
    """Distance of the dropout counters of two parts, in units of 16 bytes; 0: a visit's counters
    follow those of the visit before it, whose number follows from its size."""


class State(NamedTuple):
    """State of R replicas, in rows of ``row_length`` P."""

    parameters: np.ndarray  # (R, P)
    first_moment: np.ndarray  # (R, P) for Adam, else (R, 0)
    second_moment: np.ndarray
    learning_rate: np.ndarray  # (R,) float64
    noise_std: np.ndarray  # (R,) float64, noise of the sum: noise multiplier times clip norm
    noise_key: np.ndarray  # (R, 4) uint32, or (R, 8) under a secret (``Streams.key``)
    dropout_key: np.ndarray  # like ``noise_key``
    noised: np.ndarray
    """(R, features) int64 if lazy, else (R, 0): number of steps whose noise a row of W1 has
    received."""
    drawn: np.ndarray
    """(R,) int64: noise counters of the next step that ``catch_up_all`` has used already."""


class Scratch(NamedTuple):
    """Work space of one thread."""

    z0: np.ndarray  # (N, hidden), row = node
    h1: np.ndarray  # (N, hidden), compact
    chunk: np.ndarray  # (_CHUNK, hidden)
    zeros: np.ndarray  # (1, max(hidden, width))
    y: np.ndarray  # (N, width), row = node
    y_compact: np.ndarray  # (N, width)
    logits: np.ndarray  # (N, width), compact
    powers: np.ndarray  # (N * width,) int32
    w2: np.ndarray  # (hidden, width), W2 padded with zero columns
    g2: np.ndarray  # (hidden, width), its gradient
    g2_chunk: np.ndarray  # (hidden, width), what one chunk adds to it
    bias: np.ndarray  # (width,)
    visit: np.ndarray  # (P,) gradient of one of several visits, valid on the block's words only
    total: np.ndarray  # (P,) gradient of the only visit, zero between steps
    sums: np.ndarray  # (P,) float64 sum of several visits, zero between steps
    normals: np.ndarray  # (4n,)
    words: np.ndarray  # (4, n) uint32
    exponent: np.ndarray  # (n,) float32
    mantissa: np.ndarray  # (n,) float32
    bits: np.ndarray  # (_CHUNK * hidden / 4,) uint32, a random byte per hidden unit of a chunk


def padded(n_classes: int) -> int:
    """Return the row width for SIMD: ``n_classes`` rounded up to a multiple of 8."""
    return -(-n_classes // 8) * 8


def n_parameters(n_features: int, hidden: int, n_classes: int) -> int:
    """Return the number of parameters of one replica."""
    return n_features * hidden + hidden + hidden * n_classes + n_classes


def row_length(n_features: int, hidden: int, n_classes: int) -> int:
    """Return the length of a replica's row: its parameters, rounded up to a whole cache line."""
    return -(-n_parameters(n_features, hidden, n_classes) // 16) * 16


def aligned_zeros(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Return zeros whose memory starts at a cache line (64 bytes)."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def make_scratch(n_nodes: int, n_features: int, hidden: int, n_classes: int, dtype) -> Scratch:
    """Allocate the work space of one thread."""
    width = padded(n_classes)
    length = row_length(n_features, hidden, n_classes)
    quarter = length // 4

    def empty(*shape):
        return aligned_zeros(shape, dtype)

    return Scratch(
        z0=empty(n_nodes, hidden),
        h1=empty(n_nodes, hidden),
        chunk=empty(_CHUNK, hidden),
        zeros=empty(1, max(hidden, width)),
        y=empty(n_nodes, width),
        y_compact=empty(n_nodes, width),
        logits=empty(n_nodes, width),
        powers=aligned_zeros((n_nodes * width,), np.int32),
        w2=empty(hidden, width),
        g2=empty(hidden, width),
        g2_chunk=empty(hidden, width),
        bias=empty(width),
        visit=empty(length),
        total=empty(length),
        sums=aligned_zeros((length,), np.float64),
        normals=empty(length),
        words=aligned_zeros((4, quarter), np.uint32),
        exponent=aligned_zeros((quarter,), np.float32),
        mantissa=aligned_zeros((quarter,), np.float32),
        bits=aligned_zeros((_CHUNK * hidden // 4,), np.uint32),
    )


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _exponentials(x, powers):
    """Replace every number of the flat array ``x`` (all <= 0) by its exponential, in place.

    In float32, results below 2^-40 become 0, far below the rounding of the sums that they enter;
    squares of such numbers would be subnormal and slow down all later operations tenfold.
    """
    if x.itemsize == 8:
        for i in range(x.shape[0]):
            x[i] = np.exp(x[i])
        return
    for i in range(x.shape[0]):
        t = x[i]
        t = t if t > np.float32(-87) else np.float32(-87)
        n = np.floor(t * np.float32(1.44269504088896341) + np.float32(0.5))
        powers[i] = (_i(n) + _i(127)) << _i(23) if n > np.float32(-40) else _i(0)
        r = t - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
        p = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
        p = p * r + np.float32(8.3334519073e-3)
        p = p * r + np.float32(4.1665795894e-2)
        p = p * r + np.float32(1.6666665459e-1)
        p = p * r + np.float32(5.0000001201e-1)
        x[i] = p * r * r + r + np.float32(1)
    scale = powers.view(np.float32)
    for i in range(x.shape[0]):
        x[i] *= scale[i]


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _activate(begin, end, rule, dropout, key, number, first, s):
    """Apply ReLU and dropout (one random byte per unit) to the rows begin … end - 1 of ``h1``."""
    hidden = s.h1.shape[1]
    h1 = s.h1.reshape(s.h1.size)[begin * hidden : end * hidden]
    zero = h1.dtype.type(0)
    if not dropout:
        for i in range(h1.shape[0]):
            h1[i] = zero if h1[i] <= zero else h1[i]  # lets NaN pass, which is detected later
        return
    scale = h1.dtype.type(rule.keep_scale)
    threshold = np.uint8(rule.keep_threshold)
    words = s.bits[: (h1.shape[0] + 15) // 16 * 4]
    fill_flat_words(key, number, first + begin * hidden // 16, words)
    random = s.bits.view(np.uint8)
    for i in range(h1.shape[0]):
        dropped = (h1[i] <= zero) | (random[i] < threshold)  # ``or`` would not vectorise
        h1[i] = zero if dropped else h1[i] * scale


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _forward(inputs, blocks, b, theta, rule, dropout, key, number, first, s):
    """Compute the logits of block ``b`` into ``s.logits`` and its hidden units into ``s.h1``."""
    hidden = inputs.n_hidden
    n_features = inputs.n_features
    w1 = theta[: n_features * hidden].reshape(n_features, hidden)
    b1 = theta[n_features * hidden : (n_features + 1) * hidden]
    tail = theta[(n_features + 1) * hidden :]
    k = inputs.n_classes
    w2, bias = s.w2, s.bias  # their padding stays zero
    bias[:k] = tail[hidden * k : (hidden + 1) * k]
    w2[:, :k] = tail[: hidden * k].reshape(hidden, k)
    rows0 = blocks.rows0[blocks.rows0_start[b] : blocks.rows0_start[b + 1]]
    rows1 = blocks.rows1[blocks.rows1_start[b] : blocks.rows1_start[b + 1]]
    rows2 = blocks.rows2[blocks.rows2_start[b] : blocks.rows2_start[b + 1]]
    xp, xi, xv = inputs.x_pointers, inputs.x_indices, inputs.x_values
    ap, ai, av = inputs.a_pointers[blocks.graph[b]], inputs.a_indices, inputs.a_values
    wide, narrow = inputs.hidden_lanes, inputs.class_lanes
    # local names: each read of a tuple's field in a loop costs an atomic reference count
    zeros, z0, h1, y, y_compact, logits = s.zeros, s.z0, s.h1, s.y, s.y_compact, s.logits
    for node in rows0:
        gather_row(wide, xp[node], xp[node + 1], xi, xv, w1, zeros, z0, np.int64(node))
    for begin in range(0, rows1.shape[0], _CHUNK):
        end = min(begin + _CHUNK, rows1.shape[0])
        for i in range(begin, end):
            node = rows1[i]
            gather_row(wide, ap[node], ap[node + 1], ai, av, z0, b1, h1, i)
        _activate(begin, end, rule, dropout, key, number, first, s)
        np.dot(h1[begin:end], w2, y_compact[begin:end])
        for i in range(begin, end):
            copy_row(narrow, y_compact, i, y, np.int64(rows1[i]))
    for i in range(rows2.shape[0]):
        node = rows2[i]
        gather_row(narrow, ap[node], ap[node + 1], ai, av, y, bias, logits, i)


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _probabilities(n, n_classes, s):
    """Replace the first ``n`` rows of ``s.logits`` by their softmax, in place."""
    logits, width = s.logits, s.logits.shape[1]
    for i in range(n):
        row = logits[i]
        largest = row[0]
        for c in range(1, n_classes):
            largest = max(largest, row[c])
        for c in range(width):
            row[c] -= largest
    flat = logits.reshape(logits.size)[: n * width]
    _exponentials(flat, s.powers[: n * width])
    for i in range(n):
        row = logits[i]
        total = row[0]
        for c in range(1, n_classes):
            total += row[c]
        for c in range(n_classes):
            row[c] /= total
        for c in range(n_classes, width):
            row[c] = 0


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _cross_entropy(begin, rows2, inputs, s):
    """Return the mean cross-entropy of the logits from row ``begin`` on, which it overwrites."""
    end, width = rows2.shape[0], s.logits.shape[1]
    logits, labels = s.logits, inputs.labels
    total = 0.0
    for i in range(begin, end):
        row = logits[i]
        largest = row[0]
        for c in range(1, inputs.n_classes):
            largest = max(largest, row[c])
        total += largest - row[labels[rows2[i]]]
        for c in range(width):
            row[c] -= largest
    flat = logits.reshape(logits.size)[begin * width : end * width]
    _exponentials(flat, s.powers[: flat.shape[0]])
    for i in range(begin, end):
        row = logits[i]
        exponentials = 0.0
        for c in range(inputs.n_classes):
            exponentials += row[c]
        total += np.log(exponentials)
    return total / max(end - begin, 1)


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _hidden_gradients(rows1, theta, rule, dropout, narrow, wide, g_bias1, s):
    """Compute the gradients of W2, b1 and the hidden units from that of H·W2 (``s.y``, row = node).

    The results are ``s.g2``, ``g_bias1`` and ``s.z0`` (row = node).
    """
    hidden = s.h1.shape[1]
    zero = theta.dtype.type(0)
    scale = theta.dtype.type(rule.keep_scale) if dropout else theta.dtype.type(1)
    h1, y, y_compact, z0, chunk = s.h1, s.y, s.y_compact, s.z0, s.chunk
    g2 = s.g2
    g2[:] = 0
    g_bias1[:] = 0
    for begin in range(0, rows1.shape[0], _CHUNK):
        end = min(begin + _CHUNK, rows1.shape[0])
        for i in range(begin, end):
            copy_row(narrow, y, np.int64(rows1[i]), y_compact, i)
        # ∂L/∂W2 = Hᵀ·Y and ∂L/∂H = Y·W2ᵀ, where Y = ∂L/∂(H·W2).
        np.dot(h1[begin:end].T, y_compact[begin:end], s.g2_chunk)
        g2 += s.g2_chunk
        np.dot(y_compact[begin:end], s.w2.T, chunk[: end - begin])
        active = h1.reshape(h1.size)[begin * hidden : end * hidden]
        passed = chunk.reshape(chunk.size)[: active.shape[0]]
        for i in range(active.shape[0]):  # a unit that ReLU or dropout set to zero has no gradient
            passed[i] = passed[i] * scale if active[i] > 0 else zero
        for i in range(end - begin):
            for h in range(hidden):
                g_bias1[h] += chunk[i, h]
            copy_row(wide, chunk, i, z0, np.int64(rows1[begin + i]))


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _visit(inputs, blocks, b, theta, rule, dropout, key, number, first, gradient, s):
    """Compute block ``b``'s gradient into ``gradient`` (P,); return its squared norm.

    ``gradient`` must be zero on the block's words; it is written there and behind W1 only. Second
    result: the mean cross-entropy of the rows that are only scored.
    """
    hidden = inputs.n_hidden
    _forward(inputs, blocks, b, theta, rule, dropout, key, number, first, s)
    k = inputs.n_classes
    rows0 = blocks.rows0[blocks.rows0_start[b] : blocks.rows0_start[b + 1]]
    rows1 = blocks.rows1[blocks.rows1_start[b] : blocks.rows1_start[b + 1]]
    rows2 = blocks.rows2[blocks.rows2_start[b] : blocks.rows2_start[b + 1]]
    words = blocks.words[blocks.words_start[b] : blocks.words_start[b + 1]]
    xp, xi, xv = inputs.x_pointers, inputs.x_indices, inputs.x_values
    ap, ai, av = inputs.a_pointers[blocks.graph[b]], inputs.a_indices, inputs.a_values
    wide, narrow = inputs.hidden_lanes, inputs.class_lanes
    n1, n2 = rows1.shape[0], blocks.n_loss[b]
    n_features = inputs.n_features
    g1 = gradient[: n_features * hidden].reshape(n_features, hidden)
    g_bias1 = gradient[n_features * hidden : (n_features + 1) * hidden]
    g_tail = gradient[(n_features + 1) * hidden :]
    zeros, z0, h1, y, chunk, logits = s.zeros, s.z0, s.h1, s.y, s.chunk, s.logits
    scored = _cross_entropy(n2, rows2, inputs, s)
    _probabilities(n2, k, s)
    # L = -(1/n) Σ log softmax(z)_y, so that ∂L/∂z = (softmax(z) - onehot(y)) / n.
    weight, labels, bias = theta.dtype.type(1.0 / n2), inputs.labels, s.bias
    bias[:] = 0
    for i in range(n2):
        row = logits[i]
        row[labels[rows2[i]]] -= 1
        for c in range(k):
            row[c] *= weight
            bias[c] += row[c]
    # z = Â·(H·W2) + b2 (Kipf & Welling, ICLR 2017, eq. 9), so that ∂L/∂(H·W2) = Âᵀ·∂L/∂z.
    for i in range(n1):
        copy_row(narrow, zeros, 0, y, np.int64(rows1[i]))
    for i in range(n2):
        node = rows2[i]
        scatter_row(narrow, ap[node], ap[node + 1], ai, av, logits, i, y)
    _hidden_gradients(rows1, theta, rule, dropout, narrow, wide, g_bias1, s)
    # z0 now holds the gradient of the hidden units, row = node
    if blocks.closed[b]:  # Â is symmetric: gather replaces scatter
        for node in rows0:
            gather_row(wide, ap[node], ap[node + 1], ai, av, z0, zeros, chunk, np.int64(0))
            scatter_row(wide, xp[node], xp[node + 1], xi, xv, chunk, np.int64(0), g1)
    else:
        for node in rows0:
            copy_row(wide, zeros, 0, h1, np.int64(node))
        for node in rows1:
            scatter_row(wide, ap[node], ap[node + 1], ai, av, z0, np.int64(node), h1)
        for node in rows0:
            scatter_row(wide, xp[node], xp[node + 1], xi, xv, h1, np.int64(node), g1)
    g_tail[: hidden * k].reshape(hidden, k)[:] = s.g2[:, :k]
    g_tail[hidden * k : (hidden + 1) * k] = bias[:k]
    # The norm over W1, b1, W2 and b2 together is what is clipped (Abadi et al., CCS 2016,
    # Algorithm 1); rows of W1 without a word of the block have no gradient.
    square = 0.0
    for word in words:
        row = g1[word]
        part = row[0] * row[0]
        for h in range(1, hidden):
            part += row[h] * row[h]
        square += part
    behind = gradient[n_features * hidden :]
    for i in range(behind.shape[0]):
        square += behind[i] * behind[i]
    return square, scored


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _scale(words, n_weights, hidden, factor, total):
    """Set total = factor * total on the rows of ``words`` and behind W1.

    A factor of 0 also clears non-finite values.
    """
    factor, zero = total.dtype.type(factor), total.dtype.type(0)
    rows, behind = total[:n_weights].reshape(n_weights // hidden, hidden), total[n_weights:]
    for word in words:
        row = rows[word]
        for h in range(hidden):
            row[h] = factor * row[h] if factor != zero else zero
    for i in range(behind.shape[0]):
        behind[i] = factor * behind[i] if factor != zero else zero


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _add(words, inputs, factor, visit, sums):
    """Add factor * visit to ``sums`` (float64) on the rows of ``words`` and behind W1.

    A factor of 0 skips the product, whose other factor may not be finite.
    """
    if factor == 0:
        return
    factor = visit.dtype.type(factor)
    shape = (inputs.n_features, inputs.n_hidden)
    n_weights = shape[0] * shape[1]
    visit1, sums1 = visit[:n_weights].reshape(shape), sums[:n_weights].reshape(shape)
    for word in words:
        add_row(inputs.hidden_lanes, factor, visit1, np.int64(word), sums1, np.int64(word))
    behind, sums_behind = visit[n_weights:], sums[n_weights:]
    for i in range(behind.shape[0]):
        sums_behind[i] += factor * behind[i]


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def _clip_factor(square, clip, margin):
    """Return the clip factor of a gradient with this squared norm: at most clip / norm.

    The factor is 0 for a non-finite gradient, which counts as the zero vector (docs/privacy.md §2).
    """
    if not np.isfinite(square):
        return 0.0
    # g / max(1, |g|/C) of Algorithm 1; the margin covers what rounding hides of the norm.
    bounded = np.sqrt(square) * (1.0 + margin)
    return clip / bounded if bounded > clip else 1.0


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def train_step(inputs, blocks, step, rule, state, s, scored):
    """Take one step of every replica of ``step``.

    ``scored`` (A,) receives the mean cross-entropy of the rows that a replica's last block only
    scores, with the parameters and the dropout before the update.
    """
    for a in range(step.replicas.shape[0]):
        stops, several, drawn = accumulate(a, inputs, blocks, step, rule, state, s, scored)
        if not stops:
            finish(a, several, drawn, inputs, blocks, step, rule, state, s)


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def accumulate(a, inputs, blocks, step, rule, state, s, scored):
    """Sum the clipped gradients of the ``a``-th replica of ``step``: the only read of private data.

    The sum is in ``s.sums`` after several visits, else in ``s.total``. Returns whether the replica
    stops before this step, whether there were several visits, and the next free noise counter.
    """
    hidden = inputs.n_hidden
    margin = _CLIP_MARGIN32 if s.total.itemsize == 4 else _CLIP_MARGIN64
    r = step.replicas[a]
    theta = state.parameters[r]
    n_weights = inputs.n_features * hidden
    key, first, stops = state.dropout_key[r], np.int64(0), False
    limit, drawn, visits = step.stop_at[a], state.drawn[r], 0
    for position in range(step.visit_start[a], step.visit_start[a + 1]):
        visits += blocks.n_loss[step.visits[position]] > 0
    several = visits > 1
    for position in range(step.visit_start[a], step.visit_start[a + 1]):
        b = step.visits[position]
        if blocks.n_loss[b] == 0:
            continue  # no labelled node: the gradient of an empty sum is zero
        words = blocks.words[blocks.words_start[b] : blocks.words_start[b + 1]]
        if several:
            w1 = s.visit[:n_weights].reshape(inputs.n_features, hidden)
            for word in words:
                copy_row(inputs.hidden_lanes, s.zeros, 0, w1, np.int64(word))
        if rule.lazy:
            drawn = catch_up(r, step.number, words, drawn, inputs, state, rule, s)
        gradient = s.visit if several else s.total  # a single visit needs no copy
        square, scored[a] = _visit(
            inputs, blocks, b, theta, rule, step.dropout, key, step.number,
            blocks.part[b] * rule.apart if rule.apart > 0 else first, gradient, s,
        )  # fmt: skip
        stops = not np.isnan(limit) and not scored[a] < limit
        factor = 0.0 if stops else _clip_factor(square, rule.clip, margin)
        if several:
            _add(words, inputs, factor, s.visit, s.sums)
        elif factor != 1.0:
            _scale(words, n_weights, hidden, factor, s.total)
        n1 = blocks.rows1_start[b + 1] - blocks.rows1_start[b]
        first += (n1 * hidden + 15) // 16  # visits of one step share no dropout bits
    return stops, several, drawn


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def finish(a, several, drawn, inputs, blocks, step, rule, state, s):
    """Add noise to the sum of the ``a``-th replica of ``step``, and update its parameters.

    The noise's standard deviation and key come from ``mechanisms.door``.
    """
    r = step.replicas[a]
    state.drawn[r] = 0
    if rule.lazy:
        lazy_update(a, r, drawn, blocks, step, inputs, state, rule, several, s)
    else:
        if state.noise_std[r] > 0:
            draw(state.noise_key[r], step.number, drawn, state.parameters.shape[1], s)
        update(r, step.number, 0, state, rule, several, s)


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def evaluate(inputs, blocks, replicas, block_of, rule, state, s, loss, predictions):
    """Score replicas on their evaluation blocks.

    ``block_of`` (A,): block of each of ``replicas`` (A,). Writes the mean cross-entropy (A,) and
    the predicted classes (A, M); ties go to the smaller class.
    """
    start = 0 * replicas.shape[0]  # a literal 0 would make Numba compile everything once more
    dropout = start > 0
    for a in range(replicas.shape[0]):
        r, b = replicas[a], block_of[a]
        rows2 = blocks.rows2[blocks.rows2_start[b] : blocks.rows2_start[b + 1]]
        theta, key = state.parameters[r], state.dropout_key[r]
        _forward(inputs, blocks, b, theta, rule, dropout, key, start, start, s)
        for i in range(rows2.shape[0]):
            row = s.logits[i]
            best = 0
            for c in range(1, inputs.n_classes):
                if row[c] > row[best]:
                    best = c
            predictions[a, i] = best
        loss[a] = _cross_entropy(0, rows2, inputs, s)
