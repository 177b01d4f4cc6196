"""The estimate against jobs that finished, on this machine and on others."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from private_graphs.cost import model
from private_graphs.cost.finished import TIMES_FILE, Finished
from private_graphs.cost.model import CostModel, duration_on, fit, machine_model, read_reference
from private_graphs.cost.probe import machine_words, probe_seconds
from private_graphs.cost.work import KINDS
from private_graphs.errors import UserError

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PUBLISHED = sorted(path.parent.name for path in RESULTS.glob(f"*/{TIMES_FILE}"))


def total(jobs: list[Finished], estimator: CostModel) -> float:
    """Predicted over measured seconds of whole jobs together."""
    known = [job for job in jobs if job.job_seconds is not None]
    measured = sum(job.job_seconds for job in known)
    return sum(estimator.seconds_of(job.task) for job in known) / measured


def slower(jobs: list[Finished], factor: float) -> list[Finished]:
    return [
        replace(
            job, training_seconds=job.training_seconds * factor,
            job_seconds=job.job_seconds * factor,
        )
        for job in jobs
    ]  # fmt: skip


def test_the_shipped_figures_are_of_the_engine_that_made_the_published_runs(measured):
    assert 1 / 1.5 < total(measured, read_reference().model) < 1.5


@pytest.mark.parametrize("factor", [1 / 3, 3])
@pytest.mark.parametrize("number", [3, 8])
def test_a_few_jobs_tell_how_fast_a_machine_is(measured, factor, number):
    timed = [job for job in measured if job.job_seconds is not None]
    other = slower(timed, factor)
    shuffled = random.Random(1).sample(range(len(other)), len(other))
    fitted = fit([other[index] for index in shuffled[:number]], read_reference().model)
    assert 1 / 1.5 < total(other, fitted) < 1.5


def test_a_job_that_compiled_first_hardly_moves_the_estimate(measured):
    timed = [job for job in measured if job.job_seconds is not None]
    odd = replace(timed[0], job_seconds=timed[0].job_seconds + 60)
    start = read_reference().model
    before, after = fit(timed, start), fit([odd, *timed[1:]], start)
    assert after.coefficients["job"] < 1.3 * before.coefficients["job"]


def test_coefficients_are_never_negative(measured):
    fitted = fit(random.Random(3).sample(measured, 4), read_reference().model)
    assert min(fitted.coefficients[kind] for kind in KINDS) >= 0


def test_jobs_without_any_time_are_refused(measured):
    untimed = [replace(job, training_seconds=None, job_seconds=None) for job in measured]
    with pytest.raises(UserError, match="no finished job has a time"):
        fit(untimed, read_reference().model)


def test_epochs_until_runs_stop_come_from_the_nearest_runs():
    known = CostModel({}, {"adam/paper/full": 90.0, "adam/sound/full": 110.0}, "")
    assert known.epochs_of("adam/paper/full") == 90
    assert known.epochs_of("adam/released/full") == 100
    assert known.epochs_of("adam/released/split") == 100
    assert known.epochs_of("sgd/paper/full") == math.inf


def test_where_no_run_stopped_none_is_expected_to(measured):
    stopping = fit(measured, read_reference().model).stopping_epochs
    assert stopping["sgd/paper/full"] == math.inf
    assert 20 < stopping["adam/paper/full"] < 500


def test_finished_jobs_of_the_machine_are_used_and_named(tmp_path, finished_job):
    finished_job(tmp_path, "sgd/paper/s1/f1")
    finished_job(tmp_path, "sgd/sound/s1/f1", protocol="sound")
    machine_model.cache_clear()
    assert machine_model(tmp_path).source == "from 2 finished jobs on this machine"


def test_without_finished_jobs_a_probe_scales_the_shipped_figures(tmp_path, monkeypatch):
    reference = read_reference()
    monkeypatch.setattr(model, "probe_seconds", lambda: 2 * reference.probe)
    found = machine_model(tmp_path)
    assert found.coefficients["job"] == 2 * reference.model.coefficients["job"]
    assert "reference machine, times 2 by a short probe" in found.source


def test_the_probe_takes_less_than_a_second():
    probe_seconds()  # imports scipy
    started = time.perf_counter()
    assert 1e-5 < probe_seconds() < 0.1
    assert time.perf_counter() - started < 1
    assert "core" in machine_words()


def test_jobs_fill_the_cores_in_turn():
    assert duration_on([3, 1, 1, 1], 2) == 3
    assert duration_on([1, 1, 1], 2) == 2
    assert duration_on([4, 1], 8) == 4
