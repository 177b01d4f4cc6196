"""GraphDataset: round trips, fingerprints, statistics by hand, and every invariant broken once."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse

from private_graphs.core.errors import UserError
from private_graphs.datasets.graph_dataset import DatasetInfo, GraphDataset, SparseFeatures
from private_graphs.datasets.labelled import RawFile


def make_info(**changes) -> DatasetInfo:
    fields = dict(
        name="four", title="Four nodes", synthetic=True, classes=["red", "blue"],
        feature_kind="sparse", units="node", n_nodes=4, n_edges=3, n_features=3, loops_dropped=0,
        duplicates_dropped=0, sources=[RawFile(file="four.txt", sha256="0" * 64, url=None)],
        licence="none", citation="none", public_facts=["everything"],
    )  # fmt: skip
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


BROKEN_INFO = {
    "n_nodes": 5, "n_edges": 2, "classes": ["red", "red"], "feature_kind": "cubic",
    "n_features": "three", "sources": [{"file": "x", "sha256": "abc", "url": None}],
    "colour": "green", "licence": None,
}  # fmt: skip


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
