"""Stored text vectors, in files that are complete or absent, so that work can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from private_graphs.core.files import atomic_path

_KEYS, _FINGERPRINT, _DIGEST = "keys", "fingerprint", "sha256"


def text_keys(texts: Sequence[str]) -> list[bytes]:
    """Return the sha256 (32 bytes) of every text."""
    return [hashlib.sha256(text.encode()).digest() for text in texts]


class ShardStore:
    """Shards of one encoder: each holds arrays with one row per text, found by its sha256.

    ``fingerprint`` identifies the model and code that made the vectors; shards of another encoder
    or with damaged content are removed when read, and their texts count as not yet embedded.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = Path(folder) / f"vectors-{fingerprint[:16]}"
        self.fingerprint = fingerprint

    def write(self, keys: Sequence[bytes], arrays: dict[str, np.ndarray]) -> None:
        """Write one shard; ``arrays`` have one row per key."""
        packed = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), 32)
        tensors = {_KEYS: packed} | {
            name: np.ascontiguousarray(array) for name, array in arrays.items()
        }
        metadata = {_FINGERPRINT: self.fingerprint, _DIGEST: _digest(tensors)}
        name = hashlib.sha256(packed.tobytes()).hexdigest()[:32]
        with atomic_path(self.folder / f"{name}.safetensors") as temporary:
            safetensors.numpy.save_file(tensors, temporary, metadata=metadata)

    def shards(self) -> Iterator[tuple[list[bytes], dict[str, np.ndarray]]]:
        """Yield keys and arrays of every intact shard, in the order of the file names."""
        for path in sorted(self.folder.glob("*.safetensors")):
            tensors = self._read(path)
            if tensors is None:
                path.unlink(missing_ok=True)
                continue
            keys = tensors.pop(_KEYS)
            yield [row.tobytes() for row in keys], tensors

    def _read(self, path: Path) -> dict[str, np.ndarray] | None:
        try:
            with safetensors.safe_open(path, framework="numpy") as opened:
                metadata = opened.metadata() or {}
                if metadata.get(_FINGERPRINT) != self.fingerprint:
                    return None
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}
        except (OSError, ValueError, KeyError, safetensors.SafetensorError):
            return None
        sound = _KEYS in tensors and metadata.get(_DIGEST) == _digest(tensors)
        return tensors if sound else None


def _digest(tensors: dict[str, np.ndarray]) -> str:
    """Return the sha256 of names, shapes, types and contents."""
    digest = hashlib.sha256()
    for name, array in sorted(tensors.items()):
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
