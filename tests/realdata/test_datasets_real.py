"""The real raw files: sizes, masks, and agreement with PyTorch Geometric's readers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.io import read_planetoid_data

from private_graphs.datasets import embedded
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.planetoid import read_planetoid
from private_graphs.datasets.registry import DATASETS, build
from private_graphs.datasets.sources import load_sources, supply
from private_graphs.datasets.spec import GraphSize
from private_graphs.datasets.views import VIEWS

PLANETOID, ARCHIVES = ("cora", "citeseer", "pubmed"), ("cora-ml", "ms-academic")
REAL = PLANETOID + ARCHIVES
MS_ACADEMIC_CLASSES = [
    708, 462, 2050, 429, 1394, 2193, 371, 924, 775, 118, 1444, 2033, 420, 4136, 876,
]  # fmt: skip
EXPECTED = {
    # nodes, edges, train, isolated, loops, duplicates, majority on test, class counts
    "cora": (2708, 5278, 1208, 0, 0, 302, 0.319, [351, 217, 418, 818, 426, 298, 180]),
    "citeseer": (3327, 4552, 1827, 48, 248, 112, 0.181, [249, 590, 668, 701, 596, 508]),
    "pubmed": (19717, 44324, 18217, 0, 6, 22, 0.407, [4103, 7739, 7875]),
    "cora-ml": (2995, 8158, 1495, 0, 0, 0, 0.296, [354, 402, 452, 442, 857, 193, 295]),
    "ms-academic": (18333, 81894, 16833, 0, 0, 0, 0.219, MS_ACADEMIC_CLASSES),
}
COMPONENTS = {
    # components, nodes of the largest, one-way edges, nodes without words
    "cora": (78, 2485, 0, 0),
    "citeseer": (438, 2120, 0, 15),
    "pubmed": (1, 19717, 0, 0),
    "cora-ml": (61, 2810, 7900, 0),
    "ms-academic": (1, 18333, 0, 0),
}


@pytest.fixture(scope="module")
def raw(mirror, tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    there = [name for name in ARCHIVES if (mirror / DATASETS[name].raw).is_file()]
    supply([*PLANETOID, *there], folder, mirror, progress=lambda *_: None)
    return folder


def need(raw, *names):
    """Skip where the mirror has not the archives of ``names``."""
    for name in names:
        if name in ARCHIVES and not (raw / DATASETS[name].raw).is_file():
            pytest.skip(f"the mirror has no {DATASETS[name].raw}")


@pytest.mark.parametrize("name", REAL)
def test_the_real_graphs_have_the_published_sizes(raw, tmp_path, name):
    need(raw, name)
    dataset = build(name, raw)
    statistics = dataset.statistics()
    nodes, edges, train, isolated, loops, duplicates, majority, counts = EXPECTED[name]
    assert (dataset.n_nodes, dataset.n_edges) == (nodes, edges)
    assert statistics["masks"] == {"train": train, "validation": 500, "test": 1000}
    assert statistics["isolated_nodes"] == isolated
    assert (dataset.info.loops_dropped, dataset.info.duplicates_dropped) == (loops, duplicates)
    assert statistics["majority_share_on_test"] == pytest.approx(majority)
    assert np.bincount(dataset.labels[dataset.labels >= 0]).tolist() == counts
    assert (
        statistics["components"], statistics["largest_component"], statistics["one_way_edges"],
        statistics["nodes_without_features"],
    ) == COMPONENTS[name]  # fmt: skip
    assert statistics["classes_missing"] == {"train": [], "validation": [], "test": []}
    assert DATASETS[name].size == GraphSize(
        nodes, edges, statistics["feature_nonzeros"], dataset.n_features, len(counts), train
    )
    assert [source["url"] for source in statistics["sources"]] == [
        source.url for source in load_sources()[name].files
    ]
    dataset.save(tmp_path)
    assert GraphDataset.load(tmp_path).fingerprint == dataset.fingerprint


def assert_same_as_pytorch_geometric(graph, folder, name):
    other = read_planetoid_data(str(folder), name)
    features = graph.features.to_scipy().toarray()
    np.testing.assert_array_equal(features, other.x.to_dense().numpy())
    labelled = graph.labels >= 0
    assert graph.labels[labelled].tolist() == other.y[torch.from_numpy(labelled)].tolist()
    ids = other.edge_index.numpy()
    upper = ids[:, ids[0] < ids[1]]
    order = np.lexsort((upper[1], upper[0]))
    assert graph.edge_index.tolist() == upper[:, order].tolist()
    assert graph.validation_mask.tolist() == other.val_mask.tolist()
    assert graph.test_mask.tolist() == other.test_mask.tolist()


@pytest.mark.parametrize("name", PLANETOID)
def test_the_planetoid_reader_agrees_with_pytorch_geometric(raw, name):
    folder = raw / "planetoid"
    assert_same_as_pytorch_geometric(read_planetoid(folder / name), folder, name)


def test_the_embedded_planetoid_files_are_read_alike_by_pytorch_geometric(tmp_path):
    folder = embedded.unpack("planetoid", tmp_path)[0].parent
    graph = read_planetoid(folder / "synthetic")
    assert_same_as_pytorch_geometric(graph, folder, "synthetic")


@pytest.fixture(scope="module")
def archives(raw) -> dict[str, dict[str, np.ndarray]]:
    """Name -> the plain arrays of its file, without the prefixes' dots."""
    need(raw, *ARCHIVES)
    found = {}
    for name in ARCHIVES:
        with np.load(raw / DATASETS[name].raw, allow_pickle=False) as archive:
            found[name] = {
                key.replace("_matrix.", "_"): archive[key]
                for key in archive.files
                if key.startswith(("adj_", "attr_")) or key == "labels"
            }
    return found


@pytest.mark.parametrize("name", ARCHIVES)
def test_the_npz_reader_agrees_with_scipy(raw, archives, name):
    arrays, dataset = archives[name], build(name, raw)
    adjacency, words = (
        sp.csr_array(
            tuple(arrays[f"{key}_{part}"] for part in ("data", "indices", "indptr")),
            shape=tuple(arrays[f"{key}_shape"]),
        )
        for key in ("adj", "attr")
    )
    either = adjacency.maximum(adjacency.T)
    upper = sp.triu(either, 1).tocoo()
    order = np.lexsort((upper.col, upper.row))
    assert dataset.edge_index.tolist() == [upper.row[order].tolist(), upper.col[order].tolist()]
    assert abs(dataset.features.to_scipy() - words).max() == 0
    assert dataset.labels.tolist() == arrays["labels"].tolist()


CAMPUSES = {
    # nodes, entries, features, classes, lower median and largest degree
    "facebook-cornell5": (15_348, 1_303_452, 349, 6, 67, 678),
    "facebook-berkeley13": (18_939, 1_354_934, 437, 6, 54, 1110),
    "facebook-harvard1": (9_748, 1_262_572, 168, 6, 110, 1069),
    "facebook-wisconsin87": (17_667, 1_090_990, 613, 5, 49, 2840),
    "facebook-rutgers89": (20_021, 1_219_462, 371, 5, 47, 562),
}


@pytest.mark.parametrize("name", [*CAMPUSES, "fb100-part"])
def test_campuses_have_the_sizes_that_an_independent_reading_found(mirror, name):
    if not (mirror / DATASETS[name].raw / "UChicago30.mat").is_file():
        pytest.skip(f"the mirror has no {DATASETS[name].raw}")
    spec = DATASETS[name]
    view = VIEWS["released"] if spec.views else None
    graph = spec.read(mirror / spec.raw, *([view] if view else []))
    nodes, edges = len(graph.labels), graph.edge_index.shape[1]
    columns = graph.features.n_columns
    values, trained = len(graph.features.values), int(graph.train_mask.sum())
    if view is None:
        degrees = np.sort(np.bincount(graph.edge_index.ravel(), minlength=nodes))
        found = (nodes, 2 * edges, columns, graph.n_classes)
        assert (*found, degrees[(nodes - 1) // 2], degrees[-1]) == CAMPUSES[name]
    else:  # "year missing" is a class under released alone
        assert graph.n_classes == 6
        assert spec.read(mirror / spec.raw, VIEWS["sound"]).n_classes == 5
    assert spec.size == GraphSize(nodes, edges, values, columns, graph.n_classes, trained)
