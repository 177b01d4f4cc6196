"""GraphDataset: round trips, fingerprints, statistics by hand, and every invariant broken once."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from private_graphs.datasets.graph_dataset import DatasetInfo, GraphDataset, SparseFeatures
from private_graphs.datasets.labelled import RawFile
from private_graphs.errors import UserError

MASKS = ("train_mask", "validation_mask", "test_mask")


def make_info(**changes) -> DatasetInfo:
    fields = dict(
        name="four",
        title="Four nodes",
        synthetic=True,
        classes=["red", "blue"],
        feature_kind="sparse",
        units="node",
        n_nodes=4,
        n_edges=3,
        n_features=3,
        loops_dropped=0,
        duplicates_dropped=0,
        sources=[RawFile(file="four.txt", sha256="0" * 64, url=None)],
        licence="none",
        citation="none",
        public_facts=["everything"],
    )
    return DatasetInfo(**(fields | changes))


def four_nodes(dense: bool = False, **changes) -> GraphDataset:
    """The path 0-1-2 with the edge 1-3; node 3 has no label."""
    matrix = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0], [0.5, 0, 0]], dtype=np.float32)
    features = matrix if dense else SparseFeatures.from_scipy(scipy.sparse.csr_matrix(matrix))
    parts = dict(
        features=features,
        edge_index=np.array([[0, 1, 1], [1, 2, 3]]),
        labels=np.array([0, 1, 0, -1]),
        train_mask=np.array([True, True, False, True]),
        validation_mask=np.array([False, False, False, False]),
        test_mask=np.array([False, False, True, False]),
        info=make_info(feature_kind="dense" if dense else "sparse"),
    )
    return GraphDataset(**(parts | changes))


@pytest.mark.parametrize("dense", [False, True])
def test_four_nodes_survive_a_round_trip(tmp_path, dense):
    dataset = four_nodes(dense)
    dataset.save(tmp_path / "four")
    loaded = GraphDataset.load(tmp_path / "four")
    assert loaded.info == dataset.info
    assert loaded.fingerprint == dataset.fingerprint
    assert (loaded.n_nodes, loaded.n_edges, loaded.n_features, loaded.n_classes) == (4, 3, 3, 2)
    assert sorted(path.name for path in (tmp_path / "four").iterdir()) == [
        "dataset.json",
        "graph.safetensors",
    ]


def test_statistics_of_four_nodes_are_those_counted_by_hand():
    statistics = four_nodes().statistics()
    assert json.loads(json.dumps(statistics)) == statistics
    assert statistics["feature_nonzeros"] == 4
    assert statistics["masks"] == {"train": 3, "validation": 0, "test": 1}
    assert statistics["labelled"] == {"train": 2, "validation": 0, "test": 1}
    assert statistics["train_class_counts"] == {"red": 1, "blue": 1}
    assert statistics["majority_class"] == "red"
    assert statistics["majority_share_on_test"] == 1.0
    assert statistics["edges_inside"] == {"train": 2, "validation": 0, "test": 0}
    assert statistics["edges_crossing"] == 1
    assert statistics["isolated_nodes"] == 0
    star = four_nodes(edge_index=np.array([[0, 0, 0], [1, 2, 3]])).statistics()
    assert star["degrees"] == {"0": 0, "1": 3, "2 to 3": 1}


def test_features_return_to_the_matrix_they_came_from():
    features = four_nodes().features
    assert features.to_scipy().toarray().tolist() == four_nodes(dense=True).features.tolist()
    unsorted = scipy.sparse.csr_matrix(
        (np.array([1.0, 2.0, 3.0, 0.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    canonical = SparseFeatures.from_scipy(unsorted)
    assert canonical.indices.tolist() == [0, 2] and canonical.values.tolist() == [2.0, 4.0]


def test_fingerprint_sees_every_array_and_the_name():
    base = four_nodes()
    assert four_nodes().fingerprint == base.fingerprint
    others = [
        four_nodes(edge_index=np.array([[0, 1, 2], [1, 2, 3]])),
        four_nodes(labels=np.array([0, 1, 1, -1])),
        four_nodes(train_mask=np.array([True, False, False, True])),
        four_nodes(validation_mask=np.array([True, False, False, False]),
                   train_mask=np.array([False, True, False, True])),
        four_nodes(test_mask=np.zeros(4, dtype=bool)),
        four_nodes(info=make_info(name="other")),
        four_nodes(dense=True),
        four_nodes(features=SparseFeatures(
            base.features.indptr, base.features.indices, base.features.values * 2, 3)),
    ]  # fmt: skip
    fingerprints = [other.fingerprint for other in others]
    assert len({base.fingerprint, *fingerprints}) == len(others) + 1
    retitled = four_nodes(info=make_info(title="Another title"))
    assert retitled.fingerprint == base.fingerprint


@st.composite
def graphs(draw) -> GraphDataset:
    n_nodes = draw(st.integers(1, 12))
    n_columns, n_classes = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    matrix = rng.normal(size=(n_nodes, n_columns)) * (rng.random((n_nodes, n_columns)) < 0.5)
    dense = draw(st.booleans())
    features = (
        matrix.astype(np.float32)
        if dense
        else SparseFeatures.from_scipy(scipy.sparse.csr_matrix(matrix))
    )
    upper = np.triu(rng.random((n_nodes, n_nodes)) < draw(st.floats(0, 1)), k=1)
    part = rng.integers(0, 4, n_nodes)  # the last belongs to no mask
    edge_index = np.stack(np.nonzero(upper)).astype(np.int64)
    return GraphDataset(
        features=features,
        edge_index=edge_index,
        labels=rng.integers(-1, n_classes, n_nodes),
        train_mask=part == 0,
        validation_mask=part == 1,
        test_mask=part == 2,
        info=make_info(
            name=draw(st.text(min_size=1, max_size=5)),
            classes=[f"c{label}" for label in range(n_classes)],
            feature_kind="dense" if dense else "sparse",
            n_nodes=n_nodes,
            n_edges=edge_index.shape[1],
            n_features=n_columns,
        ),
    )


@settings(max_examples=60)
@given(dataset=graphs())
def test_any_graph_survives_a_round_trip(tmp_path_factory, dataset):
    folder = tmp_path_factory.mktemp("graph")
    dataset.save(folder)
    loaded = GraphDataset.load(folder)
    assert loaded.info == dataset.info and loaded.fingerprint == dataset.fingerprint
    for key in ("edge_index", "labels", *MASKS):
        np.testing.assert_array_equal(getattr(loaded, key), getattr(dataset, key))
        assert getattr(loaded, key).dtype == getattr(dataset, key).dtype
    statistics = loaded.statistics()
    assert sum(statistics["edges_inside"].values()) + statistics["edges_crossing"] == loaded.n_edges


def put(key, position, value):
    def change(arrays):
        arrays[key] = arrays[key].copy()
        arrays[key][position] = value

    return change


def replaced(key, value):
    return lambda arrays: arrays.__setitem__(key, np.asarray(value))


BROKEN_TENSORS = {
    "missing key": ("labels", lambda arrays: arrays.pop("labels")),
    "unknown key": ("weights", replaced("weights", np.zeros(4))),
    "labels of another type": ("labels", replaced("labels", np.zeros(4, np.int32))),
    "label too large": ("labels", put("labels", 0, 2)),
    "overlapping test": ("test_mask", put("test_mask", 0, True)),
    "loop": ("edge_index", put("edge_index", (0, 0), 1)),
    "i > j": ("edge_index", replaced("edge_index", [[1, 1, 1], [0, 2, 3]])),
    "twice": ("edge_index", put("edge_index", (1, 2), 2)),
    "unsorted": ("edge_index", replaced("edge_index", [[1, 0, 1], [2, 1, 3]])),
    "node too large": ("edge_index", put("edge_index", (1, 2), 4)),
    "NaN": ("features.values", put("features.values", 0, np.nan)),
    "explicit zero": ("features.values", put("features.values", 0, 0)),
    "float64": ("features.values", replaced("features.values", np.ones(4))),
    "column too large": ("features.indices", put("features.indices", 2, 3)),
    "columns unsorted": ("features.indices", replaced("features.indices", [2, 0, 1, 0])),
    "column twice": ("features.indices", replaced("features.indices", [2, 2, 1, 0])),
    "offsets fall": ("features.indptr", replaced("features.indptr", [0, 2, 1, 3, 4])),
    "offsets end early": ("features.indptr", replaced("features.indptr", [0, 2, 2, 3, 3])),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN_TENSORS)
def test_each_broken_tensor_is_named_with_its_file(tmp_path, case):
    key, change = BROKEN_TENSORS[case]
    four_nodes().save(tmp_path)
    path = tmp_path / "graph.safetensors"
    arrays = safetensors.numpy.load_file(path)
    change(arrays)
    safetensors.numpy.save_file(arrays, path)
    with pytest.raises(UserError) as raised:
        GraphDataset.load(tmp_path)
    assert f"{path}: {key}: found " in str(raised.value)
    assert "expected" in str(raised.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_dense_features_must_be_finite(tmp_path, value):
    matrix = four_nodes(dense=True).features.copy()
    matrix[0, 0] = value
    with pytest.raises(UserError, match="features: found NaN or infinity"):
        four_nodes(dense=True, features=matrix)


@settings(max_examples=60)
@given(dataset=graphs(), data=st.data())
def test_any_graph_broken_anywhere_is_refused(tmp_path_factory, dataset, data):
    folder = tmp_path_factory.mktemp("graph")
    dataset.save(folder)
    path = folder / "graph.safetensors"
    arrays = safetensors.numpy.load_file(path)
    node = data.draw(st.integers(0, dataset.n_nodes - 1))
    values = "features.values" if "features.values" in arrays else "features"
    changes = {
        "labels": [put("labels", node, dataset.n_classes), put("labels", node, -2)],
        "test_mask": [replaced("test_mask", np.zeros(dataset.n_nodes + 1, bool))],
    }
    if arrays[values].size:
        changes[values] = [put(values, (0,) * arrays[values].ndim, np.nan)]
    if dataset.n_edges:
        edge = data.draw(st.integers(0, dataset.n_edges - 1))
        doubled = np.repeat(dataset.edge_index, 2, axis=1)
        changes["edge_index"] = [
            put("edge_index", (1, edge), dataset.edge_index[0, edge]),
            put("edge_index", (1, edge), dataset.n_nodes),
            replaced("edge_index", dataset.edge_index[::-1].copy()),
            replaced("edge_index", doubled),
        ]
    if dataset.train_mask.any():
        taken = int(np.flatnonzero(dataset.train_mask)[0])
        changes["validation_mask"] = [put("validation_mask", taken, True)]
    key = data.draw(st.sampled_from(sorted(changes)))
    data.draw(st.sampled_from(changes[key]))(arrays)
    safetensors.numpy.save_file(arrays, path)
    with pytest.raises(UserError) as raised:
        GraphDataset.load(folder)
    assert f"{path}: {key}: found " in str(raised.value)


BROKEN_INFO = {
    "n_nodes": 5,
    "n_edges": 2,
    "classes": ["red", "red"],
    "feature_kind": "cubic",
    "n_features": "three",
    "sources": [{"file": "x", "sha256": "abc", "url": None}],
    "colour": "green",
    "licence": None,
}


@pytest.mark.parametrize("key", BROKEN_INFO)
def test_each_broken_entry_of_the_description_is_named_with_its_file(tmp_path, key):
    four_nodes().save(tmp_path)
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: BROKEN_INFO[key]}))
    with pytest.raises(UserError) as raised:
        GraphDataset.load(tmp_path)
    assert str(raised.value).startswith(f"{path}: {key}")
    assert "found" in str(raised.value)


@pytest.mark.parametrize("file", ["graph.safetensors", "dataset.json"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage", "empty"])
def test_a_damaged_file_is_named_and_the_way_out_is_said(tmp_path, file, damage):
    four_nodes().save(tmp_path)
    path = tmp_path / file
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {"truncated": content[: len(content) // 2], "garbage": b"\xff" * 200, "empty": b""}[
                damage
            ]
        )
    with pytest.raises(UserError, match="build the dataset again") as raised:
        GraphDataset.load(tmp_path)
    assert str(path) in str(raised.value)


def test_a_dataset_in_memory_keeps_the_same_invariants():
    with pytest.raises(UserError, match="dataset 'four': edge_index: found 1 loops"):
        four_nodes(edge_index=np.array([[0, 1, 2], [1, 2, 2]]))
    with pytest.raises(UserError, match="n_features is 4, expected the 3 columns"):
        four_nodes(info=make_info(n_features=4))
    with pytest.raises(UserError, match="features: found no such key"):
        four_nodes(info=make_info(feature_kind="dense"))


def test_a_failed_save_leaves_the_former_files(tmp_path, monkeypatch):
    four_nodes().save(tmp_path)
    before = (tmp_path / "graph.safetensors").read_bytes()

    def broken(tensors, path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(safetensors.numpy, "save_file", broken)
    with pytest.raises(OSError, match="disk full"):
        four_nodes(labels=np.array([1, 1, 1, 1])).save(tmp_path)
    assert (tmp_path / "graph.safetensors").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset.json", "graph.safetensors"]
