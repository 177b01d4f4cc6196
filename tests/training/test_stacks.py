"""Batched stacks of perceptrons against autograd, one example and one replica at a time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional

from private_graphs.core.streams import Streams
from private_graphs.mechanisms.door import Door, ReleaseMismatch
from private_graphs.mechanisms.reads import tensor_reads
from private_graphs.privacy.queries import GaussianQuery, PoissonSums
from private_graphs.studies.progap.methods.gap import Encoder, GapClassifier
from private_graphs.studies.progap.methods.progap import Stage
from private_graphs.training import stacks
from private_graphs.training.dpsgd import clip_factors
from private_graphs.training.stacks import (
    Fit,
    Noisy,
    SparseRows,
    Stack,
    StackInputs,
    initial,
    running,
)

N, D, C, H = 40, 12, 3, 16


def streams(count: int) -> list[Streams]:
    return [Streams.of({"seed": seed}) for seed in range(count)]


def steps_of(own: list[Streams], multipliers, count: int, rate: float, clip_norm=1.0):
    """Planned steps of DP-SGD; a multiplier of 0 plans none."""
    queries = [
        PoissonSums(
            unit="node", relation="replace", reason="test", count=count, rate=rate,
            noise_multiplier=each, clip_norm=clip_norm,
        ) if each else None
        for each in multipliers
    ]  # fmt: skip
    door = Door.of(own)
    door.plan([(query,) if query else () for query in queries])
    return stacks.steps(door, queries)


def inputs_of(replicas: int, hops: int, seed: int = 0) -> StackInputs:
    rng = np.random.default_rng(seed)
    rows = SparseRows(sp.csr_matrix(rng.integers(0, 3, (N, D)) * (rng.random((N, D)) < 0.3)))
    sums = rng.standard_normal((replicas, hops, N, H)).astype(np.float32) * 3 if hops else None
    return StackInputs(rows, None if sums is None else torch.from_numpy(sums))


def started(network, replicas: int) -> Stack:
    shapes = network.shapes()
    statistics = running(shapes, replicas) if network.norm == "batch" else {}
    return Stack(initial(shapes, streams(replicas), 0), statistics)


NETWORKS = [
    (Stage(0, 1, D, C, "layer", False), 0),
    (Stage(2, 2, D, C, "layer", True), 2),
    (Encoder(D, C, "none"), 0),
    (GapClassifier(3, C, "none"), 3),
]


def plain(network, stack: Stack, inputs: StackInputs, flat: torch.Tensor, node: int, label: int):
    """Loss of one node of one replica with parameters ``flat`` that ask for gradients."""
    one = Stack(stack.named(flat[None]), {})
    one.flat = flat[None]
    x = torch.from_numpy(inputs.rows.matrix[node].toarray())

    class View:
        hops = None if inputs.hops is None else inputs.hops[:1, :, node : node + 1]

        def times(self, weight):
            return (x @ weight[0])[None]

    return functional.cross_entropy(
        network(stacks.Forward(one, View(), training=False))[0], torch.tensor([label])
    )


@pytest.mark.parametrize(("network", "hops"), NETWORKS)
@pytest.mark.parametrize("gathered", [False, True])
def test_gradients_of_examples_are_those_of_autograd(network, hops, gathered):
    inputs, stack = inputs_of(1, hops), started(network, 1)
    labels = torch.from_numpy(np.arange(N) % C)
    index = torch.tensor([[3, 7, 7, 0, 39]]) if gathered else None
    nodes = [3, 7, 7, 0, 39] if gathered else list(range(N))
    squares, add = stacks.example_gradients(
        network, stack, inputs.view(index), labels[index] if gathered else labels
    )
    expected = []
    for node in nodes:
        flat = stack.flat[0].clone().requires_grad_()
        loss = plain(network, stack, inputs, flat, node, int(labels[node]))
        expected.append(torch.autograd.grad(loss, flat)[0])
    expected = torch.stack(expected)
    torch.testing.assert_close(squares[0], expected.square().sum(1), rtol=1e-5, atol=1e-7)
    weights = torch.linspace(-1, 2, len(nodes))
    torch.testing.assert_close(
        add(weights[None])[0].float(), (weights[:, None] * expected).sum(0), rtol=1e-4, atol=1e-6
    )


def test_an_example_that_is_not_finite_counts_as_zero():
    network, inputs = Stage(1, 1, D, C, "layer", True), inputs_of(1, 1)
    inputs.hops[0, :, 5] = torch.inf
    stack, labels = started(network, 1), torch.zeros(N, dtype=torch.int64)
    squares, add = stacks.example_gradients(network, stack, inputs.view(), labels)
    assert squares[0, 5] == 0 and (squares[0, :5] > 0).all()
    ones = torch.ones(1, N)
    without = ones.clone()
    without[0, 5] = 0
    assert torch.equal(add(ones), add(without)) and torch.isfinite(add(ones)).all()


@pytest.mark.parametrize("wrong", [-1, N])
@pytest.mark.parametrize(
    "reads",
    [
        lambda view: view.hops,
        lambda view: view.times(torch.ones(1, D, H)),
        lambda view: view.sums(torch.ones(1, 2, H)),
        lambda view: view.sums(torch.ones(1, 2, H).double()),
        lambda view: view.example_squares(torch.ones(1, 2, H).double(), 2),
    ],
)
def test_compiled_code_reads_no_row_that_there_is_not(reads, wrong):
    view = inputs_of(1, 1).view(torch.tensor([[1, wrong]]))
    with pytest.raises(IndexError, match="rows .* expected them from 0 to 39"):
        reads(view)


def test_compiled_code_reads_no_class_that_there_is_not():
    network, view = Encoder(D, C, "none"), inputs_of(1, 0).view(torch.tensor([[3, 7]]))
    with pytest.raises(IndexError, match="classes from -1 to 2; expected them from 0 to 2"):
        stacks.example_gradients(network, started(network, 1), view, torch.tensor([[2, -1]]))


def test_compiled_code_gets_no_row_of_another_run_from_a_replay():
    """A replay returns in place of an array that is read out of a tensor one of another run."""
    network, inputs, labels = Encoder(D, C, "none"), inputs_of(1, 0), torch.arange(N) % C
    index = torch.tensor([[3, 7]])

    def squares(index, labels):
        stack = started(network, 1)
        return stacks.example_gradients(network, stack, inputs.view(index), labels)[0]

    with tensor_reads() as numbers:
        squares(index, labels[index])
    place = next(name for name, arrays in numbers.items() if np.array_equal(arrays[0], index))
    with tensor_reads({place: [np.array([[3, N]])]}), pytest.raises(IndexError):
        squares(index, labels[index])


def torch_progap(
    inputs: StackInputs, stack: Stack, labels, epochs: int, rate: float
) -> torch.Tensor:
    """The second stage of ProGAP in plain modules, one replica, full batch, batch norm."""
    x = torch.from_numpy(inputs.rows.matrix.toarray())
    first, second = torch.nn.Linear(D, H), torch.nn.Linear(H, H)
    norms = [torch.nn.BatchNorm1d(H) for _ in range(2)]
    head = torch.nn.Linear(2 * H, C)
    named = {name: each[0] for name, each in stack.parameters.items()}
    with torch.no_grad():
        first.weight.copy_(named["first.weight"].T)
        first.bias.copy_(named["first.bias"])
        second.weight.copy_(named["sums.weight"][0].T)
        second.bias.copy_(named["sums.bias"][0])
        head.weight.copy_(named["head.weight"][0].T)
        head.bias.copy_(named["head.bias"][0])
    modules = torch.nn.ModuleList([first, second, *norms, head])
    adam = torch.optim.Adam(modules.parameters(), lr=rate)

    def forward():
        one = norms[0](functional.selu(first(x)))
        two = norms[1](functional.selu(second(inputs.hops[0, 0])))
        return head(functional.normalize(torch.cat([one, two], dim=1), dim=-1))

    for _ in range(epochs):
        adam.zero_grad()
        functional.cross_entropy(forward(), labels).backward()
        adam.step()
    modules.eval()
    return forward().detach()


def test_full_batches_train_as_a_plain_loop_does():
    network, inputs = Stage(1, 1, D, C, "batch", True), inputs_of(1, 1)
    stack, labels = started(network, 1), np.arange(N) % C
    expected = torch_progap(inputs, stack, torch.from_numpy(labels), 20, 0.05)
    stacks.train_whole(network, stack, Fit(inputs, labels, [0.05], 20))
    with torch.no_grad():
        found = network(stacks.Forward(stack, inputs.view(), training=False))[0]
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


def test_the_first_best_epoch_is_restored():
    network, inputs = Stage(0, 1, D, C, "batch", False), inputs_of(2, 0)
    labels = np.arange(N) % C
    fit = Fit(inputs, labels, [0.5, 0.001], 15, inputs.take(np.arange(20)), labels[:20])
    stack = started(network, 2)
    told = stacks.train_whole(network, stack, fit)
    first_best = told.argmax(0)  # the first of equal ones
    kept = stacks.predictions(network, stack, inputs)[:, :20]
    np.testing.assert_allclose((kept == labels[:20]).mean(1), told.max(0).values, atol=1e-6)
    for replica, epoch in enumerate(first_best.tolist()):
        again = started(network, 2)
        stacks.train_whole(network, again, Fit(inputs, labels, [0.5, 0.001], epoch + 1))
        assert torch.equal(again.flat[replica], stack.flat[replica])


@pytest.mark.parametrize("lot, large", [(4096, 1449), (6897, 2897)])
def test_one_row_moves_crafted_sums_by_no_more_than_is_priced(lot, large):
    """Large rows bring the sum to where float32 numbers lie far apart; how the many small rows
    behind them are rounded there would follow from the first row."""

    def total(first: float) -> np.ndarray:
        apart = 2.0 ** round(np.log2(large / np.sqrt(2))) * 2.0**-23
        values = np.r_[first * 1e4, np.full(large - 1, 1e4), np.full(lot - large, -0.6 * apart)]
        rows = stacks.SparseRows(sp.csr_matrix(values[:, None].astype(np.float32)))
        zeros = {"first.weight": torch.zeros(1, 1, 2), "first.bias": torch.zeros(1, 2)}
        view = stacks.StackInputs(rows).view(torch.arange(lot)[None])
        squares, add = stacks.example_gradients(
            lambda forward: forward.features("first")[:, 0],
            stacks.Stack(zeros, {}), view, torch.zeros(1, lot, dtype=torch.long),
        )  # fmt: skip
        return add(clip_factors(squares, 1.0, stacks.CLIP_MARGIN))[0].numpy()

    assert 1.9 < np.linalg.norm(total(1.0) - total(-1.0)) <= 2


def gaussian(count: int) -> GaussianQuery:
    return GaussianQuery(
        unit="node", relation="replace", reason="test", count=count, sensitivity=1.0, noise_std=1.0
    )


def poisson(count: int = 10, **changed) -> PoissonSums:
    given = dict(unit="node", relation="replace", reason="test", count=count, rate=0.2)
    return PoissonSums(**given | dict(noise_multiplier=1.0, clip_norm=1.0) | changed)


@pytest.mark.parametrize(
    ("lots", "query", "refused"),
    [
        ("poisson", poisson(), None), ("whole", gaussian(10), None), ("fixed", gaussian(10), None),
        ("poisson", poisson(9), "10 releases"), ("poisson", poisson(11), "planned 11"),
        ("fixed", gaussian(9), "10 releases"), ("poisson", poisson(clip_norm=0.5), "clipped to"),
        ("whole", poisson(), "coins"), ("fixed", poisson(), "coins"),
    ],
)  # fmt: skip
def test_the_door_refuses_steps_that_are_not_those_of_the_plan(lots, query, refused):
    network, inputs = Stage(0, 1, D, C, "layer", False), inputs_of(1, 0)
    own, labels = streams(1), np.arange(N) % C
    door = Door.of(own)
    door.plan([(query,)])
    noisy = Noisy(8, np.arange(N), stacks.steps(door, [query]), lots)

    def train() -> None:
        stacks.train_noisy(network, started(network, 1), Fit(inputs, labels, [0.1], 2), noisy)
        door.close()

    if refused is None:
        train()
    else:
        with pytest.raises(ReleaseMismatch, match=refused):
            train()
