"""The gnn-benchmark reader on a graph small enough to check by hand, and on malformed archives."""

from __future__ import annotations

import numpy as np
import pytest
from made_data import Call

from private_graphs.core.errors import UserError
from private_graphs.datasets import zipped
from private_graphs.datasets.npz import keyed_masks, read_npz


def hand_arrays() -> dict[str, np.ndarray]:
    """Citations 0->1, 1->0, 0->2 twice, 3->1, the loop 2->2, and 1->3 with weight 0."""
    return {
        "adj_data": np.array([1, 1, 1, 1, 0, 1, 2], dtype=np.float32),
        "adj_indices": np.array([1, 2, 2, 0, 3, 2, 1], dtype=np.int32),
        "adj_indptr": np.array([0, 3, 5, 6, 7], dtype=np.int32),
        "adj_shape": np.array([4, 4]),
        "attr_data": np.array([1.5, 2, 3], dtype=np.float32),
        "attr_indices": np.array([1, 0, 1], dtype=np.int32),
        "attr_indptr": np.array([0, 1, 1, 3, 3], dtype=np.int32),
        "attr_shape": np.array([4, 2]),
        "labels": np.array([0, 1, 2, 1]),
    }


def save(tmp_path, arrays):
    path = tmp_path / "hand.npz"
    np.savez(path, **arrays)
    return path


def check_hand_graph(graph):
    features = graph.features
    matrix = features if isinstance(features, np.ndarray) else features.to_scipy().toarray()
    assert matrix.tolist() == [[0, 1.5], [0, 0], [2, 3], [0, 0]] and matrix.dtype == np.float32
    assert graph.edge_index.tolist() == [[0, 0, 1], [1, 2, 3]]
    assert (graph.loops, graph.duplicates) == (1, 1)
    assert graph.labels.tolist() == [0, 1, 2, 1] and graph.n_classes == 3
    masks = np.stack([graph.train_mask, graph.validation_mask, graph.test_mask])
    assert masks.sum(axis=0).tolist() == [1, 1, 1, 1] and masks.sum(axis=1).tolist() == [2, 1, 1]


def test_four_nodes_come_out_as_placed_by_hand(tmp_path):
    check_hand_graph(read_npz(save(tmp_path, hand_arrays()), 1, 1))


def test_dense_attributes_stay_dense(tmp_path):
    arrays = {key: array for key, array in hand_arrays().items() if not key.startswith("attr")}
    arrays["attr_matrix"] = np.array([[0, 1.5], [0, 0], [2, 3], [0, 0]])
    graph = read_npz(save(tmp_path, arrays), 1, 1)
    assert isinstance(graph.features, np.ndarray)
    check_hand_graph(graph)


def test_object_arrays_under_other_keys_are_never_touched(tmp_path):
    arrays = hand_arrays() | {
        "metadata": np.array([Call(exec, "raise AssertionError")], dtype=object)
    }
    check_hand_graph(read_npz(save(tmp_path, arrays), 1, 1))


@pytest.mark.parametrize("key", hand_arrays())
def test_an_object_array_under_a_needed_key_is_refused(tmp_path, key):
    odd = np.full(hand_arrays()[key].shape, Call(exec, "raise AssertionError"), dtype=object)
    with pytest.raises(UserError, match="cannot be read .*allow_pickle=False") as raised:
        read_npz(save(tmp_path, hand_arrays() | {key: odd}), 1, 1)
    assert f"hand.npz: {key}: " in str(raised.value)


@pytest.mark.parametrize("key", ["adj_indices", "attr_indptr", "adj_data", "labels"])
def test_what_unpacks_to_more_than_any_graph_is_refused_before_it_is_unpacked(tmp_path, key):
    arrays = hand_arrays() | {key: np.zeros(2**27, np.int8)}
    np.savez_compressed(tmp_path / "bomb.npz", **arrays)
    with pytest.raises(UserError, match=f"bomb.npz: {key}: found 134,217,856 bytes in [0-9,]* "):
        read_npz(tmp_path / "bomb.npz", 1, 1)


@pytest.mark.parametrize("key", hand_arrays())
def test_a_missing_key_is_named(tmp_path, key):
    arrays = hand_arrays()
    del arrays[key]
    with pytest.raises(UserError, match=key):
        read_npz(save(tmp_path, arrays), 1, 1)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("adj_indices", [1, 2, 2, 0, 3, 2, 4], "expected 0..3"),
        ("adj_indptr", [0, 3, 2, 6, 7], "expected a rise from 0"), ("adj_shape", [4, 5], "square"),
        ("attr_data", [1, np.nan, 3], "not finite"), ("attr_shape", [4, 1], "expected 0..0"),
        ("labels", [0, 1, 2], r"expected \(4,\) integers"), ("labels", [0, 1, 3, 1], "every class"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(tmp_path, key, value, expected):
    with pytest.raises(UserError, match=expected) as raised:
        read_npz(save(tmp_path, hand_arrays() | {key: np.array(value)}), 1, 1)
    assert "hand.npz" in str(raised.value)


def test_an_array_above_the_size_limit_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(zipped, "MAX_MEMBER_BYTES", 100)
    with pytest.raises(UserError, match="expected at most 100"):
        read_npz(save(tmp_path, hand_arrays()), 1, 1)


def test_a_member_whose_name_is_no_text_is_refused(tmp_path):
    path = save(tmp_path, hand_arrays())
    data = bytearray(path.read_bytes())
    name = data.rindex(b"labels.npy")  # in the directory at the end, 46 bytes into its entry
    data[name - 46 + 8 : name - 46 + 10] = (0x800).to_bytes(2, "little")  # "the name is UTF-8"
    data[name] = 0xFF
    path.write_bytes(data)
    with pytest.raises(UserError, match="cannot be opened as a zip archive"):
        read_npz(path, 1, 1)


def test_keyed_masks_are_fixed_for_ever():
    train, validation, test = keyed_masks(2000).values()
    assert (train.sum(), validation.sum(), test.sum()) == (500, 500, 1000)
    assert np.all(train.astype(int) + validation + test == 1)
    assert np.flatnonzero(validation)[:5].tolist() == [5, 9, 11, 12, 19]
    assert np.flatnonzero(test)[:5].tolist() == [0, 2, 3, 4, 6]
