"""Graphs to and from PyTorch Geometric, and its datasets."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from made_data import Call
from small_graphs import dense_features, four_nodes
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from private_graphs.core.errors import UsageError, UserError
from private_graphs.datasets import embedded, pyg
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.registry import build
from private_graphs.datasets.sources import supply


def same(found: GraphDataset, expected: GraphDataset, labelled=slice(None)) -> None:
    assert type(found.features) is type(expected.features)
    for key, array in expected.arrays().items():
        rows = labelled if key == "labels" else slice(None)
        np.testing.assert_array_equal(found.arrays()[key][rows], array[rows], strict=True)


@pytest.fixture(scope="module")
def sparse(tmp_path_factory) -> GraphDataset:
    return build("synthetic-planetoid", tmp_path_factory.mktemp("raw"))


def test_a_graph_goes_to_pytorch_geometric_and_comes_back(sparse):
    info = sparse.info.model_copy(update={"feature_kind": "dense", "n_features": 3})
    values = np.random.default_rng(0).normal(size=(sparse.n_nodes, 3)).astype(np.float32)
    for graph in (sparse, replace(sparse, features=values, info=info)):
        data = graph.to_pyg()
        assert data.validate() and is_undirected(data.edge_index)
        assert data.num_edges == 2 * graph.n_edges and data.num_features == graph.n_features
        back = GraphDataset.from_pyg(data, "back")
        same(back, graph)
        assert back.info.name == "back" and back.n_classes == graph.n_classes


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_features_are_those_of_the_dense_matrix(layout):
    data = Data(torch.eye(4), torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0, 1, -1, 1]))
    expected = GraphDataset.from_pyg(data, "g")
    data.x = data.x.to_sparse(layout=layout)
    same(GraphDataset.from_pyg(data, "g"), expected)
    np.testing.assert_array_equal(dense_features(expected), np.eye(4))


def data_of(**changes) -> Data:
    data = four_nodes().to_pyg()
    for key, value in changes.items():
        data[key] = value
    return data


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "y: none"),
        ({"x": None, "num_nodes": 4}, "x: none"),
        ({"y": torch.zeros(4, 2, dtype=torch.long)}, r"of shape \(4, 2\)"),
        ({"y": torch.full((4,), -1)}, "y: found"),
        ({"edge_index": torch.tensor([[0, 1], [1, 2]])}, "2 edges of one direction.*ToUndirected"),
        ({"edge_weight": torch.ones(8)}, "edge_weight: found attributes of edges"),
        ({"val_mask": torch.ones(4, 2, dtype=torch.bool)}, r"val_mask: found .*\(4, 2\)"),
        ({"val_mask": torch.ones(4, dtype=torch.bool)}, "disjoint"),
    ],
    ids=str,
)
def test_what_would_be_lost_or_is_missing_is_named(changes, message):
    with pytest.raises(UserError, match=message):
        GraphDataset.from_pyg(data_of(**changes), "mine")


@pytest.fixture
def planetoid(tmp_path):
    """A raw folder with the files of ``Planetoid:synthetic`` as if they were downloaded."""
    folder = tmp_path / "raw" / "pyg" / "Planetoid" / "synthetic" / "raw"
    folder.parent.mkdir(parents=True)
    written = embedded.unpack("planetoid", tmp_path / "written")[0].parent
    shutil.copytree(written, folder)
    return folder


def test_a_dataset_of_pytorch_geometric_is_that_of_its_files(planetoid, sparse, tmp_path):
    found = pyg.read("mine", "Planetoid:synthetic", tmp_path / "raw")
    same(found, sparse, sparse.labels >= 0)
    assert len(found.info.sources) == 8
    assert found.info.sources[0].file == "pyg/Planetoid/synthetic/raw/ind.synthetic.x"


def test_planetoids_cora_is_the_cora_of_this_project(mirror, tmp_path):
    supply(["cora"], tmp_path, mirror, progress=lambda *_: None)
    shutil.copytree(tmp_path / "planetoid", tmp_path / "pyg" / "Planetoid" / "Cora" / "raw")
    same(pyg.read("mine", "Planetoid:Cora", tmp_path), build("cora", tmp_path))


def test_what_an_earlier_run_processed_is_not_unpickled(planetoid, tmp_path):
    processed = planetoid.parent / "processed"
    processed.mkdir()
    for name in ("data.pt", "pre_transform.pt", "pre_filter.pt"):
        (processed / name).write_bytes(pickle.dumps(Call(open, str(tmp_path / "harm"), "w")))
    pyg.read("mine", "Planetoid:synthetic", tmp_path / "raw")
    assert not (tmp_path / "harm").exists()


def test_a_pickle_that_is_not_listed_is_refused_before_it_runs(planetoid, tmp_path):
    changed = planetoid / "ind.synthetic.ty"
    before = changed.read_bytes()
    changed.write_bytes(pickle.dumps(Call(open, str(tmp_path / "harm"), "w")))
    with pytest.raises(UserError, match="Planetoid:synthetic: its raw files are pickles"):
        pyg.read("mine", "Planetoid:synthetic", tmp_path / "raw")
    assert not (tmp_path / "harm").exists()
    changed.write_bytes(before)
    pyg.read("mine", "Planetoid:synthetic", tmp_path / "raw")
    pickle.loads(
        pickle.dumps(Call(open, str(tmp_path / "harm"), "w"))
    )  # others unpickle as they did
    assert (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("Planetoids:Cora", "did you mean 'Planetoid'"),
        ("Planetoid", "takes a name: expected Planetoid:NAME"),
        ("WikiCS:x", "takes no name: expected WikiCS"),
        ("KarateClub", "expected a class"),
    ],
)
def test_an_unknown_dataset_is_named(spec, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        pyg.read("mine", spec, tmp_path)


def test_a_download_that_fails_says_where_raw_files_may_lie(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError("no network")

    monkeypatch.setattr("torch_geometric.datasets.CitationFull.download", fails)
    with pytest.raises(UserError, match="no network.*pyg/CitationFull"):
        pyg.read("mine", "CitationFull:DBLP", tmp_path)
