"""Choice of settings that several methods share: free on public labels, else with a cost."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from private_graphs.mechanisms.door import Door
from private_graphs.methods.method import VALIDATION_LABELS, Request
from private_graphs.privacy.events import Event, ExponentialChoice
from private_graphs.tasks import GraphTask

CONSTANTS = (
    "the constants of the method were set by its authors with experiments on Cora, CiteSeer and "
    "PubMed; on these graphs that choice is not priced"
)


def _choice_scale(epsilon: float) -> float:
    """Return the smallest scale whose exponential choice of sensitivity 1 keeps ``epsilon``.

    2/ε, raised if rounding would leave its inverse above, exactly or in float64.
    """
    scale = 2.0 / epsilon
    while 2.0 / scale > epsilon or Fraction(2) / Fraction(scale) > Fraction(epsilon):
        scale = math.nextafter(scale, math.inf)
    return scale


def choice_of(task: GraphTask, request: Request) -> tuple[tuple[Event, ...], str]:
    """Return the events of ``choose``, and a description of what it reads.

    With public validation labels: the most hits on them; free. Without any, all V validation labels
    are private: the exponential mechanism on the hits, with the request's ε. It reads training
    nodes only through what was released about them, so it protects other people than that release:
    a node is in one of the two sets.
    """
    if len(request.known):
        return (), f"hits on {len(request.known)} public validation labels"
    words = f"hits on {len(task.validation_labels)} private validation labels"
    if not request.private:
        return (), words
    event = ExponentialChoice(
        unit=task.scenario.unit,
        relation=task.scenario.relation,
        count=1,
        reason=(
            "one relabelled validation node moves the hits of each candidate by at most 1; of a "
            "validation node the label alone is protected, its text is public and its edges to "
            "training nodes count as theirs"
        ),
        sensitivity=1.0,
        scale=_choice_scale(request.epsilon),
    )
    return (event,), f"{words}, by the exponential mechanism"


def choose(task: GraphTask, request: Request, predictions: np.ndarray, door: Door) -> int:
    """Choose among C candidates by their (C, V) predictions of the validation nodes.

    ``choice_of`` describes what is read; ``door`` is that of the request. Ties go to the first
    candidate if the choice is free: order candidates from the most to the least likely.
    """
    if len(predictions) == 1:
        return 0
    events, _ = choice_of(task, request)
    nodes = request.known if len(request.known) else np.arange(len(task.validation_labels))
    hits = (predictions[:, nodes] == task.validation_labels[nodes]).sum(axis=1)
    if not events:
        return int(hits.argmax())
    private = door.part(VALIDATION_LABELS)
    private.plan([events])
    return private.choose([hits], events, stream="choice")[0]
