"""Gradients of roots that mix their neighbours' outputs: against autograd, and steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
import torch
from doors import one_lane

from private_graphs.privacy.queries import GaussianQuery
from private_graphs.studies.dpappr.methods.appr_rows import truncated
from private_graphs.training import roots as training
from private_graphs.training.roots import HIDDEN, Roots, RootTraining, clipped_sum, initial

WORDS = {"unit": "node", "relation": "replace", "reason": "test"}


def train(roots, start, plan, seed=1, noise_std=0.0):
    """Train as planned: one Gaussian query for all steps, or none."""
    query = None
    if noise_std:
        query = GaussianQuery(
            **WORDS, count=len(plan.batches), sensitivity=1.0, noise_std=noise_std
        )
    door = one_lane(query)
    found = training.train(roots, start, plan, door.descent([query]), seed)
    door.close()
    return found


def _problem(n=6, features=9, classes=3, top=3, seed=0):
    rng = np.random.default_rng(seed)
    x = scipy.sparse.random(n, features, 0.5, "csr", random_state=rng)
    pi = np.zeros((n, n))
    for row in pi:
        row[rng.choice(n, top, replace=False)] = rng.normal(size=top)
    pi[-1] = np.eye(n)[-1]  # a one-hot row has one node
    labels = rng.integers(classes, size=n)
    return x, scipy.sparse.csr_matrix(pi), labels, initial(features, classes, rng)


def _autograd(x, pi, labels, theta):
    """(M, P) gradients of every root, by torch in float64."""
    classes = len(theta) // HIDDEN - x.shape[1]
    found = []
    for row, label in zip(pi.toarray(), labels, strict=True):
        w1 = torch.tensor(theta[: -HIDDEN * classes].reshape(-1, HIDDEN), requires_grad=True)
        w2 = torch.tensor(theta[-HIDDEN * classes :].reshape(HIDDEN, -1), requires_grad=True)
        hidden = torch.relu(torch.tensor(x.toarray()) @ w1)
        logits = torch.tensor(row) @ (hidden @ w2)
        torch.nn.functional.cross_entropy(logits[None], torch.tensor([label])).backward()
        found.append(np.r_[w1.grad.numpy().ravel(), w2.grad.numpy().ravel()])
    return np.array(found)


@pytest.mark.parametrize("clip", [math.inf, 0.3])
def test_norms_and_clipped_sums_are_those_of_autograd(clip):
    x, pi, labels, theta = _problem()
    gradients = _autograd(x, pi, labels, theta)
    total, norms = clipped_sum(Roots.of(x, pi, labels, np.float64), theta, clip)
    expected = np.linalg.norm(gradients, axis=1)
    np.testing.assert_allclose(norms, expected, rtol=1e-9)
    factors = np.minimum(1, clip / expected)
    assert clip > 1 or (factors < 1).any()
    np.testing.assert_allclose(total, factors @ gradients, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_root_whose_gradient_is_not_finite_counts_as_zero(value):
    x, pi, labels, theta = _problem()
    gradients, reads = _autograd(x, pi, labels, theta), pi.toarray()[:, 0] != 0
    assert 0 < reads.sum() < len(reads)
    x.data[x.indptr[0]] = value
    total, _ = clipped_sum(Roots.of(x, pi, labels, np.float64), theta, 0.3)
    factors = np.where(reads, 0.0, np.minimum(1, 0.3 / np.linalg.norm(gradients, axis=1)))
    np.testing.assert_allclose(total, factors @ gradients, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("clip", [math.inf, 0.3])
def test_a_step_that_drops_hardly_anything_is_that_of_autograd(clip):
    """Of roots of one node and of several: their gradients are added up as dropout needs it."""
    x, pi, labels, theta = _problem(seed=3)
    share = 2.0**-16  # the smallest there is
    plan = RootTraining(np.arange(6)[None], 1.0, 1.0, clip, adam=False, dropout=share)
    found = theta - train(Roots.of(x, pi, labels, np.float64), theta, plan)
    gradients = _autograd(x, pi, labels, theta)
    factors = np.minimum(1, clip / np.linalg.norm(gradients, axis=1))
    np.testing.assert_allclose(found, factors @ gradients, rtol=2e-4, atol=5e-5)


def test_two_steps_of_adam_with_weight_decay_are_torchs():
    x, pi, labels, theta = _problem(seed=1)
    plan = RootTraining(np.array([[0, 1, 2], [3, 4, -1]]), 3.0, 0.01, 0.3, weight_decay=0.1)
    found = train(Roots.of(x, pi, labels, np.float64), theta, plan)
    parameter = torch.tensor(theta, requires_grad=True)
    optimizer = torch.optim.Adam([parameter], lr=0.01)
    for batch in ([0, 1, 2], [3, 4]):
        gradients = _autograd(x, pi, labels, parameter.detach().numpy())[batch]
        norms = np.linalg.norm(gradients, axis=1)
        step = np.minimum(1, 0.3 / norms) @ gradients / 3
        step[: 9 * HIDDEN] += 0.1 * parameter.detach().numpy()[: 9 * HIDDEN]
        parameter.grad = torch.tensor(step)
        optimizer.step()
    np.testing.assert_allclose(found, parameter.detach().numpy(), rtol=1e-7, atol=1e-10)


def test_dropout_drops_its_share_of_inputs_and_of_hidden_units():
    x, pi = scipy.sparse.csr_matrix(np.ones((1, 1))), scipy.sparse.csr_matrix(np.ones((1, 1)))
    roots = Roots.of(x, pi, np.zeros(1, int), np.float64)
    theta = np.r_[np.ones(HIDDEN), np.tile([0.1, 0.0], HIDDEN)]
    plan = RootTraining(np.zeros((1, 1), np.int64), 1.0, 1.0, math.inf, adam=False, dropout=0.25)
    moved = np.array([train(roots, theta, plan, seed) != theta for seed in range(1000)])
    first, some = moved[:, :HIDDEN], moved[:, :HIDDEN].any(axis=1)
    assert some.mean() == pytest.approx(0.75, abs=0.05)
    assert first[some].mean() == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_dropout_leaves_of_several_nodes_is_clipped(dtype):
    """A root of 3 nodes moves parameters by at most C; by C where its gradient is longer."""
    x, pi, labels, theta = _problem(n=8, features=40, seed=2)
    roots, clip = Roots.of(x, pi, labels, dtype), 0.01
    start = theta.astype(dtype)
    moved = []
    for root in range(7):
        for seed in range(20):
            batch = np.array([[root]])
            plan = RootTraining(batch, 1.0, 1.0, clip, adam=False, dropout=0.5)
            step = train(roots, theta, plan, seed).astype(float) - start
            moved.append(np.linalg.norm(step))
    moved = np.array(moved)
    rounding = 1e-6 if dtype is np.float32 else 1e-13
    assert moved.max() <= clip + rounding
    assert (moved > clip * (1 - 1e-3)).mean() > 0.9


@pytest.mark.parametrize(("others", "moved"), [(None, 70), (0, 1), (1, 2), (3, 4)])
def test_a_replaced_node_moves_the_clipped_sum_as_far_as_it_has_rows(others, moved):
    """The thesis's Theorem 8 has one term move; all 70 roots do, but for truncation (§9)."""
    m, features = 70, 3
    pi = scipy.sparse.csr_matrix((np.full(m, 1 / m), (np.arange(m), np.zeros(m, int))), (m, m))
    if others is not None:  # every root sees node 0 alone
        pi = truncated(pi, others)
    theta = np.zeros(features * HIDDEN + HIDDEN * 2)
    theta[: features * HIDDEN : HIDDEN] = 1.0  # one hidden unit, the sum of inputs
    sums = []
    for value in (140.0, 0.0):
        x = scipy.sparse.csr_matrix(([value], ([0], [0])), (m, features))
        roots = Roots.of(x, pi, np.zeros(m, int), np.float64)
        total, norms = clipped_sum(roots, theta, 1.0)
        sums.append(total)
    found = np.linalg.norm(sums[0] - sums[1])
    assert found == pytest.approx(moved, rel=1e-9)
    assert others is None or found <= 2 * (others + 1)


def test_a_gradient_whose_parts_cancel_is_clipped_all_the_same():
    """Rows of opposite weights on nearly equal features: rounding must not hide what is left."""
    draw = np.random.default_rng(0)
    parameters = draw.uniform(-0.3, 0.3, 6 * HIDDEN)
    for size in 10.0 ** np.arange(9, 15):
        for _ in range(40):
            b, d = size * draw.uniform(1, 2), 10 ** draw.uniform(0, np.log10(size) - 5)
            features = scipy.sparse.csr_matrix(np.array([[b, d, 0.0], [b, 0.0, 1.0]]))
            rows = scipy.sparse.csr_matrix(np.array([[0.5, -0.5]]))
            roots = Roots.of(features, rows, np.array([0]), np.float64)
            total, _ = clipped_sum(roots, parameters, 1.0)
            assert np.linalg.norm(total) <= 1 + 1e-9
