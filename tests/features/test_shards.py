"""Vectors on disk: complete, of this model, or not there."""

from __future__ import annotations

import numpy as np
import pytest

from private_graphs.features.shards import ShardStore, text_keys

KEYS = text_keys(["", "pes", "mačka"])
ARRAYS = {"words": np.arange(6, dtype=np.float32).reshape(3, 2), "filled": np.array([0, 1, 1])}


@pytest.fixture
def store(tmp_path) -> ShardStore:
    """A store with one shard."""
    store = ShardStore(tmp_path, "f" * 64)
    store.write(KEYS, ARRAYS)
    return store


def test_what_is_written_is_read(store):
    ((keys, arrays),) = store.shards()
    assert keys == KEYS and set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_broken_shard_is_removed(store, damage):
    (path,) = store.folder.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[-3] ^= 1
    content = {"cut": content[:-5], "flip": content, "empty": b"", "text": b"nothing"}[damage]
    path.write_bytes(bytes(content))
    assert list(store.shards()) == []
    assert not path.exists()


def test_other_models_have_other_folders_and_partial_files_are_no_shards(store):
    other = ShardStore(store.folder.parent, "e" * 64)
    assert list(other.shards()) == []
    (store.folder / ".half.safetensors.1.partial").write_bytes(b"half")
    assert len(list(store.shards())) == 1
