"""Runs of a method through a door, as the runner makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from private_graphs.mechanisms.door import UNSEEN, Door, Watch
from private_graphs.methods.method import ALONE, VALIDATION_LABELS, Context, Outcome, Request


@dataclass(frozen=True, eq=False)
class Answer:
    """An outcome, and what was released for it; fields of the outcome are its own."""

    outcome: Outcome
    events: tuple
    validation_events: tuple

    def __getattr__(self, name: str) -> Any:
        return getattr(self.outcome, name)


def answers(
    method: Any,
    task: Any,
    requests: Sequence[Request],
    context: Context = ALONE,
    watch: Watch = UNSEEN,
) -> list[Answer]:
    """Answer requests by a method, or by its ``run``, through a new door, which is closed then."""
    run: Callable[..., list[Outcome]] = getattr(method, "run", method)
    door = Door.of([request.streams for request in requests], watch)
    public = [
        replace(request, streams=getattr(request.streams, "public", request.streams))
        for request in requests
    ]
    outcomes = run(task, public, door, context)
    door.close()
    private = door.part(VALIDATION_LABELS).events()
    return [Answer(*each) for each in zip(outcomes, door.events(), private, strict=True)]
