"""Students of PATE through the runner: same labels for all, stages that are shared, statements."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_mlp_records import images

from private_graphs.core.errors import UserError
from private_graphs.running.jobs import Job
from private_graphs.running.run import execute
from private_graphs.running.study import Run, group_jobs, load_study

DATASET = images(300, seed=2)
SETTINGS = {
    "teachers": 20, "teacher_network": "softmax", "teacher_epochs": 30, "teacher_rate": 0.03,
    "threshold": 10, "check_noise": 5, "queries": 18, "answers": 12, "network": "mlp",
    "epochs": 4, "batch": 5, "learning_rate": 0.01,
}  # fmt: skip
FRAMEWORKS = ("pate", "pate_coteaching", "pate_plus", "pate_plus_plus")


def job(method: str, epsilons=(30.0,), **settings) -> Job:
    return Job(
        study="pate", group="group", name="name", dataset="quarters", scenario="records",
        method=method, epsilons=epsilons, seeds=(0, 1), settings=SETTINGS | settings,
    )  # fmt: skip


@pytest.fixture(scope="module")
def stages():
    teachers = execute(job("pate_labels", (math.inf,)), DATASET)
    labels = execute(job("pate_labels"), DATASET, artifacts={"teachers": teachers.artifacts})
    needs = {"labels": labels.artifacts}
    students = {}
    for framework in FRAMEWORKS:
        small = {"generator": 10} | ({"tau": 0.4} if framework == "pate_plus_plus" else {})
        made = job("pate_student", framework=framework, **small)
        students[framework] = execute(made, DATASET, artifacts=needs)
    return teachers, labels, needs, students


def test_all_frameworks_learn_from_the_same_labels_at_the_same_price(stages):
    _, labels, _, students = stages
    for result in students.values():
        for column in ("labels", "label_accuracy", "epsilon_proved", "noise_multiplier"):
            assert result.rows[column].tolist() == labels.rows[column].tolist()
        assert (result.rows["unit"] == "record").all()
        assert result.rows["epsilon_proved"].between(29.9, 30).all()


def test_labels_are_those_of_the_teachers_that_were_trained_before(stages):
    teachers, labels, _, _ = stages
    names = {name.split("/", 1)[1] for name in teachers.artifacts}
    assert names == {"seed0/votes", "seed1/votes"}
    for votes in teachers.artifacts.values():
        assert votes.shape == (20, 4) and (votes.sum(1) == 20).all()
    assert teachers.rows["test_accuracy"].min() > 0.8
    assert set(teachers.rows["status"]) == {"not_private"}
    kept = {name.split("/", 1)[1]: array for name, array in labels.artifacts.items()}
    found = kept["seed0/epsilon30/labels"]
    assert (found[18:] == -1).all() and 0 < (found >= 0).sum() <= 12


def test_the_first_training_of_plus_plus_is_that_of_plus(stages):
    *_, needs, students = stages
    counts = {"first": students["pate_plus"].artifacts}
    made = job("pate_student", framework="pate_plus_plus", tau=0.4, generator=10)
    shared = execute(made, DATASET, artifacts=needs | counts)
    alone = students["pate_plus_plus"]
    assert np.array_equal(shared.test_predictions, alone.test_predictions)
    assert shared.rows["curve"].tolist() == alone.rows["curve"].tolist()
    removed = alone.rows["removed"]
    assert (removed == np.floor(0.4 * alone.rows["labels"] + 0.5)).all()


def test_a_stage_without_the_seed_is_an_error_and_not_trained_again(stages):
    teachers = stages[0].artifacts
    some = {name: array for name, array in teachers.items() if "seed1" not in name}
    with pytest.raises(UserError, match="no seed1/votes"):
        execute(job("pate_labels"), DATASET, artifacts={"teachers": some})


@pytest.mark.parametrize("change", [{"delta": 1e-3}, {"settings": SETTINGS | {"answers": 6}}])
def test_labels_that_were_released_at_another_price_are_refused(stages, change):
    other = job("pate_labels").model_copy(update=change)
    labels = execute(other, DATASET, artifacts={"teachers": stages[0].artifacts})
    with pytest.raises(UserError, match="priced for"):
        execute(job("pate_student"), DATASET, artifacts={"labels": labels.artifacts})


@pytest.mark.parametrize("scale", ["demo", "reduced", "full"])
def test_every_job_finds_the_stages_that_it_needs(scale):
    study = load_study("pate", scale)
    jobs = {job.id: job for group in study.groups for job in group_jobs(study, group, Run())}
    for each in jobs.values():
        for stage, needed in each.needs.items():
            assert jobs[needed].dataset == each.dataset
            assert set(each.seeds) <= set(jobs[needed].seeds)
            if stage != "teachers":
                assert jobs[needed].protocol == each.protocol
                assert set(each.epsilons) <= set(jobs[needed].epsilons)
                shared = set(jobs[needed].settings) - {"framework", "epochs", "generator"}
                mine, theirs = each.settings, jobs[needed].settings
                assert all(mine[name] == theirs[name] for name in shared), each.id
