"""Samples of nodes: floor counts per class, or a coin per node; and what is left of a graph."""

from __future__ import annotations

import hashlib
import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from private_graphs.graphs.sample import hashed_coin_sample, induced_subgraph
from private_graphs.graphs.split import keyed_coin_sample, stratified_sample


@given(
    st.lists(st.integers(-1, 4), max_size=60), st.integers(1, 100), st.integers(0, 2**32 - 1)
)  # fmt: skip
def test_each_class_keeps_the_floor_of_its_share(labels, percent, seed):
    labels = np.array(labels, dtype=np.int64)
    nodes = 10 + 3 * np.arange(len(labels))
    kept = stratified_sample(nodes, labels, percent / 100, np.random.default_rng(seed))
    assert kept.tolist() == sorted(set(kept.tolist())) and np.isin(kept, nodes).all()
    of_kept = labels[(kept - 10) // 3]
    for label in np.unique(labels):
        members = int(np.sum(labels == label))
        assert np.sum(of_kept == label) == members * percent // 100


@pytest.mark.parametrize(("count", "fraction", "kept"), [(100, 0.29, 29), (50, 0.58, 29)])
def test_floors_are_those_of_the_decimal_fraction(count, fraction, kept):
    assert math.floor(count * fraction) == kept - 1  # what binary fractions would give
    generator = np.random.default_rng(0)
    labels = np.zeros(count, dtype=np.int64)
    assert len(stratified_sample(np.arange(count), labels, fraction, generator)) == kept
    assert len(stratified_sample(np.arange(9), labels[:9], 0.1, generator)) == 0


def test_the_coins_see_no_label_and_are_independent():
    assert list(inspect.signature(keyed_coin_sample).parameters) == [
        "nodes", "fraction", "generator",
    ]  # fmt: skip
    nodes = np.arange(5, 25)
    draws = np.zeros((4000, 20), dtype=bool)
    for seed, row in enumerate(draws):
        row[keyed_coin_sample(nodes, 0.3, np.random.default_rng(seed)) - 5] = True
    assert abs(draws.mean() - 0.3) < 5 * np.sqrt(0.21 / draws.size)
    sizes = draws.sum(1)  # binomial: a balanced draw would have no variance
    assert abs(sizes.var() / (20 * 0.21) - 1) < 0.15
    correlation = np.corrcoef(draws.T) - np.eye(20)
    assert np.abs(correlation).max() < 5 / np.sqrt(len(draws))


def test_a_hashed_coin_is_that_of_the_node_and_of_no_other():
    nodes = np.arange(3000)
    kept = hashed_coin_sample(nodes, 0.1, b"key")
    slow = [
        node
        for node in range(3000)
        if int.from_bytes(
            hashlib.blake2b(node.to_bytes(8, "little"), key=b"key", digest_size=8).digest(),
            "little",
        )
        < 0.1 * 2**64
    ]
    assert kept.tolist() == slow
    assert abs(len(kept) - 300) < 5 * np.sqrt(3000 * 0.09)
    fewer = np.random.default_rng(0).permutation(nodes)[:1000]
    assert set(hashed_coin_sample(fewer, 0.1, b"key")) == set(slow) & set(fewer.tolist())
    assert set(kept) < set(hashed_coin_sample(nodes, 0.3, b"key"))
    assert set(kept) != set(hashed_coin_sample(nodes, 0.1, b"another"))


def slow_subgraph(entries: list[tuple[int, int]], kept: set[int]) -> list[tuple[int, int]]:
    """Entries between kept nodes with new numbers, one by one."""
    number = {node: new for new, node in enumerate(sorted(kept))}
    return [(number[a], number[b]) for a, b in entries if a in kept and b in kept]


@given(st.data(), st.integers(1, 12), st.integers(1, 7), st.sampled_from(["i4", "i8", "u4", "u1"]))
def test_the_induced_subgraph_is_that_of_a_loop_over_sets(data, n_nodes, chunk, dtype):
    node = st.integers(0, n_nodes - 1)
    entries = data.draw(st.lists(st.tuples(node, node), max_size=40))
    kept = data.draw(st.sets(node))
    sources, targets = np.array(entries, dtype=dtype).reshape(-1, 2).T
    keep = np.isin(np.arange(n_nodes), list(kept))
    found = induced_subgraph(sources, targets, keep, chunk)
    assert found.dtype == np.int64 and found.shape == (2, found.shape[1])
    assert list(map(tuple, found.T.tolist())) == slow_subgraph(entries, kept)
    assert np.array_equal(found, induced_subgraph(sources, targets, keep))
