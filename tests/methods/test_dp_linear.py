"""DP softmax regression on texts: gradients against PyTorch and Opacus, noise, price, batches."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import opacus
import pytest
import torch
from scipy import stats
from small_tasks import many_requests, run, text_task

from private_graphs.methods.dp_linear import rule
from private_graphs.methods.node_gradients import (
    Linear,
    Steps,
    clipped_total,
    descend,
    errors_of,
    factors,
)
from private_graphs.methods.text_gradients import signal
from private_graphs.privacy.accountants import price

N, D, K, BIAS = 40, 6, 4, 0.3


@pytest.fixture
def drawn():
    """Rows, labels and three sets of parameters, in float64."""
    draws = np.random.default_rng(3)
    rows, labels = draws.normal(size=(N, D)), draws.integers(K, size=N)
    return rows, labels, draws.normal(size=(3, (D + 1) * K))


def torch_gradients(weights: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n, (D + 1) K) per-example gradients of one model by ``torch.func``."""

    def loss(flat, row, label):
        extended = torch.cat([row, torch.tensor([BIAS], dtype=row.dtype)])
        logits = extended @ flat.reshape(D + 1, K)
        return torch.nn.functional.cross_entropy(logits[None], label[None])

    per_example = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    return per_example(*map(torch.from_numpy, (weights, rows, labels))).numpy()


@pytest.mark.parametrize("clip_norm", [0.2, 0.9, 100.0])
def test_clipped_sums_equal_those_of_torch_gradients(drawn, clip_norm):
    rows, labels, parameters = drawn
    found = clipped_total(Linear(D, K, BIAS), parameters, rows, labels, clip_norm)
    for weights, total in zip(parameters, found, strict=True):
        each = torch_gradients(weights, rows, labels)
        norms = np.linalg.norm(each, axis=1, keepdims=True)
        expected = (each * np.minimum(1, clip_norm / norms)).sum(axis=0)
        np.testing.assert_allclose(total, expected, rtol=0, atol=1e-9)


def test_one_step_equals_opacus(drawn):
    rows, labels, _ = drawn
    clip_norm, rate = 0.3, 2.0
    extended = torch.from_numpy(np.c_[rows, np.full(N, BIAS)])
    layer = torch.nn.Linear(D + 1, K, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(layer.weight)
    model = opacus.GradSampleModule(layer, loss_reduction="sum")
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=rate / N), noise_multiplier=0.0,
        max_grad_norm=clip_norm, expected_batch_size=1, loss_reduction="sum",
    )  # fmt: skip
    target = torch.from_numpy(labels)
    torch.nn.functional.cross_entropy(model(extended), target, reduction="sum").backward()
    optimizer.step()
    found = descend(
        Linear(D, K, BIAS), np.zeros((1, (D + 1) * K)), rows, labels, Steps(1, rate, clip_norm),
        np.zeros(1), [np.random.default_rng(0)], divisor=N,
    )  # fmt: skip
    expected = layer.weight.detach().numpy().T.ravel()
    # Opacus divides by the norm + 1e-6
    np.testing.assert_allclose(found[0], expected, rtol=5e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_gradients_are_clipped_to_the_norm(dtype):
    rows = np.array([[1e6, 0, 0, 0, 0, 0]], dtype=dtype)
    total = clipped_total(
        Linear(D, K), np.zeros((1, (D + 1) * K), dtype=dtype), rows, np.array([1]), 0.5
    )
    assert 0.4999 < np.linalg.norm(total.astype(np.float64)) <= 0.5


def test_not_finite_gradients_become_zero():
    assert factors(np.array([np.inf, np.nan, 4.0]), 1.0).tolist() == pytest.approx([0, 0, 0.5])
    logits = np.array([[[np.inf, 0.0]], [[0.0, 0.0]]])
    found = errors_of(logits, np.array([0, 0]))
    assert found[:, 0].tolist() == [[0, 0], [-0.5, 0.5]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_node_stays_below_the_clip_norm(dtype):
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(300, D)).astype(dtype)
    parameters = draws.normal(size=(1, (D + 1) * K)).astype(dtype) * 3
    model, labels = Linear(D, K), draws.integers(K, size=300)
    for row, label in zip(rows, labels, strict=True):
        total = clipped_total(model, parameters, row[None], np.array([label]), 0.25)
        assert np.linalg.norm(total.astype(np.float64)) <= 0.25


def test_a_replaced_node_moves_the_sum_of_many_by_at_most_twice_the_norm():
    """Float32 rows, 20,000 nodes: opposite gradients of norm C attain 2C, and rounding adds none.

    Summed in float32 the same sums are off by thousands of times as much.
    """
    draws, clip_norm, n = np.random.default_rng(0), 0.5, 20_000
    rows = draws.normal(size=(n, D)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels, other = draws.integers(K, size=n), rows.copy()
    rows[7], labels[7] = 100 * rows[7], 0
    other[7] = -rows[7]
    parameters = np.zeros((2, (D + 1) * K), dtype=np.float32)
    before, after = (
        clipped_total(Linear(D, K, 0.0), parameters, each, labels, clip_norm)
        for each in (rows, other)
    )
    assert before.dtype == np.float64
    moved = np.linalg.norm(after - before, axis=1)
    assert (moved <= 2 * clip_norm).all()
    np.testing.assert_allclose(moved, 2 * clip_norm, rtol=1e-5)
    alone = clipped_total(Linear(D, K, 0.0), parameters, rows[7:8], labels[7:8], clip_norm)
    np.testing.assert_allclose(before - after, 2 * alone, rtol=0, atol=1e-9 * clip_norm)


def test_blocks_of_rows_add_up(drawn, monkeypatch):
    rows, labels, parameters = drawn
    whole = clipped_total(Linear(D, K), parameters, rows, labels, 0.5)
    monkeypatch.setattr("private_graphs.methods.node_gradients._BLOCK", 7 * 3 * K)
    np.testing.assert_allclose(
        clipped_total(Linear(D, K), parameters, rows, labels, 0.5), whole, atol=1e-12
    )


def test_noise_of_a_step_is_the_noise_asked_for():
    model, std, divisor = Linear(199, 5), 7.0, 50.0
    rows = np.zeros((3, 199))  # gradients of the constant alone, clipped to 1e-9
    start = np.zeros((4, 1000))
    found = descend(
        model, start, rows, np.zeros(3, dtype=np.int64), Steps(1, 2.0, 1e-9),
        np.array([std, std, 0.0, 2 * std]), [np.random.default_rng(i) for i in (0, 1, 2, 3)],
        divisor=divisor,
    )  # fmt: skip
    scale = std * 2.0 / divisor
    assert np.abs(found[2]).max() < 1e-9
    for row, factor in zip(found[[0, 1, 3]], (1, 1, 2), strict=True):
        assert stats.kstest(row / (factor * scale), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(found[0], found[1])[0, 1]) < 0.15


def test_noise_of_float32_parameters_is_added_to_the_sum_in_float64(monkeypatch):
    seen = []

    def watched(*arguments):
        seen.append(clipped_total(*arguments))
        return seen[-1]

    monkeypatch.setattr("private_graphs.methods.node_gradients.clipped_total", watched)
    found = descend(
        Linear(1, 2), np.zeros((1, 4)), np.zeros((3, 1), dtype=np.float32),
        np.zeros(3, dtype=np.int64), Steps(1, 1.0, 0.5), np.array([2.0]),
        [np.random.default_rng(5)], divisor=1.0,
    )  # fmt: skip
    exact = clipped_total(
        Linear(1, 2), np.zeros((1, 4)), np.zeros((3, 1)), np.zeros(3, dtype=np.int64), 0.5
    )
    noise = 2.0 * np.random.default_rng(5).standard_normal(4)
    assert seen[0].dtype == np.float64 and found.dtype == np.float32
    np.testing.assert_allclose(seen[0][0], exact[0] + noise, rtol=0, atol=1e-5)
    assert (seen[0][0] != seen[0][0].astype(np.float32)).all()  # more digits than float32 has


def test_the_last_half_of_the_iterates_is_averaged(drawn):
    rows, labels, _ = drawn
    model, start = Linear(D, K), np.zeros((1, (D + 1) * K))
    weights, iterates = start.copy(), []
    for _ in range(5):
        weights = weights - 3.0 / N * clipped_total(model, weights, rows, labels, 0.4)
        iterates.append(weights)
    found = descend(
        model, start, rows, labels, Steps(5, 3.0, 0.4), np.zeros(1), [np.random.default_rng(0)],
        divisor=N,
    )  # fmt: skip
    np.testing.assert_allclose(found, np.mean(iterates[2:], axis=0), atol=1e-12)


def test_settings_grow_with_the_signal_and_ignore_validation_labels():
    assert signal(1000, 5, math.inf, 1e-5) == 20_000
    small, large = rule(30.0), rule(3000.0)
    assert small.rank < large.rank and small.steps.count < large.steps.count
    assert small.steps.learning_rate < large.steps.learning_rate
    task = text_task()
    outcomes = run("dp_linear", task, many_requests(task, known=(0, 10, 40)))
    assert len({str(each.settings) for each in outcomes}) == 1


def test_events_are_priced_at_the_request():
    task = text_task()
    for epsilon in (0.25, 1.0, 8.0):
        (outcome,) = run("dp_linear", task, many_requests(task, epsilons=(epsilon,)))
        (event,) = outcome.events
        priced = price(event, "node", "replace", task.delta)
        assert epsilon - 0.02 * epsilon < priced.epsilon <= epsilon
        accountant = dp_accounting.pld.PLDAccountant()  # a replaced node moves a sum by 2C
        step = dp_accounting.GaussianDpEvent(event.noise_multiplier / 2)
        accountant.compose(dp_accounting.SelfComposedDpEvent(step, event.releases))
        assert priced.epsilon == pytest.approx(accountant.get_epsilon(task.delta), rel=1e-3)
        assert outcome.settings["count"] == event.releases
        assert outcome.settings["clip_norm"] == event.clip_norm


def test_it_learns_without_noise_and_nearly_so_at_a_generous_budget():
    task = text_task(nodes=1500)
    for epsilon in (math.inf, 8.0):
        (outcome,) = run("dp_linear", task, many_requests(task, epsilons=(epsilon,)))
        hits = (outcome.validation_predictions == task.validation_labels).mean()
        assert hits > 0.8
