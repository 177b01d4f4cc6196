"""Where compiled kernels are kept: where it can be written, and else nowhere but for one run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from private_graphs.core.compiled import CALLED
from private_graphs.core.imports import PACKAGE

SAY = """
import sys
sys.addaudithook(lambda name, got: CLOSED(name, got))
def CLOSED(name, got):
    path = str(got[0]) if got else ""
    writes = name == "os.mkdir" or (name == "open" and got[2] & 3)
    if writes and any(path.startswith(each) for each in sys.argv[1:]):
        raise PermissionError(13, "Permission denied", path)
import numba
import private_graphs.core.compiled
print(numba.config.CACHE_DIR)
"""
"""Prints the folder of compiled code where nothing can be written below the arguments."""


def kept_in(*closed: Path, **variables: str) -> tuple[str, str]:
    """Return the folder of compiled code, and what is said of it."""
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")} | variables  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SAY, *map(str, closed)],
        text=True, capture_output=True, env=environment,
    )  # fmt: skip
    return (done.stdout or done.stderr).strip().splitlines()[-1], done.stderr


def test_compiled_code_is_kept_in_the_first_place_that_can_be_written(root: Path, tmp_path: Path):
    home, cache = tmp_path / "home", tmp_path / "cache"
    sources = root / "src"
    assert kept_in(HOME=str(home))[0].startswith(str(sources))
    assert kept_in(sources, HOME=str(home))[0].startswith(f"{home}/.cache/private-graphs/compiled-")
    found, said = kept_in(sources, HOME=str(home), XDG_CACHE_HOME=str(cache))
    assert found.startswith(f"{cache}/private-graphs/compiled-") and said == ""
    assert kept_in(HOME=str(home), NUMBA_CACHE_DIR=str(cache))[0] == str(cache)


@pytest.mark.parametrize("given", [False, True])
def test_where_nothing_can_be_written_it_is_kept_for_one_run_and_said(
    root: Path, tmp_path: Path, given: bool
):
    home, short = tmp_path / "home", tmp_path / "short"
    short.mkdir()
    named = {"NUMBA_CACHE_DIR": str(home / "numba")} if given else {}
    found, said = kept_in(root / "src", home, HOME=str(home), TMPDIR=str(short), **named)
    assert found.startswith(f"{short}/private-graphs-compiled-")
    assert said.count("\n") == 1 and "NUMBA_CACHE_DIR" in said and str(home) in said
    assert list(short.iterdir()) == [], "it goes with the process"


def test_where_not_even_a_temporary_folder_can_be_made_the_variable_is_named(tmp_path: Path):
    _, said = kept_in(Path("/"), HOME=str(tmp_path))
    assert "UserError" in said and "NUMBA_CACHE_DIR" in said


def test_a_change_in_a_kernel_that_another_file_calls_compiles_anew():
    """Numba compares the file of a kernel alone; the others name the folder (``CALLED``)."""
    written = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    kernels = {path for path, text in written.items()
               if re.search(r"^@(njit|intrinsic)", text, re.MULTILINE)}  # fmt: skip
    called = set()
    for path in kernels:
        names = re.findall(r"^from private_graphs\.([\w.]+) import", written[path], re.MULTILINE)
        called |= {PACKAGE / f"{name.replace('.', '/')}.py" for name in names} & kernels
    assert called and called <= {PACKAGE / name for name in CALLED}
