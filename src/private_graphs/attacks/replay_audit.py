"""Replay audit of every method: runs on neighbouring tasks get the noise of the first run.

The comparison covers everything that a method answers: predictions, settings, measured columns,
artifacts, statements' facts and assumptions, the plan, warnings, log lines, progress, standard
output and files that are written.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.attacks.mechanism_audit import tape_findings
from private_graphs.attacks.neighbours import Neighbour, far_task, neighbours
from private_graphs.attacks.small_data import small_dataset
from private_graphs.attacks.small_jobs import OTHERS, all_cases, recorded_settings, small_job
from private_graphs.core.errors import UsageError, UserError
from private_graphs.core.models import fields_of
from private_graphs.mechanisms.door import Watch
from private_graphs.mechanisms.replay import (
    Coins,
    MadeUp,
    Recording,
    Replay,
    Replaying,
    differences,
    said,
)
from private_graphs.methods import method_named
from private_graphs.methods.noisy_sums import VALIDATION_READ
from private_graphs.privacy.accountants import price
from private_graphs.running.jobs import Job
from private_graphs.running.run import Answer, answer
from private_graphs.tasks.method import Context
from private_graphs.tasks.tasks import SCENARIOS, Task

_TERM_STEPS = (2,)
"""Recorded steps; in the first step weights may still be zero."""


_FAR = 12
"""Units that differ in the task on which nothing but the noisy values may depend either."""


@dataclass(frozen=True)
class ReplayAudit:
    """Result of the replays of one method."""

    method: str
    scenario: str
    protocol: str
    relation: str
    proves: bool
    """Whether its statement claims a proof."""
    mechanisms: tuple[str, ...]
    """Kinds of released values (``docs/audits.md``)."""
    replay: Replay
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that execute code of their own: those of recorded rows, or of ``OTHERS``."""

    @property
    def passed(self) -> bool:
        """Return whether no finding contradicts a claim; a run without a claim cannot fail."""
        return self.replay.passed or not self.proves

    def document(self) -> dict[str, Any]:
        """Return JSON-able fields."""
        replay = self.replay
        return {
            **fields_of(self, "method", "scenario", "protocol", "relation", "proves"),
            "settings": dict(self.settings),
            "mechanisms": list(self.mechanisms),
            **fields_of(replay, "neighbours", "calls"),
            "largest_ratio": replay.largest_ratio if math.isfinite(replay.largest_ratio) else None,
            **fields_of(replay, "rest_equal", "verdict", "not_repeatable", "differs"),
            "passed": self.passed,
        }


Case = tuple[str, str, str, Mapping[str, Any]]
"""Method, scenario, protocol, and settings that execute code of their own."""


def cases_of(rows: pd.DataFrame, method: str | None, protocol: str | None) -> list[Case]:
    """Return the cases of one method, or all, under one protocol, or all.

    There is one with a short job's own settings and, under a protocol that proves its noise, one
    for each of the distinct settings of recorded ``rows`` and of ``OTHERS``.
    """
    cases: list[Case] = []
    for name, scenario, variant in all_cases(method, protocol):
        of, several = method_named(name), [{}]
        if of.protocols[variant].calibration == "proved":
            several += [*OTHERS.get(name, ()), *recorded_settings(rows, of, scenario, variant)]
        distinct = {json.dumps(settings, sort_keys=True): settings for settings in several}
        cases += [(name, scenario, variant, settings) for settings in distinct.values()]
    return cases


def audit_case(
    method: str, scenario: str, protocol: str, settings: Mapping[str, Any] = MappingProxyType({}),
    *, count: int, seeds: int = 5,
) -> ReplayAudit:  # fmt: skip
    """Replay a short job of one method on ``count`` neighbours, with four replicas per seed."""
    definition = method_named(method)
    job = small_job(definition, scenario, protocol, seeds=tuple(range(seeds)), changed=settings)
    return replace(audit(job, small_dataset(definition, settings), count), settings=settings)


def audit_methods(
    rows: pd.DataFrame,
    method: str | None,
    protocol: str | None,
    count: int,
    *,
    processes: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> list[ReplayAudit]:
    """Replay one method, or all, under one protocol, or all, in ``processes`` processes.

    The settings are those of recorded ``rows`` (``cases_of``).

    Raises:
        UsageError: the method does not exist or reads no private data.
    """
    if method is not None:
        method_named(method)
    cases = cases_of(rows, method, protocol)
    if not cases:
        raise UsageError(
            f"nothing to replay of {method or 'any method'} under {protocol or 'any protocol'}; "
            "expected a method that reads private data, and a protocol that it has"
        )
    audits: list[ReplayAudit] = []
    for audit in _in_order(cases, count, min(processes, len(cases))):
        audits.append(audit)
        if progress is not None:
            progress(len(audits), len(cases))
    return audits


def _in_order(cases: Sequence[Case], count: int, processes: int) -> Iterator[ReplayAudit]:
    if processes == 1:
        yield from (audit_case(*case, count=count) for case in cases)
        return
    # Spawned, since forked children would inherit the threads of numerical libraries.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(audit_case, *case, count=count) for case in cases]
        yield from (future.result() for future in waiting)


def describe(audits: Sequence[ReplayAudit]) -> str:
    """Return a table for a terminal, and the findings."""
    lines = [
        f"{'method':20} {'scenario':10} {'protocol':9} {'neighbours':>10} {'calls':>7} "
        f"{'largest ratio':>13}  rest, settings"
    ]
    for audit in audits:
        replay = audit.replay
        rest = "  ".join(["equal" if replay.rest_equal else "differs", in_words(audit.settings)])
        verdict = "" if audit.passed else "  FAILED"
        claim = "" if audit.proves else "  (claims nothing)"
        lines.append(
            f"{audit.method:20} {audit.scenario:10} {audit.protocol:9} {replay.neighbours:10} "
            f"{replay.calls:7} {replay.largest_ratio:13.6f}  {rest.rstrip()}{claim}{verdict}"
        )
        if not audit.passed:
            lines.append(f"    {replay.verdict}")
        lines += [f"    {line}" for line in (*replay.not_repeatable, *replay.differs)[:3]]
    return "\n".join(lines)


def in_words(settings: Mapping[str, Any]) -> str:
    """Return settings in one line: ``dropout 0.5, splits 10``."""
    words = {name: json.dumps(value).strip('"') for name, value in settings.items()}
    return ", ".join(f"{name} {word}" for name, word in words.items())


def audit(job: Job, dataset: Any, count: int, seed: int = 0) -> ReplayAudit:
    """Replay a job on ``count`` neighbours, alternating coins as drawn, all and none.

    The noise of the first tape must be fresh and as large as planned. Runs are also replayed under
    the same tape with other secret coins; with made-up tapes; and with other noisy values in every
    second replica, which the others must not read. A task in which many units differ gets the tape
    too: its noisy values are those of the first run, so all else has to be.
    """
    method = method_named(job.method)
    settings = method.settings.model_validate(dict(job.settings))
    replay, proves, sample, kinds = Replay(), False, [], set()
    policies: Sequence[Coins] = ("drawn", "all", "none")
    inference = method.protocols[job.protocol].inference or SCENARIOS[job.scenario].inference
    predicts = inference != "leaks"

    def replayed(
        again: Replaying, first: Answered, neighbour: Neighbour, same: bool = False, where: str = ""
    ) -> None:
        after = _answers(job, dataset, again, neighbour.task)
        was, now = (_covered(neighbour, run.answers, predicts) for run in (first, after))
        lines = [*differences(was, now), *differences(first.lines, after.lines, "/log")]
        replay.add(again, lines, same, where)

    _answers(job, dataset, Recording())  # compiled code and caches are written once
    for number, coins in enumerate(policies):
        recording = Recording(coins, term_steps=_TERM_STEPS)
        first = _answers(job, dataset, recording)
        task, relation = first.task, first.task.scenario.relation
        proves = proves or _proves(first)
        kinds |= {entry.kind for tape in recording.tapes.values() for entry in tape}
        replay.differs += [line for line in recording.findings if line not in replay.differs]
        if not sample:
            draws = neighbours(task, 2 * count, seed, settings)
            sample = list(itertools.islice((e for e in draws if _is_covered(e, first)), count))
        for neighbour in sample[number :: len(policies)]:
            replay.neighbours += 1
            replayed(Replaying(recording, relation), first, neighbour)
        if coins == "drawn":
            replayed(Replaying(recording, relation), first, Neighbour(task), same=True)
            replay.differs += tape_findings([recording])
            replayed(Replaying(recording, relation, redrawn=True), first, Neighbour(task))
            replay.differs += _read_by_others(job, dataset, first)
            if not replay.differs:
                far = Neighbour(far_task(task, _FAR, seed, settings))
                replayed(Replaying(recording, relation, perturbed=True), first, far,
                         where="with many units replaced, ")  # fmt: skip
    tape = MadeUp()
    first = _answers(job, dataset, tape)
    for neighbour in sample[:2]:
        replayed(Replaying(tape, relation), first, neighbour)
    case = job.method, job.scenario, job.protocol
    return ReplayAudit(*case, relation, proves, tuple(sorted(kinds)), replay)


@dataclass(frozen=True)
class Answered:
    """Results of a run."""

    task: Task
    answers: list[Answer] | str
    """Answers, or the text of an error."""
    lines: list[str]
    """Log lines, warnings, standard output, files and progress."""


def _answers(job: Job, dataset: Any, watch: Watch, task: Task | None = None) -> Answered:
    """Run a job under a clock that counts its reads, so that durations are equal too.

    Lines contain its progress: whoever sees a terminal sees it.
    """
    steps: list[str] = []
    counting = Context(
        progress=lambda done, total: steps.append(f"progress: {done} of {total}"),
        clock=itertools.count().__next__,
    )
    with said() as lines:
        try:
            task, answers = answer(job, dataset, watch, task, counting)
        except UserError as error:
            answers = f"{type(error).__name__}: {error}"
    return Answered(task, answers, [*lines, *steps])


def _read_by_others(job: Job, dataset: Any, first: Answered) -> list[str]:
    """Return differences of the even replicas after a change of the odd ones' noisy values.

    The release of one replica must not affect any other.
    """
    if isinstance(first.answers, str):
        return []
    even = [answer.request.streams.public_id for answer in first.answers[::2]]
    after = _answers(job, dataset, MadeUp(spared=set(even)))
    if isinstance(after.answers, str):
        return [f"other replicas' noisy values: {after.answers}"]
    pairs = [[_plain_answer(run.task, a, None, True) for a in run.answers[::2]]
             for run in (first, after)]  # fmt: skip
    return [f"of other replicas' noisy values: {line}" for line in differences(*pairs)]


def _is_covered(neighbour: Neighbour, answered: Answered) -> bool:
    """Return whether a run's statement covers the unit of a neighbour."""
    if isinstance(answered.answers, str) or neighbour.node is None:
        return True
    uncovered = any(VALIDATION_READ in answer.outcome.assumptions for answer in answered.answers)
    return not (uncovered and answered.task.graph.validation_mask[neighbour.node])


def _proves(answered: Answered) -> bool:
    """Return whether the releases of some private run prove a finite ε."""
    task, answers = answered.task, answered.answers
    if isinstance(answers, str):
        return False
    claim = (task.scenario.unit, task.scenario.relation, task.delta)
    plans = {answer.events for answer in answers if answer.request.private}
    return any(
        all(price(event, *claim).epsilon is not None for event in events) for events in plans
    )


def _covered(neighbour: Neighbour, answers: list[Answer] | str, predicts: bool) -> Any:
    """Return the releases of runs that must protect the neighbour's unit, as values and arrays.

    Excluded are answers published only to the unit, and predictions if the statement says that
    these leak (``predicts`` is false).
    """
    if isinstance(answers, str):
        return answers
    return [
        _plain_answer(neighbour.task, answer, neighbour.node, predicts)
        for answer in answers
        if answer.request.private and neighbour.validation not in answer.request.known
    ]


def _plain_answer(task: Task, answer: Answer, node: int | None, predicts: bool) -> dict[str, Any]:
    outcome, graph = answer.outcome, getattr(task, "graph", None)
    test, validation = map(np.asarray, (outcome.test_predictions, outcome.validation_predictions))
    if node is not None:
        labelled = graph.labels >= 0
        test = np.where(np.flatnonzero(graph.test_mask & labelled) == node, 0, test)
        mask = np.flatnonzero(graph.validation_mask & labelled) == node
        validation = np.where(mask, 0, validation)
    return {
        "events": repr(answer.events),
        "test_predictions": test if predicts else None,
        "validation_predictions": validation if predicts else None,
        "claim": repr(outcome.claim),
        "settings": repr(dict(outcome.settings)),
        "chosen": (outcome.n_configurations, outcome.chosen_by, outcome.chosen_on_public),
        "measured": {name: _plain(value) for name, value in outcome.measured.items()},
        "artifacts": {name: np.asarray(value) for name, value in outcome.artifacts.items()},
        "facts": (outcome.public_facts, outcome.assumptions, outcome.noise_generator),
        "units": (outcome.n_units, outcome.calibrated_for),
    }


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
