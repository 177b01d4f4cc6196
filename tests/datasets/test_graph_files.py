"""Graphs that a user brings as a file: every kind is the same graph; hostile ones run nothing."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from made_data import Call
from torch_geometric.data import Data

from private_graphs.core.errors import UsageError, UserError
from private_graphs.core.manifest import MANIFEST, changed_file
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.graph_files import keep_graph, read_graph
from private_graphs.datasets.registry import dataset_names, dataset_spec

NODES = 60


def arrays() -> dict[str, np.ndarray]:
    """A campus-like graph: friendships within a year, one mask per person but a few."""
    draws = np.random.default_rng(0)
    labels = np.arange(NODES) % 3
    close = draws.random((NODES, NODES)) < np.where(labels[:, None] == labels, 0.3, 0.05)
    adjacency = scipy.sparse.csr_matrix(np.triu(close, 1) | np.triu(close, 1).T, dtype=np.float32)
    features = scipy.sparse.csr_matrix((draws.random((NODES, 8)) < 0.2).astype(np.float32))
    found = {"labels": labels}
    for name, matrix in (("adj", adjacency), ("attr", features)):
        found |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        found[f"{name}_shape"] = np.array(matrix.shape)
    part = np.arange(NODES) % 10
    masks = {"train_mask": part < 6, "val_mask": part == 6, "test_mask": part > 7}
    return found | masks


def as_npz(path: Path, **changes) -> Path:
    kept = {key: value for key, value in (arrays() | changes).items() if value is not None}
    np.savez(path, **kept)
    return path


def as_data() -> Data:
    found = arrays()
    matrix = [scipy.sparse.csr_matrix(
        tuple(found[f"{name}_{part}"] for part in ("data", "indices", "indptr")),
        tuple(found[f"{name}_shape"]),
    ) for name in ("adj", "attr")]  # fmt: skip
    ends = matrix[0].tocoo()
    masks = {key: torch.tensor(found[key]) for key in ("train_mask", "val_mask", "test_mask")}
    edges = torch.tensor(np.stack([ends.row, ends.col]).astype(np.int64))
    return Data(torch.tensor(matrix[1].toarray()), edges, y=torch.tensor(found["labels"]), **masks)


def test_a_graph_is_the_same_from_each_kind_of_file(tmp_path):
    data = as_data()
    torch.save(data, tmp_path / "data.pt")
    torch.save((data.to_dict(), None, Data), tmp_path / "processed.pt")
    several = data.clone()
    for key in ("train_mask", "val_mask", "test_mask"):
        several[key] = torch.stack([data[key], ~data[key]], dim=1)
    torch.save(several, tmp_path / "splits.pt")
    first = read_graph("mine", as_npz(tmp_path / "graph.npz"))
    part = np.arange(NODES) % 10
    assert np.array_equal(first.train_mask, (part < 6) | (part == 7)), "of no mask: protected"
    assert np.array_equal(first.validation_mask, part == 6)
    assert np.array_equal(first.test_mask, part > 7)
    for name in ("data.pt", "processed.pt", "splits.pt"):
        found = read_graph("mine", tmp_path / name)
        for key, array in first.arrays().items():
            np.testing.assert_array_equal(found.arrays()[key], array)
        assert found.info.sources[0].file == name
    assert any("first of 2" in each for each in found.info.preprocessing)


def test_without_masks_a_tenth_validates_and_a_tenth_tests(tmp_path):
    nothing = dict.fromkeys(("train_mask", "val_mask", "test_mask"))
    found = read_graph("mine", as_npz(tmp_path / "graph.npz", **nothing))
    sizes = [int(mask.sum()) for mask in (found.train_mask, found.validation_mask, found.test_mask)]
    assert sizes == [48, 6, 6]


def test_a_hostile_file_runs_nothing(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("still here")
    data, path = as_data(), tmp_path / "data.pt"
    data.further = Call(os.remove, str(victim))
    for held in (data, (data, None, Call(os.remove, str(victim))), {"x": Call(os.remove, "x")}):
        torch.save(held, path)
        with pytest.raises(UserError, match="data.pt: .*nothing of it was run"):
            read_graph("mine", path)
    assert victim.exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"val_mask": None}, "graph.npz: val_mask: found none"),
        ({"val_mask": np.ones(NODES)}, "val_mask: found float64"),
        ({"val_mask": np.ones(3, dtype=bool)}, r"val_mask: found bool of shape \(3,\)"),
        ({"test_mask": np.zeros(NODES, dtype=bool)}, "test_mask: found no node with a label"),
        ({"labels": None}, "found labels.npy 0 times"),
    ],
    ids=str,
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, changes, words):
    with pytest.raises(UserError, match=words):
        read_graph("mine", as_npz(tmp_path / "graph.npz", **changes))


NUMBERS = torch.arange(NODES) % 3
NOBODY = torch.zeros(NODES, dtype=torch.bool)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("train_mask", [1, 2], "train_mask: found list"),
        ("val_mask", torch.zeros(NODES, 0, dtype=torch.bool), r"val_mask: .*\(60, 0\)"),
        ("val_mask", NOBODY.to_sparse(), "val_mask: found torch.bool"),
        ("y", [1], "y: found list"),
        ("y", torch.ones(NODES), "y: found torch.float32"),
        ("y", NUMBERS.to_sparse(), "y: found torch.int64"),
        ("y", NUMBERS.to("meta"), "y: .*on meta"),
        ("y", torch.cat([torch.tensor([2_000_000]), NUMBERS[1:]]), "y: .*up to 2000000"),
        ("edge_index", torch.ones(2, 3), "edge_index: found torch.float32"),
        ("edge_index", NUMBERS, r"edge_index: .*\(60,\)"),
        ("x", torch.zeros(NODES, 4, dtype=torch.complex64), "x: found torch.complex64"),
        ("x", torch.ones(NODES), r"x: .*\(60,\)"),
        ("x", torch.zeros(NODES, 0), r"x: .*\(60, 0\)"),
        ("x", torch.zeros(NODES, 4, device="meta"), "x: .*on meta"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_saved_graph_with_other_tensors_is_refused_by_key(tmp_path, key, value, words):
    data = as_data()
    data[key] = value
    torch.save(data, tmp_path / "data.pt")
    with pytest.raises(UserError, match=words):
        read_graph("mine", tmp_path / "data.pt")


def test_features_of_any_real_type_are_read(tmp_path):
    expected = read_graph("mine", as_npz(tmp_path / "graph.npz")).features.to_scipy()
    for change in (torch.Tensor.bfloat16, torch.Tensor.double, torch.Tensor.requires_grad_):
        data = as_data()
        data.x = change(data.x)
        torch.save(data, tmp_path / "data.pt")
        found = read_graph("mine", tmp_path / "data.pt").features.to_scipy()
        assert (found != expected).nnz == 0
    torch.save((), tmp_path / "data.pt")
    with pytest.raises(UserError, match="cannot be read"):
        read_graph("mine", tmp_path / "data.pt")


@pytest.mark.parametrize(("change", "words"), [
    (lambda data: setattr(data, "further", bytearray(9)), "asks for memory that holds no tensor"),
    (lambda data: setattr(data, "further", torch.zeros(1).expand(10**9)), "further repeats its"),
])  # fmt: skip
def test_a_file_that_would_take_far_more_memory_than_its_bytes_is_refused(tmp_path, change, words):
    change(data := as_data())
    torch.save(data, tmp_path / "data.pt")
    with pytest.raises(UserError, match=words):
        read_graph("mine", tmp_path / "data.pt")
    with zipfile.ZipFile(tmp_path / "data.pt", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/further", bytes(10**6))
    with pytest.raises(UserError, match="it unpacks to more bytes than it has"):
        read_graph("mine", tmp_path / "data.pt")


def test_a_dataset_of_several_graphs_and_other_files_are_refused(tmp_path):
    data = as_data()
    torch.save((data.to_dict(), {"x": torch.tensor([0, 30, 60])}, Data), tmp_path / "two.pt")
    with pytest.raises(UserError, match="several graphs"):
        read_graph("mine", tmp_path / "two.pt")
    with pytest.raises(UsageError, match="nodes.csv; expected a graph as .npz, or as .pt"):
        read_graph("mine", tmp_path / "nodes.csv")
    with pytest.raises(UserError, match="no such file"):
        read_graph("mine", tmp_path / "absent.npz")


def test_a_kept_graph_is_a_dataset_with_its_bound_and_hashes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("data/own/mine")
    keep_graph(read_graph("mine", as_npz(tmp_path / "graph.npz")), folder, 900)
    assert "mine" in dataset_names() and changed_file(folder) is None
    spec = dataset_spec("mine")
    assert spec.max_edges == 900 and spec.users and spec.size.nodes == NODES
    assert GraphDataset.load(folder).n_edges == spec.size.edges
    keep_graph(read_graph("mine", as_npz(tmp_path / "graph.npz")), folder, None)
    os.utime(folder / "dataset.json", ns=(0, 1))
    assert dataset_spec("mine").max_edges is None, "built again"
    (folder / "bound.json").write_text("{}")
    assert "bound.json" in changed_file(folder) and (folder / MANIFEST).is_file()
