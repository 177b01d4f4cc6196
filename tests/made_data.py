"""Generators of the embedded datasets (``examples/embedded``), and objects whose pickle is code."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "embedded"))
from campus import campus_bytes
from make import raw_files as embedded_files

sys.path.pop(0)
__all__ = ["Call", "campus_bytes", "embedded_files"]


class Call:
    """Unpickled, it calls a function."""

    def __init__(self, function, *given) -> None:
        self.reduced = (function, given)

    def __reduce__(self):
        return self.reduced
