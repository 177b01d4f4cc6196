"""Times of finished jobs: what is read, what is ignored, what is published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from private_graphs.cost.finished import read_results, read_times, write_times
from private_graphs.errors import UserError


def test_a_finished_job_is_read_with_its_epochs_and_times(tmp_path, finished_job):
    finished_job(tmp_path)
    (job,) = read_results(tmp_path)
    task = job.task
    assert (task.private_runs, task.private_epochs) == (2, 200)
    assert (task.non_private_runs, task.non_private_epochs) == (2, 100)
    assert (task.dataset, task.optimizer, task.splits, task.hidden) == ("cora", "sgd", 1, 32)
    assert (job.experiment, job.training_seconds, job.job_seconds) == ("table1", 4.0, 9.5)


@pytest.mark.parametrize("wall", [None, "", "-", "nan", "inf", "-3", "0", "3.5"], ids=str)
def test_a_benchmark_file_that_makes_no_sense_leaves_the_training_time(
    tmp_path, finished_job, wall
):
    """3.5 s is less than the training took: the file is of another job."""
    finished_job(tmp_path, wall=wall)
    (job,) = read_results(tmp_path)
    assert (job.training_seconds, job.job_seconds) == (4.0, None)


@pytest.mark.parametrize("file", ["runs.parquet", "plan.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"PAR1 and rubbish", b"[]", b"\xff\xfe"])
def test_a_job_with_a_broken_file_is_ignored_and_the_others_are_read(
    tmp_path, finished_job, file, content
):
    folder = finished_job(tmp_path, "sgd/paper/s1/f1")
    finished_job(tmp_path, "sgd/sound/s1/f1")
    (folder / file).write_bytes(content)
    assert len(read_results(tmp_path)) == 1


def test_jobs_that_ran_elsewhere_than_on_a_processor_are_ignored(tmp_path, finished_job):
    finished_job(tmp_path, device="cuda")
    assert read_results(tmp_path) == []


def test_a_folder_without_results_has_no_jobs(tmp_path):
    assert read_results(tmp_path / "none") == []


def test_times_survive_being_written_and_read(tmp_path, measured):
    write_times(measured, tmp_path / "times.csv")
    assert sorted(map(repr, read_times(tmp_path / "times.csv"))) == sorted(map(repr, measured))


def test_times_that_are_secret_are_not_published(tmp_path, finished_job):
    """Under Poisson visits the time tells which parts were drawn (docs/privacy.md §0.2)."""
    finished_job(tmp_path, seconds=None, visits="poisson", protocol="sound", n_splits=10)
    (job,) = read_results(tmp_path)
    assert (job.training_seconds, job.job_seconds) == (None, 9.5)
    write_times([job], tmp_path / "times.csv")
    (kept,) = read_times(tmp_path / "times.csv")
    assert kept == replace(job, job_seconds=None)


def test_times_of_users_own_data_are_not_even_read(tmp_path, finished_job):
    finished_job(tmp_path, noise_source="os_entropy")
    (job,) = read_results(tmp_path)
    assert (job.training_seconds, job.job_seconds) == (None, None)


def test_a_line_of_times_that_is_none_is_named(tmp_path, measured):
    path = tmp_path / "times.csv"
    write_times(measured[:1], path)
    path.write_text(path.read_text().replace(",float32,", ",float32,many"), encoding="utf-8")
    with pytest.raises(UserError, match=r"times\.csv: line 2: expected the times of one job"):
        read_times(path)
