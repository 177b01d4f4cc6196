"""The Reddit reader: which nodes stay, every field, and archives that are not whole."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from private_graphs.core.errors import UserError
from private_graphs.datasets import reddit
from private_graphs.datasets.npz import keyed_masks
from private_graphs.datasets.reddit import kept_nodes, read_reddit, read_reddit_classes
from private_graphs.datasets.views import PAPER, RELEASED, SOUND

NODES = 400


def arrays(seed: int = 0, entries: int = 3000, dtype: str = "f8") -> tuple[dict, dict]:
    """Keys of both archives: loops, repetitions and one-way entries included."""
    generator = np.random.default_rng(seed)
    row, col = generator.integers(0, NODES, (2, entries), dtype=np.int32)
    row[:20], col[:20] = row[20:40], col[20:40]
    row[40:45] = col[40:45]
    data = {
        "feature": generator.standard_normal((NODES, 7)).astype(dtype),
        "label": np.arange(NODES) % 41,
        "node_types": generator.choice([1, 2, 3], NODES, p=[0.7, 0.1, 0.2]),
        "node_ids": np.arange(NODES),
    }
    graph = {
        "row": row, "col": col, "data": np.ones(entries, np.float32),
        "shape": np.array([NODES, NODES]), "format": np.array(b"coo"),
    }  # fmt: skip
    return data, graph


def npz(values: dict, compressed: bool) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **values)
    return stream.getvalue()


def write(
    folder: Path, data: dict, graph: dict, compressed: bool = True, extra: dict | None = None
) -> Path:
    path = folder / "reddit.zip"
    packing = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("reddit_data.npz", npz(data, not compressed))
        archive.writestr("reddit_graph.npz", npz(graph, compressed))
        for name, content in (extra or {}).items():
            archive.writestr(name, content)
    return path


def slow_edges(graph: dict, keep: np.ndarray) -> tuple[set[tuple[int, int]], int, int, int]:
    """Edges, loops, repetitions and one-way edges by loops over Python sets."""
    number = {node: new for new, node in enumerate(np.flatnonzero(keep).tolist())}
    seen, loops, repeated = set(), 0, 0
    for a, b in zip(graph["row"].tolist(), graph["col"].tolist(), strict=True):
        if a not in number or b not in number:
            continue
        entry = (number[a], number[b])
        loops += a == b
        repeated += a != b and entry in seen
        if a != b:
            seen.add(entry)
    edges = {(min(entry), max(entry)) for entry in seen}
    return edges, loops, repeated, sum((b, a) not in seen for a, b in seen)


def assert_read_right(parsed, data: dict, graph: dict, keep: np.ndarray) -> None:
    edges, loops, repeated, one_way = slow_edges(graph, keep)
    assert set(map(tuple, parsed.edge_index.T.tolist())) == edges
    assert parsed.edge_index.shape[1] == len(edges)
    assert (parsed.loops, parsed.duplicates) == (loops, repeated)
    assert parsed.one_way == one_way
    assert parsed.features.dtype == np.float32 and parsed.n_classes == 41
    assert np.array_equal(parsed.features, data["feature"][keep].astype(np.float32))
    assert np.array_equal(parsed.labels, data["label"][keep]) and parsed.labels.dtype == np.int64
    for kind, mask in enumerate(
        (parsed.train_mask, parsed.validation_mask, parsed.test_mask), start=1
    ):
        assert mask.dtype == bool and np.array_equal(mask, data["node_types"][keep] == kind)


@pytest.mark.parametrize("view", [RELEASED, PAPER, SOUND], ids=lambda view: view.name)
@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_kept_nodes_keep_all_fields_and_their_edges(tmp_path, monkeypatch, view, compressed, dtype):
    monkeypatch.setattr(reddit, "BLOCK_NUMBERS", 128)  # many blocks
    data, graph = arrays(dtype=dtype)
    path = write(tmp_path, data, graph, compressed)
    parsed = read_reddit(path, view, 0.3)
    keep = kept_nodes(data["label"], data["node_types"], view, 0.3)
    assert_read_right(parsed, data, graph, keep)
    again = read_reddit(path, view, 0.3)
    assert np.array_equal(again.features, parsed.features)
    assert np.array_equal(again.edge_index, parsed.edge_index)
    assert list(tmp_path.iterdir()) == [path]  # what was unpacked is gone


def test_the_largest_classes_have_a_split_of_their_own(tmp_path, monkeypatch):
    """ProGAP's order: split, classes, edges between them, loops, nodes without an edge."""
    monkeypatch.setattr(reddit, "BLOCK_NUMBERS", 128)
    data, graph = arrays(entries=1200)
    data["label"] = np.repeat([40, 7, 3, 0], [150, 20, 150, 80])
    parsed = read_reddit_classes(write(tmp_path, data, graph), 100)
    large = np.isin(data["label"], [3, 40])
    edges, loops, repeated, one_way = slow_edges(graph, large)
    raw = np.flatnonzero(large)
    tied = sorted({raw[end] for edge in edges for end in edge})
    number = {node: new for new, node in enumerate(tied)}
    expected = {tuple(number[raw[end]] for end in edge) for edge in edges}
    assert len(tied) < len(raw) and set(map(tuple, parsed.edge_index.T.tolist())) == expected
    counted = (parsed.loops, parsed.duplicates, parsed.one_way)
    assert counted == (loops, repeated, one_way) and loops and repeated
    assert parsed.n_classes == 2
    assert np.array_equal(parsed.labels, np.searchsorted([3, 40], data["label"][tied]))
    assert np.array_equal(parsed.features, data["feature"][tied].astype(np.float32))
    masks = (parsed.train_mask, parsed.validation_mask, parsed.test_mask)
    for mask, whole in zip(masks, keyed_masks(NODES, 40, 60).values(), strict=True):
        assert np.array_equal(mask, whole[tied])
    with pytest.raises(UserError, match="0 classes of 10,000 nodes or more"):
        read_reddit_classes(tmp_path / "reddit.zip")


@pytest.mark.parametrize("view", [RELEASED, PAPER], ids=lambda view: view.name)
def test_one_relabelled_node_changes_the_fate_of_at_most_two_others(view):
    """What the price of three parts supposes (docs/privacy.md §3)."""
    generator = np.random.default_rng(3)
    labels, kinds = generator.integers(0, 4, 203), generator.choice([1, 1, 1, 2], 203)
    keep = kept_nodes(labels, kinds, view, 0.3)
    swapped = []
    for node in np.flatnonzero(kinds == 1):
        changed = labels.copy()
        changed[node] = (changed[node] + 1) % 4
        different = kept_nodes(changed, kinds, view, 0.3) != keep
        different[node] = False
        swapped.append(int(different.sum()))
    assert max(swapped) == 2 and min(swapped) == 0


def test_the_samples_are_those_of_every_machine():
    """BLAKE2b is fixed for good; so are these numbers."""
    labels, kinds = np.arange(1000) % 41, np.ones(1000, dtype=np.int64)
    digests = {
        view.name: hashlib.sha256(kept_nodes(labels, kinds, view, 0.1).tobytes()).hexdigest()[:16]
        for view in (RELEASED, PAPER, SOUND)
    }
    assert digests["released"] == digests["paper"] == "35d464a49aabc940"
    assert digests["sound"] == "eba7d871125a4db3"


def broken(change) -> tuple[dict, dict]:
    data, graph = arrays()
    change(data, graph)
    return data, graph


def replace(part: int, key: str, value):
    return lambda *parts: parts[part].__setitem__(key, value)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda data, graph: data.pop("label"), "found label.npy 0 times"),
        (replace(0, "label", np.full(NODES, 41)), "label: found numbers 41..41, expected 0..40"),
        (replace(0, "label", np.zeros(NODES)), "label: found float64 .* expected integers"),
        (replace(0, "label", np.zeros(3, int)), "found 3 entries of label and 400"),
        (replace(0, "feature", np.zeros((3, 7))), "feature: found shape .3, 7., expected a row"),
        (replace(0, "feature", np.full((NODES, 7), np.nan)), "not finite"),
        (replace(0, "feature", np.zeros((7, NODES)).T), "columns, expected numbers, row by row"),
        (replace(0, "feature", np.array([[{}]], dtype=object)), "objects, expected numbers"),
        (replace(1, "row", np.full(3000, NODES)), "found numbers 400..400, expected 0..399"),
        (replace(1, "col", np.zeros(2999, int)), "row of shape .3000,. and col of .2999,."),
        (replace(1, "shape", np.array([NODES, 9])), "shape .400, 9. .*expected .400, 400."),
        (replace(1, "format", np.array(b"csr")), "format 'csr'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(tmp_path, change, match):
    path = write(tmp_path, *broken(change))
    with pytest.raises(UserError, match=match) as raised:
        read_reddit(path, SOUND)
    assert str(path) in str(raised.value)
    assert list(tmp_path.iterdir()) == [path]
