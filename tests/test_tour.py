"""The tour: every command in it runs, and prints what stands below it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```\n(.*?)```", (ROOT / "docs/tour.md").read_text(encoding="utf-8"), re.S)
PROGRAMS = ("private-graphs ", "python ")
RUNS = [
    (block, BLOCKS[place + 1] if BLOCKS[place + 1 : place + 2] else "")
    for place, block in enumerate(BLOCKS)
    if block.startswith(PROGRAMS)
]


def test_every_block_is_a_command_or_what_one_prints():
    commands = [block for block in BLOCKS if block.startswith((*PROGRAMS, "make ", ". "))]
    assert len(RUNS) == 5 and len(commands) == 7
    printed = [block for block in BLOCKS if block not in commands]
    assert printed == [below for _, below in RUNS if below in printed and below]


def test_what_the_tour_starts_with_is_a_target_of_make(root):
    for block in BLOCKS:
        if block.startswith("make "):
            done = subprocess.run(["make", "-n", *block.split()[1:]], cwd=root, check=False,
                                  capture_output=True)  # fmt: skip
            assert done.returncode == 0


@pytest.mark.parametrize(("command", "below"), RUNS, ids=[run[0][:40] for run in RUNS])
def test_a_command_runs_and_prints_what_stands_below_it(command, below, root, tmp_path):
    (tmp_path / "recorded").symlink_to(root / "recorded")
    folder = Path(sys.executable).parent
    paths = os.pathsep.join([str(folder), os.environ["PATH"]])
    assert shutil.which("private-graphs", path=paths), "install the project first"
    done = subprocess.run(
        ["sh", "-e", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": paths, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert below in ("", done.stdout)
