"""Per-node gradients of the DP models on texts: PyTorch and Opacus as oracles, clipping, noise."""

from __future__ import annotations

import numpy as np
import opacus
import pytest
import torch
from doors import one_lane

from private_graphs.methods.node_gradients import (
    Linear,
    ModelTraining,
    clipped_total,
    descend,
)

N, D, K, BIAS = 40, 6, 4, 0.3
MODEL, SIZE = Linear(D, K, BIAS), (D + 1) * K


def drawn(n: int = N):
    """Rows, labels and three sets of parameters, in float64."""
    draws = np.random.default_rng(3)
    rows, labels = draws.normal(size=(n, D)), draws.integers(K, size=n)
    return rows, labels, draws.normal(size=(3, SIZE))


def extended(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows, torch.full((*rows.shape[:-1], 1), BIAS, dtype=rows.dtype)], dim=-1)


@pytest.mark.parametrize("clip_norm", [0.2, 0.9, 100.0])
def test_clipped_sums_equal_those_of_torch_gradients(clip_norm):
    rows, labels, parameters = drawn()

    def loss(flat, row, label):
        logits = extended(row) @ flat.reshape(D + 1, K)
        return torch.nn.functional.cross_entropy(logits[None], label[None])

    per_example = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    found = clipped_total(MODEL, parameters, rows, labels, clip_norm)
    for weights, total in zip(parameters, found, strict=True):
        each = per_example(*map(torch.from_numpy, (weights, rows, labels))).numpy()
        norms = np.linalg.norm(each, axis=1, keepdims=True)
        expected = (each * np.minimum(1, clip_norm / norms)).sum(axis=0)
        np.testing.assert_allclose(total, expected, rtol=0, atol=1e-9)


def test_one_step_equals_opacus():
    rows, labels, parameters = drawn()
    clip_norm, rate = 0.3, 2.0
    layer = torch.nn.Linear(D + 1, K, bias=False, dtype=torch.float64)
    layer.weight.data = torch.from_numpy(parameters[0].reshape(D + 1, K).T.copy())
    private = opacus.GradSampleModule(layer, loss_reduction="sum")
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.SGD(private.parameters(), lr=rate / N), noise_multiplier=0.0,
        max_grad_norm=clip_norm, expected_batch_size=1, loss_reduction="sum",
    )  # fmt: skip
    logits = private(extended(torch.from_numpy(rows)).requires_grad_())
    torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels), reduction="sum").backward()
    optimizer.step()
    found = descend(
        MODEL, parameters[:1], rows, labels, ModelTraining(1, rate, clip_norm),
        one_lane().descent([None]), divisor=N,
    )  # fmt: skip
    expected = layer.weight.detach().numpy().T.ravel()
    # Opacus divides by the norm + 1e-6
    np.testing.assert_allclose(found[0], expected, rtol=5e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, 1e6])
def test_every_node_stays_below_the_clip_norm(dtype, size):
    draws = np.random.default_rng(0)
    rows = (size * draws.normal(size=(200, D))).astype(dtype)
    parameters = (3 * draws.normal(size=(1, SIZE))).astype(dtype)
    for row, label in zip(rows, draws.integers(K, size=200), strict=True):
        total = clipped_total(MODEL, parameters, row[None], np.array([label]), 0.25)
        assert np.linalg.norm(total.astype(np.float64)) <= 0.25


@pytest.mark.parametrize("broken", [0, D * K], ids=["weight", "constant"])
def test_parameters_that_are_not_finite_give_gradients_of_zero(broken):
    rows, labels, parameters = drawn()
    expected = clipped_total(MODEL, parameters[1:2], rows, labels, 0.25)
    parameters[0, broken] = np.inf
    found = clipped_total(MODEL, parameters, rows, labels, 0.25)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1], expected[0], atol=1e-12)
    assert not clipped_total(MODEL, np.full_like(parameters, np.nan), rows, labels, 0.25).any()


def test_a_replaced_node_moves_the_sum_of_many_by_at_most_twice_the_norm():
    """Float32 rows, 20,000 nodes: opposite gradients of norm C attain 2C, and rounding adds none.

    Summed in float32 the same sums are off by thousands of times as much.
    """
    draws, clip_norm, n = np.random.default_rng(0), 0.5, 20_000
    model, rows = Linear(D, K, 0.0), draws.normal(size=(n, D)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels, other = draws.integers(K, size=n), rows.copy()
    rows[7], labels[7] = 100 * rows[7], 0
    other[7] = -rows[7]
    parameters = np.zeros((2, (D + 1) * K), dtype=np.float32)
    before, after = (
        clipped_total(model, parameters, each, labels, clip_norm) for each in (rows, other)
    )
    assert before.dtype == np.float64
    moved = np.linalg.norm(after - before, axis=1)
    assert (moved <= 2 * clip_norm).all()
    np.testing.assert_allclose(moved, 2 * clip_norm, rtol=1e-5)
    alone = clipped_total(model, parameters, rows[7:8], labels[7:8], clip_norm)
    np.testing.assert_allclose(before - after, 2 * alone, rtol=0, atol=1e-9 * clip_norm)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_a_node_that_loses_its_label_moves_no_others_term(scale):
    """Matrices with a row less are multiplied in another order: float32 moved others by 1e-4 C."""
    moved, clip_norm = 0.0, 0.5
    for seed in range(12):
        draws = np.random.default_rng(seed)
        columns, n, classes = (int(draws.choice(each)) for each in ((64, 300), (20, 131), (2, 5)))
        rows = draws.normal(size=(n, columns))
        rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        labels = draws.integers(classes, size=n)
        model = Linear(columns, classes)
        parameters = scale * draws.normal(size=(3, len(model.start(draws)))).astype(np.float32)
        others, own = np.arange(n) != 7, slice(7, 8)
        whole, less, alone = (
            clipped_total(model, parameters, rows[some], labels[some], clip_norm)
            for some in (slice(None), others, own)
        )
        moved = max(moved, np.linalg.norm(whole - less - alone, axis=1).max())
    assert moved < 1e-9 * clip_norm


def test_blocks_of_rows_add_up(monkeypatch):
    rows, labels, parameters = drawn()
    whole = clipped_total(Linear(D, K), parameters, rows, labels, 0.5)
    monkeypatch.setattr("private_graphs.methods.node_gradients._BLOCK", 7 * 3 * K)
    np.testing.assert_allclose(
        clipped_total(Linear(D, K), parameters, rows, labels, 0.5), whole, atol=1e-12
    )


def test_the_last_half_of_the_iterates_is_averaged():
    rows, labels, _ = drawn()
    model, start = Linear(D, K), np.zeros((1, (D + 1) * K))
    weights, iterates = start.copy(), []
    for _ in range(5):
        weights = weights - 3.0 / N * clipped_total(model, weights, rows, labels, 0.4)
        iterates.append(weights)
    found = descend(
        model, start, rows, labels, ModelTraining(5, 3.0, 0.4), one_lane().descent([None]),
        divisor=N,
    )  # fmt: skip
    np.testing.assert_allclose(found, np.mean(iterates[2:], axis=0), atol=1e-12)
