"""The compiled kernels against PyTorch Geometric, and against the PyTorch backend."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import (
    HIDDEN,
    by_tensor,
    dense_features,
    fit,
    four_nodes,
    make_graph,
    random_graph,
    start,
    structure_of,
)
from torch.nn import functional
from torch_geometric.nn import GCNConv

from private_graphs.datasets import registry
from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND, SOUND_POISSON

PROTOCOLS = {"released": RELEASED, "paper": PAPER, "sound": SOUND, "poisson": SOUND_POISSON}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    return registry.build("synthetic-planetoid", tmp_path_factory.mktemp("raw"))


class Geometric(torch.nn.Module):
    """What a user of PyTorch Geometric would write, in float64, started where ``fit`` starts."""

    def __init__(self, dataset) -> None:
        super().__init__()
        self.first = GCNConv(dataset.n_features, HIDDEN).double()
        self.second = GCNConv(HIDDEN, dataset.n_classes).double()
        weights1, bias1, weights2, bias2 = by_tensor(torch.from_numpy(start(dataset)), dataset)
        with torch.no_grad():
            self.first.lin.weight.copy_(weights1.T)
            self.first.bias.copy_(bias1)
            self.second.lin.weight.copy_(weights2.T)
            self.second.bias.copy_(bias2)
        self.x = torch.from_numpy(dense_features(dataset).astype(np.float64))
        edges = torch.from_numpy(dataset.edge_index)
        self.edges = torch.cat([edges, edges.flip(0)], 1)
        self.labels = torch.from_numpy(dataset.labels)

    def forward(self):
        hidden = torch.relu(self.first(self.x, self.edges))
        return self.second(hidden, self.edges)

    def loss(self, mask) -> torch.Tensor:
        nodes = torch.from_numpy(mask)
        return functional.cross_entropy(self()[nodes], self.labels[nodes])

    def train_on(self, mask, optimizer: str, lr: float, weight_decay: float, epochs: int) -> None:
        kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
        steps = kind(self.parameters(), lr=lr, weight_decay=weight_decay)
        for _ in range(epochs):
            steps.zero_grad()
            self.loss(mask).backward()
            steps.step()

    def flat(self) -> np.ndarray:
        tensors = (
            self.first.lin.weight.T, self.first.bias, self.second.lin.weight.T, self.second.bias,
        )  # fmt: skip
        return torch.cat([each.reshape(-1) for each in tensors]).detach().numpy()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("graph", ["embedded", "four"])
def test_fifty_epochs_are_those_of_pytorch_geometric(graph, optimizer, request):
    dataset = four_nodes() if graph == "four" else request.getfixturevalue("embedded")
    oracle = Geometric(dataset)
    oracle.train_on(dataset.train_mask, optimizer, lr=0.05, weight_decay=0.01, epochs=50)
    same = dict(optimizer=optimizer, lr=0.05, weight_decay=0.01, epochs=50)
    trained = fit(dataset, RELEASED, **same)
    expected = oracle.flat()
    assert np.abs(expected - start(dataset)).max() > 1e-2  # training moved something
    assert np.abs(trained.parameters[0] - expected).max() <= 1e-9
    assert abs(trained.validation_loss[0] - oracle.loss(dataset.validation_mask).item()) <= 1e-9
    logits = oracle().detach().numpy()
    for name in ("validation", "test"):
        nodes = np.flatnonzero(getattr(dataset, f"{name}_mask"))
        predictions = getattr(trained, f"{name}_predictions")[0]
        assert predictions.tolist() == logits[nodes].argmax(1).tolist()
    single = fit(dataset, RELEASED, dtype="float32", **same).parameters[0]
    assert single.dtype == np.float32
    assert np.linalg.norm(single - expected) <= 1e-3 * np.linalg.norm(expected)


def compare(dataset, protocol, *, dtype="float64", limit=1e-9, splits=1, train_fraction=1.0, **how):
    """Train with both backends; parameters, losses and predictions have to agree.

    With dense noise on both sides: tests/training/test_lazy_noise.py is about the other.
    """
    how["lazy_noise"] = False
    seeds = (0, 1, 2)
    structure = structure_of(
        dataset, protocol, seeds=seeds, splits=splits, train_fraction=train_fraction, dtype=dtype
    )
    compiled, oracle = (
        fit(dataset, protocol, seeds=seeds, structure=structure, dtype=dtype, device=device, **how)
        for device in ("cpu", "torch-cpu")
    )
    assert np.isfinite(compiled.parameters).all()
    scale = max(1.0, np.abs(oracle.parameters).max())
    assert np.abs(compiled.parameters - oracle.parameters).max() <= limit * scale
    np.testing.assert_allclose(
        compiled.validation_loss, oracle.validation_loss, rtol=limit, atol=limit
    )
    if dtype == "float64":
        assert compiled.test_predictions.tolist() == oracle.test_predictions.tolist()
    return compiled


@pytest.mark.parametrize("noise", [0.0, 2.0])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_both_backends_agree(name, splits, optimizer, dropout, noise):
    compare(
        random_graph(unlabelled=3), PROTOCOLS[name], splits=splits, optimizer=optimizer,
        dropout=dropout, noise=noise, private=True, epochs=5, clip_norm=0.3,
    )  # fmt: skip


@pytest.mark.parametrize("name", PROTOCOLS)
def test_both_backends_agree_in_float32_and_on_a_part_of_the_training_nodes(name):
    how = dict(splits=3, train_fraction=0.6, noise=1.0, dropout=0.3, epochs=4, weight_decay=0.01)
    compare(random_graph(1), PROTOCOLS[name], **how)
    compare(random_graph(1), PROTOCOLS[name], dtype="float32", limit=1e-4, **how)


def test_both_backends_stop_early_alike():
    compiled = compare(
        random_graph(2), PAPER, optimizer="adam", lr=(0.01, 0.1, 0.5), patience=4, epochs=80,
        dropout=0.5,
    )  # fmt: skip
    assert compiled.epochs.max() < 80


@st.composite
def graphs(draw):
    """A small graph: isolated nodes, empty rows and columns, classes that never occur."""
    nodes = draw(st.integers(3, 12))
    train = draw(st.integers(1, nodes - 2))
    validation = draw(st.integers(1, nodes - 1 - train))
    classes = draw(st.integers(1, 7))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from([0.0, 0.1, 0.3, 1.0]))
    upper = np.triu(generator.random((nodes, nodes)) < density, 1)
    features = generator.normal(size=(nodes, draw(st.integers(1, 6))))
    features[generator.random(features.shape) < 0.4] = 0.0
    lowest = draw(st.sampled_from([-1, 0]))
    labels = generator.integers(lowest, draw(st.integers(1, classes)), nodes)
    labels[[train, train + validation]] = 0  # something to score
    return make_graph(
        np.argwhere(upper), features, labels, train=range(train),
        validation=range(train, train + validation), test=range(train + validation, nodes),
        classes=classes,
    )  # fmt: skip


@settings(max_examples=40)
@given(dataset=graphs(), name=st.sampled_from(list(PROTOCOLS)), data=st.data())
def test_both_backends_agree_on_any_small_graph(dataset, name, data):
    most = int(dataset.train_mask.sum())
    compare(
        dataset, PROTOCOLS[name], splits=data.draw(st.integers(1, most)),
        optimizer=data.draw(st.sampled_from(["sgd", "adam"])), limit=1e-8,
        dropout=data.draw(st.sampled_from([0.0, 0.5])), private=True, epochs=3,
        noise=data.draw(st.sampled_from([0.0, 1.0])),
    )  # fmt: skip


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_more_classes_than_one_vector_register_holds_agree_too(optimizer):
    compare(random_graph(5, classes=11), SOUND, splits=3, optimizer=optimizer, noise=1.0, epochs=3)


def test_dense_and_sparse_features_train_alike():
    sparse = random_graph(3)
    info = sparse.info.model_copy(update={"feature_kind": "dense"})
    dense = replace(sparse, features=dense_features(sparse), info=info)
    found = [fit(each, PAPER, splits=3, epochs=4).parameters for each in (sparse, dense)]
    np.testing.assert_array_equal(found[0], found[1])
