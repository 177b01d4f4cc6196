"""Generators of the embedded datasets (``examples/embedded``), as tests call them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "embedded"))
from campus import campus_bytes
from make import raw_files as embedded_files

sys.path.pop(0)
__all__ = ["campus_bytes", "embedded_files"]
