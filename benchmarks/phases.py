"""Where the time of an epoch goes, phase by phase, from running the pieces of epochs apart."""

from __future__ import annotations

from batched import Batched
from timing import fastest

NAMES = ("forward", "rest of the visits", "noise and update", "validation")


def phases(ours: Batched, seconds: float) -> dict[str, float]:
    """Milliseconds per replica-epoch of each of ``NAMES``; ``seconds`` for each measurement.

    All steps of the epoch are in it, so the step of a case with splits is the mean of its parts.
    """
    forward, visits, whole, validation = (
        fastest(run, seconds) / ours.replicas * 1e3
        for run in (ours.forward, ours.visit, ours.train, ours.validate)
    )
    taken = (forward, visits - forward, whole - visits, validation)
    return dict(zip(NAMES, taken, strict=True))
