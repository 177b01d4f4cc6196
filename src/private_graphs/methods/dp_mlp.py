"""Two-layer perceptron on node texts, by DP gradient descent.

Every node takes part in every step with the norm of its whole gradient, both layers and biases,
clipped to C; the last half of the iterates is averaged, which is post-processing (Abadi et al., CCS
2016). Under ``text`` no edge is read; under ``graph`` a node's own row includes its edges to public
nodes (``public_text``).
"""

from __future__ import annotations

from private_graphs.methods.node_gradients import TwoLayers
from private_graphs.methods.text_gradients import GradientSettings, TextGradients, configuration
from private_graphs.tasks.graph_task import UNIT_ROWS
from private_graphs.tasks.method import CONSTANTS, Canary, Method

_UNITS = 32


def model(rank: int, n_classes: int) -> TwoLayers:
    """Return the perceptron, with one unit for each of at most the first 32 directions."""
    return TwoLayers(rank, n_classes, hidden=min(rank, _UNITS))


def rule(signal: float) -> GradientSettings:
    """Return the settings for a signal n·μ/K."""
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
        # Many axes: the first unit starts with a large weight, so that the canary is clipped.
        canary=Canary(words=16, units=50_000),
        summary="Two-layer perceptron on documents, by noisy full-batch gradient descent.",
    ),
)
