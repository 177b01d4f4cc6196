"""Argument checks shared by accountants and calibration; messages name value and range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from private_graphs.core.errors import UsageError, suggest
from private_graphs.core.limits import SMALLEST_DELTA

RELATIONS = ("add_remove", "zero_out", "replace")
SMALLEST_NOISE = 0.001
MOST_STEPS = 10**12
"""Most steps: beyond this the truncated tails of a composition are no longer small."""


def check_delta(delta: float, name: str = "delta") -> None:
    """Raise UsageError unless ``SMALLEST_DELTA`` <= delta < 1."""
    if not SMALLEST_DELTA <= delta < 1:
        raise UsageError(
            f"{name} is {delta}; expected a number between 0 and 1, such as 1e-5, and at least "
            f"{SMALLEST_DELTA:g}"
        )


def check_epsilon(epsilon: float) -> None:
    """Raise UsageError unless epsilon is a positive finite number."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise UsageError(f"epsilon is {epsilon}; expected a positive number, such as 2")


def check_noise(noise_multiplier: float) -> None:
    """Raise UsageError unless the noise multiplier is finite and at least 0.001.

    Less noise hides nothing (one release has epsilon near a million) and overflows the accountants.
    """
    if not (math.isfinite(noise_multiplier) and noise_multiplier >= SMALLEST_NOISE):
        raise UsageError(
            f"noise multiplier is {noise_multiplier}; expected a positive number of at least "
            f"{SMALLEST_NOISE} (the standard deviation in units of the clip norm)"
        )


def check_steps(steps: int) -> None:
    """Raise UsageError unless steps is a whole number from 1 to ``MOST_STEPS``."""
    if not (1 <= steps <= MOST_STEPS and steps == int(steps)):
        raise UsageError(
            f"steps is {steps}; expected a whole number of at least 1, at most {MOST_STEPS:,}"
        )


def check_rate(sampling_rate: float) -> None:
    """Raise UsageError unless 0 < sampling_rate <= 1."""
    if not 0 < sampling_rate <= 1:
        raise UsageError(
            f"sampling rate is {sampling_rate}; expected a number above 0 and at most 1"
        )


def check_relation(relation: str) -> None:
    """Raise UsageError for a relation that is not known."""
    if relation not in RELATIONS:
        raise UsageError(
            f"relation is {relation!r}; expected one of {', '.join(RELATIONS)}"
            f"{suggest(relation, RELATIONS)}"
        )


_CHECKS: dict[str, Callable[[Any], None]] = {
    "epsilon": check_epsilon, "delta": check_delta, "noise": check_noise, "steps": check_steps,
    "rate": check_rate, "relation": check_relation,
}  # fmt: skip


def check(**values: float | str) -> None:
    """Check values by name (epsilon, delta, noise, steps, rate, relation); UsageError if wrong."""
    for name, value in values.items():
        _CHECKS[name](value)


def delta_too_large(delta: float, n_units: int) -> bool:
    """Return whether delta allows publishing a whole unit: delta · n_units >= 1 (§5)."""
    return delta * n_units >= 1
