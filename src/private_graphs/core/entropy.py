"""Random bytes of the operating system: the one place that asks for them."""

from __future__ import annotations

from os import urandom

SECRET_BYTES = 32
"""Length of a secret that keys noise or hashes: 256 bits."""


def fresh_bytes(count: int = SECRET_BYTES) -> bytes:
    """Return ``count`` bytes of the operating system's cryptographic generator."""
    return urandom(count)
