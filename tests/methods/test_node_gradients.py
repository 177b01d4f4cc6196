"""Per-node gradients of the DP models on texts: PyTorch and Opacus as oracles, clipping, noise."""

from __future__ import annotations

import numpy as np
import opacus
import pytest
import torch
from doors import Drawn, door_of, one_lane
from scipy import stats

from private_graphs.mechanisms.door import ReleaseMismatch
from private_graphs.methods.node_gradients import (
    Linear,
    Steps,
    TwoLayers,
    clipped_total,
    descend,
    errors_of,
    predict,
)
from private_graphs.privacy.events import FullBatch, NoisyGradients

N, D, H, K, BIAS = 40, 6, 5, 4, 0.3
LINEAR, LAYERS = Linear(D, K, BIAS), TwoLayers(D, K, H, BIAS)
CUT = (D + 1) * H
SIZES = {LINEAR: (D + 1) * K, LAYERS: CUT + (H + 1) * K}
each_model = pytest.mark.parametrize("model", SIZES, ids=["linear", "two layers"])


def noisy(steps: int, clip_norm: float, std: float, clipping: str = "per_record"):
    """What ``steps`` steps release with noise of this standard deviation."""
    return NoisyGradients(clipping, clip_norm, std / clip_norm, steps, steps, FullBatch(3))


def drawn(model, n: int = N):
    """Rows, labels and three sets of parameters, in float64."""
    draws = np.random.default_rng(3)
    rows, labels = draws.normal(size=(n, D)), draws.integers(K, size=n)
    return rows, labels, draws.normal(size=(3, SIZES[model]))


def extended(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows, torch.full((*rows.shape[:-1], 1), BIAS, dtype=rows.dtype)], dim=-1)


def torch_logits(model, flat: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Logits of one model for rows of any leading shape."""
    if model is LINEAR:
        return extended(rows) @ flat.reshape(D + 1, K)
    units = torch.tanh(extended(rows) @ flat[:CUT].reshape(D + 1, H))
    return extended(units) @ flat[CUT:].reshape(H + 1, K)


@each_model
@pytest.mark.parametrize("clip_norm", [0.2, 0.9, 100.0])
def test_clipped_sums_equal_those_of_torch_gradients(model, clip_norm):
    rows, labels, parameters = drawn(model)

    def loss(flat, row, label):
        logits = torch_logits(model, flat, row)
        return torch.nn.functional.cross_entropy(logits[None], label[None])

    per_example = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    found = clipped_total(model, parameters, rows, labels, clip_norm)
    for weights, total in zip(parameters, found, strict=True):
        each = per_example(*map(torch.from_numpy, (weights, rows, labels))).numpy()
        norms = np.linalg.norm(each, axis=1, keepdims=True)
        expected = (each * np.minimum(1, clip_norm / norms)).sum(axis=0)
        np.testing.assert_allclose(total, expected, rtol=0, atol=1e-9)


@each_model
def test_predictions_equal_those_of_torch(model):
    rows, _, parameters = drawn(model)
    expected = [
        torch_logits(model, *map(torch.from_numpy, (flat, rows))).argmax(dim=-1).numpy()
        for flat in parameters
    ]
    np.testing.assert_array_equal(predict(model, parameters, rows), expected)


class Layers(torch.nn.Module):
    """The model of ``flat`` as Opacus wants it: layers without a bias on extended rows."""

    def __init__(self, model, flat: np.ndarray) -> None:
        super().__init__()
        parts = [(flat, D, K)] if model is LINEAR else [(flat[:CUT], D, H), (flat[CUT:], H, K)]
        self.layers = torch.nn.ModuleList()
        for part, inputs, outputs in parts:
            layer = torch.nn.Linear(inputs + 1, outputs, bias=False, dtype=torch.float64)
            layer.weight.data = torch.from_numpy(part.reshape(inputs + 1, outputs).T.copy())
            self.layers.append(layer)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            rows = torch.tanh(layer(extended(rows)))
        return self.layers[-1](extended(rows))


@each_model
def test_one_step_equals_opacus(model):
    rows, labels, parameters = drawn(model)
    clip_norm, rate = 0.3, 2.0
    layers = Layers(model, parameters[0])
    private = opacus.GradSampleModule(layers, loss_reduction="sum")
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.SGD(private.parameters(), lr=rate / N), noise_multiplier=0.0,
        max_grad_norm=clip_norm, expected_batch_size=1, loss_reduction="sum",
    )  # fmt: skip
    logits = private(torch.from_numpy(rows).requires_grad_())
    torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels), reduction="sum").backward()
    optimizer.step()
    found = descend(
        model, parameters[:1], rows, labels, Steps(1, rate, clip_norm),
        one_lane().descent([None]), divisor=N,
    )  # fmt: skip
    expected = [layer.weight.detach().numpy().T.ravel() for layer in layers.layers]
    # Opacus divides by the norm + 1e-6
    np.testing.assert_allclose(found[0], np.concatenate(expected), rtol=5e-6, atol=1e-7)


@each_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, 1e6])
def test_every_node_stays_below_the_clip_norm(model, dtype, size):
    draws = np.random.default_rng(0)
    rows = (size * draws.normal(size=(200, D))).astype(dtype)
    parameters = (3 * draws.normal(size=(1, SIZES[model]))).astype(dtype)
    for row, label in zip(rows, draws.integers(K, size=200), strict=True):
        total = clipped_total(model, parameters, row[None], np.array([label]), 0.25)
        assert np.linalg.norm(total.astype(np.float64)) <= 0.25


def test_gradients_that_are_not_finite_become_zero():
    logits = np.array([[[np.inf, 0.0]], [[0.0, 0.0]]])
    found = errors_of(logits, np.array([0, 0]))
    assert found[:, 0].tolist() == [[0, 0], [-0.5, 0.5]]


@pytest.mark.parametrize("broken", [0, CUT], ids=["first", "second"])
def test_parameters_that_are_not_finite_give_gradients_of_zero(broken):
    rows, labels, parameters = drawn(LAYERS)
    expected = clipped_total(LAYERS, parameters[1:2], rows, labels, 0.25)
    parameters[0, broken] = np.inf
    found = clipped_total(LAYERS, parameters, rows, labels, 0.25)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1], expected[0], atol=1e-12)
    assert not clipped_total(LAYERS, np.full_like(parameters, np.nan), rows, labels, 0.25).any()


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


def test_replaced_nodes_move_float32_sums_of_two_layers_by_no_more_than_exact_ones():
    draws, clip_norm, n = np.random.default_rng(0), 0.5, 3000
    rows = draws.normal(size=(n, D)).astype(np.float32)
    parameters = draws.normal(size=(2, SIZES[LAYERS])).astype(np.float32)
    labels, other = draws.integers(K, size=n), rows.copy()
    other[17] = -9 * rows[17]
    alone = [clipped_total(LAYERS, parameters, each[17:18], labels[17:18], clip_norm)
             for each in (rows, other)]  # fmt: skip
    before, after = (
        clipped_total(LAYERS, parameters, each, labels, clip_norm) for each in (rows, other)
    )
    moved = np.linalg.norm(after - before, axis=1)
    np.testing.assert_allclose(moved, np.linalg.norm(alone[1] - alone[0], axis=1), atol=1e-6)
    assert (moved <= 2 * clip_norm).all()


def test_blocks_of_rows_add_up(monkeypatch):
    rows, labels, parameters = drawn(LINEAR)
    whole = clipped_total(Linear(D, K), parameters, rows, labels, 0.5)
    monkeypatch.setattr("private_graphs.methods.node_gradients._BLOCK", 7 * 3 * K)
    np.testing.assert_allclose(
        clipped_total(Linear(D, K), parameters, rows, labels, 0.5), whole, atol=1e-12
    )


def test_noise_of_a_step_is_the_noise_asked_for():
    model, std, divisor = Linear(199, 5), 7.0, 50.0
    rows = np.zeros((3, 199))  # gradients of the constant alone, clipped to 1e-9
    start = np.zeros((4, 1000))
    queries = [noisy(1, 1e-9, each) if each else None for each in (std, std, 0.0, 2 * std)]
    streams = [Drawn(np.random.default_rng(i)) for i in range(4)]
    door = door_of(streams, [[query] for query in queries])
    found = descend(
        model, start, rows, np.zeros(3, dtype=np.int64), Steps(1, 2.0, 1e-9),
        door.descent(queries), divisor=divisor,
    )  # fmt: skip
    door.close()
    scale = std * 2.0 / divisor
    assert np.abs(found[2]).max() < 1e-9
    for row, factor in zip(found[[0, 1, 3]], (1, 1, 2), strict=True):
        assert stats.kstest(row / (factor * scale), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(found[0], found[1])[0, 1]) < 0.15


def test_noise_of_float32_parameters_is_added_to_the_sum_in_float64(monkeypatch):
    seen, query = [], noisy(1, 0.5, 2.0)

    def watched(*arguments):
        seen.append(clipped_total(*arguments))
        return seen[-1]

    monkeypatch.setattr("private_graphs.methods.node_gradients.clipped_total", watched)
    found = descend(
        Linear(1, 2), np.zeros((1, 4)), np.zeros((3, 1), dtype=np.float32),
        np.zeros(3, dtype=np.int64), Steps(1, 1.0, 0.5),
        one_lane(query, seed=np.random.default_rng(5)).descent([query]), divisor=1.0,
    )  # fmt: skip
    exact = clipped_total(
        Linear(1, 2), np.zeros((1, 4)), np.zeros((3, 1)), np.zeros(3, dtype=np.int64), 0.5
    )
    noise = 2.0 * np.random.default_rng(5).standard_normal(4)
    assert seen[0].dtype == np.float64 and found.dtype == np.float32
    np.testing.assert_allclose(seen[0][0], exact[0] + noise, rtol=0, atol=1e-5)
    assert (seen[0][0] != seen[0][0].astype(np.float32)).all()  # more digits than float32 has


def test_the_last_half_of_the_iterates_is_averaged():
    rows, labels, _ = drawn(LINEAR)
    model, start = Linear(D, K), np.zeros((1, (D + 1) * K))
    weights, iterates = start.copy(), []
    for _ in range(5):
        weights = weights - 3.0 / N * clipped_total(model, weights, rows, labels, 0.4)
        iterates.append(weights)
    found = descend(
        model, start, rows, labels, Steps(5, 3.0, 0.4), one_lane().descent([None]), divisor=N,
    )  # fmt: skip
    np.testing.assert_allclose(found, np.mean(iterates[2:], axis=0), atol=1e-12)


@pytest.mark.parametrize(
    "steps", [Steps(3, 1.0, 0.4), Steps(5, 1.0, 0.4), Steps(4, 1.0, 0.5)],
    ids=["less", "more", "another clip"],
)  # fmt: skip
def test_steps_that_are_not_those_of_the_plan_are_refused(steps):
    rows, labels, _ = drawn(LINEAR)
    query = noisy(4, 0.4, 2.0)
    door = one_lane(query)
    with pytest.raises(ReleaseMismatch):
        descend(
            LINEAR, np.zeros((1, (D + 1) * K)), rows, labels, steps, door.descent([query]),
            divisor=N,
        )  # fmt: skip
        door.close()
