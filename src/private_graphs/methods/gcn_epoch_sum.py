"""Two-layer GCN with splits, tuned: every node is a part, one sum of gradients per epoch."""

from __future__ import annotations

from typing import Any

import numpy as np

from private_graphs.methods.gcn_poisson import LITTLE_SIGNAL, ProvedGcn, Tuning
from private_graphs.methods.gcn_protocols import SOUND
from private_graphs.tasks.graph_task import UNIT_ROWS
from private_graphs.tasks.method import CONSTANTS, Method, Request


def _every_node_alone(n: int, size: float) -> Tuning:
    """Return the tuning with every node as its own part.

    A sum has the same privacy cost for any number of parts, and grows with it.

    10 epochs if the signal ``size`` of a class is small at this budget; else 20 up to 10,000 nodes
    and 10 from 20,000 nodes.
    """
    epochs = 10 if size < LITTLE_SIGNAL else int(np.clip(200_000 // n, 10, 20))
    return Tuning(n, epochs, "adam", 0.1)


def _identity(fields: dict[str, Any], job: Any, request: Request) -> dict[str, Any]:
    """Stream identity under the method's name in earlier versions, when there was one GCN."""
    return fields | {"cell": fields["cell"] | {"method": "gcn"}}


EPOCH_SUM = ProvedGcn(SOUND, _every_node_alone)
"""Clipped gradients of all parts under one noise draw per epoch (docs/privacy.md §3 A')."""
METHODS = (
    Method(
        "gcn_epoch_sum",
        "GCN, per-epoch sum",
        EPOCH_SUM.run,
        ("graph",),
        stated=EPOCH_SUM.stated,
        memory=EPOCH_SUM.memory,
        prepares=UNIT_ROWS,
        assumptions=(CONSTANTS,),
        identity=_identity,
        summary="Two-layer GCN with one noisy sum of per-node gradients in each epoch.",
    ),
)
