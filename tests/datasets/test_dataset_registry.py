"""Names, raw files and known sizes of the datasets."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from private_graphs.core.errors import UserError
from private_graphs.core.imports import modules_of
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.own import OwnGraph, remember
from private_graphs.datasets.readers import modules_by_name
from private_graphs.datasets.registry import DATASETS, build, dataset_names, dataset_spec
from private_graphs.datasets.sources import load_sources
from private_graphs.datasets.spec import GraphSize

GRAPHS = {name: each for name, each in DATASETS.items() if each.data == "graph"}
EMBEDDED = [name for name, each in GRAPHS.items() if each.synthetic and not each.views]


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_datasets_are_built_from_nothing_and_have_the_known_size(tmp_path, name):
    dataset = build(name, tmp_path / "raw")
    assert dataset.info.name == name and dataset.info.synthetic
    assert DATASETS[name].size == GraphSize(
        dataset.n_nodes, dataset.n_edges, len(dataset.features.values), dataset.n_features,
        dataset.n_classes, int(dataset.train_mask.sum()),
    )  # fmt: skip
    dataset.save(tmp_path / "processed")
    assert GraphDataset.load(tmp_path / "processed").fingerprint == dataset.fingerprint
    assert build(name, tmp_path / "raw").fingerprint == dataset.fingerprint


def test_a_wrong_checksum_stops_before_anything_is_parsed(tmp_path, monkeypatch):
    for source in load_sources()["cora"].files:
        path = tmp_path / source.file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * source.bytes)
    monkeypatch.setattr("private_graphs.datasets.planetoid.read_planetoid", None)
    with pytest.raises(UserError, match="planetoid/ind.cora.x: wrong sha256: found .* expected "):
        build("cora", tmp_path)


def test_a_users_graph_is_a_dataset_once_it_is_declared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.csv").write_text("id,title,topic\n1,a,x\n2,b,y\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    declared = {"name": "my_graph", "nodes": "nodes.csv", "edges": "edges.csv"}
    own = OwnGraph(**declared, text=("title",), label="topic", features="fasttext")
    remember(own, "data/own")
    assert dataset_names()[-1] == "my_graph"
    spec = dataset_spec("my_graph")
    assert spec.features[0] == "fasttext" and set(spec.features) == {
        "bow", "fasttext", "bert", "sbert",
    }  # fmt: skip
    assert spec.views == ("released", "paper", "sound")
    assert spec.size.nodes == 3 and spec.size_with("bow").features == 5000


def test_the_lists_of_names_are_those_of_the_modules():
    """A dataset that no ``names.yaml`` has would not be found."""
    modules = {dotted: import_module(dotted)
               for dotted in modules_of("private_graphs.datasets.readers").values()}  # fmt: skip
    found = [(spec.name, dotted) for dotted, module in modules.items() for spec in module.DATASETS]
    composing = {dotted for dotted, module in modules.items() if hasattr(module, "named")}
    listed = modules_by_name()
    assert [pair for pair in listed.items() if "*" not in pair[0]] == found
    assert {module for name, module in listed.items() if "*" in name} == composing
    assert list(DATASETS) == [name for name, _ in found]


def test_a_name_is_looked_for_without_importing_readers():
    script = (
        "import sys; from private_graphs.datasets.readers import DATASETS; "
        "names = list(DATASETS); assert 'pokec' in names and 'pokec' in DATASETS; "
        "assert 'posts' not in DATASETS and DATASETS.module('svhn').endswith('pate.readers.svhn'); "
        "loaded = lambda: [each for each in sys.modules if '.readers.' in each]; "
        "assert not loaded(), loaded(); DATASETS['wenet']; print(*loaded())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["private_graphs.datasets.readers.wenet"], done.stderr
