"""Sums of labels over owned lists: what the network names before it learns."""

from __future__ import annotations

import numpy as np
from test_noisy_sums import N, request, task_of

from private_graphs.methods.label_sums import Network
from private_graphs.methods.noisy_sums import SumsData


def test_before_it_learns_the_network_names_the_class_of_most_neighbours():
    from private_graphs.training import stacks

    task = task_of("lists")
    data = SumsData.of(task)
    streams = [request("label_sums", 1.0, seed).streams for seed in (0, 1)]
    rng = np.random.default_rng(0)
    import torch

    sums = torch.from_numpy(rng.standard_normal((2, 1, N, 3)).astype(np.float32))
    network = Network(task.graph.n_features, 3)
    found = stacks.predictions(
        network, network.started(streams), stacks.StackInputs(data.rows, sums)
    )
    assert np.array_equal(found, sums[:, 0].argmax(-1).numpy())
