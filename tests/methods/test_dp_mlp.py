"""DP two-layer perceptron on texts: clipped gradients against PyTorch and Opacus, price, scores."""

from __future__ import annotations

import numpy as np
import opacus
import pytest
import torch
from small_tasks import many_requests, run, text_task

from private_graphs.methods.dp_mlp import rule
from private_graphs.methods.node_gradients import Steps, TwoLayers, clipped_total, descend, predict
from private_graphs.privacy.accountants import price

N, D, H, K, BIAS = 30, 6, 5, 4, 0.3
MODEL = TwoLayers(D, K, H, BIAS)
CUT = (D + 1) * H


@pytest.fixture
def drawn():
    """Rows, labels and three sets of parameters, in float64."""
    draws = np.random.default_rng(3)
    rows, labels = draws.normal(size=(N, D)), draws.integers(K, size=N)
    return rows, labels, draws.normal(size=(3, CUT + (H + 1) * K))


def _extended(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows, torch.full((*rows.shape[:-1], 1), BIAS, dtype=rows.dtype)], dim=-1)


def torch_logits(flat: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Logits of one model for rows of any leading shape."""
    units = torch.tanh(_extended(rows) @ flat[:CUT].reshape(D + 1, H))
    return _extended(units) @ flat[CUT:].reshape(H + 1, K)


@pytest.mark.parametrize("clip_norm", [0.2, 2.0, 100.0])
def test_clipped_sums_equal_those_of_torch_gradients(drawn, clip_norm):
    rows, labels, parameters = drawn

    def loss(flat, row, label):
        return torch.nn.functional.cross_entropy(torch_logits(flat, row)[None], label[None])

    per_example = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    found = clipped_total(MODEL, parameters, rows, labels, clip_norm)
    for weights, total in zip(parameters, found, strict=True):
        each = per_example(*map(torch.from_numpy, (weights, rows, labels))).numpy()
        norms = np.linalg.norm(each, axis=1, keepdims=True)
        expected = (each * np.minimum(1, clip_norm / norms)).sum(axis=0)
        np.testing.assert_allclose(total, expected, rtol=0, atol=1e-9)


def test_predictions_equal_those_of_torch(drawn):
    rows, _, parameters = drawn
    expected = [
        torch_logits(torch.from_numpy(flat), torch.from_numpy(rows)).argmax(dim=-1).numpy()
        for flat in parameters
    ]
    np.testing.assert_array_equal(predict(MODEL, parameters, rows), expected)


class _Layers(torch.nn.Module):
    def __init__(self, flat: np.ndarray) -> None:
        super().__init__()
        self.first = torch.nn.Linear(D + 1, H, bias=False, dtype=torch.float64)
        self.second = torch.nn.Linear(H + 1, K, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.first.weight.copy_(torch.from_numpy(flat[:CUT].reshape(D + 1, H).T))
            self.second.weight.copy_(torch.from_numpy(flat[CUT:].reshape(H + 1, K).T))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.second(_extended(torch.tanh(self.first(_extended(rows)))))


def test_one_step_equals_opacus(drawn):
    rows, labels, parameters = drawn
    clip_norm, rate = 0.3, 2.0
    layers = _Layers(parameters[0])
    model = opacus.GradSampleModule(layers, loss_reduction="sum")
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=rate / N), noise_multiplier=0.0,
        max_grad_norm=clip_norm, expected_batch_size=1, loss_reduction="sum",
    )  # fmt: skip
    logits = model(torch.from_numpy(rows).requires_grad_())
    torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels), reduction="sum").backward()
    optimizer.step()
    found = descend(
        MODEL, parameters[:1], rows, labels, Steps(1, rate, clip_norm), np.zeros(1),
        [np.random.default_rng(0)], divisor=N,
    )  # fmt: skip
    weights = [each.weight.detach().numpy().T.ravel() for each in (layers.first, layers.second)]
    # Opacus divides by the norm + 1e-6
    np.testing.assert_allclose(found[0], np.concatenate(weights), rtol=5e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, 1e6])
def test_every_node_stays_below_the_clip_norm(dtype, size):
    draws = np.random.default_rng(0)
    rows = (size * draws.normal(size=(200, D))).astype(dtype)
    parameters = (3 * draws.normal(size=(1, CUT + (H + 1) * K))).astype(dtype)
    for row in rows:
        total = clipped_total(MODEL, parameters, row[None], np.array([1]), 0.25)
        assert np.linalg.norm(total.astype(np.float64)) <= 0.25


@pytest.mark.parametrize("broken", ["first", "second"])
def test_parameters_that_are_not_finite_give_gradients_of_zero(drawn, broken):
    rows, labels, parameters = drawn
    expected = clipped_total(MODEL, parameters[1:2], rows, labels, 0.25)
    parameters = parameters.copy()
    parameters[0, 0 if broken == "first" else CUT] = np.inf
    found = clipped_total(MODEL, parameters, rows, labels, 0.25)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1], expected[0], atol=1e-12)
    total = clipped_total(MODEL, np.full_like(parameters, np.nan), rows, labels, 0.25)
    assert not total.any()


def test_replaced_nodes_move_float32_sums_by_no_more_than_exact_ones():
    """What the noise must cover is 2C, attained by opposite gradients among many nodes."""
    draws, clip_norm, n = np.random.default_rng(0), 0.5, 3000
    rows = draws.normal(size=(n, D)).astype(np.float32)
    parameters = draws.normal(size=(2, CUT + (H + 1) * K)).astype(np.float32)
    labels, other = draws.integers(K, size=n), rows.copy()
    other[17] = -9 * rows[17]
    alone = [clipped_total(MODEL, parameters, each[17:18], labels[17:18], clip_norm)
             for each in (rows, other)]  # fmt: skip
    before, after = (
        clipped_total(MODEL, parameters, each, labels, clip_norm) for each in (rows, other)
    )
    assert before.dtype == np.float64
    moved = np.linalg.norm(after - before, axis=1)
    np.testing.assert_allclose(moved, np.linalg.norm(alone[1] - alone[0], axis=1), atol=1e-6)
    assert (moved <= 2 * clip_norm).all()


def test_events_are_priced_at_the_request_and_settings_follow_the_signal():
    task = text_task()
    (outcome,) = run("dp_mlp", task, many_requests(task, epsilons=(2.0,)))
    (event,) = outcome.events
    assert 1.96 < price(event, "node", "replace", task.delta).epsilon <= 2.0
    assert outcome.settings["count"] == event.releases
    assert any("epsilon is 0" in each for each in outcome.assumptions)
    assert rule(3000.0).rank > rule(30.0).rank
