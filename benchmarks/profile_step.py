"""Where the time of one training step goes, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numba import njit

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.protocols import PROTOCOLS
from private_graphs.training import kernels
from private_graphs.training.simd import gather_row, scatter_row


@njit(nogil=True, cache=True)
def _gather(lanes, rows, pointers, indices, values, dense, start, out):
    for row in rows:
        first, last = pointers[row], pointers[row + 1]
        gather_row(lanes, first, last, indices, values, dense, start, out, np.int64(row))


@njit(nogil=True, cache=True)
def _scatter(lanes, rows, pointers, indices, values, dense, out):
    for row in rows:
        first, last = pointers[row], pointers[row + 1]
        scatter_row(lanes, first, last, indices, values, dense, np.int64(row), out)


def _microseconds(run: Callable[[], object], repeats: int = 300) -> float:
    """Fastest of ``repeats`` runs: whatever else the machine does only adds time."""
    run()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return min(taken) * 1e6


def _sparse_products(batch, b: int) -> float:
    """Microseconds of the six sparse products of one forward and backward pass, alone."""
    inputs, blocks, s = batch.structure.inputs, batch.structure.blocks, batch.backend.scratch
    rows0 = blocks.rows0[blocks.rows0_start[b] : blocks.rows0_start[b + 1]]
    rows1 = blocks.rows1[blocks.rows1_start[b] : blocks.rows1_start[b + 1]]
    rows2 = blocks.rows2[blocks.rows2_start[b] : blocks.rows2_start[b + 1]]
    x = (inputs.x_pointers, inputs.x_indices, inputs.x_values)
    a = (inputs.a_pointers[blocks.graph[b]], inputs.a_indices, inputs.a_values)
    n_weights = inputs.n_features * inputs.n_hidden
    w1 = batch.backend.state.parameters[0][:n_weights].reshape(-1, inputs.n_hidden)
    gradient = kernels.aligned_zeros(w1.shape, w1.dtype)
    wide, narrow = inputs.hidden_lanes, inputs.class_lanes
    hidden_out, class_out = (kernels.aligned_zeros(e.shape, e.dtype) for e in (s.h1, s.y))

    def run() -> None:
        _gather(wide, rows0, *x, w1, s.zeros, s.z0)
        _gather(wide, rows1, *a, s.z0, s.zeros, hidden_out)
        _gather(narrow, rows2, *a, s.y, s.zeros, class_out)
        _scatter(narrow, rows2, *a, class_out, s.y)
        _scatter(wide, rows1, *a, hidden_out, s.z0)
        _scatter(wide, rows0, *x, s.z0, gradient)
        s.z0[:], s.y[:] = 0, 0

    return _microseconds(run)


def _phases(batch, private: bool) -> dict[str, float]:
    """Microseconds of the phases of one replica's step on its first part."""
    backend, structure = batch.backend, batch.structure
    inputs, blocks, s, rule = structure.inputs, structure.blocks, backend.scratch, backend.rule
    b, state = int(structure.parts[0, 0]), backend.state
    theta, key, one = state.parameters[0], state.dropout_key[0], np.arange(1)
    never = np.full(1, np.nan)
    step = kernels.Step(one, np.array([0, 1]), structure.parts[0, :1].copy(), 0, True, never)
    scored = np.zeros(1)
    loss, predictions = np.zeros(1), np.zeros((1, len(structure.validation_nodes)), np.int32)
    forward = _microseconds(
        lambda: kernels._forward(inputs, blocks, b, theta, rule, True, key, 0, 0, s)
    )
    visit = _microseconds(
        lambda: kernels._visit(inputs, blocks, b, theta, rule, True, key, 0, 0, s.visit, s)
    )
    whole = _microseconds(lambda: kernels.train_step(inputs, blocks, step, rule, state, s, scored))
    validation = 0.0
    if not structure.joined:
        validation = _microseconds(
            lambda: kernels.evaluate(
                inputs, blocks, one, structure.validation[:1], rule, state, s, loss, predictions
            )
        )
    return {
        "sparse products alone": _sparse_products(batch, b),
        "forward": forward,
        "backward and norm": visit - forward,
        "clip, noise and update" if private else "update": whole - visit,
        "validation": validation,
    }


def profile(dataset: GraphDataset, make_batch: Callable) -> list[str]:
    """Markdown table: phases of a full-graph step under each protocol, SGD."""
    rows = [
        "| case | sparse products alone | forward | backward and norm | clip, noise, update | "
        "validation | sum |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for noise in (0.0, 112.0):
        for name, protocol in PROTOCOLS.items():
            batch = make_batch(dataset, protocol, "sgd", noise, 1, 1)
            batch.backend.prepare()
            taken = list(_phases(batch, noise > 0).values())
            cells = " | ".join(f"{each / 1e3:.3f}" for each in taken)
            title = f"{'DP full graph' if noise else 'non-private'}, {name}"
            rows.append(f"| {title} | {cells} | {sum(taken[1:]) / 1e3:.3f} |")
    rows += [
        "",
        "*Sparse products alone* are the products with the features and the propagation matrix "
        "that forward and backward need, and nothing else: the floor of a step, bound by the "
        "second-level cache. They are part of forward and backward and not added again. Under "
        "`released` without DP the training pass scores the validation nodes on the way "
        "(validation 0). The float64 baseline's time is dominated by one dense matrix product "
        "(nodes × words × 32), so its ratio follows the machine's float64 arithmetic.",
    ]
    return rows
