"""Errors that a user can cause and fix."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_LONGEST_VALUE = 400
"""Characters of a wrong value that a message shows."""


class UserError(Exception):
    """Wrong data, file or state; the message says what was found, what was expected and what to do.

    The command line exits with 1.
    """


class UsageError(UserError):
    """A wrong argument or configuration value. The command line exits with 2."""


@contextmanager
def from_extra(extra: str) -> Iterator[None]:
    """Turn an ImportError into a UserError that says how to install the optional part ``extra``."""
    try:
        yield
    except ImportError as error:
        raise UserError(
            f"a library of the optional part {extra!r} cannot be imported ({error}); install it: "
            f'pip install ".[{extra}]" in a checkout, or pip install "WHEEL[{extra}]" with its file'
        ) from error


def counted(number: int, noun: str, rest: str = "") -> str:
    """Return ``1 job``, ``2,000 jobs``, ``2 batches``, ``3 links to unknown ids``."""
    plural = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{plural}{' ' if rest else ''}{rest}"


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names between commas; of more than ``most`` the first, and how many follow."""
    known = list(names)
    more = f" and {len(known) - most:,} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def suggest(name: str, choices: Iterable[str]) -> str:
    """Return ``"; did you mean 'cora'?"`` for the nearest choice, or ``""`` if none is near."""
    near = difflib.get_close_matches(
        str(name), [str(choice) for choice in choices], n=1, cutoff=0.5
    )
    return f"; did you mean {near[0]!r}?" if near else ""


def wrong_fields(
    errors: Iterable[Mapping[str, Any]], known: Iterable[str]
) -> list[tuple[str, str]]:
    """Return (key, message) of errors of pydantic; the key is empty if several fields disagree."""
    found = []
    for error in errors:
        key = ".".join(str(part) for part in error["loc"])
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            message = f"unknown key{suggest(error['loc'][-1], known)}"
        elif error["type"] == "missing":
            message = "missing; add this key"
        elif key:
            if "ge" in (bounds := error.get("ctx", {})):  # else many zeros of a small number
                message = f"should be at least {bounds['ge']:g}"
            value = error["input"]
            shown = repr(str(value) if isinstance(value, os.PathLike) else value)
            if len(shown) > _LONGEST_VALUE:
                shown = f"{shown[:_LONGEST_VALUE]}… ({len(shown):,} characters)"
            message = f"found {shown}; {message[0].lower()}{message[1:]}"
        found.append((key, message))
    return found
