"""Names, raw files and known sizes of the datasets."""

from __future__ import annotations

import pytest

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.own import OwnGraph, remember
from private_graphs.datasets.registry import (
    DATASETS,
    GraphSize,
    build,
    build_name,
    dataset_names,
    dataset_spec,
    view_of,
)
from private_graphs.datasets.sources import load_sources
from private_graphs.datasets.views import VIEWS
from private_graphs.errors import UsageError, UserError
from private_graphs.features.load import load_dataset

GRAPHS = {name: each for name, each in DATASETS.items() if each.data == "graph"}
EMBEDDED = [name for name, each in GRAPHS.items() if each.synthetic and not each.views]


def test_bounds_on_edges_are_the_published_counts_rounded_up_to_two_digits():
    for spec in GRAPHS.values():
        if spec.name != "reddit":  # its edges are those of a sample; the bound is of the whole
            step = 10 ** (len(str(spec.size.edges)) - 2)
            assert spec.max_edges == -(-spec.size.edges // step) * step, spec.name
    assert DATASETS["cora"].max_edges == 5300


def test_an_unknown_dataset_lists_the_names_and_suggests_the_nearest(tmp_path):
    for ask in (lambda name: build(name, tmp_path), dataset_spec):
        with pytest.raises(UserError) as raised:
            ask("coraa")
        assert "unknown dataset 'coraa'" in str(raised.value)
        assert "synthetic-npz" in str(raised.value) and "did you mean 'cora'?" in str(raised.value)


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_datasets_are_built_from_nothing_and_have_the_known_size(tmp_path, name):
    dataset = build(name, tmp_path / "raw")
    assert dataset.info.name == name and dataset.info.synthetic
    assert DATASETS[name].size == GraphSize(
        dataset.n_nodes,
        dataset.n_edges,
        len(dataset.features.values),
        dataset.n_features,
        dataset.n_classes,
        int(dataset.train_mask.sum()),
    )
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


def test_builds_of_datasets_with_choices_have_a_folder_per_features_and_view():
    sound = VIEWS["sound"]
    assert build_name("cora", "raw", sound) == "cora"
    assert build_name("pokec_demo", "raw", sound) == "pokec_demo/bert/sound"
    assert build_name("pokec_demo", "bow", VIEWS["sound-with-label"]) == (
        "pokec_demo/bow/sound-with-label"
    )
    assert build_name("reddit", "raw", VIEWS["released"]) == "reddit/raw/released"
    with pytest.raises(UsageError, match="reddit has no view 'sound-with-label'"):
        view_of(dataset_spec("reddit"), VIEWS["sound-with-label"])


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


def test_the_synthetic_profiles_have_the_known_size(tmp_path):
    dataset = load_dataset("pokec_demo", "bow", VIEWS["sound"], tmp_path / "raw")
    found = dataset.statistics()
    assert dataset_spec("pokec_demo").size_with("bow") == GraphSize(
        found["nodes"],
        found["edges"],
        found["feature_nonzeros"],
        found["features"],
        found["classes"],
        found["masks"]["train"],
    )
