"""Names that a user may give to a graph or to documents."""

from __future__ import annotations

import re
import unicodedata

RESERVED = frozenset("all null none true false yes no on off inf nan demo full".split())
"""Reserved names, which the command line or a configuration reads as something else."""
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


def free_name(value: str) -> str:
    """Return the name of a graph; ValueError if a command line would misread it."""
    if value in RESERVED:
        raise ValueError(f"this word means something else in commands; try {_legal_name(value)!r}")
    if not _NAME.fullmatch(value):
        raise ValueError(
            "expected lower-case letters, digits, _ and -, a letter first; try "
            f"{_legal_name(value)!r}"
        )
    return value


def _legal_name(name: str) -> str:
    """Return a valid name similar to this one."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    legal = re.sub(r"^[^a-z]+|_+$", "", re.sub(r"[^a-z0-9_-]+", "_", plain))[:80]
    return f"{legal or 'my'}_graph" if not legal or legal in RESERVED else legal
