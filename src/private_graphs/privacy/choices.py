"""Ways in which one unit can stand in several runs, each of which reads it in one of its parts.

The parts of a run are about different units, so that a unit pays for one of them. Which part costs
most depends on what it is composed with, as privacy profiles cross: the largest ε is taken over all
ways, after composing (docs/privacy.md §11).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TypeVar

from private_graphs.core.errors import UserError

Part = TypeVar("Part")

MOST_WAYS = 256
"""Most ways that are composed; each takes up to seconds."""


def ways(runs: Sequence[tuple[Sequence[Part], int]]) -> list[list[tuple[Part, int]]]:
    """Return every way to pick a part of each run, as parts with their numbers of runs.

    ``runs``: the parts of equal runs, and how many these are. Equal runs in which a unit stands in
    the same parts equally often cost the same, and count as one way.

    Raises:
        UserError: more than ``MOST_WAYS``.
    """
    count = math.prod(math.comb(number + len(parts) - 1, number) for parts, number in runs)
    if count > MOST_WAYS:
        raise UserError(
            f"a unit can stand in {count:,} ways in the parts of these runs, and none of the parts "
            f"costs most in all of them; expected at most {MOST_WAYS} ways: compose fewer runs"
        )
    picks = [
        [list(zip(parts, counts, strict=True)) for counts in _divisions(number, len(parts))]
        for parts, number in runs
    ]
    return [
        [(part, number) for run in way for part, number in run if number] for way in product(*picks)
    ]


def _divisions(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Return all ways to write a number as an ordered sum of so many numbers."""
    if parts == 1:
        yield (number,)
        return
    for first in range(number + 1):
        for rest in _divisions(number - first, parts - 1):
            yield first, *rest


def undominated(parts: Sequence[Part], covers: Callable[[Part, Part], bool]) -> list[Part]:
    """Return the parts of a run that can cost most, at least one.

    ``covers(a, b)``: a costs at least as much as b whatever both are composed with.
    """
    left: list[Part] = []
    for part in parts:
        if not any(covers(rival, part) for rival in left):
            left = [rival for rival in left if not covers(part, rival)] + [part]
    return left
