"""The check of replays, for those who run jobs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from private_graphs.running.run import MissingReplay


def missing_replay() -> MissingReplay:
    """Return the check. It is found by name, so that an edit of an audit reruns no finished job:
    what a row computes does not depend on audits, and its status tells what was replayed then."""
    check: MissingReplay = import_module("private_graphs.attacks.replay_cover").missing_replay
    return check
