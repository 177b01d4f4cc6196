"""Compiled loops that do one thing of a training step and nothing else."""

from __future__ import annotations

import numpy as np
from numba import njit

from private_graphs.training.noise import FAST
from private_graphs.training.simd import gather_row, scatter_row


@njit(nogil=True, cache=True)
def gather(lanes, repeats, pointers, indices, values, dense, start, out):
    """``out`` = sparse matrix @ ``dense``, ``repeats`` times over."""
    for _ in range(repeats):
        for row in range(out.shape[0]):
            first, last = pointers[row], pointers[row + 1]
            gather_row(lanes, first, last, indices, values, dense, start, out, row)


@njit(nogil=True, cache=True)
def sparse_products(inputs, blocks, trained, scored, w1, g1, z0, h1, y, logits, zeros):
    """The products with features and propagation matrix that an epoch needs.

    Forward and backward for the blocks ``trained``, forward for the blocks ``scored``. The dense
    arguments are tables of (features or nodes, hidden or classes).
    """
    xp, xi, xv = inputs.x_pointers, inputs.x_indices, inputs.x_values
    ai, av = inputs.a_indices, inputs.a_values
    wide, narrow = inputs.hidden_lanes, inputs.class_lanes
    for position in range(trained.shape[0] + scored.shape[0]):
        trains = position < trained.shape[0]
        b = trained[position] if trains else scored[position - trained.shape[0]]
        if trains and blocks.n_loss[b] == 0:
            continue
        ap = inputs.a_pointers[blocks.graph[b]]
        rows0 = blocks.rows0[blocks.rows0_start[b] : blocks.rows0_start[b + 1]]
        rows1 = blocks.rows1[blocks.rows1_start[b] : blocks.rows1_start[b + 1]]
        rows2 = blocks.rows2[blocks.rows2_start[b] : blocks.rows2_start[b + 1]]
        for node in rows0:
            gather_row(wide, xp[node], xp[node + 1], xi, xv, w1, zeros, z0, np.int64(node))
        for node in rows1:
            gather_row(wide, ap[node], ap[node + 1], ai, av, z0, zeros, h1, np.int64(node))
        for node in rows2:
            gather_row(narrow, ap[node], ap[node + 1], ai, av, y, zeros, logits, np.int64(node))
        if not trains:
            continue
        for node in rows2[: blocks.n_loss[b]]:
            scatter_row(narrow, ap[node], ap[node + 1], ai, av, logits, np.int64(node), y)
        if blocks.closed[b]:
            for node in rows0:
                gather_row(wide, ap[node], ap[node + 1], ai, av, h1, zeros, z0, np.int64(node))
        else:
            for node in rows1:
                scatter_row(wide, ap[node], ap[node + 1], ai, av, h1, np.int64(node), z0)
        for node in rows0:
            scatter_row(wide, xp[node], xp[node + 1], xi, xv, z0, np.int64(node), g1)


@njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
def update_pass(adam, theta, gradient, m, v):
    """One pass of an optimizer over all parameters, its own arithmetic and nothing else."""
    f = np.float32
    if not adam:
        for i in range(theta.shape[0]):
            theta[i] -= f(0.01) * gradient[i]
        return
    for i in range(theta.shape[0]):
        g = gradient[i]
        m[i] = f(0.9) * m[i] + f(0.1) * g
        v[i] = f(0.999) * v[i] + f(0.001) * g * g
        theta[i] -= f(0.01) * m[i] / (np.sqrt(v[i]) + f(1e-8))
