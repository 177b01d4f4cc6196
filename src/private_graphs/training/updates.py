"""Compiled: the noise of a step, and the update of a replica's parameters.

The arguments are described in ``kernels``: ``state`` is a ``State``, ``rule`` a ``Rule``, ``s`` a
``Scratch``. Parameters are one flat row, W1 first.
"""

from __future__ import annotations

import numpy as np

from private_graphs.core.compiled import njit
from private_graphs.training.noise import FAST, fill_normals
from private_graphs.training.simd import add_row, copy_row


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def draw(key, t, begin, count, s):
    """Draw at least ``count`` normals of step ``t``; return the next free counter."""
    n = (count + 3) // 4
    words = s.words.reshape(s.words.size)[: 4 * n].reshape(4, n)
    fill_normals(key, t, begin, s.normals[: 4 * n], words, s.exponent[:n], s.mantissa[:n])
    return begin + n


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def update(r, t, begin, state, rule, several, s):
    """Update replica ``r`` with (total + noise) / divisor (+ weight decay); clear the total.

    ``t`` counts steps from 0. Plain SGD, or Adam with the usual constants (.9, .999, 1e-8). Only
    parameters from ``begin`` on are updated. ``several``: the total is in ``s.sums`` and gets its
    noise in float64, so that only noisy values are rounded to the parameters' type.
    """
    theta, total = state.parameters[r][begin:], s.total[begin:]
    dtype = theta.dtype.type
    std = dtype(state.noise_std[r])
    divide, decay = dtype(1.0 / rule.divisor), dtype(rule.weight_decay)
    normals = s.normals
    if several:
        sums, wide_std, wide_divide = s.sums[begin:], state.noise_std[r], 1.0 / rule.divisor
        for i in range(theta.shape[0]):
            noisy = sums[i] + wide_std * normals[i]  # ``normals`` are finite
            total[i] = dtype(noisy * wide_divide) + decay * theta[i]
            sums[i] = 0
    elif std > 0:
        for i in range(theta.shape[0]):
            total[i] = (total[i] + std * normals[i]) * divide + decay * theta[i]
    else:
        for i in range(theta.shape[0]):
            total[i] = total[i] * divide + decay * theta[i]
    if rule.adam:
        m, v = state.first_moment[r], state.second_moment[r]
        rate = dtype(state.learning_rate[r] / (1.0 - 0.9 ** (t + 1)))
        root = dtype(1.0 / np.sqrt(1.0 - 0.999 ** (t + 1)))
        b1, c1, b2, c2 = dtype(0.9), dtype(1 - 0.9), dtype(0.999), dtype(1 - 0.999)
        epsilon = dtype(1e-8)
        for i in range(theta.shape[0]):
            g = total[i]
            m[i] = b1 * m[i] + c1 * g
            v[i] = b2 * v[i] + c2 * g * g
            theta[i] -= rate * m[i] / (np.sqrt(v[i]) * root + epsilon)
            total[i] = 0
    else:
        rate = dtype(state.learning_rate[r])
        for i in range(theta.shape[0]):
            theta[i] -= rate * total[i]
            total[i] = 0


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def catch_up(r, t, words, begin, inputs, state, rule, s):
    """Give the rows ``words`` of W1 the noise of earlier steps (before ``t``) that they still lack.

    The noise of k steps is one draw with k times the variance: as nothing read the row in between,
    everything that is read or released has the same distribution as with k draws. ``begin`` is the
    first free counter of step ``t``; returns the next one.
    """
    if state.noise_std[r] <= 0:
        return begin
    hidden, noised = inputs.n_hidden, state.noised[r]
    w1 = state.parameters[r][: inputs.n_features * hidden].reshape(inputs.n_features, hidden)
    behind = 0
    for word in words:
        behind += noised[word] < t
    if behind == 0:
        return begin
    end = draw(state.noise_key[r], t, begin, behind * hidden, s)
    spread = state.learning_rate[r] * state.noise_std[r] / rule.divisor
    normals = s.normals[: behind * hidden].reshape(behind, hidden)
    row = 0
    for word in words:
        if noised[word] < t:
            factor = w1.dtype.type(-spread * np.sqrt(t - noised[word]))
            add_row(inputs.hidden_lanes, factor, normals, row, w1, np.int64(word))
            row += 1
            noised[word] = t
    return end


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def catch_up_all(inputs, replicas, number, rule, state, s):
    """Bring all rows of ``replicas`` up to date after ``number`` steps."""
    words = np.arange(inputs.n_features)
    for r in replicas:
        state.drawn[r] = catch_up(r, number, words, state.drawn[r], inputs, state, rule, s)


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def lazy_update(a, r, begin, blocks, step, inputs, state, rule, several, s):
    """Update the parameters that step ``step`` read; all rows of W1 now lack this step's noise.

    ``several``: as in ``update``.
    """
    hidden, n_weights = inputs.n_hidden, inputs.n_features * inputs.n_hidden
    theta = state.parameters[r]
    w1 = theta[:n_weights].reshape(inputs.n_features, hidden)
    total = s.total[:n_weights].reshape(inputs.n_features, hidden)
    wide, factor = inputs.hidden_lanes, -state.learning_rate[r] / rule.divisor
    rows = s.sums[:n_weights].reshape(inputs.n_features, hidden)
    for position in range(step.visit_start[a], step.visit_start[a + 1]):
        b = step.visits[position]
        for word in blocks.words[blocks.words_start[b] : blocks.words_start[b + 1]]:
            if several:
                row, weights = rows[word], w1[word]
                for h in range(hidden):
                    weights[h] = theta.dtype.type(weights[h] + factor * row[h])
                    row[h] = 0
            else:
                add_row(wide, theta.dtype.type(factor), total, np.int64(word), w1, np.int64(word))
                copy_row(wide, s.zeros, 0, total, np.int64(word))
    if state.noise_std[r] > 0:
        draw(state.noise_key[r], step.number, begin, theta.shape[0] - n_weights, s)
    update(r, step.number, n_weights, state, rule, several, s)
