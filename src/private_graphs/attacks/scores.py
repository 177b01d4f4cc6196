"""A lower bound on ε from the scores of somebody's own attack (docs/privacy.md §10)."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from private_graphs.core.bounded_files import read_bounded
from private_graphs.core.errors import UserError
from private_graphs.privacy.audits import (
    Errors,
    gaussian_epsilon,
    one_run_epsilon,
    two_point_epsilon,
)
from private_graphs.privacy.checks import check_delta, check_epsilon
from private_graphs.privacy.rounding import at_least
from private_graphs.privacy.statements import AUDIT_CONFIDENCE

_FEWEST = 10


@dataclass(frozen=True)
class ScoreBound:
    """Lower bound on ε from two files of scores."""

    epsilon_lower: float
    delta: float
    confidence: float
    runs: tuple[int, int]
    """Runs with and without the record on which errors were counted."""
    threshold: float
    repeated: int
    """Scores that equal the one before them in their file, where these are more than chance makes;
    else 0."""
    claim: float | None
    epsilon_lower_gaussian: float
    """The bound if the mechanism is an exact composition of Gaussian releases, and only then."""

    @property
    def refuted(self) -> bool | None:
        """Whether the claim is refuted; None without one."""
        return None if self.claim is None else self.epsilon_lower > self.claim

    @property
    def sentence(self) -> str:
        """Return the finding in words."""
        sentence = (
            f"epsilon is at least {at_least(self.epsilon_lower)} at delta "
            f"{self.delta:g} and {100 * self.confidence:g} % confidence, from {self.runs[0]:,} "
            f"runs with and {self.runs[1]:,} without the record"
        )
        if self.claim is not None:
            end = "is refuted" if self.refuted else "is not contradicted, which proves nothing"
            sentence = f"{sentence}; the claim {self.claim:g} {end}"
        gaussian = at_least(self.epsilon_lower_gaussian)
        sentence += (
            f"; at least {gaussian} if the mechanism is an exact composition of Gaussian noise"
        )
        return f"{sentence}; {self.warning}" if self.repeated else sentence

    @property
    def warning(self) -> str:
        """Return what is wrong with the runs, in words; empty where nothing is seen."""
        if not self.repeated:
            return ""
        return (
            f"WARNING: {self.repeated:,} scores equal the one before them, more than independent "
            "runs have by chance: the bound supposes that each line is a run of its own, and does "
            "not hold where runs are written twice"
        )

    def document(self) -> dict[str, Any]:
        """Return the bound as JSON-able values."""
        verdict = {"refuted": self.refuted, "warning": self.warning}
        return {**asdict(self), "runs": list(self.runs), **verdict}


def bound_of(with_it: Path, without: Path, delta: float, claim: float | None) -> ScoreBound:
    """Return a lower bound on ε at 99.9 %, whatever the mechanism and the attack.

    Runs at odd places choose threshold and direction, the others count errors: a threshold that
    was fitted to the counted runs would show more than there is. Each line has to be a run of its
    own: neighbours that repeat a score more often than chance are counted.

    Raises:
        UserError: a file without enough numbers.
    """
    check_delta(delta)
    if claim is not None:
        check_epsilon(claim)
    scores = [_numbers(path) for path in (with_it, without)]
    first, second = ([array[start::2] for array in scores] for start in (0, 1))
    direction, threshold = _best(*first, delta)  # type: ignore[call-arg]
    above = [direction * array >= direction * threshold for array in second]
    errors = Errors(int((~above[0]).sum()), len(above[0]), int(above[1].sum()), len(above[1]))
    lower = two_point_epsilon(errors, delta, AUDIT_CONFIDENCE)
    repeated = sum(map(_repeated, scores))
    return ScoreBound(
        lower, delta, AUDIT_CONFIDENCE, (len(above[0]), len(above[1])), float(threshold), repeated,
        claim, gaussian_epsilon(errors, delta, AUDIT_CONFIDENCE),
    )  # fmt: skip


def one_run_bound(with_it: Path, without: Path, delta: float) -> dict[str, Any]:
    """Return the bound of the one-run audit at 99.9 %, from scores of canaries of one run.

    A fair coin of its own put each canary into the training or not. The quarter with the highest
    scores is guessed to be in it, the quarter with the lowest not to be (Steinke, Nasr & Jagielski
    2023; docs/privacy.md §10); higher scores have to mean "in".

    Raises:
        UserError: a file without enough numbers.
    """
    check_delta(delta)
    scores = [_numbers(path) for path in (with_it, without)]
    inside = np.repeat([True, False], [len(part) for part in scores])
    order = np.argsort(np.concatenate(scores), kind="stable")
    quarter = len(order) // 4
    right = int((~inside[order[:quarter]]).sum() + inside[order[-quarter:]].sum())
    lower = one_run_epsilon(len(order), 2 * quarter, right, delta, AUDIT_CONFIDENCE)
    return {
        "epsilon_lower": lower, "delta": delta, "confidence": AUDIT_CONFIDENCE,
        "canaries": len(order), "guesses": 2 * quarter, "right": right, "relation": "add_remove",
        "supposes": "each canary was put into the one run by a fair coin of its own",
    }  # fmt: skip


_CHANCE = 1e-6
"""Chance at which independent runs are said to repeat their neighbours."""


def _repeated(scores: np.ndarray) -> int:
    """Return how many scores equal the one before them; 0 where chance explains it.

    Independent runs are in no order: pairs of neighbours are equal as often as any two runs are.
    Pairs 1-2, 3-4, … and 2-3, 4-5, … are counted apart, as those of each kind share no run.
    """
    _, counts = np.unique(scores, return_counts=True)
    size = len(scores)
    tie_rate = float((counts * (counts - 1.0)).sum()) / (size * (size - 1.0))
    for start in (0, 1):
        first, second = scores[start:-1:2], scores[start + 1 :: 2]
        equal = int((first == second).sum())
        if equal > 1 and float(binom.sf(equal - 1, len(first), min(1.0, tie_rate))) < _CHANCE / 2:
            return int((scores[1:] == scores[:-1]).sum())
    return 0


def _best(with_it: np.ndarray, without: np.ndarray, delta: float) -> tuple[int, float]:
    """Return the direction and the threshold with the largest bound on these runs."""
    bounds = []
    thresholds = np.unique(np.concatenate([with_it, without]))
    for threshold in thresholds[:: max(1, len(thresholds) // 500)]:
        for direction in (1, -1):
            missed = int((direction * with_it < direction * threshold).sum())
            false = int((direction * without >= direction * threshold).sum())
            errors = Errors(missed, len(with_it), false, len(without))
            bounds.append((two_point_epsilon(errors, delta, 0.95), direction, threshold))
    _, direction, threshold = max(bounds, key=lambda bound: bound[0])
    return direction, threshold


def _numbers(path: Path) -> np.ndarray:
    """Read one number a line: the last field, or the column called score."""
    try:
        text = io.StringIO(read_bounded(path).decode("utf-8-sig"), newline="")
        rows = [row for row in csv.reader(text) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read ({error}); expected one score a line") from error
    column = -1
    if rows and not _is_number(rows[0][-1]):
        head = [cell.strip().lower() for cell in rows.pop(0)]
        column = head.index("score") if "score" in head else -1
    values = []
    for line, row in enumerate(rows, start=1):
        if column >= len(row) or not _is_number(row[column]):
            raise UserError(f"{path}: row {line}: {row!r} has no score; expected a finite number")
        values.append(float(row[column]))
    if len(values) < 2 * _FEWEST:
        raise UserError(f"{path}: {len(values)} scores, expected at least {2 * _FEWEST}")
    return np.array(values)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
