"""Tasks: what a method is given of a dataset, and what only the runner has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_graphs import dense_features, random_graph
from small_jobs import small_images

from private_graphs.core.errors import UserError
from private_graphs.datasets.protocols import SOUND
from private_graphs.methods.gcn_protocols import RELEASED
from private_graphs.tasks.graph_task import GraphTask
from private_graphs.tasks.tasks import SCENARIOS, build_task

GRAPH = random_graph(3, nodes=60, unlabelled=4)
SIDES = [
    np.flatnonzero(mask & (GRAPH.labels >= 0))
    for mask in (GRAPH.train_mask, GRAPH.validation_mask, GRAPH.test_mask)
]


def dense_edges() -> np.ndarray:
    expected = np.zeros((GRAPH.n_nodes, GRAPH.n_nodes))
    first, second = GRAPH.edge_index
    expected[first, second] = expected[second, first] = 1
    return expected


def cut(scenario: str, **how):
    return build_task(GRAPH, scenario, SOUND, 1e-5, max_edges=900, **how)


def test_the_public_graph_is_the_edges_between_public_nodes():
    task, _ = cut("graph")
    train, public = SIDES[0], np.concatenate(SIDES[1:])
    expected = dense_edges()
    np.testing.assert_array_equal(task.public_adjacency.toarray(), expected[public][:, public])
    np.testing.assert_array_equal(task.train_to_public.toarray(), expected[train][:, public])
    np.testing.assert_array_equal(task.train_adjacency.toarray(), expected[train][:, train])
    assert task.train_to_public.nnz, "there are edges that it could have followed"


@pytest.mark.parametrize("scenario", ["text", "graph", "edges"])
def test_a_scenario_gives_the_edges_that_it_names_and_rows_of_norm_one(scenario):
    task, evaluation = cut(scenario)
    assert isinstance(task, GraphTask) and task.scenario is SCENARIOS[scenario]
    given = {name for name in vars(task) if "adjacency" in name or "to_public" in name}
    given = {name for name in given if getattr(task, name) is not None}
    assert given == {
        "text": set(), "edges": {"adjacency"},
        "graph": {"public_adjacency", "train_to_public", "train_adjacency"},
    }[scenario]  # fmt: skip
    assert task.n_units == (900 if scenario == "edges" else 30)
    rows = dense_features(GRAPH)
    for nodes, side in zip(SIDES, ("train", "validation", "test"), strict=True):
        norms = np.maximum(np.linalg.norm(rows[nodes], axis=1, keepdims=True), 1e-300)
        found = getattr(task, f"{side}_features").toarray()
        np.testing.assert_allclose(found, rows[nodes] / norms, rtol=1e-6)
    assert not hasattr(task, "test_labels")
    np.testing.assert_array_equal(evaluation.test_records, SIDES[2])
    np.testing.assert_array_equal(evaluation.test_labels, GRAPH.labels[SIDES[2]])


@pytest.mark.parametrize(
    ("scenario", "units"), [("nodes", 30), ("links", 900), ("lists", GRAPH.n_nodes)]
)
def test_a_whole_graph_shows_no_test_label(scenario, units):
    task, evaluation = cut(scenario)
    assert task.n_units == units
    assert (task.graph.labels[SIDES[2]] == 0).all() and len(set(evaluation.test_labels)) > 1
    np.testing.assert_array_equal(task.graph.labels[SIDES[0]], GRAPH.labels[SIDES[0]])


def test_test_records_without_a_label_are_predicted_where_they_are_asked_for():
    labels = GRAPH.labels.copy()
    labels[SIDES[2][:5]] = -1
    graph = replace(GRAPH, labels=labels)
    for scenario in ("text", "nodes"):
        for unlabelled, count in ((False, len(SIDES[2]) - 5), (True, len(SIDES[2]))):
            task, evaluation = build_task(graph, scenario, SOUND, 1e-5, unlabelled=unlabelled)
            assert len(evaluation.test_records) == count
            if scenario == "text":
                assert task.test_features.shape[0] == count
    _, evaluation = build_task(graph, "nodes", RELEASED, 1e-5)
    assert len(evaluation.test_records) == len(SIDES[2]), "released counts them as class 0"


@pytest.mark.parametrize("side", ["train_mask", "validation_mask", "test_mask"])
def test_a_side_without_a_label_is_named(side):
    labels = np.where(getattr(GRAPH, side), -1, GRAPH.labels)
    with pytest.raises(UserError, match=side.partition("_")[0]):
        build_task(replace(GRAPH, labels=labels), "text", SOUND, 1e-5)


def test_images_are_cut_for_records_and_for_nothing_else():
    images = small_images()
    task, evaluation = build_task(images, "records", SOUND, 1e-5)
    assert task.n_units == 30 and task.train_pixels.shape == (30, 25)
    np.testing.assert_array_equal(task.train_labels, images.labels[images.train_mask])
    assert not hasattr(task, "test_labels") and len(evaluation.test_labels) == 15
    for dataset, scenario in ((images, "text"), (GRAPH, "records")):
        with pytest.raises(UserError, match=scenario):
            build_task(dataset, scenario, SOUND, 1e-5)
