"""Sums of labels over owned lists: the sensitivity, the price, the start, what is not read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from answers import answers
from test_noisy_sums import N, graph_of, proved, request, task_of

from private_graphs.methods import method_named
from private_graphs.methods.label_sums import Network, _LabelBudget
from private_graphs.methods.method import ALONE
from private_graphs.methods.noisy_sums import Data

METHOD = method_named("label_sums")
DEGREE = 5


def test_one_replaced_node_moves_the_sums_by_the_root_of_twice_the_degree():
    rng, farthest = np.random.default_rng(0), 0.0
    for trial in range(500):
        moved = np.zeros((N, 3))
        lists = [rng.permutation(N)[:DEGREE] for _ in range(2)]
        labels = rng.integers(3, size=2)
        if trial == 0:
            lists[1], labels = lists[0], np.array([0, 2])
        for sign, receivers, label in zip((1, -1), lists, labels, strict=True):
            moved[receivers, label] += sign
        farthest = max(farthest, np.linalg.norm(moved))
    event = _LabelBudget(1, 10, 10, 0.1, DEGREE, 1e-3, "node_out_list").events(2.0)[0]
    assert farthest == pytest.approx(event.sensitivity) == math.sqrt(2 * DEGREE)


def test_the_sum_and_all_steps_are_paid_for():
    task = task_of("lists")
    asked = request("label_sums", 8.0, epochs=3, lot=16, degree=DEGREE)
    (answer,) = answers(METHOD, task, [asked])
    assert answer.events == METHOD.stated(task, asked, ALONE, {})["events"]
    assert [event.count for event in answer.events] == [1, 9]
    assert 7.9 < proved(answer.events, 1e-3) <= 8


def test_before_it_learns_the_network_names_the_class_of_most_neighbours():
    from private_graphs.training import stacks

    task = task_of("lists")
    data = Data.of(task)
    streams = [request("label_sums", 1.0, seed).streams for seed in (0, 1)]
    rng = np.random.default_rng(0)
    import torch

    sums = torch.from_numpy(rng.standard_normal((2, 1, N, 3)).astype(np.float32))
    network = Network(task.graph.n_features, 3)
    found = stacks.predictions(network, network.started(streams), stacks.Inputs(data.rows, sums))
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
