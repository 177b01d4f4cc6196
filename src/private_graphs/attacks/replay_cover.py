"""Whether a replay tests the proof that a job's rows are going to state.

``replays.json`` has the recorded replays (``audit --replay --json``). Settings that are not in it
are replayed on a few neighbours before the job runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from private_graphs.attacks.small_jobs import READERS_OF_ARTIFACTS, short_settings
from private_graphs.core.errors import UserError
from private_graphs.datasets.protocols import Protocol
from private_graphs.methods import method_named
from private_graphs.running.jobs import Job

REPLAYS = Path(__file__).with_name("replays.json")
NEIGHBOURS = (2, 12)
"""Neighbours of a replay; the larger number where no one of the first moved anything."""


def missing_replay(job: Job, settings: Sequence[Mapping[str, Any]]) -> str:
    """Return why no replay tests a proof of ``job`` with one of these ``settings``; empty if all
    are tested.

    Recorded replays cover a protocol of a paper whatever the settings; under one that proves its
    noise, settings that execute other code need a replay of their own.

    Raises:
        UserError: a replay shows that something besides the noisy values depends on a unit.
    """
    method, case = method_named(job.method), (job.method, job.scenario, job.protocol)
    if not method.reads_private or method.name in READERS_OF_ARTIFACTS:
        return ""
    protocol, recorded = method.protocols[job.protocol], _recorded(*case)
    if recorded and protocol.calibration != "proved":
        return ""
    known = {_text(values, protocol) for values in recorded}
    variants = {_text(short_settings(method, *case[1:], values), protocol) for values in settings}
    return next(filter(None, (_replayed(*case, text) for text in sorted(variants - known))), "")


def _recorded(*case: str) -> list[Mapping[str, Any]]:
    """Return the settings with which a method, scenario and protocol were replayed and passed."""
    return [
        entry["settings"]
        for entry in _all_recorded()
        if entry["passed"] and (entry["method"], entry["scenario"], entry["protocol"]) == case
    ]


@cache
def _all_recorded() -> list[Mapping[str, Any]]:
    return json.loads(REPLAYS.read_text(encoding="utf-8"))


def _text(settings: Mapping[str, Any], protocol: Protocol) -> str:
    """Return settings as JSON, without those that say what the protocol says of itself."""
    return json.dumps({
        name: value for name, value in sorted(settings.items())
        if value != getattr(protocol, name, None)
    })  # fmt: skip


@cache
def _replayed(method: str, scenario: str, protocol: str, text: str) -> str:
    """Replay a short job of a case; return why that tests nothing, or an empty text."""
    from private_graphs.attacks.replay_audit import audit_case

    case = (method, scenario, protocol)
    try:
        for count in NEIGHBOURS:
            audit = audit_case(*case, json.loads(text), count=count, seeds=1)
            if audit.replay.verdict != "INCONCLUSIVE":
                break
    except Exception as error:  # code of anybody, on a small graph that it was not written for
        return f"a replay on a small graph ends with {type(error).__name__}: {error}"
    replay = audit.replay
    if audit.proves and replay.verdict == "LEAKS":
        reasons = [*replay.differs, f"{replay.worst} moves by {replay.largest_ratio:.6g} of what "
                 "is planned"]  # fmt: skip
        raise UserError(
            f"{method} ({scenario}, {protocol}): a replay on neighbours shows that its proof does "
            f"not hold: {reasons[0]}; no row is written. 'private-graphs audit --replay --method "
            f"{method}' shows all; see docs/audits.md"
        )
    if replay.passed and audit.proves:
        return ""
    what = [*replay.differs, *replay.not_repeatable,
            "no neighbour moved anything that passed the door"]  # fmt: skip
    return f"a replay on a small graph says nothing of it ({replay.verdict.lower()}: {what[0]})"
