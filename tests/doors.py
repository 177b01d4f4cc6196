"""Doors of a few lanes with a plan, for tests of what passes through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from private_graphs.core.streams import Streams
from private_graphs.mechanisms.door import Door
from private_graphs.privacy.events import Event


@dataclass(frozen=True, eq=False)
class Drawn:
    """Streams that are all one generator, which goes on where the last draw ended."""

    source: np.random.Generator
    public_id: str = "drawn"
    secret: bool = False

    @property
    def of_door(self) -> Drawn:
        """The same streams: all are one."""
        return self

    def generator(self, purpose: str) -> np.random.Generator:
        """Return the generator, whatever the purpose."""
        return self.source


def door_of(streams: Sequence[Any], plans: Sequence[Sequence[Event | None]]) -> Door:
    """Return the door of lanes with these ``streams``, which release their ``plans``."""
    door = Door.of(streams)
    door.plan([[event for event in plan if event is not None] for plan in plans])
    return door


def one_lane(*events: Event | None, seed: int | np.random.Generator = 0) -> Door:
    """Return the door of one lane that releases ``events``; None is nothing.

    ``seed``: of the streams of its own, or the generator that all of them are.
    """
    streams = Drawn(seed) if isinstance(seed, np.random.Generator) else Streams.of({"seed": seed})
    return door_of([streams], [events])
