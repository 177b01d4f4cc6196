"""What jobs of earlier runs mean for a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_graphs.core.manifest import MANIFEST
from private_graphs.running.jobs import Chosen, Job
from private_graphs.workflow.kept import finished_jobs, followers, linked, widened

from .finished_jobs import leave_job

CHOICE = Job(study="s", group="table", name="d/raw/m", dataset="d", method="m", scenario="nodes",
             epsilons=(2,), seeds=(0, 1), choose={"rate": (1, 10)})  # fmt: skip
FOLLOWER = CHOICE.model_copy(
    update={
        "group": "figure", "epsilons": (5.0,), "seeds": (0, 1, 2),
        "chosen": Chosen(job=CHOICE, epsilon=2),
    }
)  # fmt: skip


def test_a_run_for_some_budgets_never_loses_finished_ones() -> None:
    every = CHOICE.model_copy(update={"epsilons": (1.0, 2.0, 5.0), "seeds": (0, 1, 2)})
    some = CHOICE.model_copy(update={"epsilons": (2.0,)})
    assert widened(some, every, budgets=True) == every
    assert widened(every, some, budgets=True).epsilons == (2.0, 1.0, 5.0)
    assert widened(some, every) == some, "where a run asks for all, those of the study alone"


def with_seeds(job: Job, *seeds: int) -> Job:
    """The job with other seeds."""
    return job.model_copy(update={"seeds": seeds})


def test_a_job_never_loses_finished_seeds() -> None:
    assert widened(CHOICE, None) == CHOICE
    assert widened(CHOICE, with_seeds(CHOICE, 0, 1, 5)).seeds == (0, 1, 5)
    assert widened(with_seeds(CHOICE, 0, 9), CHOICE).seeds == (0, 1, 9)
    other = CHOICE.model_copy(update={"settings": {"epochs": 7}})
    assert widened(other, with_seeds(CHOICE, 5)) == other, "other settings: made again"
    more = FOLLOWER.model_copy(
        update={"chosen": Chosen(job=with_seeds(CHOICE, 0, 1, 2, 3), epsilon=2)}
    )
    assert widened(with_seeds(FOLLOWER, 7), more).seeds == (0, 1, 2, 7), "seeds of the choice vary"
    elsewhere = FOLLOWER.model_copy(update={"chosen": Chosen(job=CHOICE, epsilon=5)})
    assert widened(elsewhere, FOLLOWER) == elsewhere


def test_a_choice_is_planned_with_the_seeds_that_its_job_has() -> None:
    wider = with_seeds(CHOICE, 0, 1, 2, 3)
    assert linked(FOLLOWER, {wider.id: wider}).chosen.job == wider
    assert linked(FOLLOWER, {}) == FOLLOWER and linked(CHOICE, {wider.id: wider}) == CHOICE


def test_earlier_jobs_follow_the_job_in_which_their_settings_are_chosen() -> None:
    wider = with_seeds(CHOICE, 0, 1, 2, 3)
    finished = {job.id: job for job in (CHOICE, FOLLOWER)}
    (found,) = followers({wider.id: wider}, finished, {"s"}).values()
    assert found.id == FOLLOWER.id and found.seeds == FOLLOWER.seeds, "its own"
    assert found.chosen.job == wider
    assert followers({}, finished, {"s"}) == {}
    assert followers({wider.id: wider}, finished, {"another"}) == {}
    both = {wider.id: wider, FOLLOWER.id: FOLLOWER}
    assert followers(both, finished, {"s"}) == {}, "the run has it"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """The jobs folder of a scale with a choice and a job that follows it."""
    leave_job(tmp_path, CHOICE)
    leave_job(tmp_path, FOLLOWER, ((tmp_path / CHOICE.id / MANIFEST).as_posix(),))
    return tmp_path


def test_finished_jobs_are_those_with_a_manifest_in_the_folder_of_their_name(jobs: Path) -> None:
    assert finished_jobs(jobs) == {job.id: job for job in (CHOICE, FOLLOWER)}
    (jobs / CHOICE.id / MANIFEST).unlink()
    assert set(finished_jobs(jobs)) == {FOLLOWER.id}
    (jobs / FOLLOWER.id / "job.json").write_text(CHOICE.model_dump_json())
    assert finished_jobs(jobs) == {}, "the plan of another job"
