"""MNIST and Fashion-MNIST from the mirror: their files, and a few steps of training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.registry import DATASETS, build
from private_graphs.datasets.sources import supply
from private_graphs.datasets.spec import GraphSize

COUNTS = {
    "mnist": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "fashion-mnist": [6000] * 10,
}


@pytest.fixture(scope="module")
def datasets(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ImageDataset]:
    for name in COUNTS:
        if not (mirror / name).is_dir():
            pytest.skip(f"the mirror has no {name}")
    folder = tmp_path_factory.mktemp("raw")
    supply(COUNTS, folder, mirror, progress=lambda *_: None)
    return {name: build(name, folder) for name in COUNTS}


@pytest.mark.parametrize("name", COUNTS)
def test_the_files_have_the_known_images_and_classes(
    name: str, datasets: dict[str, ImageDataset], tmp_path: Path
) -> None:
    dataset = datasets[name]
    assert dataset.images.shape == (70_000, 1, 28, 28)
    assert np.bincount(dataset.labels[dataset.train_mask]).tolist() == COUNTS[name]
    masks = (dataset.train_mask, dataset.validation_mask, dataset.test_mask)
    assert [int(mask.sum()) for mask in masks] == [60_000, 1_000, 9_000]
    assert DATASETS[name].size == GraphSize(70_000, 0, 70_000 * 784, 784, 10, 60_000)
    assert list(dataset.info.classes) == list(DATASETS[name].classes)
    dataset.save(tmp_path)
    assert ImageDataset.load(tmp_path).fingerprint == dataset.fingerprint
