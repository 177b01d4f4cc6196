"""The estimate of the time that training takes, as a run prints it."""

from __future__ import annotations

import re

from .conftest import FirstRun, Project

ANNOUNCED = r"^Training: (.+), about (\d+ s|\d+ min|[\d.]+ h) on .*\nThe time is estimated (.+)\.$"


def test_a_dry_run_tells_jobs_and_time_from_a_probe_where_nothing_has_finished(project: Project):
    printed = project.snakemake("--dry-run", "--config", "experiments=table1").stdout
    (found,) = re.findall(ANNOUNCED, printed, flags=re.MULTILINE)
    assert found[0] == "2 jobs with 4 runs"
    assert "from figures of a reference machine" in found[2]


def test_later_runs_are_estimated_from_the_finished_jobs(finished: Project, first_run: FirstRun):
    assert len(re.findall(ANNOUNCED, first_run.result.stdout, flags=re.MULTILINE)) == 1
    printed = finished.snakemake("--dry-run", "--config", "protocols=all").stdout
    (found,) = re.findall(ANNOUNCED, printed, flags=re.MULTILINE)
    assert re.fullmatch(r"from \d+ finished jobs on this machine", found[2])
