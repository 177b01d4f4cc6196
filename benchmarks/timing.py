"""Stopwatches: the fastest of many runs, sides measured in turns, and the machine they ran on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numba
import torch

from private_graphs.site.record import machine_words

SLOW_SECONDS, SLOW_ROUNDS = 1.0, 3
"""A side that takes longer than this per run is measured in the first rounds only."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison: functions to time, and how often an epoch runs each."""

    pieces: tuple[tuple[Callable[[], object], float], ...]
    divisor: float = 1.0
    """Replicas that one epoch trains."""
    note: str = ""
    """What the page says about how it was measured."""


def seconds_of(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one run."""
    started = clock()
    run()
    return clock() - started


def fastest(run: Callable[[], object], budget: float, at_least: int = 2) -> float:
    """Processor seconds of the fastest run within a budget of seconds, after one not counted.

    Whatever else the machine does only adds time.
    """
    run()
    best, count, end = float("inf"), 0, time.perf_counter() + budget
    while count < at_least or time.perf_counter() < end:
        best = min(best, seconds_of(run, time.process_time))
        count += 1
    return best


def mean_seconds(run: Callable[[], object], budget: float) -> float:
    """Mean processor seconds of a run over about ``budget`` of them, at least one run."""
    started, count = time.process_time(), 0
    while count == 0 or time.process_time() - started < budget:
        run()
        count += 1
    return (time.process_time() - started) / count


def in_turns(sides: Mapping[str, Side], rounds: int, budget: float) -> dict[str, float]:
    """Milliseconds per replica-epoch of every side: the fastest round of each.

    The sides take turns within a round, so that a slow spell of the machine meets all of them;
    within a round a side's pieces share ``budget`` seconds.
    """
    best = dict.fromkeys(sides, float("inf"))
    slow: set[str] = set()
    for number in range(rounds):
        for name, side in sides.items():
            if name in slow and number >= SLOW_ROUNDS:
                continue
            share = budget / len(side.pieces)
            means = [mean_seconds(run, share) for run, _ in side.pieces]
            if max(means) > SLOW_SECONDS:
                slow.add(name)
            epoch = sum(mean * times for mean, (_, times) in zip(means, side.pieces, strict=True))
            best[name] = min(best[name], epoch / side.divisor * 1e3)
    return best


def machine() -> str:
    """Processor, the versions that matter, and how busy it was."""
    return (
        f"{machine_words()}, one thread used, load {os.getloadavg()[0]:.1f} at the start; "
        f"Python {platform.python_version()}, torch {torch.__version__}, numba {numba.__version__}"
    ).replace("+cpu", " (CPU build)")
