"""The compiled kernels against the PyTorch backend; test_reference.py has other libraries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import (
    dense_features,
    fit,
    make_graph,
    random_graph,
    structure_of,
)

from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND, SOUND_POISSON

PROTOCOLS = {"released": RELEASED, "paper": PAPER, "sound": SOUND, "poisson": SOUND_POISSON}


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


@pytest.mark.long
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_more_classes_than_one_vector_register_holds_agree_too(optimizer):
    compare(random_graph(5, classes=11), SOUND, splits=3, optimizer=optimizer, noise=1.0, epochs=3)


def test_dense_and_sparse_features_train_alike():
    sparse = random_graph(3)
    info = sparse.info.model_copy(update={"feature_kind": "dense"})
    dense = replace(sparse, features=dense_features(sparse), info=info)
    found = [fit(each, PAPER, splits=3, epochs=4).parameters for each in (sparse, dense)]
    np.testing.assert_array_equal(found[0], found[1])
