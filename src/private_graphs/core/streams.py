"""Random streams keyed by a replica's full identity, so that no two replicas share a draw."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

PUBLIC = {
    "candidates": "candidates",
    "canaries": "canaries",
    "coins": "coins",
    "diagnostic": "noise",
    "dropout": "dropout",
    "guess": "guess",
    "initial": "initial",
    "lists": "lists",
    "masks": "masks",
    "partition": "partition",
    "random_baseline": "random_baseline",
    "random_rows": "rows",
    "records": "records",
    "start": "start",
    "stopping": "stopping",
    "teachers": "teachers",
    "test": "test",
    "train_sample": "sample",
    "tuning_labels": "tuning_labels",
    "validation": "validation",
    "voters": "voters",
}
"""Purposes (first words of stream names) whose draws need not be secret, since no guarantee
depends on them, with their names of version 0.1. All others, noise and coins, are drawn by the
door (``mechanisms.door``). Three of the old names are names of the door too: under a secret the
door's streams have digests of their own, and a replica opens such a name on one side only."""


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
    _opened: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Name of each opened stream -> whether the door opened it."""

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

    @property
    def of_door(self) -> DoorStreams:
        """The streams of noise, coins and secret samples, which ``mechanisms.door`` alone opens."""
        return DoorStreams(self)

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a NumPy generator for a ``PUBLIC`` purpose; ValueError for any other."""
        return self._generator(self._claimed(_public_name(purpose), by_door=False))

    def key(self, purpose: str) -> np.ndarray:
        """Return the key of a counter-based stream for a ``PUBLIC`` purpose, as uint32 words.

        (4,): a Philox key and half a counter; (8,) under a secret: a ChaCha20 key. ValueError for
        any other purpose.
        """
        return self._key(self._claimed(_public_name(purpose), by_door=False))

    def public_generators(self) -> dict[str, np.random.Generator]:
        """Return new generators of all public streams that this replica opened or may open."""
        names = dict.fromkeys(PUBLIC.values(), False) | self._opened
        return {
            name: self._generator(self._digest(name))
            for name, by_door in names.items()
            if not by_door
        }

    def _claimed(self, name: str, by_door: bool) -> bytes:
        """Return the digest of a stream, and note who opened it.

        Raises:
            ValueError: the other side opened a stream of this name: noise minus equal public draws
                would be the exact values.
        """
        if self._opened.setdefault(name, by_door) != by_door:
            sides = ("the door", "a public stream") if by_door else ("a public stream", "the door")
            raise ValueError(
                f"{sides[0]} opens the stream {name}, which {sides[1]} of this replica opened "
                "before; expected another name: who subtracts equal draws has the exact values"
            )
        return self._digest(f"door/{name}" if by_door and self.secret else name)

    def _digest(self, name: str) -> bytes:
        return hashlib.sha256(f"{self.identity}/{name}".encode()).digest()

    def _generator(self, digest: bytes) -> np.random.Generator:
        number = int.from_bytes(digest, "big")
        if not self.secret:
            return np.random.Generator(np.random.PCG64(number))
        from randomgen import ChaCha  # not needed by seeded runs

        return np.random.Generator(ChaCha(key=number, rounds=20))

    def _key(self, digest: bytes) -> np.ndarray:
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
        return self._all.generator(purpose)

    def key(self, purpose: str) -> np.ndarray:
        """See :class:`Streams`."""
        return self._all.key(purpose)


@dataclass(frozen=True)
class DoorStreams:
    """Streams of one replica that the door opens, by any name.

    Under a secret their digests differ from those of all public streams; under a kept seed they
    are those of version 0.1, so that recorded results reproduce.
    """

    _all: Streams

    def generator(self, name: str) -> np.random.Generator:
        """Return the generator of a stream; ValueError if it is open as a public one."""
        return self._all._generator(self._all._claimed(name, by_door=True))

    def key(self, name: str) -> np.ndarray:
        """Return a key as ``Streams.key``; ValueError if the stream is open as a public one."""
        return self._all._key(self._all._claimed(name, by_door=True))


def _public_name(purpose: str) -> str:
    """Return the name of version 0.1 of a public purpose; ValueError for any other."""
    first, *rest = purpose.split()
    if first not in PUBLIC:
        raise ValueError(
            f"the stream {purpose} is secret: the door draws it; expected one of "
            f"{', '.join(PUBLIC)}"
        )
    return " ".join([PUBLIC[first], *rest])
