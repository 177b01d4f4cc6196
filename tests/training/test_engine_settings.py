"""Devices and edges of the settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_graphs import fit, random_graph, start

from private_graphs.core.devices import resolve_device
from private_graphs.core.errors import UserError
from private_graphs.methods.gcn_protocols import RELEASED


def test_auto_takes_a_gpu_where_there_is_one_and_the_cpu_otherwise(monkeypatch):
    assert resolve_device("cpu") == "cpu"
    for available, expected in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=available: found)
        assert resolve_device("auto") == expected
    with pytest.raises(UserError, match="finds no usable GPU.*--device cpu"):
        resolve_device("cuda")
    with pytest.raises(UserError, match="'gpu'; expected auto, cpu or cuda"):
        resolve_device("gpu")


def test_a_learning_rate_of_zero_leaves_the_start():
    dataset = random_graph(0)
    for optimizer in ("sgd", "adam"):
        found = fit(dataset, RELEASED, lr=0.0, epochs=3, optimizer=optimizer)
        np.testing.assert_array_equal(found.parameters[0], start(dataset))
