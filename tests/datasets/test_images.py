"""Images: idx files that lie, invariants on disk and in memory, embedded digits, the registry."""

from __future__ import annotations

import gzip
import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from private_graphs.core.errors import UserError
from private_graphs.datasets.idx import idx_bytes, read_idx
from private_graphs.datasets.image_dataset import IMAGES_FILE, ImageDataset
from private_graphs.datasets.registry import build
from private_graphs.datasets.sources import supply

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    supply(["digits"], folder)
    return folder


@pytest.fixture(scope="module")
def digits(raw: Path) -> ImageDataset:
    dataset = build("digits", raw)
    assert isinstance(dataset, ImageDataset)
    return dataset


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_files_are_read_plain_and_zipped(pack, tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(pack(idx_bytes(IMAGES)))
    np.testing.assert_array_equal(read_idx(path, 3), IMAGES)


def header(*sizes: int, kind: int = 8, dimensions: int | None = None) -> bytes:
    count = len(sizes) if dimensions is None else dimensions
    return bytes([0, 0, kind, count]) + struct.pack(f">{len(sizes)}I", *sizes)


GOOD = idx_bytes(IMAGES)
HOSTILE = {
    "nothing": b"",
    "another magic": b"\x01" + GOOD[1:],
    "another number of dimensions": header(2, 12) + GOOD[16:],
    "a header that ends": GOOD[:9],
    "sizes that overflow 64 bits": header(2**32 - 1, 2**32 - 1, 2**32 - 1) + GOOD[16:],
    "sizes beyond the file": header(2**10, 2**10, 2**10) + GOOD[16:],
    "a byte too many": GOOD + b"\0",
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_idx_file_is_refused(name: str, zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(gzip.compress(HOSTILE[name]) if zipped else HOSTILE[name])
    with pytest.raises(UserError, match=f"{path}.*expected"):
        read_idx(path, 3)


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(header(1, 2**10, 2**10) + bytes(2**20)))
    with pytest.raises(UserError, match="unpacks to more than the 1,000,000 bytes"):
        read_idx(path, 3, max_bytes=1_000_000)
    path.write_bytes(GOOD)
    with pytest.raises(UserError, match="expected at most 23"):
        read_idx(path, 3, max_bytes=23)


def test_the_embedded_digits_have_the_known_images_and_classes(digits: ImageDataset) -> None:
    assert digits.images.shape == (7000, 1, 12, 12)
    assert [int(mask.sum()) for mask in masks(digits)] == [6000, 100, 900]
    assert np.bincount(digits.labels).min() > 600
    assert digits.info.units == "image" and digits.info.licence.startswith("Apache-2.0")


def masks(dataset: ImageDataset) -> tuple[np.ndarray, ...]:
    return dataset.train_mask, dataset.validation_mask, dataset.test_mask


def test_a_dataset_is_saved_loaded_and_told_apart(digits: ImageDataset, tmp_path: Path) -> None:
    digits.save(tmp_path)
    loaded = ImageDataset.load(tmp_path)
    np.testing.assert_array_equal(loaded.images, digits.images)
    assert loaded.info == digits.info
    assert loaded.fingerprint == digits.fingerprint
    changed = digits.images.copy()
    changed[0, 0, 0, 0] ^= 1
    assert replace(digits, images=changed).fingerprint != digits.fingerprint
    assert json.dumps(digits.statistics())


def broken(key: str, array: np.ndarray) -> np.ndarray:
    return {
        "images": lambda: array.astype(np.float32),
        "labels": lambda: array + 9,
        "train_mask": lambda: np.ones_like(array),
        "test_mask": lambda: array[:-1],
        "validation_mask": lambda: array.astype(np.int64),
    }[key]()


@pytest.mark.parametrize("key", ["images", "labels", "train_mask", "validation_mask", "test_mask"])
def test_every_invariant_is_checked(key: str, digits: ImageDataset, tmp_path: Path) -> None:
    array = broken(key, getattr(digits, key))
    where = "validation_mask|train_mask" if key == "train_mask" else key
    with pytest.raises(UserError, match=where):
        replace(digits, **{key: array})
    digits.save(tmp_path)
    arrays = safetensors.numpy.load_file(tmp_path / IMAGES_FILE)
    safetensors.numpy.save_file({**arrays, key: array}, tmp_path / IMAGES_FILE)
    with pytest.raises(UserError, match=f"{IMAGES_FILE}: ({where})"):
        ImageDataset.load(tmp_path)
    del arrays[key]
    safetensors.numpy.save_file(arrays, tmp_path / IMAGES_FILE)
    with pytest.raises(UserError, match=f"{key}: found no such key"):
        ImageDataset.load(tmp_path)
