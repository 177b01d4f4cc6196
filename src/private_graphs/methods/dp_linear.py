"""Softmax regression on node texts, by DP gradient descent from zero.

Every node takes part in every step with its gradient clipped to C; the last half of the iterates is
averaged, which is post-processing (Abadi et al., CCS 2016). Under ``text`` no edge is read; under
``graph`` a node's own row includes its edges to public nodes (``public_text``).
"""

from __future__ import annotations

from private_graphs.methods.text_gradients import GradientSettings, TextGradients, configuration
from private_graphs.tasks.graph_task import UNIT_ROWS
from private_graphs.tasks.method import CONSTANTS, Canary, Method


def rule(signal: float) -> GradientSettings:
    """Return the settings for a signal n·μ/K."""
    return configuration(signal, 3.7, (10.0, 220.0))


TRAINER = TextGradients(rule)
METHODS = (
    Method(
        "dp_linear",
        "DP linear",
        TRAINER.run,
        ("text", "graph"),
        stated=TRAINER.stated,
        prepares=UNIT_ROWS,
        assumptions=(CONSTANTS,),
        # Many units: weights move so little that every step sees the same clipped gradient.
        canary=Canary(words=2, units=50_000),
        summary="Softmax regression on documents, by noisy full-batch gradient descent from zero.",
    ),
)
