"""Random partitions and induced edges."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from private_graphs.core.errors import UserError
from private_graphs.graphs.split import edges_within, random_partition


def draw(nodes, parts, seed=0):
    return random_partition(np.asarray(nodes), parts, np.random.default_rng(seed))


@given(st.integers(1, 60), st.data())
def test_sizes_differ_by_at_most_one_and_no_part_is_empty(n, data):
    parts = data.draw(st.integers(1, n))
    sizes = np.bincount(draw(range(n), parts), minlength=parts)
    assert len(sizes) == parts and sizes.sum() == n
    assert sizes.min() >= 1 and sizes.max() - sizes.min() <= 1


def test_the_partition_sees_the_number_of_nodes_and_its_generator_alone():
    assert list(inspect.signature(random_partition).parameters) == ["nodes", "parts", "generator"]
    first = draw(range(100), 7)
    np.testing.assert_array_equal(first, draw(range(500, 600), 7))  # whatever the node ids
    assert not np.array_equal(first, draw(range(100), 7, seed=1))


def test_more_parts_than_nodes_are_an_error_that_says_the_most_there_can_be():
    with pytest.raises(UserError, match=r"6 parts asked of 5 training nodes.*at most 5"):
        draw(range(5), 6)


def test_edges_between_groups_and_of_removed_nodes_are_dropped():
    edges = np.array([[0, 0, 1, 2, 3, 4], [1, 2, 3, 3, 4, 5]])
    group = np.array([0, 0, 1, 1, -1, -1])
    assert edges_within(edges, group).T.tolist() == [[0, 1], [2, 3]]
    assert edges_within(edges, np.full(6, -1)).shape == (2, 0)
    assert edges_within(edges, np.zeros(6, int)).tolist() == edges.tolist()
