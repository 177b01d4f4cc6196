"""Devices and edges of the settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_graphs import fit, random_graph, start

from private_graphs.devices import resolve_device
from private_graphs.errors import UserError
from private_graphs.methods.gcn_protocols import PAPER, RELEASED


def test_auto_takes_a_gpu_where_there_is_one_and_the_cpu_otherwise(monkeypatch):
    assert resolve_device("cpu") == "cpu"
    for available, expected in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=available: found)
        assert resolve_device("auto") == expected
    with pytest.raises(UserError, match="finds no usable GPU.*--device cpu"):
        resolve_device("cuda")
    with pytest.raises(UserError, match="'gpu'; expected auto, cpu or cuda"):
        resolve_device("gpu")


@pytest.mark.parametrize("dropout", [0.999, 0.9999])
def test_dropout_of_almost_everything_trains_without_a_division_by_zero(dropout):
    trained = fit(random_graph(0), PAPER, dropout=dropout, epochs=2)
    assert np.isfinite(trained.parameters).all()


def test_a_learning_rate_of_zero_leaves_the_start():
    dataset = random_graph(0)
    for optimizer in ("sgd", "adam"):
        found = fit(dataset, RELEASED, lr=0.0, epochs=3, optimizer=optimizer)
        np.testing.assert_array_equal(found.parameters[0], start(dataset))
