"""The frame of DP-SGD: minibatches, clip factors and optimizers against PyTorch's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from private_graphs.core.streams import Streams
from private_graphs.mechanisms.door import Door, ReleaseMismatch
from private_graphs.privacy.events import NoisyGradients, Poisson
from private_graphs.training.dpsgd import Adam, Sgd, clip_factors, descend, minibatches, safe_norm


def descent(query=None, lanes: int = 2):
    door = Door.of([Streams.of({"lane": i}) for i in range(lanes)])
    door.plan([(query,) if query else ()] * lanes)
    return door.descent([query] * lanes)


@pytest.mark.parametrize(
    ("order", "sizes"),
    [("full", [10, 10, 10, 10]), ("shuffled", [4, 4, 2, 4]), ("whole", [4, 4, 4, 4]),
     ("fixed", [4, 4, 4, 4])],
)  # fmt: skip
def test_minibatches_have_the_sizes_of_their_order(order, sizes):
    drawn = list(itertools.islice(minibatches(descent(), 10, 4, order), 4))
    assert [[len(each) for each in step] for step in drawn] == [[n, n] for n in sizes]
    for step in drawn:
        assert all(len(set(each)) == len(each) and set(each) <= set(range(10)) for each in step)
    if order == "shuffled":
        for lane in range(2):
            assert sorted(np.concatenate([step[lane] for step in drawn[:3]])) == list(range(10))
    if order != "full":
        assert any(set(one) != set(other) for one, other in drawn), "replicas have their own"


@pytest.mark.parametrize("order", ["full", "shuffled", "whole", "fixed", "poisson"])
@pytest.mark.parametrize(("population", "size"), [(0, 0), (0, 4), (3, 4)])
def test_minibatches_of_few_units_or_of_none_are_drawn(order, population, size):
    drawn = minibatches(descent(), population, min(size, population), order)
    for step in itertools.islice(drawn, 3):
        assert all(set(each) <= set(range(population)) for each in step)


def test_minibatches_without_coins_are_refused_where_the_plan_counts_on_them():
    query = NoisyGradients("per_record", 1.0, 1.0, 2, 1, Poisson(0.5))
    for order in ("full", "shuffled", "whole", "fixed"):
        with pytest.raises(ReleaseMismatch, match="coins"):
            next(minibatches(descent(query), 10, 4, order))
    with pytest.raises(ReleaseMismatch, match="coins"):
        descent(query).add(np.zeros((2, 3)))
    tossed = descent(query)
    for _ in descend(
        np.zeros((2, 3)), lambda joined: np.zeros((2, 3)), tossed, Sgd(1.0), 2,
        minibatches(tossed, 10, 0, "poisson"), 10,
    ):  # fmt: skip
        pass
    tossed.door.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("margin", [None, 1e-3])
def test_clipped_norms_stay_below_the_bound(dtype, margin):
    norms = np.geomspace(1e-6, 1e6, 400).astype(dtype)
    for squares in (norms * norms, torch.from_numpy(norms * norms)):
        factors = np.asarray(clip_factors(squares, 0.5, margin), np.float64)
        assert (factors * norms.astype(np.float64) <= 0.5).all() and factors.max() == 1
        least = safe_norm(0.5, dtype) if margin is None else 0.5 * (1 - margin)
        np.testing.assert_allclose((factors * norms)[norms > 0.51], least, rtol=1e-6)


def test_gradients_that_are_not_finite_count_as_zero():
    squares = np.array([np.inf, np.nan, 4.0, 0.0])
    for each in (squares, torch.from_numpy(squares)):
        assert np.asarray(clip_factors(each, 1.0)).tolist() == pytest.approx([0, 0, 0.5, 1])


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_steps_are_those_of_pytorch(kind):
    draws = np.random.default_rng(0)
    start, totals = draws.normal(size=(2, 7)), draws.normal(size=(30, 2, 7))
    ours = torch.from_numpy(start).float()
    theirs = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = Sgd(0.1 / 4) if kind == "sgd" else Adam([0.1, 0.1], 4)
    oracle = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[kind]([theirs], lr=0.1)
    for total in torch.from_numpy(totals):
        optimizer.step(ours, total)
        theirs.grad = total / 4
        oracle.step()
    torch.testing.assert_close(ours.double(), theirs.detach(), rtol=1e-5, atol=1e-5)
    if kind == "sgd":
        array = start.copy()
        for total in totals:
            optimizer.step(array, total)
        np.testing.assert_allclose(array, theirs.detach().numpy(), rtol=1e-12)
