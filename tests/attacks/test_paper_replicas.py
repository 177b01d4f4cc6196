"""Replicas of newer papers' code: replay finds what their noise does not cover, attacks read it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from small_graphs import dense_features, make_graph, random_graph

from private_graphs.audit import replay

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
from caribou import OWN, adjacency_of, aggregated_rows, twins

sys.path.pop(0)

GRAPH = random_graph(nodes=120, degree=3.0)
EDGES = np.asarray(GRAPH.edge_index).T
EDGE = tuple(map(int, EDGES[5]))


def without(edge):
    return adjacency_of(GRAPH, edge)


def test_an_edge_less_is_one_edge_less_whichever_end_comes_first():
    whole = adjacency_of(GRAPH)
    assert (whole - whole.T).nnz == 0 and whole.sum() == 2 * len(EDGES)
    for edge in (EDGE, EDGE[::-1]):
        gone = (whole - without(edge)).tocoo()
        kept = {(i, j) for i, j, value in zip(gone.row, gone.col, gone.data, strict=True) if value}
        assert kept == {EDGE, EDGE[::-1]}


@pytest.mark.parametrize("mended", [False, True])
def test_replay_finds_the_aggregation_without_noise_and_passes_one_that_is_mended(mended):
    features = dense_features(GRAPH)
    found = replay(
        lambda adjacency, watch: aggregated_rows(adjacency, features, 1e3, watch, mended=mended),
        adjacency_of(GRAPH), [without(EDGE), without(tuple(map(int, EDGES[9])))],
        relation="add_remove",
    )  # fmt: skip
    assert found.largest_ratio < 1 and found.passed == mended
    assert mended or "input of the classifier" in " ".join(found.differs)


@pytest.mark.parametrize("noise", [1.0, 100.0])
def test_rows_of_twins_are_equal_whatever_the_noise_and_differ_without_an_edge(noise):
    """Nodes 1 and 2 have node 0 as their only friend."""
    graph = make_graph([(0, 1), (0, 2), (0, 3), (3, 4), (4, 5)],
                       np.random.default_rng(0).normal(size=(6, 8)), [0, 1, 0, 1, 0, 1],
                       train=[0, 1], validation=[2], test=[3, 4, 5])  # fmt: skip
    features = dense_features(graph)

    def apart(edge=None):
        rows = aggregated_rows(adjacency_of(graph, edge), features, noise) - OWN * features
        return np.linalg.norm(rows[1] - rows[2])

    [(hub, alike)] = twins(adjacency_of(graph))
    assert hub == 0 and alike.tolist() == [1, 2]
    assert apart() < 1e-9 * noise and apart((0, 2)) > noise / 10
