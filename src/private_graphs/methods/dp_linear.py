"""Softmax regression on node texts, by DP gradient descent from zero.

Every node takes part in every step with its gradient clipped to C; the average of the last half of
the iterates is kept, which is post-processing (Abadi et al., CCS 2016). Under ``text`` no edge is
read; under ``graph`` those to public nodes are, in a node's own row (``public_text``).
"""

from __future__ import annotations

import numpy as np

from private_graphs.methods.node_gradients import Linear, Steps
from private_graphs.methods.text_gradients import Configuration, TextGradients

_CLIP_NORM = 0.5
_RANKS = (6, 512)
_STEPS = (6, 48)
_LEARNING_RATES = (10.0, 220.0)


def rule(signal: float) -> Configuration:
    """Return the settings that a signal n·μ/K calls for: more of it, more directions and steps."""
    rank = np.clip(0.75 * signal**0.75, *_RANKS)
    count = np.clip(2.2 * signal ** (1 / 3), *_STEPS)
    learning_rate = np.clip(3.7 * signal**0.5, *_LEARNING_RATES)
    return Configuration(
        round(float(rank)), Steps(round(float(count)), round(float(learning_rate), 1), _CLIP_NORM)
    )


METHOD = TextGradients(
    name="dp_linear",
    model=Linear,
    rule=rule,
)
"""See the module."""
