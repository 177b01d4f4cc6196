"""``private-graphs rerun``: recorded jobs computed again, compared row by row."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from operator import add
from pathlib import Path

import pytest
from command_line import refused

from private_graphs.datasets.registry import build
from private_graphs.running.run import execute
from private_graphs.running.study import Run, group_jobs, load_study
from private_graphs.site.record import read_recorded, record
from private_graphs.workflow.rerun import drawn
from private_graphs.workflow.verify import finish

GRAPH = "synthetic-planetoid"
LINEAR = f"lrec2022/frontier/{GRAPH}/raw/dp_linear/text/sound"
PUBLIC = f"lrec2022/frontier/{GRAPH}/raw/public_only/graph/sound"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with the recorded results of two jobs of a study's plan, and their raw files."""
    base = tmp_path_factory.mktemp("made")
    graph = build(GRAPH, base / "data" / "raw")
    run = Run(scale="full", datasets=(GRAPH,), seeds=(0, 1))
    planned = {job.id: job for job in group_jobs(load_study("lrec2022"), "frontier", run)}
    for name in (LINEAR, PUBLIC):
        folder = base / "full" / "jobs" / name
        execute(planned[name], graph).save(folder)
        finish(folder, planned[name], ())
    record(base / "full", base / "recorded", machine="another machine")
    return base


@pytest.fixture
def rerun(run, made):
    """Call ``rerun`` on what is recorded."""
    return partial(run, "rerun", "--recorded", made / "recorded", "--data", made / "data" / "raw")


@pytest.fixture
def changed(made):
    """Change a column of the recorded rows of a job; what is recorded is put back afterwards."""
    folder = made / "recorded" / "lrec2022"
    before = read_recorded(folder)

    def change(method: str, **columns: object) -> None:
        rows = before.rows.copy()
        for name, value in columns.items():
            now = value(rows[name]) if callable(value) else value
            rows[name] = rows[name].where(rows["method"] != method, now)
        replace(before, rows=rows).save(folder)

    yield change
    before.save(folder)


@pytest.mark.long
def test_a_job_computed_again_is_equal_in_every_row(rerun):
    answer = rerun(LINEAR, "--json")
    [job] = answer.json["jobs"]
    assert answer.code == 0, answer.err
    assert (job["job"], job["verdict"], job["rows"], job["equal"]) == (LINEAR, "equal", 32, 32)
    assert job["test_difference"] == job["predictions"] == 0 and not job["differing"]
    assert answer.json["recorded_machines"] == ["another machine"] and answer.json["machine"]
    assert f"[1/1] {LINEAR}" in answer.err
    some = rerun(LINEAR, "--seeds", 1)
    assert some.code == 0 and some.out.count("seed 1: equal") == 16 and "seed 0" not in some.out
    free = rerun(PUBLIC)
    assert free.code == 0 and free.out.startswith(PUBLIC) and "differs" not in free.out
    both = rerun("lrec2022/frontier", "--seeds", 1)
    assert both.code == 0 and "[2/2]" in both.err and both.out.splitlines()[-1].startswith("rows: ")


def test_a_score_that_cannot_be_made_again_is_named_and_ends_with_exit_code_1(rerun, changed):
    changed("dp_linear", test_micro_f1=partial(add, 0.02))
    answer = rerun(LINEAR, "--seeds", 1)
    assert answer.code == 1 and LINEAR in answer.err and "differ by more" in answer.err
    assert answer.out.count("differs  epsilon") == 16 and "test_micro_f1 by 0.02" in answer.out
    changed("dp_linear", test_micro_f1=partial(add, 0.005))
    answer = rerun(LINEAR, "--seeds", 1, "--json")
    assert answer.code == 0 and answer.json["jobs"][0]["verdict"] == "within"
    assert answer.json["jobs"][0]["test_difference"] == pytest.approx(0.005)


@pytest.mark.parametrize(
    "key, factor, verdict",
    [
        ("learning_rate", 1.001, "within"),
        ("learning_rate", 1.005, "differs"),
        ("count", 2, "differs"),
    ],
)
def test_a_fitted_setting_may_differ_by_rounding(rerun, changed, key, factor, verdict):
    """Machines round sums differently; a setting that was chosen differs by more, or is a count."""

    def apart(text: str) -> str:
        settings = json.loads(text)
        return json.dumps(settings | {key: settings.get(key, 0) * factor})

    changed("dp_linear", settings=lambda texts: texts.map(apart))
    answer = rerun(LINEAR, "--seeds", 1, "--json")
    assert answer.json["jobs"][0]["verdict"] == verdict
    assert all(
        f"settings {key} " in words for words in answer.json["jobs"][0]["differing"].values()
    )


def test_other_draws_are_a_difference(rerun, changed):
    changed("dp_linear", replica_id=lambda names: names.str[::-1])
    answer = rerun(LINEAR, "--seeds", 1)
    assert answer.code == 1 and answer.out.count("differs  epsilon") == 16
    assert answer.out.count("not computed: its draws, which depend on the data") == 16


def test_rows_of_a_gpu_are_named_and_not_judged(rerun, changed):
    changed("dp_linear", test_micro_f1=partial(add, 0.02), device="cuda")
    answer = rerun(LINEAR, "--seeds", 1)
    assert answer.code == 0 and answer.out.count("not judged") == 16
    assert answer.out.count("recorded on a GPU") == 16


def test_what_is_not_recorded_is_refused_with_a_near_name(rerun):
    refused(rerun(LINEAR.replace("linear", "linaer")), 2, "not recorded", "did you mean", LINEAR)
    refused(rerun("lrec2022/frontir"), 2, "did you mean 'lrec2022/frontier'")
    refused(rerun(LINEAR, "--seeds", "1,5"), 2, "--seeds is 1,5: 5 is recorded for none")
    refused(rerun(), 2, "--sample")
    for option, value in (("--minutes", 5), ("--seed", 3)):
        refused(rerun(LINEAR, option, value), 2, f"{option}: has no effect: no --sample")
    refused(rerun("--sample", 1, "--minutes", 0.0001), 2, "--minutes", "shortest")


def test_a_sample_is_drawn_within_its_time_by_its_seed(rerun):
    answer = rerun("--sample", 1, "--minutes", 5, "--json")
    assert answer.code == 0 and len(answer.json["jobs"]) == 1
    run = Run(scale="full", datasets=("cora",))
    jobs = group_jobs(load_study("lrec2022"), "frontier", run)
    seconds = {job.id: 10.0 * place for place, job in enumerate(jobs)}
    samples = [drawn(jobs, 5, 1, seconds, seed) for seed in range(30)]
    assert all(sum(seconds[job.id] for job in each) <= 60 for each in samples)
    assert all(len({job.id for job in each}) == len(each) <= 5 for each in samples)
    assert samples[3] == drawn(jobs, 5, 1, seconds, 3)
    names = {job.id for each in samples for job in each}
    assert names == {name for name, each in seconds.items() if each <= 60}
