"""What a run says before it starts and after it failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from private_graphs.announce import announcement, failures
from private_graphs.files import MANIFEST, write_text
from private_graphs.repairs import Repairs, find_repairs
from private_graphs.verify import write_hashes
from private_graphs.workflow import Workflow, make_workflow

from .finished_jobs import leave_job

pytestmark = pytest.mark.usefixtures("hollow_results")

ASKED = {"exhibits": "lrec2022.figure2", "protocols": "paper", "datasets": "synthetic-planetoid"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)


def said(work: Workflow, needed: list[str], repairs: Repairs | None = None) -> str:
    """What is said before a run on two cores."""
    return "\n".join(announcement(work, repairs or Repairs(), needed, 2))


def leave(work: Workflow) -> None:
    """Finish all jobs of a run."""
    for job in work.jobs.values():
        manifests = work.choice(job.id)
        leave_job(work.folder, job, tuple(manifests))


def test_jobs_runs_audits_and_time_are_said_with_what_the_estimate_comes_from() -> None:
    work = make_workflow({"exhibits": "lrec2022.table1,audit", "protocols": "sound", "seeds": 2})
    text = said(work, list(work.jobs))
    jobs = work.made_by(audits=False)
    runs = sum(job.n_replicas for job in jobs)
    audits = len(work.made_by(audits=True))
    assert f"To run: {len(jobs)} jobs with {runs} runs and {audits} audits, about " in text
    assert "on 2 cores\n" in text and "by a rough rule" in text
    assert said(work, []) == ""


def test_finished_jobs_and_kept_seeds_are_counted() -> None:
    first = make_workflow(ASKED | {"seeds": 3})
    leave(first)
    for job in first.jobs.values():
        write_text(first.results / "benchmarks" / f"{job.id}.tsv", "s\n20\n")
    work = make_workflow(ASKED | {"seeds": 1})
    text = said(work, list(work.jobs)[:1])
    assert "To run: 1 job with" in text and "on 1 core" in text
    assert f"{len(first.jobs) - 1} finished jobs kept" in text
    assert f"from {len(first.jobs)} finished jobs on this machine" in text
    assert f"{len(first.jobs)} jobs keep further seeds from earlier runs" in text


def test_a_choice_made_anew_names_the_jobs_that_follow_and_those_that_are_outdated() -> None:
    leave(make_workflow(ASKED))
    work = make_workflow(ASKED | {"exhibits": "lrec2022.table1"})
    followers = sorted(work.following)
    text = said(work, followers)
    assert f"Among them: {len(followers)} jobs of B from earlier runs" in text
    chosen = work.jobs[followers[0]].chosen.job.id
    (work.folder / chosen / "runs.parquet").write_bytes(b"chosen anew")
    write_hashes(work.folder / chosen, ["runs.parquet"], [])
    apart = make_workflow(ASKED | {"exhibits": "lrec2022.table3"})
    assert "Older than the choice of their settings: " in said(apart, [])
    assert (
        "snakemake --config scale=demo datasets=synthetic-planetoid protocols=paper "
        "exhibits=lrec2022.figure2"
    ) in said(apart, [])


def test_damaged_results_are_named_with_what_happens_to_them() -> None:
    leave(make_workflow(ASKED | {"protocols": "paper,sound"}))
    work = make_workflow(ASKED)
    inside, outside = (
        next(name for name in work.finished if (name in work.jobs) == planned)
        for planned in (True, False)
    )
    for name in (inside, outside):
        (work.folder / name / "statement.json").write_text("{}")
    text = said(work, [], find_repairs(work))
    assert f"{inside}/statement.json: is not the file that was written" in text
    assert "it is made again" in text
    assert f"{outside} is left out. To run them again: snakemake --config scale=demo" in text
    (work.folder / outside / MANIFEST).unlink()
    assert outside not in said(work, [], find_repairs(work))


def test_a_dataset_that_no_study_uses_is_named() -> None:
    work = make_workflow(
        {"scale": "full", "exhibits": "lrec2022.table1", "datasets": "cora,pokec_demo"}
    )
    assert {job.dataset for job in work.jobs.values()} == {"cora"}
    assert "lrec2022 does not use pokec_demo: left out there" in said(work, [])


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
