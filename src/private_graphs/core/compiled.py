"""Kernels compiled by Numba: the one folder that keeps them, and the decorator that names them."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numba
from numba import njit as njit  # what kernels are marked with, once the folder is set

from private_graphs.core.errors import UserError

CALLED = tuple(f"training/{name}.py" for name in ("simd", "noise", "updates", "kernels", "roots"))
"""Files whose kernels may be called by those of another file (``tests/training`` compares)."""


def _places(name: str) -> Iterator[Path]:
    """Yield candidate folders for compiled code: next to the sources, then the user's cache."""
    yield Path(__file__).parent / "__pycache__" / name
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        base = Path(cache) if cache else Path.home() / ".cache"
    except RuntimeError:  # a user without a home directory
        return
    yield base / "private-graphs" / name


def _writable(folder: Path) -> bool:
    """Create ``folder`` and return whether it is writable; permission bits do not tell."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _compiled_code_folder() -> Path:
    """Return the folder of Numba's cache, named by a hash of the files that call each other.

    Numba checks only the file of the function that it caches, not the files of functions that it
    calls; a change in any of them must recompile. If no candidate is writable, the folder is a
    private one of this process: compiled code is executed, so no other user may place any there.

    Raises:
        UserError: no temporary folder can be created either; names NUMBA_CACHE_DIR.
    """
    package = Path(__file__).parents[1]
    content = b"".join((package / name).read_bytes() for name in CALLED)
    digest = hashlib.sha256(content).hexdigest()[:16]
    given = os.environ.get("NUMBA_CACHE_DIR")
    places = [Path(given)] if given else list(_places(f"compiled-{digest}"))
    for cache in places:
        if _writable(cache):
            return cache
    tried = " and ".join(map(str, places))
    advice = "NUMBA_CACHE_DIR=DIR names a folder that keeps them"
    try:
        temporary = Path(tempfile.mkdtemp(prefix="private-graphs-compiled-"))
    except OSError as error:
        raise UserError(
            f"compiled kernels cannot be kept in {tried}, and no temporary folder can be made "
            f"({error}); {advice}"
        ) from error
    atexit.register(_remove, temporary, os.getpid())
    print(
        f"compiling kernels for this run alone (half a minute): cannot write to {tried}; {advice}",
        file=sys.stderr,
    )
    return temporary


def _remove(folder: Path, owner: int) -> None:
    """Remove a folder when the process that created it exits, but not when its forks do."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


numba.config.CACHE_DIR = str(_compiled_code_folder())
