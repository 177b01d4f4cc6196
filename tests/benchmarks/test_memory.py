"""The memory of jobs is predicted within a factor of 1.5, on the safe side."""

from __future__ import annotations

import subprocess
import sys

import memory

from private_graphs.memory import megabytes


def test_predictions_are_those_of_the_page_and_near_what_was_measured(root):
    page = (root / "docs" / "cluster.md").read_text(encoding="utf-8")
    _, _, *lines = memory.table([1000] * len(memory.JOBS)).splitlines()
    shown = page.split("<!-- begin: memory -->\n")[1].split("\n<!-- end")[0].splitlines()[2:]
    assert len(shown) == len(lines)
    for now, then in zip(lines, shown, strict=True):
        *told, _, predicted, _ = now.strip("|").split("|")
        assert then.strip("|").split("|")[:-3] == told and then.split("|")[-3] == predicted
        assert 1 <= float(then.split("|")[-2]) <= 1.5, then


def test_a_small_job_takes_about_what_is_predicted(tmp_path):
    names = [(each.dataset, each.method) for each in memory.JOBS]
    number = names.index(("synthetic-planetoid", "dp_linear"))
    done = subprocess.run(
        [sys.executable, memory.__file__, "--one", str(number), "--data", tmp_path],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert 1 <= megabytes(memory.JOBS[number]) / int(done.stdout) <= 1.5
