"""Every planted bug is caught by the tests and audits that are named for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
from bugs import BUGS, PAGE, ROOT, Bug, page
from lent_kernels import lend_kernels

LIMIT = 600
"""Seconds for the catchers of one bug."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_patch_fits_the_present_code(bug: Bug):
    text = (ROOT / "src" / "private_graphs" / bug.path).read_text()
    compile(bug.patched(text), bug.path, "exec")


def test_the_page_lists_every_bug_and_its_catchers():
    text = PAGE.read_text()
    assert text == page(text), "run python tests/mutants/bugs.py"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_what_is_named_catches_the_bug(bug: Bug, tmp_path, request):
    if not bug.fast and not request.config.getoption("--all-mutants"):
        pytest.skip("planted by make test-all")
    sources = tmp_path / "src"
    shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
    lend_kernels(ROOT / "src", sources)
    place = sources / "private_graphs" / bug.path
    place.write_text(bug.patched(place.read_text()))
    ended = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider",
            "--all-mutants", *bug.catchers,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )  # fmt: skip
    failed = re.findall(r"^FAILED (\S+)", ended.stdout, re.MULTILINE)
    unnoticed = [each for each in bug.catchers if not any(f.startswith(each) for f in failed)]
    assert not unnoticed, ended.stdout + ended.stderr
