"""Partitions by METIS."""

from __future__ import annotations

import numpy as np

from private_graphs.graphs.metis import metis_partition


def test_metis_cuts_between_clusters_and_not_through_them():
    nodes = np.arange(90)
    inside = [(i, j) for i in nodes for j in nodes if i < j and i // 10 == j // 10]
    between = [(10 * k, (10 * k + 13) % 90) for k in range(9)]
    edges = np.array([(min(pair), max(pair)) for pair in inside + between]).T
    part = metis_partition(edges, 90, 9)
    assert sorted(np.unique(part.reshape(9, 10), axis=1).ravel()) == list(range(9))
    np.testing.assert_array_equal(part, metis_partition(edges, 90, 9))
