"""Where every node is private, labels of validation nodes decide nothing that is released."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from private_graphs.attacks.small_data import small_graph
from private_graphs.attacks.small_jobs import all_cases, small_job
from private_graphs.methods import method_named
from private_graphs.running.run import Runner
from private_graphs.tasks.method import ALONE

LISTS = [method for method, scenario, _ in all_cases(protocol="sound") if scenario == "lists"]
LONG = {"epochs": 6, "learning_rate": 0.05}
"""Settings with which an epoch's predictions differ from those of the next."""


def predictions(method: str, protocol: str) -> list[np.ndarray]:
    """Predictions of equal runs on graphs whose validation nodes have other labels."""
    graph, names = small_graph(), method_named(method).settings.model_fields
    changed = {name: value for name, value in LONG.items() if name in names}
    job = small_job(method_named(method), "lists", protocol, (20.0,), changed=changed)
    runner = Runner.of(job, graph, None, "seeded", False)
    answers = []
    for shift in range(graph.n_classes):
        moved = (graph.labels + shift) % graph.n_classes
        labels = np.where(graph.validation_mask, moved, graph.labels)
        other = Runner.of(job, replace(graph, labels=labels), None, "seeded", False)
        outcomes = [answer.outcome for answer in runner.answers(ALONE, task=other.task)]
        answers.append(np.concatenate(
            [[*each.test_predictions, *each.validation_predictions] for each in outcomes]
        ))  # fmt: skip
    return answers


@pytest.mark.parametrize("method", LISTS)
def test_labels_of_validation_nodes_change_no_prediction(method):
    first, *others = predictions(method, "sound")
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("method", ["gap", "dpdgc"])
def test_labels_of_validation_nodes_choose_an_epoch_of_released_code(method):
    first, *others = predictions(method, "released")
    assert any((other != first).any() for other in others)
