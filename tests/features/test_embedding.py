"""Batches of fixed shapes, and means that no other node's texts reach."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_graphs import text_graph

from private_graphs.features import embedding
from private_graphs.features.embedding import LADDER, column_means, fixed_batches
from private_graphs.features.texts import distinct_texts


@given(
    st.lists(st.integers(1, 100), max_size=80), st.integers(8, 130), st.sampled_from([1, 64, 300])
)
def test_a_shape_depends_on_the_length_of_a_text_alone(lengths, longest, budget):
    lengths = np.minimum(np.array(lengths, dtype=np.int64), longest)
    found = list(fixed_batches(lengths, longest, budget))
    chosen = [int(i) for batch, _, _ in found for i in batch]
    assert sorted(chosen) == list(range(len(lengths)))
    for batch, rows, padded in found:
        assert padded in {*LADDER, longest} and padded <= longest
        assert 1 <= len(batch) <= rows and rows == max(1, budget // padded)
        # A mask that hides nothing is dropped by the library: all of a batch have one, or none.
        assert (lengths[batch] < padded).all() or (lengths[batch] == longest).all()
        for i in batch:
            ((_, alone_rows, alone),) = fixed_batches(lengths[i : i + 1], longest, budget)
            assert (alone_rows, alone) == (rows, padded)


class Hashing:
    """Vectors of widely different sizes, so that a sum in another order rounds otherwise."""

    fingerprint = "a" * 64
    width = 5
    pooled = {"counted": "vector", "masked": "vector"}

    def encode(self, texts):
        """Draw from the text itself."""
        seeds = [hashlib.sha256(text.encode()).digest()[:8] for text in texts]
        rows = [np.random.default_rng(int.from_bytes(seed)).normal(size=5) for seed in seeds]
        vectors = np.array(rows) ** 9
        return {
            "vector": vectors.astype(np.float32),
            "filled": np.array([bool(text) for text in texts]),
        }


@pytest.mark.parametrize("shard", [3, 7, 2000])
def test_means_do_not_depend_on_the_order_in_which_texts_come(shard, tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    columns = {
        str(c): [f"{n} {c} " + "x" * generator.integers(90) for n in range(30)] for c in range(20)
    }
    graph = text_graph(columns)
    expected = column_means(distinct_texts(graph.texts), Hashing(), "masked", None)
    vectors = np.mean([Hashing().encode(texts)["vector"] for texts in columns.values()], 0, float)
    np.testing.assert_allclose(expected, vectors, rtol=1e-6, atol=1e-9)
    monkeypatch.setattr(embedding, "SHARD_TEXTS", shard)
    few = text_graph({name: columns[name] for name in reversed(list(columns)[4:9])})
    column_means(distinct_texts(few.texts), Hashing(), "masked", tmp_path)
    turned = text_graph({name: columns[name] for name in reversed(columns)})
    found = column_means(distinct_texts(turned.texts), Hashing(), "masked", tmp_path)
    np.testing.assert_array_equal(found, expected)
