"""Random bytes of the operating system, which nothing else asks for, and hashes that they key."""

from __future__ import annotations

import hashlib
import hmac
from os import urandom

SECRET_BYTES = 32
"""Length of a secret that keys noise or hashes: 256 bits."""


def fresh_bytes(count: int = SECRET_BYTES) -> bytes:
    """Return ``count`` bytes of the operating system's cryptographic generator."""
    return urandom(count)


def published_fingerprint(fingerprint: str, secret: bytes | None) -> str:
    """Return the published hash of a dataset: 64 hexadecimal digits (docs/privacy.md §5).

    A plain hash confirms a guess of all data: who knows all but one label finds it by trying every
    class. With ``secret`` the hash is an HMAC-SHA256, equal within a run and useless to anyone
    without the secret.
    """
    if secret is None:
        return fingerprint
    return hmac.new(secret, fingerprint.encode(), hashlib.sha256).hexdigest()
