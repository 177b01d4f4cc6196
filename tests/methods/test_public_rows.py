"""Rows from public data: coordinates in the public graph, weights by degree, own rows alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from small_tasks import graph_task

from private_graphs.methods import public_rows
from private_graphs.methods.public_rows import RowMap, smoother, spectral_coordinates
from private_graphs.methods.public_text import PublicText


def _two_components(nodes: int = 200) -> sp.csr_matrix:
    """A random graph and, apart from it, a pair of nodes."""
    draws = np.random.default_rng(0)
    upper = np.triu(draws.random((nodes, nodes)) < 8 / nodes, 1)
    upper[:, 0] = upper[0] = False
    upper[-1] = upper[:, -1] = False
    upper[0, -1] = True
    return sp.csr_matrix((upper | upper.T) * 1.0)


@pytest.mark.parametrize("dense", [100, 300])
def test_coordinates_are_eigenvectors_of_the_largest_component(monkeypatch, dense):
    """Both ways of computing them."""
    monkeypatch.setattr(public_rows, "MAX_COORDINATES", 40)
    monkeypatch.setattr(public_rows, "_DENSE", dense)
    adjacency = _two_components()
    found = spectral_coordinates(adjacency)
    assert found.shape == (200, 40) and not found[[0, -1]].any()
    np.testing.assert_array_equal(found, spectral_coordinates(adjacency))  # to the bit
    degrees = adjacency.sum(axis=1).A1 + 1
    vectors = found * np.sqrt(degrees)[:, None]
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(40), atol=1e-6)
    walk = (adjacency + sp.eye(200)) @ found / degrees[:, None]
    values = (walk * found * degrees[:, None]).sum(axis=0)
    np.testing.assert_allclose(walk, found * values, atol=1e-4)
    assert values[0] == pytest.approx(1)
    assert (np.diff(values) < 1e-6).all()
    assert spectral_coordinates(sp.csr_matrix((200, 200))) is None


def test_a_row_weighs_structure_by_public_degree_and_reads_its_own_record():
    task = graph_task()
    text = PublicText.of(task, 1)
    rows = RowMap.of(task, text, spectral_coordinates(task.public_adjacency), 4)
    found = rows.training(task.training(slice(None)))
    norms = np.linalg.norm(found, axis=1)
    np.testing.assert_allclose(norms[norms > 0], 1)
    degrees = task.train_to_public.sum(axis=1).A1
    linked = (degrees > 0) & np.abs(found[:, 4:]).any(axis=1) & np.abs(found[:, :4]).any(axis=1)
    share = (found[:, 4:] ** 2).sum(axis=1)
    np.testing.assert_allclose(share[linked], (degrees / (degrees + 10))[linked])
    edges = task.train_to_public.tolil()
    edges[7] = 1 - edges[7].toarray()
    other = replace(task, train_to_public=edges.tocsr())
    again = rows.training(other.training(slice(None)))
    assert np.flatnonzero((again != found).any(axis=1)).tolist() == [7]
    assert rows.evaluated(task).shape == (60, rows.size)


def test_spreading_averages_links_and_similar_texts():
    task = graph_task()
    near = smoother(task, PublicText.of(task, 0))
    np.testing.assert_allclose(near.sum(axis=1).A1, 1)
    dense = near.toarray()
    degrees = task.public_adjacency.sum(axis=1).A1
    similar = (dense > 0).sum(axis=1) > degrees + 1  # all but a node without words
    assert similar.sum() > 55
    np.testing.assert_allclose(dense.diagonal()[similar], 1 / (degrees[similar] + 1.5))
    assert (dense[task.public_adjacency.toarray() > 0] > 0).all()
