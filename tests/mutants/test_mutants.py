"""Every planted bug, and every removed guard, is caught by the tests that are named for it."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bugs import BUGS, PAGE, ROOT, TABLE, Bug, page, table
from guards import GUARDS
from lent_kernels import lend_kernels

LIMIT = 600
"""Seconds for the catchers of one bug."""
PATCHED = ("src", "tests", "workflow")
"""Folders of which a planted project has a copy; it shares all others."""


@pytest.mark.parametrize("bug", BUGS + GUARDS, ids=lambda bug: bug.name)
def test_the_patch_fits_the_present_code(bug: Bug):
    text = bug.patched((ROOT / bug.folder / bug.path).read_text())
    compile(text, bug.path, "exec")


def test_the_page_lists_every_bug_and_its_catchers():
    text = PAGE.read_text()
    assert text == page(text), "run python tests/mutants/bugs.py"
    assert TABLE.read_text() == table(), "run python tests/mutants/bugs.py"


def test_every_fault_has_a_guard_and_a_test_that_exists():
    with open(ROOT / "docs" / "faults.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["fault"] and row["what happens"] for row in rows)
    named = [(row["fault"], (row["test"],)) for row in rows]
    assert named == list(dict.fromkeys((guard.words, guard.catchers) for guard in GUARDS))
    for _, [catcher] in named:
        path, _, name = catcher.partition("::")
        assert f"\ndef {name}(" in (ROOT / path).read_text(), catcher


def planted(bug: Bug, project: Path) -> Path:
    """Return a copy of the project with a bug."""
    project.mkdir()
    for each in ROOT.iterdir():
        if each.name in PATCHED:
            ignored = shutil.ignore_patterns("compiled-*")  # bytecode is valid: times are kept
            shutil.copytree(each, project / each.name, ignore=ignored)
        elif not each.name.startswith(".") and each.name not in ("results", "build"):
            (project / each.name).symlink_to(each)
    lend_kernels(ROOT / "src", project / "src")
    place = project / bug.folder / bug.path
    place.write_text(bug.patched(place.read_text()))
    return project


def assert_caught(bug: Bug, folder: Path) -> None:
    """Plant a bug, and fail unless every catcher fails."""
    project = planted(bug, folder / "project")
    mirror = os.environ.get("PRIVATE_GRAPHS_MIRROR", str(ROOT.parent / "shared" / "data"))
    ended = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider",
            "--all-mutants", "--long", *bug.catchers,
        ],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "src"), "OMP_NUM_THREADS": "1",
             "PRIVATE_GRAPHS_MIRROR": mirror},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )  # fmt: skip
    print(ended.stdout + ended.stderr)
    if re.search(r"^\d+ skipped in", ended.stdout, re.MULTILINE):
        pytest.skip("its tests cannot run here")
    failed = re.findall(r"^FAILED (\S+)", ended.stdout, re.MULTILINE)
    unnoticed = [each for each in bug.catchers if not any(f.startswith(each) for f in failed)]
    assert not unnoticed


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_what_is_named_catches_the_bug(bug: Bug, tmp_path, request):
    if not bug.fast and not request.config.getoption("--all-mutants"):
        pytest.skip("planted by make test-all")
    assert_caught(bug, tmp_path)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_fault_is_noticed_where_its_guard_is_removed(guard: Bug, tmp_path, request):
    if not request.config.getoption("--all-mutants"):
        pytest.skip("removed by make test-all")
    assert_caught(guard, tmp_path)
