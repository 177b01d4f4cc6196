"""What a run says before it starts and after it failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from private_graphs.core.files import write_text
from private_graphs.workflow.announce import INTERRUPTED, announcement, failures
from private_graphs.workflow.rules import Workflow, make_workflow

from .finished_jobs import leave_job

ASKED = {"exhibits": "lrec2022.figure2", "protocols": "paper", "datasets": "synthetic-planetoid"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)


def said(work: Workflow) -> str:
    """What is said before a run."""
    return "\n".join(announcement(work))


def test_jobs_runs_audits_and_time_are_said_with_what_the_estimate_comes_from() -> None:
    work = make_workflow({"exhibits": "lrec2022.table1,audit", "protocols": "sound", "seeds": 2})
    jobs = [job for job in work.jobs.values() if not job.attack]
    audits, runs = len(work.jobs) - len(jobs), sum(job.n_replicas for job in jobs)
    text = said(work)
    assert f"To run: {len(jobs)} jobs with {runs} runs and {audits} audits in 3 batches" in text
    assert "of one core by a rule" in text


def test_finished_jobs_are_counted() -> None:
    first = make_workflow(ASKED | {"seeds": 3})
    one, *others = first.jobs.values()
    for job in others:
        leave_job(first.folder, job)
    assert f"{len(others)} finished jobs kept" in said(make_workflow(ASKED | {"seeds": 3}))
    leave_job(first.folder, one)
    assert "To run" not in said(make_workflow(ASKED | {"seeds": 1})), "seeds are kept"


def test_a_dataset_that_a_study_leaves_to_another_one_is_named() -> None:
    work = make_workflow(
        {"scale": "full", "studies": "lrec2022,progap", "datasets": "cora,facebook-cornell5"}
    )
    assert "progap does not use cora: left out there" in said(work)


def test_failures_are_the_ends_of_the_logs_of_this_run(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    ends = {
        "good": "ran it\nfinished in 3 s\n",
        "told": "ran it\nTraceback ...\nfailed: cora: no such file\nput it there\n",
        "killed": "ran it\nprogress: 3 %\n",
        "earlier": "failed: of another run\n",
    }
    for name, text in ends.items():
        write_text(logs / "jobs" / f"{name}.log", text)
    os.utime(logs / "jobs" / "earlier.log", (1, 1))
    messages = "\n".join(failures(logs, since=2))
    assert "cora: no such file\nput it there\n(log: " in messages
    assert "the job was ended before it could say why\n(log: " in messages
    assert "another run" not in messages and "good" not in messages
    write_text(logs / "b.log", "ran it\nfailed: interrupted\n")
    assert failures(logs, since=2) == [INTERRUPTED]
