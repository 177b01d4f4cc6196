"""A task's public graph: what it may hold of edges to training nodes is nothing."""

from __future__ import annotations

import numpy as np
from small_graphs import random_graph

from private_graphs.tasks import SCENARIOS, build_task


def test_the_public_graph_is_the_edges_between_public_nodes():
    graph = random_graph(3, nodes=60)
    task = build_task(graph, SCENARIOS["graph"], 1e-5)
    nodes = np.r_[
        np.flatnonzero(graph.validation_mask & (graph.labels >= 0)),
        np.flatnonzero(graph.test_mask & (graph.labels >= 0)),
    ]
    expected = np.zeros((graph.n_nodes, graph.n_nodes))
    first, second = graph.edge_index
    expected[first, second] = expected[second, first] = 1
    np.testing.assert_array_equal(task.public_adjacency.toarray(), expected[nodes][:, nodes])
    assert task.train_to_public.nnz, "there are edges that it could have followed"
