"""Random streams keyed by a replica's full identity, so that no two replicas share a draw."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

PUBLIC = {
    "diagnostic": "noise",
    "dropout": "dropout",
    "guess": "guess",
    "initial": "initial",
    "lists": "lists",
    "partition": "partition",
    "random_baseline": "random_baseline",
    "random_rows": "rows",
    "records": "records",
    "start": "start",
    "stopping": "stopping",
    "teachers": "teachers",
    "test": "test",
    "train_sample": "sample",
    "validation": "validation",
    "voters": "voters",
}
"""Purposes (first words of stream names) whose draws methods make themselves, with their names of
version 0.1. No guarantee needs these draws to be unknown, with one exception: masks of dropout and
records drawn from a unit, of runs with a kept seed, whose statements say that they are published
nowhere (``privacy.assumptions.HIDDEN_MASKS``). All others, noise and coins, are drawn by the door
(``mechanisms.door``)."""


@dataclass(frozen=True)
class Streams:
    """Random streams of one replica.

    ``identity`` is everything that distinguishes the replica (data fingerprint, job, noise,
    learning rate, seed) and, without a kept seed, fresh secret bytes from the operating system.
    """

    identity: str
    secret: bool = False
    """Whether the identity contains fresh secret bytes: then all draws come from ChaCha20 under
    keys of 256 bits. Otherwise they come from PCG64 and Philox4x32-10, which are not
    cryptographic: anyone with the seed can repeat them anyway."""

    @classmethod
    def of(cls, fields: Mapping[str, object], secret: bytes | None = None) -> Streams:
        """Build the identity from JSON-able ``fields`` and, optionally, ``secret`` bytes."""
        text = json.dumps(dict(fields), sort_keys=True, allow_nan=False)
        identity = hashlib.sha256((secret or b"") + b"|" + text.encode()).hexdigest()
        return cls(identity, secret is not None)

    @property
    def public_id(self) -> str:
        """Name of the replica in tables: 16 hexadecimal digits that reveal no key."""
        return self._digest("name").hex()[:16]

    @property
    def public(self) -> PublicStreams:
        """The streams that a method gets: those whose draws need not be secret."""
        return PublicStreams(self)

    def _digest(self, purpose: str) -> bytes:
        return hashlib.sha256(f"{self.identity}/{purpose}".encode()).digest()

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a NumPy generator for ``purpose`` (``initial``, ``partition``, ``order``, …)."""
        number = int.from_bytes(self._digest(purpose), "big")
        if not self.secret:
            return np.random.Generator(np.random.PCG64(number))
        from randomgen import ChaCha  # not needed by seeded runs

        return np.random.Generator(ChaCha(key=number, rounds=20))

    def key(self, purpose: str) -> np.ndarray:
        """Return the key of a counter-based stream (``noise``, ``dropout``) as uint32 words.

        (4,): a Philox key and half a counter; (8,) under a secret: a ChaCha20 key.
        """
        digest = self._digest(purpose)
        return np.frombuffer(digest if self.secret else digest[:16], dtype="<u4").copy()


@dataclass(frozen=True)
class PublicStreams:
    """Streams of one replica whose draws need not be secret; ValueError for any other purpose."""

    _all: Streams

    @property
    def secret(self) -> bool:
        """See :class:`Streams`."""
        return self._all.secret

    @property
    def public_id(self) -> str:
        """See :class:`Streams`."""
        return self._all.public_id

    def generator(self, purpose: str) -> np.random.Generator:
        """See :class:`Streams`."""
        return self._all.generator(_checked(purpose))

    def key(self, purpose: str) -> np.ndarray:
        """See :class:`Streams`."""
        return self._all.key(_checked(purpose))


def _checked(purpose: str) -> str:
    first, *rest = purpose.split()
    if first not in PUBLIC:
        raise ValueError(
            f"the stream {purpose} is secret: the door draws it; expected one of "
            f"{', '.join(PUBLIC)}"
        )
    return " ".join([PUBLIC[first], *rest])
