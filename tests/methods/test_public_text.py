"""Rows learned from public texts: weights, axes against scikit-learn, averages, own rows only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from small_tasks import graph_task, text_task

from private_graphs.methods.public_text import PublicText, inverse_document_weights, principal_axes
from private_graphs.tasks.graph_task import unit_rows


def _unit(rows: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)


def test_document_weights_by_hand():
    presence = unit_rows(sp.csr_matrix([[1.0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]))
    np.testing.assert_allclose(
        inverse_document_weights(presence), np.log([4 / 3, 4 / 2, 4 / 2, 4 / 1])
    )
    weighted = unit_rows(sp.csr_matrix([[1.0, 2, 0, 0], [1, 0, 1, 0]]))
    np.testing.assert_array_equal(inverse_document_weights(weighted), np.ones(4))
    np.testing.assert_array_equal(inverse_document_weights(sp.csr_matrix((2, 3))), np.ones(3))


@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
def test_axes_are_the_principal_components(shape):
    rows = np.random.default_rng(0).normal(size=shape) * np.linspace(3, 1, shape[1])
    axes = principal_axes(sp.csr_matrix(rows))
    assert axes.rank == min(shape[1], shape[0] - 1)
    expected = PCA(axes.rank, svd_solver="full").fit(rows)
    np.testing.assert_allclose(
        np.abs(axes.directions.T @ expected.components_.T), np.eye(axes.rank), atol=1e-6
    )
    unit = axes.unit(sp.csr_matrix(rows), 3)
    np.testing.assert_allclose(
        np.abs(unit), np.abs(_unit(expected.transform(rows)[:, :3])), atol=1e-9
    )
    assert not axes.unit(sp.csr_matrix(rows.mean(axis=0)), 3).any()  # at the centre: zero


@pytest.mark.parametrize("hops", [0, 2])
def test_where_no_edge_is_public_rows_are_weighted_texts(hops):
    task = text_task()
    text = PublicText.of(task, hops)
    assert text.hops == 0 and text.smoothing is None
    weights = inverse_document_weights(task.validation_features)
    assert (weights > 1).any()
    sides = np.vstack([task.validation_features.toarray(), task.test_features.toarray()])
    np.testing.assert_allclose(text.evaluated_rows(task).toarray(), _unit(sides * weights))
    np.testing.assert_allclose(
        text.training_rows(task, slice(5, 9)).toarray(),
        _unit(task.train_features[5:9].toarray() * weights),
    )


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_rows_are_averages_over_public_neighbours(hops):
    task = graph_task()
    text = PublicText.of(task, hops)
    texts = np.vstack([task.validation_features.toarray(), task.test_features.toarray()])
    weights = np.log((len(texts) + 1) / ((texts > 0).sum(axis=0) + 1))
    edges = task.public_adjacency.toarray()
    mean = (edges + np.eye(len(edges))) / (edges.sum(axis=1, keepdims=True) + 1)
    averages = [_unit(texts * weights)]
    for _ in range(hops):
        averages.append(mean @ averages[-1])
    np.testing.assert_allclose(text.evaluated_rows(task).toarray(), _unit(averages[-1]))
    own, across = _unit(task.train_features.toarray() * weights), task.train_to_public
    expected = _unit(own + across.toarray() @ averages[-2]) if hops else own
    found = text.training_rows(task, slice(None)).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("changed", ["train_features", "train_to_public"])
@pytest.mark.parametrize("hops", [1, 2])
def test_a_replaced_training_node_changes_its_own_row_alone(changed, hops):
    task = graph_task()
    matrix = getattr(task, changed).tolil()
    matrix[7] = 0
    matrix[7, 3] = 1
    other = replace(task, **{changed: matrix.tocsr()})
    one, two = PublicText.of(task, hops), PublicText.of(other, hops)
    rows = [each.training_rows(p, slice(None)) for each, p in ((one, task), (two, other))]
    assert np.flatnonzero(abs(rows[0] - rows[1]).sum(axis=1).A1 > 1e-12).tolist() == [7]
    assert abs(one.evaluated_rows(task) - two.evaluated_rows(other)).nnz == 0
    np.testing.assert_array_equal(one.axes.directions, two.axes.directions)


def test_the_map_is_the_same_for_other_training_nodes():
    one, two = (PublicText.of(text_task(train_seed=seed), 0) for seed in (1, 9))
    np.testing.assert_array_equal(one.axes.directions, two.axes.directions)
    np.testing.assert_array_equal(one.weights, two.weights)
