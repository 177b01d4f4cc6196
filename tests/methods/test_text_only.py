"""The text-only reference: out-of-fold rows, no draws, neither edges nor validation labels read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from small_graphs import random_graph
from small_tasks import task_of

from private_graphs.graphs.similar import similar_in_blocks
from private_graphs.methods import text_only
from private_graphs.tasks.graph_task import GraphTask, unit_rows


@pytest.fixture
def task() -> GraphTask:
    return task_of(random_graph(3, nodes=90, train=50), "edges")


def test_own_label_does_not_enter_the_own_row(task, monkeypatch):
    """With the settings and the weights held, no label of a fold moves a row of that fold."""
    monkeypatch.setattr(text_only, "INVERSE_PENALTIES", (3.0,))
    monkeypatch.setattr(text_only, "NEIGHBOURHOODS", (5,))
    monkeypatch.setattr(text_only, "fit_weights", lambda scores, labels: np.array([1.0, 0.7]))
    n = task.n_train
    before = text_only.fit_text_model(task).probabilities[:n]
    for node in (0, 7, n - 1):
        labels = task.train_labels.copy()
        labels[node] = (labels[node] + 1) % task.n_classes
        changed = replace(task, train_labels=labels)
        after = text_only.fit_text_model(changed).probabilities[:n]
        same_fold = np.arange(n) % 5 == node % 5
        np.testing.assert_array_equal(after[same_fold], before[same_fold])
        assert not np.allclose(after[~same_fold], before[~same_fold])


def test_first_beliefs_read_known_labels_only(task):
    rows, n = text_only.text_rows(task), task.n_train
    known = np.arange(rows.shape[0]) < n - 10
    labels = task.train_labels.copy()
    labels[n - 10 :] = -1
    beliefs = text_only.first_beliefs(rows, labels, known, task.n_classes, 3.0)
    np.testing.assert_array_equal(beliefs[: n - 10].argmax(axis=1), labels[: n - 10])
    assert ((beliefs[n - 10 :] > 0) & (beliefs[n - 10 :] < 1)).all()


def test_of_many_texts_nearly_the_most_similar_are_found_in_blocks():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 60, 3000)
    dense = (rng.random((60, 200)) < 0.1)[group] ^ (rng.random((3000, 200)) < 0.02)
    rows = unit_rows(scipy.sparse.csr_matrix(dense.astype(float)))
    nodes, cosines = similar_in_blocks(rows, 5)
    _, exact = text_only.similar_texts(rows, 5)
    assert (nodes != np.arange(3000)[:, None]).all() and (np.diff(cosines, axis=1) <= 0).all()
    assert all(len(set(each)) == 5 for each in nodes)
    assert cosines.mean() > 0.97 * exact.mean()
    pairs = rows[np.repeat(np.arange(9), 5)].multiply(rows[nodes[:9].ravel()]).sum(axis=1)
    assert np.allclose(np.asarray(pairs).ravel(), cosines[:9].ravel())


def test_similar_texts_are_the_largest_cosines(task, monkeypatch):
    rows = text_only.text_rows(task)
    monkeypatch.setattr(text_only, "_CHUNK", 32)
    nodes, cosines = text_only.similar_texts(rows, 4)
    dense = (rows @ rows.T).toarray()
    np.fill_diagonal(dense, -1)
    np.testing.assert_allclose(cosines, -np.sort(-dense, axis=1)[:, :4], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(dense, nodes, axis=1), cosines, atol=1e-6)
    assert (nodes != np.arange(rows.shape[0])[:, None]).all()


def test_text_votes_by_hand():
    beliefs = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    found = text_only.text_votes(np.array([[0, 1]]), np.array([[0.8, 0.4]]), beliefs)
    np.testing.assert_allclose(found, [[0.8 * 0.5 - 0.4 * 0.25, -0.8 * 0.5 + 0.4 * 0.25]])


def test_text_rows_by_hand():
    ones = scipy.sparse.csr_matrix(np.array([[1.0, 0.0], [0.0, 1.0], [4.0, 1.0]]))
    base = task_of(random_graph(0), "edges")
    task = replace(
        base, train_features=ones[:1], validation_features=ones[1:2], test_features=-ones[2:]
    )
    weight = np.sqrt(np.log(4 / 3) + 1)  # both words stand in two of three nodes
    last = np.array([-2 * weight, -weight])
    expected = np.array([[1, 0], [0, 1], last / np.linalg.norm(last)])
    np.testing.assert_allclose(text_only.text_rows(task).toarray(), expected)


@pytest.mark.parametrize(
    ("labels", "expected"), [([1], [0.25, 0.5, 0.25]), ([1, 1], [0.2, 0.6, 0.2])]
)
def test_one_class_alone_gives_smoothed_frequencies(labels, expected):
    rows = scipy.sparse.csr_matrix(np.ones((len(labels), 2)))
    found = text_only.fit_probabilities(rows, np.array(labels), rows[:1], 3, 1.0)
    np.testing.assert_allclose(found, [expected])


def test_weights_are_those_of_a_reference_implementation(task):
    rows = text_only.text_rows(task)[: task.n_train]
    oracle = LogisticRegression(C=3.0, tol=1e-8, max_iter=2000).fit(rows, task.train_labels)
    found = text_only.fit_probabilities(rows, task.train_labels, rows, task.n_classes, 3.0)
    np.testing.assert_allclose(found, oracle.predict_proba(rows), atol=2e-3)


def test_a_class_that_is_never_seen_keeps_a_floor():
    rows = scipy.sparse.csr_matrix(np.eye(2))
    found = text_only.fit_probabilities(rows, np.array([0, 2]), rows, 3, 1.0)
    np.testing.assert_allclose(found[:, 1], 1e-6, rtol=1e-5)
    np.testing.assert_array_equal(found.argmax(axis=1), [0, 2])
