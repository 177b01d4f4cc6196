"""Compiled kernels for a copy of the sources: compiling them takes longer than the tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from numba.core import caching


def lend_kernels(sources: Path, copy: Path) -> None:
    """Take along what the folder ``src`` has compiled, if anything, to a copy that kept the times
    of its files. Numba keeps the kernels of a module in a folder named after the module's path."""
    ours, theirs = (each / "private_graphs" / "training" for each in (sources, copy))
    named = [caching._CacheLocator.get_suitable_cache_subpath(str(each / "kernels.py"))
             for each in (ours, theirs)]  # fmt: skip
    for folder in ours.glob(f"__pycache__/compiled-*/{named[0]}"):
        target = theirs / "__pycache__" / folder.parent.name / named[1]
        shutil.copytree(folder, target, dirs_exist_ok=True)
