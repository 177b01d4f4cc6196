"""Softmax regression on node texts, by DP gradient descent from zero.

Every node takes part in every step with its gradient clipped to C; the average of the last half of
the iterates is kept, which is post-processing (Abadi et al., CCS 2016). Under ``text`` no edge is
read; under ``graph`` those to public nodes are, in a node's own row (``public_text``).
"""

from __future__ import annotations

from private_graphs.methods.node_gradients import Linear
from private_graphs.methods.text_gradients import Configuration, TextGradients, configuration


def rule(signal: float) -> Configuration:
    """Return the settings that a signal n·μ/K calls for."""
    return configuration(signal, 3.7, (10.0, 220.0))


METHOD = TextGradients(
    name="dp_linear",
    model=Linear,
    rule=rule,
)
"""See the module."""
