"""Random streams keyed by a replica's whole identity, so that no two replicas share a draw."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Streams:
    """The random streams of one replica.

    ``identity`` is everything that tells the replica apart (data fingerprint, cell, noise,
    learning rate, seed) and, without a kept seed, fresh secret bytes from the operating system.
    """

    identity: str

    @classmethod
    def of(cls, fields: Mapping[str, object], secret: bytes | None = None) -> Streams:
        """Build the identity from JSON-able ``fields`` and, optionally, ``secret`` bytes."""
        text = json.dumps(dict(fields), sort_keys=True, allow_nan=False)
        return cls(hashlib.sha256((secret or b"") + b"|" + text.encode()).hexdigest())

    @property
    def public_id(self) -> str:
        """Name of the replica in tables: 16 hexadecimal digits that reveal no key."""
        return self._digest("name").hex()[:16]

    def _digest(self, purpose: str) -> bytes:
        return hashlib.sha256(f"{self.identity}/{purpose}".encode()).digest()

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a NumPy generator for ``purpose`` (``initial``, ``partition``, ``order``, …)."""
        return np.random.Generator(np.random.PCG64(int.from_bytes(self._digest(purpose), "big")))

    def key(self, purpose: str) -> np.ndarray:
        """Return the (4,) uint32 key of a counter-based stream (``noise``, ``dropout``)."""
        return np.frombuffer(self._digest(purpose)[:16], dtype="<u4").copy()
