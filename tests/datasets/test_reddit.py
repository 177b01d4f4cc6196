"""The Reddit reader: which nodes stay, every field, and archives that are not whole."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from private_graphs.datasets import reddit, registry, zipped
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.npz import keyed_masks
from private_graphs.datasets.reddit import (
    SAMPLE_KEY,
    kept_nodes,
    read_reddit,
    read_reddit_classes,
)
from private_graphs.datasets.views import PAPER, RELEASED, SOUND
from private_graphs.errors import UserError

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
    assert (parsed.loops_dropped, parsed.duplicates_dropped) == (loops, repeated)
    assert parsed.one_way_edges == one_way
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


def test_scipy_writes_what_is_read_and_the_weights_do_not_matter(tmp_path):
    data, graph = arrays()
    matrix = scipy.sparse.coo_matrix(
        (np.full(len(graph["row"]), np.nan), (graph["row"], graph["col"])), shape=(NODES, NODES)
    )
    scipy.sparse.save_npz(tmp_path / "graph.npz", matrix)
    path = tmp_path / "reddit.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("reddit_data.npz", npz(data, True))
        archive.write(tmp_path / "graph.npz", "reddit_graph.npz")
    keep = kept_nodes(data["label"], data["node_types"], SOUND, 0.5)
    assert_read_right(read_reddit(path, SOUND, 0.5), data, graph, keep)


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
    counted = (parsed.loops_dropped, parsed.duplicates_dropped, parsed.one_way_edges)
    assert counted == (loops, repeated, one_way) and loops and repeated
    assert parsed.n_classes == 2
    assert np.array_equal(parsed.labels, np.searchsorted([3, 40], data["label"][tied]))
    assert np.array_equal(parsed.features, data["feature"][tied].astype(np.float32))
    masks = (parsed.train_mask, parsed.validation_mask, parsed.test_mask)
    for mask, whole in zip(masks, keyed_masks(NODES, 40, 60), strict=True):
        assert np.array_equal(mask, whole[tied])
    with pytest.raises(UserError, match="0 classes have 10,000 nodes or more"):
        read_reddit_classes(tmp_path / "reddit.zip")


@given(st.data(), st.integers(0, 300), st.sampled_from([0.1, 0.25, 1.0]))
def test_every_class_keeps_the_floor_of_its_training_nodes(data, n_nodes, fraction):
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    labels = generator.integers(0, 5, n_nodes)
    kinds = generator.integers(1, 4, n_nodes)
    keep = kept_nodes(labels, kinds, RELEASED, fraction)
    assert keep[kinds != 1].all()
    for label in range(5):
        members = (kinds == 1) & (labels == label)
        assert np.sum(keep & members) == int(members.sum() * fraction + 1e-9)


def test_the_sound_sample_depends_on_the_number_of_a_node_alone():
    """Another label, another kind or more nodes change the fate of no other node."""
    kinds = np.ones(2000, dtype=np.int64)
    keep = kept_nodes(np.zeros(2000, np.int64), kinds, SOUND, 0.1)
    slow = [
        int.from_bytes(
            hashlib.blake2b(node.to_bytes(8, "little"), key=SAMPLE_KEY, digest_size=8).digest(),
            "little",
        )
        / 2**64
        < 0.1
        for node in range(2000)
    ]
    assert keep.tolist() == slow
    changed = kinds.copy()
    changed[::7] = 3
    other = kept_nodes(np.arange(2000) % 41, changed, SOUND, 0.1)
    assert np.array_equal(other[changed == 1], keep[changed == 1]) and other[changed == 3].all()
    more = kept_nodes(np.zeros(3000, np.int64), np.ones(3000, np.int64), SOUND, 0.1)
    assert np.array_equal(more[:2000], keep)


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


@pytest.mark.parametrize("view", [RELEASED, PAPER, SOUND], ids=lambda view: view.name)
def test_a_dataset_says_how_its_nodes_were_sampled(tmp_path, monkeypatch, view):
    path = tmp_path / "reddit" / "reddit.zip"
    path.parent.mkdir()
    write(path.parent, *arrays())
    monkeypatch.setattr(registry, "raw_records", lambda name, raw_dir: [])
    built = registry.build("reddit", tmp_path, view)
    built.save(tmp_path / "built")
    info = GraphDataset.load(tmp_path / "built").info
    assert info.node_sample == view.node_sample
    said = " ".join(info.preprocessing)
    assert "made from the posts" in said and "outside every guarantee" in said
    by_class = view is not SOUND
    assert ("depends on private labels" in said) == by_class
    assert ("an independent coin of probability 0.1" in said) == (not by_class)
    facts = " ".join(info.public_facts)
    assert ("the train, validation and test masks" in facts) == (not by_class)
    assert "vocabulary" not in facts  # its features are averages, no word is counted


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
        (lambda data, graph: data.pop("label"), "label.npy is there 0 times"),
        (replace(0, "label", np.full(NODES, 41)), "label spans 41..41, expected 0..40"),
        (replace(0, "label", np.zeros(NODES)), "label is float64 .* expected integers"),
        (replace(0, "label", np.zeros(3, int)), "found 3 entries of label and 400"),
        (replace(0, "feature", np.zeros((3, 7))), "feature has shape .3, 7., expected a row"),
        (replace(0, "feature", np.full((NODES, 7), np.nan)), "not finite"),
        (replace(0, "feature", np.zeros((7, NODES)).T), "columns, expected numbers, row by row"),
        (replace(0, "feature", np.array([[{}]], dtype=object)), "objects, expected numbers"),
        (replace(1, "row", np.full(3000, NODES)), "span 0..400, expected 0..399"),
        (replace(1, "col", np.zeros(2999, int)), "row has shape .3000,. and col .2999,."),
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


def test_other_members_are_never_unpacked(tmp_path):
    extra = {"../outside.txt": "x", "/etc/absolute": "x", "__MACOSX/._reddit_data.npz": "x"}
    inside = tmp_path / "inside"
    inside.mkdir()
    data, graph = arrays()
    read_reddit(write(inside, data, graph, extra=extra), SOUND)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert [path.name for path in inside.iterdir()] == ["reddit.zip"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice_or_under_another_path_is_refused(tmp_path):
    path = write(tmp_path, *arrays(), extra={"reddit_data.npz": "again"})
    with pytest.raises(UserError, match="reddit_data.npz is there 2 times, expected once"):
        read_reddit(path, SOUND)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../reddit_data.npz", "x")
    with pytest.raises(UserError, match="reddit_data.npz is there 0 times.*found ../reddit_data"):
        read_reddit(path, SOUND)


def test_members_beyond_the_bound_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    path = write(tmp_path, *arrays())
    monkeypatch.setattr(zipped, "MAX_MEMBER_BYTES", 1000)
    monkeypatch.setattr(reddit.shutil, "copyfileobj", None)
    with pytest.raises(UserError, match="reddit_data.npz has .* bytes, expected at most 1000"):
        read_reddit(path, SOUND)


def test_a_header_that_promises_more_than_there_is_is_refused(tmp_path):
    """A forged shape must not make the reader ask for its memory."""
    data, graph = arrays()
    content = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (NODES, 10**12)}
    np.lib.format.write_array_header_1_0(content, header)
    path = tmp_path / "reddit.zip"
    inner = io.BytesIO(npz({key: data[key] for key in ("label", "node_types")}, True))
    with zipfile.ZipFile(inner, "a") as archive:
        archive.writestr("feature.npy", content.getvalue())
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("reddit_data.npz", inner.getvalue())
        archive.writestr("reddit_graph.npz", npz(graph, True))
    with pytest.raises(UserError, match="feature has 0 bytes, expected 3200000000000000"):
        read_reddit(path, SOUND)


def test_a_full_disk_is_said_as_such(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    path = write(tmp_path, *arrays())
    monkeypatch.setattr(reddit.shutil, "copyfileobj", full)
    with pytest.raises(UserError, match="cannot be unpacked in its folder .*make room for"):
        read_reddit(path, SOUND)
    assert list(tmp_path.iterdir()) == [path]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_a_damaged_archive_is_an_error_for_the_user_or_reads_the_same(tmp_path, data):
    """Bytes flipped or cut anywhere: a checksum of the archive or a check of the reader sees it."""
    path = write(tmp_path, *arrays(entries=200))
    expected = read_reddit(path, SOUND)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        found = read_reddit(path, SOUND)
    except UserError:
        return
    assert np.array_equal(found.features, expected.features)
    assert np.array_equal(found.edge_index, expected.edge_index)
    assert np.array_equal(found.labels, expected.labels)


def test_the_benchmark_reads_both_samples_in_processes_of_their_own(root, tmp_path):
    numbers = tmp_path / "numbers.json"
    done = subprocess.run(
        [sys.executable, str(root / "benchmarks" / "reddit.py"), "--scale", "0.001",
         "--json", str(numbers), "--folder", str(tmp_path)],
        text=True, capture_output=True, check=True,
        env={"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1", "PATH": ""},
    )  # fmt: skip
    result = json.loads(numbers.read_text())
    assert result["entries"] == 114_614 and result["nodes"] == 153 + 41 + 55
    assert list(result["kinds"]) == ["stratified", "keyed_coin"]
    for kind, each in result["kinds"].items():
        assert each["nodes"] == each["training_nodes"] + 41 + 55 and each["edges"] > 0
        assert 0 < each["seconds"] < 60 and 0.02 < each["peak_gib"] < 8
        assert f"| {kind} |" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["numbers.json"]
