"""What a part reads of its graph: against random parts, and what is kept of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from private_graphs.cost import reach
from private_graphs.cost.reach import EVERYTHING, Coverage, Reach, keep, known_reach, measure
from private_graphs.datasets.registry import DATASETS, build


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return build("synthetic-planetoid", tmp_path_factory.mktemp("raw"))


def test_a_row_that_k_nodes_reach_is_read_with_its_probability():
    """One gamma-distributed k with a large shape is nearly a constant."""
    assert Coverage(mean=3.0, shape=1e6).share(0.01) == pytest.approx(1 - 0.99**3, rel=0.01)
    assert Coverage(mean=3.0, shape=1.0).share(0.0) == 0.0
    assert EVERYTHING.share(0.01) == pytest.approx(1.0)


@pytest.mark.parametrize("splits", [4, 10, 100])
def test_the_formula_agrees_with_random_parts(graph, splits):
    found = measure(graph)
    n, (first, second) = graph.n_nodes, graph.edge_index
    near = sp.csr_array(
        (np.ones(2 * len(first) + n), (np.r_[first, second, :n], np.r_[second, first, :n])),
        shape=(n, n),
    )
    words = graph.features.to_scipy()
    nonzeros, entries = np.diff(words.indptr), np.diff(near.indptr)
    generator, train = np.random.default_rng(0), np.flatnonzero(graph.train_mask)
    shares = []
    for _ in range(200):
        part = np.zeros(n)
        part[generator.choice(train, len(train) // splits, replace=False)] = 1
        one = near @ part > 0
        two = near @ one > 0
        read = np.diff(words[two].tocsc().indptr) > 0
        own = np.diff(words[part > 0].tocsc().indptr) > 0
        shares.append(
            [one.mean(), entries[one].sum() / entries.sum(), nonzeros[two].sum() / nonzeros.sum(),
             read.mean(), own.mean()]
        )  # fmt: skip
    curves = (found.nodes, found.entries, found.nonzeros, found.words, found.own_words)
    predicted = [curve.share(1 / splits) for curve in curves]
    assert predicted == pytest.approx(np.mean(shares, axis=0), rel=0.1)


@pytest.mark.parametrize(
    "name", [name for name, each in DATASETS.items() if each.synthetic and not each.views]
)
def test_what_is_kept_of_the_embedded_graphs_is_what_is_measured(tmp_path, name):
    assert_alike(measure(build(name, tmp_path)), known_reach(name))


def assert_alike(found: Reach, kept: Reach) -> None:
    """Equal numbers, and curves that agree wherever they are used: their parameters may not."""
    assert (found.train_edges, found.train_nonzeros) == (kept.train_edges, kept.train_nonzeros)
    for name in ("nodes", "entries", "nonzeros", "words", "own_words"):
        for splits in (4, 10, 100):
            share = getattr(found, name).share(1 / splits)
            assert share == pytest.approx(getattr(kept, name).share(1 / splits), rel=0.01), name


def test_every_dataset_without_views_has_been_measured():
    plain = [name for name, each in DATASETS.items() if not each.views]
    assert [name for name in plain if known_reach(name) is None] == []


def test_a_reach_is_kept_beside_the_others(tmp_path, monkeypatch):
    path = tmp_path / "reach.json"
    monkeypatch.setattr(reach, "REACH_FILE", path)
    known = Reach(3, 4, nodes=Coverage(2.0, 1.0))
    keep("other", Reach(1, 2))
    keep("mine", known)
    assert known_reach("mine") == known and known_reach("other") == Reach(1, 2)
    assert known_reach("none") is None
