"""Identifiers of tests: the same at every time, in every process, at every place.

Workers of one run collect each for itself; where they name one test in two ways, the run ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

LATER = """
import time
from functools import partial

DAYS = 400


def shifted(clock, by):
    return clock() + by


time.time = partial(shifted, time.time, DAYS * 86_400)
time.time_ns = partial(shifted, time.time_ns, DAYS * 86_400 * 10**9)
"""
"""A sitecustomize module: the process lives 400 days later."""


def collect(
    arguments: list[str], folder: Path, *, hash_seed: int, later: Path | None = None
) -> list[str]:
    """Return the identifiers that a new process in ``folder`` collects, in their order.

    ``later`` is a folder with the module that shifts the clock of that process.
    """
    paths = [str(later)] if later else []
    environment = os.environ | {
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": os.pathsep.join(paths + [os.environ.get("PYTHONPATH", "")]).strip(os.pathsep),
    }
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]  # of the worker that runs this test
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p",
         "no:cacheprovider", *arguments],
        text=True, capture_output=True, env=environment, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture
def later(tmp_path: Path) -> Path:
    folder = tmp_path / "later"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(LATER)
    return folder


def differences(first: list[str], second: list[str]) -> list[tuple[str, str]]:
    """Return the pairs of identifiers that stand at one place and are not the same."""
    return [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]


def test_identifiers_depend_on_no_clock_no_hash_seed_and_no_path(
    request: pytest.FixtureRequest, root: Path, later: Path
) -> None:
    items = request.session.items
    if {item.path for item in items} >= set((root / "tests").rglob("test_*.py")):
        arguments = request.config.args  # the whole suite: what this process collected is one
        first = [item.nodeid for item in items]
    else:
        arguments = ["tests"]
        first = collect(arguments, root, hash_seed=1)
    assert differences(first, collect(arguments, root, hash_seed=2, later=later)) == []
    for place in (root, Path(tempfile.gettempdir()), Path.home()):
        assert not [name for name in first if str(place) in name], place


@pytest.mark.parametrize("values", ["set('abcdefghij')", "[gzip.compress(b'').hex()]"])
def test_a_test_named_by_the_clock_or_in_the_order_of_a_set_is_found(
    values: str, later: Path, tmp_path: Path
) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "test_planted.py").write_text(
        "import gzip\nimport pytest\n\n\n"
        f"@pytest.mark.parametrize('value', {values})\n"
        "def test_planted(value):\n    pass\n"
    )
    first = collect([], planted, hash_seed=1)
    assert differences(first, collect([], planted, hash_seed=2, later=later))
