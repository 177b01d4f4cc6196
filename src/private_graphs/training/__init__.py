"""The batched engine: random streams, visits, per-part gradients, DP steps, scores."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numba


def _compiled_code_folder() -> Path:
    """Folder of Numba's cache, named after every file that holds compiled code.

    Numba watches only the file of the function it caches, not those of the functions that this
    one calls; a change in any of them has to compile anew.
    """
    folder = Path(__file__).parent
    files = [
        folder / name for name in ("simd.py", "noise.py", "updates.py", "kernels.py", "roots.py")
    ]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    cache = folder / "__pycache__"
    writable = os.access(cache if cache.exists() else folder, os.W_OK)
    base = cache if writable else Path.home() / ".cache" / "private-graphs"
    return base / f"compiled-{digest}"


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_compiled_code_folder())
