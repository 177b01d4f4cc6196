"""Rows of personalised PageRank: by hand, by the optimality conditions, by Algorithm 6."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import random_graph

from private_graphs.graphs.pagerank import ALPHA, GAMMA, RHO, pagerank_rows, with_loops


def _gradient(matrix, rows, roots):
    """g of every row, by the formula with dense matrices."""
    dense = matrix.toarray()
    degree = dense.sum(axis=1)
    walk = np.eye(len(dense)) - (1 - ALPHA) / 2 * (np.eye(len(dense)) + dense / degree)
    return (rows @ walk.T - ALPHA * np.eye(len(dense))[roots]) / degree


@pytest.fixture(scope="module")
def graph():
    made = random_graph(5, nodes=120)
    return with_loops(made.edge_index, made.n_nodes)


def test_a_node_alone_and_two_that_are_joined():
    alone = pagerank_rows(with_loops(np.empty((2, 0), int), 1), [0])
    assert alone[0, 0] == pytest.approx(1 - RHO, abs=1e-6)
    pair = pagerank_rows(with_loops(np.array([[0], [1]]), 2), [0, 1])
    np.testing.assert_allclose(pair[0], [0.7 - 2 * RHO, 0.3 - 2 * RHO], atol=1e-6)
    np.testing.assert_allclose(pair[1], pair[0][::-1])


def test_optimality_of_every_row_and_its_sum(graph):
    roots = np.arange(graph.shape[0])
    rows = pagerank_rows(graph, roots)
    g = _gradient(graph, rows, roots)
    assert rows.min() == 0 and g.max() < 1e-12
    assert -g.min() <= (1 + GAMMA) * RHO * ALPHA * (1 + 1e-9)
    np.testing.assert_allclose(g[rows > 0], -RHO * ALPHA, rtol=GAMMA * 1.01)
    whole = (rows > 0).all(axis=1)
    degrees = np.asarray(graph.sum(axis=1)).sum()
    np.testing.assert_allclose(rows[whole].sum(axis=1), 1 - RHO * degrees, atol=1e-4)


def test_the_damped_steps_of_algorithm_6_reach_the_same_rows(graph):
    roots, gamma = np.arange(5), 1e-6  # both stop where the conditions nearly hold
    p = np.zeros((5, graph.shape[0]))
    for _ in range(20_000):
        g = _gradient(graph, p, roots)
        if -g.min() <= (1 + gamma) * RHO * ALPHA:
            break
        p += np.maximum(-(g + RHO * ALPHA), 0)
    np.testing.assert_allclose(pagerank_rows(graph, roots, gamma=gamma), p, atol=5e-7)
