"""Compiled kernels for a copy of the sources: compiling them takes longer than the tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from numba.core import caching

ROOMS = ("graphs", "mechanisms", "training")
"""Folders of the package that have kernels."""


def lend_kernels(sources: Path, copy: Path) -> None:
    """Take along what the folder ``src`` has compiled, if anything, to a copy that kept the times
    of its files. Numba keeps the kernels of a module in a folder named after the module's path."""
    ours, theirs = (folder / "private_graphs" for folder in (sources, copy))
    for room in ROOMS:
        source, target = (
            caching._CacheLocator.get_suitable_cache_subpath(str(folder / room / "kernels.py"))
            for folder in (ours, theirs)
        )
        for compiled in ours.glob(f"core/__pycache__/compiled-*/{source}"):
            place = theirs / "core" / "__pycache__" / compiled.parent.name / target
            shutil.copytree(compiled, place, dirs_exist_ok=True)
