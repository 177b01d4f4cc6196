"""ogbn-products in its real format, small: the order of the pipeline, and damaged files."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from private_graphs.core.errors import UserError
from private_graphs.datasets import ogb
from private_graphs.datasets.npz import keyed_masks
from private_graphs.datasets.ogb import read_products
from private_graphs.datasets.prepared import large_classes

NODES, EDGES, WIDTH, CLASSES = 300, 900, 4, 5


def packed(rows: np.ndarray) -> bytes:
    return gzip.compress("".join(",".join(map(str, row)) + "\n" for row in rows.tolist()).encode())


def tables() -> dict[str, np.ndarray]:
    """Two large classes with a smaller one between them; loops, repetitions, isolated nodes."""
    generator = np.random.default_rng(0)
    edges = generator.integers(0, NODES - 20, (EDGES, 2))
    edges[:5, 1] = edges[:5, 0]
    edges[5:10] = edges[10:15]
    edges[15:20] = edges[20:25, ::-1]
    return {
        "edge": edges,
        "node-feat": generator.standard_normal((NODES, WIDTH)).astype(np.float32),
        "node-label": generator.choice(CLASSES, (NODES, 1), p=[0.35, 0.1, 0.35, 0.15, 0.05]),
        "num-node-list": np.array([[NODES]]),
        "num-edge-list": np.array([[EDGES]]),
    }


def write(folder: Path, content: dict[str, np.ndarray | bytes]) -> Path:
    path = folder / "products.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("products/RELEASE_v1.txt", "")
        archive.writestr("products/split/sales_ranking/train.csv.gz", packed(np.arange(9)[:, None]))
        for name, rows in content.items():
            rows = rows if isinstance(rows, bytes) else packed(rows)
            archive.writestr(f"products/raw/{name}.csv.gz", rows)
    return path


def read(path: Path, smallest: int = 60):
    return read_products(path, smallest, WIDTH, CLASSES)


def test_the_split_is_drawn_before_classes_and_nodes_without_edges_are_left_out(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(ogb, "BLOCK_BYTES", 700)  # many blocks
    raw = tables()
    graph = read(write(tmp_path, raw))
    labels = raw["node-label"][:, 0]
    between = [(a, b) for a, b in raw["edge"].tolist() if {labels[a], labels[b]} <= {0, 2}]
    straight = [pair for pair in between if pair[0] != pair[1]]
    expected = {(min(pair), max(pair)) for pair in straight}
    nodes = sorted({end for pair in expected for end in pair})
    assert {tuple(nodes[end] for end in edge) for edge in graph.edge_index.T} == expected
    assert graph.edge_index.shape[1] == len(expected)
    assert graph.loops == len(between) - len(straight) > 0
    assert graph.duplicates == len(straight) - len(set(straight)) > 0
    assert graph.one_way == 2 * len(expected) - len(set(straight))
    assert graph.n_classes == 2 and np.array_equal(graph.labels, labels[nodes] // 2)
    assert np.array_equal(graph.features, raw["node-feat"][nodes])
    assert graph.features.dtype == np.float32
    masks = (graph.train_mask, graph.validation_mask, graph.test_mask)
    for mask, whole in zip(masks, keyed_masks(NODES, 30, 45).values(), strict=True):
        assert np.array_equal(mask, whole[nodes])


def test_classes_at_the_bound_stay_and_are_numbered_in_their_order():
    labels = np.repeat([3, -1, 0, 1], [2, 5, 3, 1])
    found, left = large_classes(labels, 2, "here")
    assert left == 2 and found.tolist() == [1] * 2 + [-1] * 5 + [0] * 3 + [-1]
    with pytest.raises(
        UserError, match=r"here: found 1 classes of 3 nodes or more \(the largest has 3"
    ):
        large_classes(labels, 3, "here")
    with pytest.raises(UserError, match="here: found 0 classes of 1 nodes or more"):
        large_classes(np.array([-1, -1]), 1, "here")


def packed_text(text: str) -> bytes:
    return gzip.compress(text.encode())


@pytest.mark.parametrize(
    ("table", "content", "match"),
    [
        ("edge", packed(np.zeros((EDGES, 2), int))[:-9], "edge.csv.gz: cannot be read .*Truncated"),
        ("edge", np.ones((EDGES - 1, 2), int), "edge.csv.gz: found 899 rows, expected 900"),
        ("edge", np.ones((EDGES + 1, 2), int), "edge.csv.gz: found more than 900 rows"),
        ("edge", np.full((EDGES, 2), NODES), "csv.gz: found numbers 300..300, expected 0..299"),
        ("edge", np.full((EDGES, 2), -1), "edge.csv.gz: found numbers -1..-1, expected 0..299"),
        ("edge", np.ones((EDGES, 3), int), "edge.csv.gz: cannot be read .*Expected 2 columns"),
        ("edge", packed_text("1,\n" * EDGES), "edge.csv.gz: cannot be read .*invalid value ''"),
        ("edge", np.arange(EDGES)[:, None].repeat(2, 1) % 9, "no edge between nodes"),
        ("node-feat", np.ones((NODES, WIDTH + 1)), "node-feat.csv.gz: .*Expected 4 columns, got 5"),
        ("node-feat", np.ones((NODES - 1, WIDTH)), "node-feat.csv.gz: found 299 rows"),
        ("node-feat", np.full((NODES, WIDTH), np.inf), "rows 0 to 299 that are not finite"),
        ("node-label", np.full((NODES, 1), 0.5), "node-label.csv.gz: .*invalid value '0.5'"),
        ("node-label", np.full((NODES, 1), CLASSES), "found numbers 5..5, expected 0..4"),
        ("node-label", np.zeros((NODES, 1), int), "1 classes of 60 nodes or more"),
        ("num-node-list", np.array([[7], [8]]), r"num-node-list.csv.gz: found \[7, 8\], expected"),
        ("num-edge-list", b"1", "num-edge-list.csv.gz: cannot be read"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(tmp_path, table, content, match):
    path = write(tmp_path, tables() | {table: content})
    with pytest.raises(UserError, match=match) as raised:
        read(path)
    assert str(path) in str(raised.value)
