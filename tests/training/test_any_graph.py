"""From a raw file with everything odd in it to trained, scored replicas of all protocols."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from odd_graphs import odd_graph
from small_graphs import dense_logits, dense_propagation, fit, structure_of, with_parts
from small_jobs import job_of

from private_graphs.methods.gcn_protocols import PAPER, RELEASED, SOUND
from private_graphs.running.run import execute

ALL = [RELEASED, PAPER, SOUND]
SCORES = [
    f"{mask}_{score}"
    for mask, kinds in (
        ("test", ("micro_f1", "macro_f1", "accuracy")), ("validation", ("micro_f1", "macro_f1")),
        ("majority", ("micro_f1",)), ("random", ("micro_f1",)),
    )
    for score in kinds
]  # fmt: skip
each_protocol = pytest.mark.parametrize("protocol", ALL, ids=lambda each: each.name)


@pytest.fixture
def odd(monkeypatch, tmp_path):
    return odd_graph(monkeypatch, tmp_path)


def train(dataset, protocol, optimizer="adam", splits=1, fraction=1.0):
    """Two seeds without DP (with early stopping) and at ε = 2, a few epochs, two rates."""
    settings = {"optimizer": optimizer, "splits": splits, "train_fraction": fraction}
    settings |= {"epochs": 6, "patience": 3, "dtype": "float32"}
    job = job_of(
        protocol=protocol.name, settings=settings, epsilons=(math.inf, 2.0),
        choose={"learning_rate": (0.01, 1.0)},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return execute(job, dataset)


def assert_sane(result, dataset):
    """Every score is a number in 0..1 and every prediction a class."""
    rows = result.rows
    assert len(rows) == 6 and rows["selected"].sum() == 4
    for column in SCORES:
        assert rows[column].between(0, 1).all(), column  # false for NaN
    assert np.isfinite(rows["validation_loss"]).all()
    assert np.isin(result.test_predictions, np.arange(dataset.n_classes)).all()
    assert result.test_predictions.shape == (6, np.sum(dataset.test_mask))


@each_protocol
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(("splits", "fraction"), [(1, 1.0), (4, 1.0), (1, 0.5), (7, 0.3)])
def test_every_protocol_trains_and_scores_an_odd_graph(odd, protocol, optimizer, splits, fraction):
    assert_sane(train(odd, protocol, optimizer, splits, fraction), odd)


@each_protocol
@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_a_sample_that_keeps_no_training_node_leaves_the_start(odd, protocol, device):
    structure = structure_of(odd, protocol, train_fraction=1e-6)
    assert structure.blocks.n_loss[structure.parts].tolist() == [[0]]
    assert structure.majority.tolist() == [0]
    trained = fit(odd, protocol, train_fraction=1e-6, epochs=3, device=device)
    still = fit(odd, protocol, train_fraction=1e-6, epochs=3, lr=0.0, device=device)
    assert (trained.parameters == still.parameters).all()
    assert_sane(train(odd, protocol, fraction=1e-6), odd)


def test_scores_on_the_whole_graph_are_those_of_the_dense_network(odd):
    """Isolated nodes, nodes without words and separate components included."""
    trained = fit(odd, RELEASED, optimizer="adam", epochs=5)
    propagation = dense_propagation(odd.n_nodes, odd.edge_index.T)
    logits = dense_logits(torch.from_numpy(trained.parameters[0]), odd, propagation).numpy()
    assert trained.test_predictions[0].tolist() == logits[odd.test_mask].argmax(1).tolist()
    validated = torch.nn.functional.cross_entropy(
        torch.from_numpy(logits[odd.validation_mask]),
        torch.from_numpy(odd.labels[odd.validation_mask]),
    )
    assert trained.validation_loss[0] == pytest.approx(float(validated), rel=1e-9)


@each_protocol
def test_a_graph_without_edges_and_one_without_words_are_trained(odd, protocol):
    for changed in (
        with_parts(odd, edges=[]),
        with_parts(odd, features=np.zeros((odd.n_nodes, odd.n_features))),
    ):
        assert_sane(train(changed, protocol, splits=3), changed)
