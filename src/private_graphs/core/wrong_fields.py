"""Errors of pydantic in words: which key is wrong, what was found, and what was expected."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from private_graphs.core.errors import suggest

_LONGEST_VALUE = 400
"""Characters of a wrong value that a message shows."""


def wrong_fields(
    errors: Iterable[Mapping[str, Any]], known: Iterable[str]
) -> list[tuple[str, str]]:
    """Return (key, message) of errors of pydantic; the key is empty if several fields disagree."""
    messages = []
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
            text = repr(str(value) if isinstance(value, os.PathLike) else value)
            if len(text) > _LONGEST_VALUE:
                text = f"{text[:_LONGEST_VALUE]}… ({len(text):,} characters)"
            message = f"found {text}; {message[0].lower()}{message[1:]}"
        messages.append((key, message))
    return messages
