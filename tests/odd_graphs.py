"""Graphs with everything that a raw file can hold, brought in as a user would bring them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from private_graphs.core.files import sha256_of
from private_graphs.datasets import registry, sources
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.npz import keyed_masks, read_npz
from private_graphs.datasets.sources import DatasetSources, SourceFile
from private_graphs.datasets.spec import DatasetSpec, GraphSize

N_VALIDATION, N_TEST = 10, 15
NODES, WORDS, CLASSES = 60, 20, 5
RARE, UNTRAINED, UNTESTED, NOWHERE = 2, 3, 1, 4
"""Classes: one training node, none in training, none in the test nodes, no node at all."""

HAND = (
    # Both ways and once more; one way; two loops on one node; one way; no edge (weight 0).
    [(0, 1, 1), (1, 0, 1), (0, 1, 3), (1, 2, 1), (2, 2, 1), (2, 2, 1), (4, 3, 1), (5, 0, 0)],
    [[1, 0], [0, 2], [1, 1], [0, 0], [3, 0], [0, 0]],
    [0, 0, 0, 1, 2, 1],
)
"""Entries, words and labels of six nodes; with masks of 1 and 2 nodes, 1, 2 and 3 train, 5
validates, 0 and 4 test."""


def archive(entries, words, labels) -> dict[str, np.ndarray]:
    """The keys of a gnn-benchmark file; ``entries`` are (source, target, weight), kept as given."""
    entries = sorted(entries, key=lambda entry: entry[0])  # stable: rows keep their order
    source, target, weight = np.array(entries, dtype=np.float64).reshape(-1, 3).T
    n_nodes = len(labels)
    matrix = sp.csr_matrix(np.asarray(words, dtype=np.float32))
    return {
        "adj_data": weight.astype(np.float32), "adj_indices": target.astype(np.int32),
        "adj_indptr": np.searchsorted(source, np.arange(n_nodes + 1)).astype(np.int32),
        "adj_shape": np.array([n_nodes, n_nodes]), "attr_data": matrix.data,
        "attr_indices": matrix.indices, "attr_indptr": matrix.indptr,
        "attr_shape": np.array(matrix.shape), "labels": np.asarray(labels, dtype=np.int64),
    }  # fmt: skip


def build_own(
    monkeypatch, raw_dir: Path, arrays, classes, n_validation: int, n_test: int
) -> GraphDataset:
    """Write, declare and build the dataset ``own``, as docs/data.md tells a user to."""
    path = raw_dir / "own" / "own.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    source = SourceFile(
        file="own/own.npz", url="https://example.org/own.npz", bytes=path.stat().st_size,
        sha256=sha256_of(path),
    )  # fmt: skip
    spec = DatasetSpec(
        "own", "Own graph", "own/own.npz", tuple(classes), GraphSize(1, 1, 1, 1, 1, 1),
        read=partial(read_npz, n_validation=n_validation, n_test=n_test, n_classes=len(classes)),
    )  # fmt: skip
    listed = DatasetSources(licence="none", citation="none", files=(source,))
    monkeypatch.setitem(registry.DATASETS, "own", spec)
    monkeypatch.setattr(sources, "load_sources", lambda: {"own": listed})
    return registry.build("own", raw_dir)


def odd_parts(seed: int = 0):
    """Return entries, words (N, F) and labels (N,) of a graph in which everything is odd.

    Directed entries, both ways or one way, repeated, of weight 0, loops; nodes without an entry,
    without a word, without both; several components; the classes named above.
    """
    generator = np.random.default_rng(seed)
    train, validation, test = (
        np.flatnonzero(mask) for mask in keyed_masks(NODES, N_VALIDATION, N_TEST).values()
    )
    lonely = np.concatenate([train[:3], validation[:2], test[:2]])
    tied = np.setdiff1d(np.arange(NODES), lonely)
    halves = tied[: len(tied) // 2], tied[len(tied) // 2 :]  # no edge between the two
    drawn = [
        (int(source), int(target), 1.0)
        for half in halves
        for source, target in generator.choice(half, size=(45, 2))
    ]
    back = [(target, source, 2.0) for source, target, _ in drawn[::3]]
    again = [drawn[k] for k in (0, 0, 1, 5, 8)]
    loops = [(int(node), int(node), 1.0) for node in (*tied[:4], tied[0], lonely[0])]
    no_edges = [(int(lonely[0]), int(lonely[1]), 0.0), (int(tied[0]), int(tied[-1]), 0.0)]
    words = (generator.random((NODES, WORDS)) < 0.3) * generator.uniform(0.5, 1.5, (NODES, WORDS))
    words[[lonely[0], lonely[3], lonely[5], tied[2], tied[7]]] = 0
    labels = generator.integers(0, 2, NODES)
    labels[train[7]] = RARE
    labels[test] = generator.choice([0, RARE, UNTRAINED], len(test))
    labels[test[:2]] = 0, UNTRAINED
    labels[validation[:3]] = 0, UNTESTED, UNTRAINED
    return [*drawn, *back, *again, *loops, *no_edges], words, labels


def odd_graph(monkeypatch, raw_dir: Path, seed: int = 0) -> GraphDataset:
    """Build the graph of :func:`odd_parts`."""
    names = [f"class {c}" for c in range(CLASSES)]
    return build_own(monkeypatch, raw_dir, archive(*odd_parts(seed)), names, N_VALIDATION, N_TEST)
