"""Commands of several kinds: options that the kind at hand does not read are refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from private_graphs.core.errors import refuse_idle


def refuse_others(
    command: Callable[..., None], given: Mapping[str, Any], used: str, reason: str
) -> None:
    """Raise UsageError for options that are not at their default, and not among those ``used``."""
    usual = inspect.signature(command).parameters
    refuse_idle(reason, **{
        {"score_files": "scores", "as_json": "json"}.get(name, name): True
        for name, value in given.items()
        if name not in used.split() and value != usual[name].default
    })  # fmt: skip
