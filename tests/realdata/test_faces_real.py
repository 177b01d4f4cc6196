"""AT&T's faces from the mirror: how they are split, and what they teach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from private_graphs.datasets.image_dataset import ImageDataset
from private_graphs.datasets.registry import DATASETS, build
from private_graphs.datasets.sources import supply
from private_graphs.datasets.views import VIEWS


@pytest.fixture(scope="module")
def raw(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (mirror / "att-faces").is_dir():
        pytest.skip("the mirror has no att-faces")
    folder = tmp_path_factory.mktemp("raw")
    supply(["att-faces"], folder, mirror, progress=lambda *_: None)
    return folder


@pytest.fixture(scope="module")
def faces(raw: Path) -> dict[str, ImageDataset]:
    return {name: build("att-faces", raw, VIEWS[name]) for name in ("paper", "sound")}


def test_the_faces_are_forty_people_split_before_or_after_copies_are_made(faces):
    sound, paper = faces["sound"], faces["paper"]
    assert sound.images.shape == (400, 1, 56, 46) and paper.images.shape == (8800, 1, 56, 46)
    for mask, each in (("train_mask", 8), ("validation_mask", 1), ("test_mask", 1)):
        assert (np.bincount(sound.labels[getattr(sound, mask)]) == each).all()
    assert (np.bincount(paper.labels[paper.train_mask]) == 190).all()
    assert DATASETS["att-faces"].size.nodes == 400
    # person 10 is s10 and comes after s9, not after s1
    assert sound.info.classes[9] == "person 10"
