"""What differs between a recording of a training and its replay, the cause before its effects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from private_graphs.attacks.training_runs import NoisySum, TrainingRun
from private_graphs.mechanisms.replay import differences

ROUNDED = 1e-4
"""Excess of a distance, relative to what is priced, that float32 explains."""
_MOVED = 1e-5
"""Change of a gradient, relative to the largest, that float32 explains."""


@dataclass
class TrainingFindings:
    """Findings from one replay; ``largest``: how far a sum moved, as a share of what is priced."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    largest: float = 0.0
    incomparable: str = ""
    """Why steps could not be compared."""


def findings(
    first: TrainingRun, second: TrainingRun, relation: str, ignored: Iterable[str] = ()
) -> TrainingFindings:
    """Compare a recording with its replay on a neighbour, on the same data, or under other
    coins."""
    report = TrainingFindings()
    if second.error:
        report.lines.append(f"train fails: {second.error}; on its own data it does not")
    elif not second.redrawn:
        report.lines += _sampling(first, second)
        _steps(report, first, second, relation)
        report.lines += _answers(first, second)
    released = differences(first.answer, second.answer)
    released += [
        f"{line}; it is not written so" for line in first.files if line not in second.files
    ]
    released = [line for line in released if not any(name in line for name in ignored)]
    if released and not second.error:
        value, _, values = released[0].lstrip("/").partition(": ")
        more = f" (and {len(released) - 1} more)" if len(released) > 1 else ""
        opening = (
            "what is returned tells who joined: "
            if second.redrawn
            else "what is returned differs: "
        )
        tail = ", when other coins are tossed; nothing is amplified by sampling then" * bool(
            second.redrawn
        )
        report.lines.append(f"{opening}{value or 'the value'}: {values}{more}{tail}")
    if first.lines != second.lines and not (second.redrawn or second.others or second.error):
        pairs = [
            pair for pair in zip(first.lines, second.lines, strict=False) if pair[0] != pair[1]
        ]
        shown = f": {pairs[0][0]!r}, then {pairs[0][1]!r}" if pairs else ""
        report.notes.append(f"what is printed differs{shown}; do not publish the log")
    if second.change is not None:
        where = f" [record {second.change.place} {second.change.how}]"
        report.lines = [line + where for line in report.lines]
    return report


def _sampling(first: TrainingRun, second: TrainingRun) -> Iterator[str]:
    pairs = zip(first.samplers, second.samplers, strict=False)
    for epoch, ((_, *one), (_, *two)) in enumerate(pairs, 1):
        if one != two:
            yield (f"sampling rate and steps depend on the data: epoch {epoch}: q = "
                   f"{one[0]:.6g}, "
                   f"{one[1]} steps; q = {two[0]:.6g}, {two[1]} steps")  # fmt: skip


def _answers(first: TrainingRun, second: TrainingRun) -> Iterator[str]:
    if len(first.sums) != len(second.sums):
        yield (
            f"number of noisy steps depends on the data: {len(first.sums)}, then {len(second.sums)}"
        )
    for name, before, after in (("epsilon", first.printed, second.printed),
                                ("history of the "
                                 "accountant", first.history, second.history)):  # fmt: skip
        if before != after and len(first.sums) == len(second.sums):
            yield f"the {name} depends on the data: {before}, then {after}"


def _steps(
    report: TrainingFindings, first: TrainingRun, second: TrainingRun, relation: str
) -> None:
    """Compare step by step; after the parameters differ, settings and shapes alone."""
    moved = False
    for step, (before, after) in enumerate(zip(first.sums, second.sums, strict=False), 1):
        report.lines += _settings(step, before, after)
        if before.parameters != after.parameters and not moved:
            moved = True
            names = sorted({*before.outside, *after.outside})
            cause = ", ".join(f"{name} stepped outside of Opacus" for name in names)
            if not names and step == 1:
                cause = "they differ before the first step: initialisation or earlier training"
            report.lines.append(
                f"parameters move without noise: before step {step}" + "; " * bool(cause) + cause
            )
        if before.exact.shape != after.exact.shape:
            report.lines.append(f"shape of a release depends on the data: step {step}: "
                                f"{before.exact.shape}, {after.exact.shape}")  # fmt: skip
            return
        # private numbers may move a sum: it is what the noise is for
        if moved or second.others or second.far:
            continue
        if second.change is not None and before.drawn != after.drawn and relation != "replace":
            report.incomparable = ("steps are not compared under this relation: the random "
                                   "numbers of a step "
                                   "(dropout) depend on the size of its batch; use "
                                   "replace")  # fmt: skip
            return
        report.lines += _moved(report, step, before, after, (first, second), relation)


def _settings(step: int, before: NoisySum, after: NoisySum) -> Iterator[str]:
    for name, value in before.settings.items():
        if value != after.settings.get(name):
            why = " (Opacus divides by int(n·q), issues 571 and 819: n must be public)"
            why *= name == "expected_batch_size"
            yield (
                f"{name} depends on the data: step {step}: {value!r}, then "
                f"{after.settings.get(name)!r}{why}"
            )


def _moved(
    report: TrainingFindings, step: int, before: NoisySum, after: NoisySum,
    runs: tuple[TrainingRun, TrainingRun], relation: str,
) -> Iterator[str]:  # fmt: skip
    """Yield what is wrong with the distance of two sums, and note the largest share."""
    first, second = runs
    gap = float(np.linalg.norm(before.exact.astype(np.float64) - after.exact.astype(np.float64)))
    if second.change is None:
        if gap:
            yield f"a sum is not repeatable: step {step} moves by {gap:.3g} on the same data"
        return
    bound = before.bound * (2 if relation == "replace" and not before.marked else 1)
    share = gap / bound if bound else math.inf * gap if gap else 0.0
    if mixed := _other_records(before, after):
        yield (f"gradients of other records move: step {step}: {mixed} of "
               f"{len(before.gradients)} though one "
               "record is changed; a layer, a loss or preprocessing mixes records")  # fmt: skip
    if not first.coins.join and first.places_known and not before.marked and gap > ROUNDED * bound:
        yield (f"a record that never joins moves a sum: step {step}: by {share:.3g} of what "
               "is priced; data "
               "are preprocessed together (standardised, vocabulary, class weights)")  # fmt: skip
    elif not share <= 1 + ROUNDED:
        priced = (
            "its sensitivity" if before.marked else "what is priced (2C if a record is replaced)"
        )
        yield (f"a sum moves too far: step {step}: by {share:.3g} times {priced}; not "
               "clipped per record, "
               "or records are mixed")  # fmt: skip
    report.largest = max(report.largest, share if share == share else math.inf)


def _other_records(before: NoisySum, after: NoisySum) -> int:
    """Return how many gradients moved beside one, of as many in both runs."""
    rows, others = before.gradients, after.gradients
    if rows.shape != others.shape or not len(rows):
        return 0
    apart = np.abs(rows - others).max(axis=1) > _MOVED * np.abs(rows).max(initial=1e-12)
    return max(0, int(apart.sum()) - 1)
