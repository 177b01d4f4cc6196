"""What holds of every method that runs on a cut task, under each of its scenarios."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from small_graphs import random_graph
from small_tasks import make_task, many_requests, request, run, task_of, with_other_training

from private_graphs.methods import all_methods
from private_graphs.privacy.accountants import price
from private_graphs.tasks.graph_task import GraphTask
from private_graphs.tasks.method import Outcome
from private_graphs.tasks.tasks import SCENARIOS

CASES = [
    (name, scenario)
    for name, method in all_methods().items()
    for scenario in method.scenarios
    if SCENARIOS[scenario].cut == "sides"
]
each_case = pytest.mark.parametrize(("name", "scenario"), CASES)


@pytest.fixture(scope="module")
def tasks() -> dict[str, GraphTask]:
    """A small task of every scenario; some training nodes have no label."""
    graph = random_graph(3, nodes=60, unlabelled=4)
    made = {name: make_task(name) for name in ("text", "graph")}
    return made | {"edges": task_of(graph, "edges")}


def same(first: Outcome, second: Outcome) -> bool:
    """Whether two answers agree in what is told of them."""
    return (
        np.array_equal(first.test_predictions, second.test_predictions)
        and np.array_equal(first.validation_predictions, second.validation_predictions)
        and first.settings == second.settings
    )


@each_case
@pytest.mark.parametrize("epsilon", [0.25, 8.0])
def test_what_is_released_proves_what_was_asked_and_hardly_less(tasks, name, scenario, epsilon):
    task = tasks[scenario]
    (answer,) = run(name, task, [request(task, epsilon)])
    if not all_methods()[name].reads_private:
        assert answer.events == ()
        return
    (event,) = answer.events
    claim = task.scenario.unit, task.scenario.relation, task.delta
    assert 0.97 * epsilon < price(event, *claim).epsilon <= epsilon


@pytest.mark.parametrize(
    ("name", "scenario"), [case for case in CASES if not all_methods()[case[0]].reads_private]
)
def test_who_reads_nothing_private_answers_alike_for_other_private_data(tasks, name, scenario):
    task = tasks[scenario]
    if scenario == "edges":
        other = replace(task, adjacency=task.adjacency * 0)
    else:
        other = with_other_training(task)
    asked = many_requests(task, (0.0,), (12, 0), 2)
    assert all(map(same, run(name, task, asked), run(name, other, asked)))


@pytest.mark.parametrize("name", [name for name, scenario in CASES if scenario == "text"])
def test_under_text_a_test_node_is_predicted_from_its_own_text(tasks, name):
    task = tasks["text"]
    rows = task.test_features.tolil()
    rows[1:] = make_task("text", 7).test_features[1:]
    asked = [request(task, math.inf)]
    (before,), (after,) = (
        run(name, each, asked) for each in (task, replace(task, test_features=rows.tocsr()))
    )
    assert after.test_predictions[0] == before.test_predictions[0]
    np.testing.assert_array_equal(after.validation_predictions, before.validation_predictions)
    assert (after.test_predictions[1:] != before.test_predictions[1:]).any()


@each_case
def test_classes_are_learned_without_noise(name, scenario):
    if scenario == "edges":
        pytest.skip("what edges add to texts is measured in test_edge_votes")
    task = make_task(scenario, n_train=300, n_validation=100)
    (answer,) = run(name, task, [request(task, math.inf)])
    assert (answer.validation_predictions == task.validation_labels).mean() > 0.7
