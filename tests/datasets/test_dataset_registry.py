"""Names, raw files and known sizes of the datasets."""

from __future__ import annotations

import pytest

from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.registry import DATASETS, GraphSize, build, dataset_spec, raw_files
from private_graphs.errors import UserError

EMBEDDED = [name for name, spec in DATASETS.items() if spec.synthetic]


def test_the_registered_names_are_these():
    assert list(DATASETS) == [
        "cora", "citeseer", "pubmed", "cora-ml", "ms-academic",
        "synthetic-planetoid", "synthetic-npz",
    ]  # fmt: skip


def test_an_unknown_dataset_lists_the_names_and_suggests_the_nearest(tmp_path):
    for ask in (lambda name: build(name, tmp_path), dataset_spec, raw_files):
        with pytest.raises(UserError) as raised:
            ask("coraa")
        assert "unknown dataset 'coraa'" in str(raised.value)
        assert "synthetic-npz" in str(raised.value) and "did you mean 'cora'?" in str(raised.value)


def test_planetoid_datasets_have_eight_raw_files_npz_ones_one_and_embedded_ones_none():
    assert {name: len(raw_files(name)) for name in DATASETS} == {
        "cora": 8, "citeseer": 8, "pubmed": 8, "cora-ml": 1, "ms-academic": 1,
        "synthetic-planetoid": 0, "synthetic-npz": 0,
    }  # fmt: skip


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


def test_missing_raw_files_are_listed_before_anything_is_read(tmp_path):
    with pytest.raises(UserError) as raised:
        build("cora", tmp_path)
    assert "8 raw files are missing" in str(raised.value)
    assert "planetoid/ind.cora.test.index" in str(raised.value)


def test_a_wrong_checksum_stops_before_anything_is_parsed(tmp_path, monkeypatch):
    for source in raw_files("cora"):
        path = tmp_path / source.file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * source.bytes)
    monkeypatch.setattr("private_graphs.datasets.registry.read_planetoid", None)
    with pytest.raises(UserError, match="planetoid/ind.cora.x: wrong sha256: found .* expected "):
        build("cora", tmp_path)
