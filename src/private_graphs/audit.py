"""Audit training code of your own: a door that adds the noise, and a replay on neighbours.

``docs/audits.md`` shows an optimizer of Opacus behind the door in ten lines.
"""

from __future__ import annotations

from private_graphs.core.streams import Streams
from private_graphs.mechanisms.door import Door, ReleaseMismatch
from private_graphs.mechanisms.replay import Replay, replay
from private_graphs.privacy.events import Cyclic, FullBatch, NoisyGradients, Poisson, Shuffled
from private_graphs.privacy.queries import GaussianQuery, LaplaceQuery, PoissonSums, PureQuery

__all__ = [
    "Cyclic", "Door", "FullBatch", "GaussianQuery", "LaplaceQuery", "NoisyGradients", "Poisson",
    "PoissonSums", "PureQuery", "ReleaseMismatch", "Replay", "Shuffled", "Streams", "replay",
]  # fmt: skip
