"""Per-part gradients and their clipping: against ``torch.func``, Opacus and huge gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from opacus.optimizers import DPOptimizer
from small_graphs import (
    by_tensor,
    clipped,
    dense_features,
    fit,
    part_gradients,
    parts_of,
    random_graph,
    start,
    streams,
    structure_of,
    with_parts,
)

from private_graphs.methods.gcn_protocols import PAPER, SOUND, SOUND_POISSON

BACKENDS = ["cpu", "torch-cpu"]


def middle(gradients: torch.Tensor) -> float:
    """A clip norm that some of the gradients exceed and others do not."""
    norms = gradients.norm(dim=1).sort().values
    return float(norms[len(norms) // 2 - 1 : len(norms) // 2 + 1].mean())


@pytest.mark.parametrize("device", BACKENDS)
def test_an_epoch_sum_step_adds_the_jointly_clipped_gradients_of_all_parts(device):
    dataset, splits = random_graph(unlabelled=4), 6
    theta = start(dataset)
    gradients = part_gradients(dataset, parts_of(dataset, splits), theta)
    clip = middle(gradients)
    assert 0 < (gradients.norm(dim=1) > clip).sum() < splits
    expected = clipped(gradients, clip).sum(0) / splits
    per_tensor = sum(
        torch.cat([clipped(t.reshape(1, -1), clip)[0] for t in by_tensor(row, dataset)])
        for row in gradients
    )
    assert (expected - per_tensor / splits).norm() > 1e-3  # the wrong clip would be seen
    trained = fit(
        dataset, SOUND, splits=splits, lr=1.0, private=True, clip_norm=clip, device=device
    )
    assert np.abs(theta - trained.parameters[0] - expected.numpy()).max() <= 1e-9


@pytest.mark.parametrize("device", BACKENDS)
def test_shuffled_visits_take_one_clipped_step_per_part_in_the_drawn_order(device):
    dataset, splits, lr = random_graph(1), 5, 0.7
    parts = parts_of(dataset, splits)
    theta = torch.from_numpy(start(dataset))
    clip = middle(part_gradients(dataset, parts, theta))
    order = streams(0)[0].of_door.generator("order")
    for _ in range(2):
        for number in order.permutation(splits):
            gradient = part_gradients(dataset, parts, theta)[number : number + 1]
            theta = theta - lr * clipped(gradient, clip)[0]
    trained = fit(
        dataset, PAPER, splits=splits, lr=lr, epochs=2, private=True, clip_norm=clip, device=device
    )
    assert np.abs(theta.numpy() - trained.parameters[0]).max() <= 1e-9


@pytest.mark.parametrize("device", BACKENDS)
def test_poisson_steps_sum_the_parts_that_join_and_divide_by_a_constant(device):
    """Divided by the number of parts that joined, the sum would have another sensitivity."""
    dataset, splits = random_graph(2), 5

    def joins(seed: int) -> np.ndarray:
        return streams(seed)[0].of_door.generator("order").random((splits, splits)) < 1 / splits

    # a seed with an empty step, and a step with two parts
    seed = next(seed for seed in range(99) if {0, 2} <= set(joins(seed).sum(1).tolist()))
    parts = parts_of(dataset, splits, seed)
    theta = torch.from_numpy(start(dataset, seed))
    for row in joins(seed):
        gradients = clipped(part_gradients(dataset, parts, theta), 0.2)
        theta = theta - gradients[torch.from_numpy(row)].sum(0)
    trained = fit(
        dataset, SOUND_POISSON, splits=splits, seeds=(seed,), lr=1.0, private=True, clip_norm=0.2,
        device=device,
    )  # fmt: skip
    assert np.abs(theta.numpy() - trained.parameters[0]).max() <= 1e-9


def test_clipping_is_that_of_opacus():
    dataset, splits = random_graph(3), 6
    theta = start(dataset)
    gradients = part_gradients(dataset, parts_of(dataset, splits), theta)
    clip = middle(gradients)
    parameters = [
        torch.nn.Parameter(tensor.clone()) for tensor in by_tensor(torch.from_numpy(theta), dataset)
    ]
    rows = [by_tensor(row, dataset) for row in gradients]
    for number, parameter in enumerate(parameters):
        parameter.grad_sample = torch.stack([row[number] for row in rows])
    private = DPOptimizer(
        torch.optim.SGD(parameters, lr=1.0), noise_multiplier=0.0, max_grad_norm=clip,
        expected_batch_size=splits, loss_reduction="mean",
    )  # fmt: skip
    private.step()
    expected = torch.cat([each.detach().reshape(-1) for each in parameters]).numpy()
    trained = fit(dataset, SOUND, splits=splits, lr=1.0, private=True, clip_norm=clip)
    np.testing.assert_allclose(trained.parameters[0], expected, atol=1e-5 * clip, rtol=0)


def step_taken(dataset, protocol, dtype="float64", **how) -> np.ndarray:
    """θ0 − θ1 of one SGD step with learning rate 1: the gradient that was used."""
    before = start(dataset).astype(dtype).astype(np.float64)
    return before - fit(dataset, protocol, lr=1.0, dtype=dtype, **how).parameters[0]


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6), splits=st.integers(1, 6), clip=st.sampled_from([1e-3, 1.0, 50.0]),
    size=st.sampled_from([1e-20, 1.0, 1e4, 1e8, 1e12]), protocol=st.sampled_from([SOUND, PAPER]),
    dtype=st.sampled_from(["float32", "float64"]),
)  # fmt: skip
def test_no_step_exceeds_the_bound_on_any_graph(seed, splits, clip, size, dtype, protocol):
    dataset = random_graph(seed, nodes=20, features=6, train=12)
    huge = with_parts(dataset, features=dense_features(dataset) * size)
    how = dict(private=True, clip_norm=clip, dtype=dtype, splits=splits)
    taken = np.linalg.norm(step_taken(huge, protocol, **how))
    steps = splits if protocol.visits == "shuffled" else 1
    rounding = 1e-6 if dtype == "float32" else 1e-13  # of the parameters, not of the gradient
    assert taken <= steps * (clip + rounding)


def broken(structure, value: float, nodes):
    """The same structure with ``value`` for every word of ``nodes``."""
    inputs = structure.inputs
    values = inputs.x_values.copy()
    for node in nodes:
        values[inputs.x_pointers[node] : inputs.x_pointers[node + 1]] = value
    return replace(structure, inputs=inputs._replace(x_values=values))


@pytest.mark.parametrize("device", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("protocol", [PAPER, SOUND], ids=lambda each: each.name)
def test_a_gradient_that_is_not_finite_is_zero_before_the_noise(protocol, value, dtype, device):
    dataset = random_graph(5)
    everyone = range(dataset.n_nodes)
    structure = broken(structure_of(dataset, protocol, dtype=dtype), value, everyone)
    how = dict(private=True, dtype=dtype, device=device, structure=structure)
    still = fit(dataset, protocol, **how).parameters[0]
    np.testing.assert_array_equal(still, start(dataset).astype(dtype))
    noisy = fit(dataset, protocol, noise=3.0, **how).parameters[0]
    unlabelled = replace(dataset, labels=np.where(dataset.train_mask, -1, dataset.labels))
    only_noise = fit(unlabelled, protocol, noise=3.0, dtype=dtype, device=device).parameters[0]
    np.testing.assert_array_equal(noisy, only_noise)
    assert np.abs(noisy - still).max() > 0.1


@pytest.mark.parametrize("device", BACKENDS)
def test_one_broken_part_takes_only_its_own_gradient_out_of_the_sum(device):
    dataset, splits = random_graph(6), 4
    parts = parts_of(dataset, splits)
    gradients = clipped(part_gradients(dataset, parts, start(dataset)), 0.1)
    structure = broken(structure_of(dataset, SOUND, splits=splits), np.nan, parts[2])
    used = step_taken(
        dataset, SOUND, splits=splits, structure=structure, private=True, clip_norm=0.1,
        device=device,
    )  # fmt: skip
    expected = gradients[[0, 1, 3]].sum(0).numpy() / splits
    assert np.abs(used - expected).max() <= 1e-9


def noise_of_steps(dataset, steps: int) -> np.ndarray:
    """The noise (steps, P) of a replica, of standard deviation 1: nothing else moves it."""
    silent = replace(dataset, labels=np.where(dataset.train_mask, -1, dataset.labels))
    walked = [fit(silent, SOUND, noise=1.0, lr=1.0, epochs=n + 1) for n in range(steps)]
    places = np.concatenate([[start(dataset)], *(each.parameters for each in walked)])
    return -np.diff(places, axis=0)


@pytest.mark.parametrize("device", BACKENDS)
@pytest.mark.parametrize("protocol", [PAPER, SOUND_POISSON], ids=lambda each: each.visits)
def test_every_step_gets_fresh_noise_even_where_its_part_is_empty(protocol, device):
    """With and without labelled nodes: the number of noisy steps tells nothing of the data."""
    dataset, splits, sigma, clip, lr = random_graph(8), 4, 1.5, 0.2, 0.5
    labels = dataset.labels.copy()
    labels[parts_of(dataset, splits)[1]] = -1
    unlabelled = np.where(dataset.train_mask, -1, dataset.labels)
    noise = sigma * clip * noise_of_steps(dataset, splits)
    for case in (labels, unlabelled):
        graph = replace(dataset, labels=case)
        parts = parts_of(graph, splits)
        theta, order = torch.from_numpy(start(graph)), streams(0)[0].of_door.generator("order")
        if protocol is PAPER:
            chosen = np.eye(splits, dtype=bool)[order.permutation(splits)]
        else:
            chosen = order.random((splits, splits)) < 1 / splits
        for step, row in enumerate(chosen):
            gradients = clipped(part_gradients(graph, parts, theta), clip)
            total = gradients[torch.from_numpy(row)].sum(0)
            theta = theta - lr * (total + noise[step])
        trained = fit(
            graph, protocol, splits=splits, lr=lr, noise=sigma, clip_norm=clip, device=device,
            lazy_noise=False,
        )  # fmt: skip
        assert np.abs(theta.numpy() - trained.parameters[0]).max() <= 1e-9
