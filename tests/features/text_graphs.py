"""Small text graphs for the tests of features."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from private_graphs.datasets.text_graph import TextGraph, TextGraphInfo


def text_graph(columns: dict[str, list[str | None]], public: int = 2, labels=None) -> TextGraph:
    """A graph without edges: the last ``public`` nodes test, the one before validates."""
    n = len(next(iter(columns.values())))
    number = np.arange(n)
    info = TextGraphInfo(
        name="small", title="Small", synthetic=True, view="sound", classes=["a", "b"],
        loops_dropped=0, duplicates_dropped=0, sources=[], licence="none", citation="none",
        public_facts=[],
    )  # fmt: skip
    test, validation = number >= n - public, number == n - public - 1
    labels = np.zeros(n, dtype=np.int64) if labels is None else labels
    table = pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})
    edges = np.zeros((2, 0), dtype=np.int64)
    return TextGraph(
        texts=table, edge_index=edges, labels=labels, train_mask=~(test | validation),
        validation_mask=validation, test_mask=test, info=info,
    )  # fmt: skip


def labelled_texts(nodes: int = 300, columns: int = 6) -> TextGraph:
    """Texts of random words, a third of which each class prefers; some columns are empty."""
    generator = np.random.default_rng(7)
    letters = list("abcdefghijklmnoprstuvzáčšž")
    words = ["".join(generator.choice(letters, 6)) for _ in range(90)]
    weights = np.ones((2, 90))
    weights[0, :30] = weights[1, 30:60] = 4
    weights /= weights.sum(axis=1, keepdims=True)
    labels = np.arange(nodes) % 2

    def text(label: int) -> str | None:
        if generator.random() < 0.3:
            return None
        chosen = generator.choice(words, generator.integers(1, 8), p=weights[label])
        return " ".join(chosen)

    table = {f"column {i}": [text(label) for label in labels] for i in range(columns)}
    return text_graph(table, public=nodes // 3, labels=labels)
