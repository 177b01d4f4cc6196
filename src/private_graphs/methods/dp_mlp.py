"""Two-layer perceptron on node texts, by DP gradient descent.

Every node takes part in every step with the norm of its whole gradient, both layers and biases,
clipped to C; the average of the last half of the iterates is kept, which is post-processing
(Abadi et al., CCS 2016). Under ``text`` no edge is read; under ``graph`` those to public nodes are,
in a node's own row (``public_text``).
"""

from __future__ import annotations

from private_graphs.methods.choice import CONSTANTS
from private_graphs.methods.method import Canary, Method
from private_graphs.methods.node_gradients import TwoLayers
from private_graphs.methods.text_gradients import Configuration, TextGradients, configuration
from private_graphs.tasks import UNIT_ROWS

_UNITS = 32


def model(rank: int, n_classes: int) -> TwoLayers:
    """Return the perceptron: one unit for each of the first 32 directions at most."""
    return TwoLayers(rank, n_classes, hidden=min(rank, _UNITS))


def rule(signal: float) -> Configuration:
    """Return the settings that a signal n·μ/K calls for."""
    return configuration(signal, 1.7, (5.0, 200.0))


TRAINER = TextGradients(model, rule)
METHODS = (
    Method(
        "dp_mlp",
        "DP MLP",
        TRAINER.run,
        ("text", "graph"),
        stated=TRAINER.stated,
        prepares=UNIT_ROWS,
        assumptions=(CONSTANTS,),
        # Many axes: the first unit is wide awake, so that the canary's gradient is clipped.
        canary=Canary(words=16, units=50_000),
    ),
)
