"""Errors that a user can cause and fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Wrong data, file or state; the message says what was found, what was expected and what to do.

    The command line exits with 1.
    """


class UsageError(UserError):
    """A wrong argument or configuration value. The command line exits with 2."""


def suggest(name: str, choices: Iterable[str]) -> str:
    """Return ``"; did you mean 'cora'?"`` for the nearest choice, or ``""`` if none is near."""
    near = difflib.get_close_matches(
        str(name), [str(choice) for choice in choices], n=1, cutoff=0.5
    )
    return f"; did you mean {near[0]!r}?" if near else ""
