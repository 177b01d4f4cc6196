"""Runs of a method through a door, as the runner makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from private_graphs.mechanisms.door import UNSEEN, Door, Watch
from private_graphs.tasks.method import (
    ALONE,
    Context,
    Method,
    Outcome,
    Request,
)


@dataclass(frozen=True, eq=False)
class Answer:
    """An outcome, and what was released for it; fields of the outcome are its own."""

    outcome: Outcome
    events: tuple

    def __getattr__(self, name: str) -> Any:
        return getattr(self.outcome, name)


def answers(
    method: Any,
    task: Any,
    requests: Sequence[Request],
    context: Context = ALONE,
    watch: Watch = UNSEEN,
) -> list[Answer]:
    """Answer requests through a new door, which is closed then.

    ``method``: a ``Method``, or what has its ``run`` and ``stated``.
    """
    door = Door.of([request.streams for request in requests], watch)
    public = [
        replace(request, streams=getattr(request.streams, "public", request.streams))
        for request in requests
    ]
    if not isinstance(method, Method):
        method = Method("", "", method.run, (), stated=method.stated)
    outcomes = method.answers(task, public, door, context)
    door.close()
    return [Answer(*each) for each in zip(outcomes, door.events(), strict=True)]
