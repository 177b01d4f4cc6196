"""The key of a release's noise: equal for the same computation, and for no other one.

A release that was charged and interrupted is made again with the same noise, which is the same
release (docs/privacy.md §16). What is drawn follows from the key and from everything that the
release depends on: another table, declaration, budget or version has other noise, even under one
key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from private_graphs.core.entropy import fresh_bytes

if TYPE_CHECKING:
    from private_graphs.core.streams import Streams

_LIBRARIES = ("numba", "numpy", "randomgen", "scipy", "tokenizers", "torch", "transformers")
"""Libraries that compute or draw what is released."""


@dataclass(eq=False)
class NoiseKey:
    """Secret of one release, and the digest of everything that this release depends on."""

    computation: bytes
    secret: bytes = field(default_factory=fresh_bytes, repr=False)
    release: str = ""
    """Name in the ledger; empty before the release is charged."""
    others: int = 0
    """Number of unfinished releases of other computations whose keys are there."""
    lost: tuple[dict[str, Any], ...] = ()
    """Lines of unfinished releases whose keys are gone or damaged: nothing continues them."""
    lock: int = -1
    """Descriptor of the file of the key, which this process holds; -1 without one."""

    def derived(self, purpose: str) -> bytes:
        """Return 32 bytes for a purpose: those of two purposes or computations tell nothing of each
        other."""
        text = purpose.encode() + b"\0" + self.computation
        return hmac.new(self.secret, text, hashlib.sha256).digest()

    @property
    def mark(self) -> str:
        """Name of the computation in the ledger; without the secret it confirms no guess."""
        return self.derived("mark").hex()

    def streams(self, graph: str) -> Streams:
        """Return the streams of the noise."""
        from private_graphs.core.streams import Streams

        fields = {"graph": graph, "computation": self.derived("noise").hex()}
        return Streams.of(fields, self.secret)


def computation_of(settings: dict[str, Any], *arrays: Any) -> bytes:
    """Return the digest of a computation: settings, what it reads, code, libraries, processor.

    ``arrays`` are NumPy arrays and lists of texts.
    """
    from private_graphs.core.imports import code_fingerprint

    settings = settings | {
        "code": code_fingerprint("private_graphs.documents.release"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": {name: _version(name) for name in _LIBRARIES},
    }
    digest = hashlib.sha256()
    for each in (settings, *arrays):
        if isinstance(each, np.ndarray):
            part = f"{each.dtype.str}{each.shape}".encode() + np.ascontiguousarray(each).tobytes()
        else:
            part = json.dumps(each, sort_keys=True).encode()
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None
