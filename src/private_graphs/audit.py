"""Audit training code of your own: a replay on neighbours, to the bit.

``replay_training`` takes a script of Opacus as it is (docs/audit-your-training.md); other code
marks the line of its noise (``gaussian``), or releases through a door (``replay``).
"""

from __future__ import annotations

from private_graphs.attacks.record_neighbours import Change
from private_graphs.attacks.training_replay import TrainingReport, replay_training
from private_graphs.attacks.training_runs import gaussian
from private_graphs.core.streams import Streams
from private_graphs.mechanisms.door import Door, ReleaseMismatch
from private_graphs.mechanisms.replay import Replay, replay
from private_graphs.privacy.events import Cyclic, FullBatch, NoisyGradients, Poisson, Shuffled
from private_graphs.privacy.queries import GaussianQuery, LaplaceQuery, PoissonSums, PureQuery

__all__ = [
    "replay_training", "gaussian", "Change", "TrainingReport",
    "Cyclic", "Door", "FullBatch", "GaussianQuery", "LaplaceQuery", "NoisyGradients", "Poisson",
    "PoissonSums", "PureQuery", "ReleaseMismatch", "Replay", "Shuffled", "Streams", "replay",
]  # fmt: skip
