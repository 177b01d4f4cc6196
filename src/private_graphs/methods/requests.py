"""What a proved method is asked for and what it answers, and the choices that several share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from private_graphs.methods.problem import Problem
from private_graphs.privacy.calibration import target_epsilon
from private_graphs.privacy.events import Event, ExponentialChoice
from private_graphs.training.exact import exponential_choice
from private_graphs.training.streams import Streams

Progress = Callable[[int, int], None]
"""Called with (requests done, all requests)."""


@dataclass(frozen=True)
class Request:
    """One run: a budget, the public tuning labels, and its own random streams."""

    epsilon: float
    """Infinity: without DP, for comparison. 0 where the method reads nothing private."""
    seed: int
    known: np.ndarray
    """(k,) tuning nodes whose labels are public, indices into the tuning side, sorted."""
    streams: Streams

    @property
    def private(self) -> bool:
        """Whether noise is added."""
        return math.isfinite(self.epsilon) and self.epsilon > 0


@dataclass(frozen=True)
class Outcome:
    """The answer to one request."""

    test_predictions: np.ndarray
    """(M,) classes."""
    tuning_predictions: np.ndarray
    """(V,) classes of the tuning nodes by the same model."""
    events: tuple[Event, ...] = ()
    """What was released of the training nodes (under ``edges``: of the edges) to get there."""
    tuning_events: tuple[Event, ...] = ()
    """What was released of tuning labels that are private. No training node is among them."""
    configuration: dict[str, Any] = field(default_factory=dict)
    """The settings that were used: JSON-able values."""
    n_configurations: int = 1
    """How many were compared."""
    chosen_by: str = "nothing: the settings are fixed in advance"
    """On what they were compared, in words."""
    public_facts: tuple[str, ...] = ()
    """What this method takes to be public beyond its setting and the known tuning labels."""
    assumptions: tuple[str, ...] = ()
    noise_generator: str = "numpy"
    """Key of ``privacy.statements.NOISE_GENERATORS``."""


class Method(Protocol):
    """A module of ``methods`` offers one; ``methods.proved`` runs it.

    What else is known of it before it runs is in ``methods.names``.
    """

    name: str
    """As in a study file and in the run table."""

    def run(
        self, problem: Problem, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Outcome]:
        """Answer every request, in order."""
        ...


def _choice_scale(epsilon: float) -> float:
    """Return the least scale whose exponential choice of sensitivity 1 keeps ``epsilon``.

    2/ε, raised where rounding would leave its inverse above, exactly or in float64.
    """
    scale = 2.0 / epsilon
    while 2.0 / scale > epsilon or Fraction(2) / Fraction(scale) > Fraction(epsilon):
        scale = math.nextafter(scale, math.inf)
    return scale


def choose(
    problem: Problem, request: Request, predictions: np.ndarray
) -> tuple[int, tuple[Event, ...], str]:
    """Choose among C candidates by their (C, V) predictions of the tuning nodes.

    With public tuning labels: the most hits on them, ties to the first; free. Without any, all V
    tuning labels are private: the exponential mechanism on the hits, with the request's ε. It
    reads no training node but through what was released of them, so it protects other people than
    that release: a node is in one of the two. Returns the index, the events of the choice, and in
    words what it read. Order candidates from the most to the least likely.
    """
    if len(predictions) == 1:
        return 0, (), "nothing: the settings are fixed in advance"
    nodes = request.known if len(request.known) else np.arange(len(problem.tuning_labels))
    hits = (predictions[:, nodes] == problem.tuning_labels[nodes]).sum(axis=1)
    if len(request.known):
        return int(hits.argmax()), (), f"hits on {len(nodes)} public tuning labels"
    words = f"hits on {len(nodes)} private tuning labels, by the exponential mechanism"
    if not request.private:
        return int(hits.argmax()), (), f"hits on {len(nodes)} private tuning labels"
    event = ExponentialChoice(
        unit=problem.setting.unit,
        relation=problem.setting.relation,
        count=1,
        reason=(
            "one relabelled tuning node moves the hits of each candidate by at most 1; of a tuning "
            "node the label alone is protected, its text is public and its edges to training "
            "nodes count as theirs"
        ),
        sensitivity=1.0,
        scale=_choice_scale(target_epsilon(request.epsilon)),
    )
    return (
        exponential_choice(request.streams.generator("choice"), hits, event.scale),
        (event,),
        words,
    )
