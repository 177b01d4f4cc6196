"""Samples of the training nodes: floor counts per class, or a coin per node."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from private_graphs.graphs.sample import keyed_coin_sample, stratified_sample


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


def test_every_member_of_a_class_is_as_likely_to_be_kept():
    nodes, labels = np.arange(8), np.array([0, 0, 0, 0, 0, 1, 1, 1])
    counts = np.zeros(8)
    for seed in range(3000):
        counts[stratified_sample(nodes, labels, 0.5, np.random.default_rng(seed))] += 1
    assert stats.chisquare(counts[:5]).pvalue > 1e-4
    assert stats.chisquare(counts[5:]).pvalue > 1e-4


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


def test_a_kept_node_stays_kept_as_the_fraction_grows():
    """The coin belongs to the node: one draw per node, compared with the fraction."""
    nodes = np.arange(200)
    few, many = (
        keyed_coin_sample(nodes, fraction, np.random.default_rng(7)) for fraction in (0.2, 0.6)
    )
    assert set(few) < set(many)
