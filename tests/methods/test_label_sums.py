"""Sums of labels over owned lists: the sensitivity, the price, the start, what is not read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from answers import answers
from test_noisy_sums import N, graph_of, request, task_of

from private_graphs.methods import method_named
from private_graphs.methods.label_sums import Network
from private_graphs.methods.noisy_sums import SumsData

METHOD = method_named("label_sums")


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


def test_labels_of_others_are_not_read_and_neighbours_help():
    task, truth = task_of("lists"), graph_of().labels
    asked = [request("label_sums", math.inf, lot=16, degree=60, epochs=5)]
    (before,) = answers(METHOD, task, asked)
    labels = task.graph.labels.copy()
    labels[50:70] = (labels[50:70] + 1) % 3  # validation nodes
    other = replace(task, graph=replace(task.graph, labels=labels))
    (after,) = answers(METHOD, other, asked)
    assert np.array_equal(before.test_predictions, after.test_predictions)
    assert np.mean(before.test_predictions == truth[70:]) > 0.8
