"""One job, one number: the runs of equal jobs count together wherever their score is shown."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from golden import blocks_of, results

from private_graphs.methods import method_named
from private_graphs.report.equal_jobs import JOB_NUMBER, RUN_NUMBER, number_jobs
from private_graphs.report.words import POOLED_WITH, score
from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.exhibit import Chart, Table
from private_graphs.running.jobs import Job
from private_graphs.running.plan import Plan
from private_graphs.running.study import Run, load_study, study_ids

SCORES = ("test_micro_f1", "test_accuracy")


def identity(job: Job, *without: str) -> dict[str, Any]:
    """Return all of a job's identity but its names, its seeds and the fields ``without``."""
    settings = method_named(job.method).settings.model_validate(job.settings)
    fields = job.model_dump(mode="json", exclude={"study", "group", "name", "seeds", *without})
    chosen = job.chosen and (job.chosen.job.id, job.chosen.epsilon)
    return fields | {"settings": settings.model_dump(mode="json"), "chosen": chosen}


def identity_at(job: Job, epsilon: float) -> str:
    """Return the same of its runs at one ε, with all public labels."""
    fields = identity(job, "epsilons", "validation_labels", "validation_epsilons", "choose")
    chosen = None if math.isinf(epsilon) else fields["chosen"]
    compared = len(job.candidates(epsilon))
    return json.dumps(fields | {"chosen": chosen, "compared": compared}, sort_keys=True)


def test_equal_jobs_of_a_whole_plan_are_recorded_each():
    """A new job that repeats another one costs hours and says nothing: the first one serves."""
    made = ",".join(f"{study}.{name}" for study in study_ids() for name in exhibits_by_name(study))
    plan = Plan(Run.parse({"scale": "full", "studies": "all", "exhibits": made}))
    recorded = set()
    for path in (Path(__file__).parents[2] / "recorded").glob("*/rows.parquet"):
        rows = pd.read_parquet(path, columns=["study", "group", "job"])
        recorded |= set(rows["study"] + "/" + rows["group"] + "/" + rows["job"])
    equal = defaultdict(list)
    for job in plan.jobs:
        if job.kind == "run":
            equal[json.dumps(identity(job), sort_keys=True)].append(job.id)
    repeated = [names for names in equal.values() if len(names) > 1]
    assert repeated, "the recorded ones are known"
    assert [names for names in repeated if not recorded >= set(names)] == []


def test_runs_of_equal_jobs_are_those_whose_plans_differ_in_names_and_seeds():
    planned = {job.id: job for job in Plan(Run(scale="demo")).jobs if job.kind == "run"}
    runs = results().runs
    runs = runs[runs["selected"].fillna(True).astype(bool)]
    runs = runs[runs["validation_labels"] == runs["validation_nodes"]]
    runs = runs.drop_duplicates(["study", "group", "job", "epsilon"])
    names = runs["study"] + "/" + runs["group"] + "/" + runs["job"]
    plans = []
    for name, epsilon, settings in zip(names, runs["epsilon"], runs["settings"], strict=True):
        choice = {key: json.loads(settings)[key] for key in planned[name].choose}
        plans.append(f"{identity_at(planned[name], epsilon)} {choice}")
    numbers = runs.assign(plan=plans)
    by_plan = numbers.groupby(["plan", "epsilon"])[JOB_NUMBER].nunique()
    by_number = numbers.groupby(JOB_NUMBER)["plan"].nunique()
    assert by_plan.max() == 1 and by_number.max() == 1
    assert (numbers.groupby(JOB_NUMBER).size() > 1).sum() >= 40


@pytest.mark.parametrize("column", ["data_fingerprint", "settings", "delta", "noise_multiplier"])
def test_a_job_on_other_data_or_with_other_settings_is_another_one(column):
    held = results()
    pool = held.pool[held.pool["study"] == "lrec2022"]
    one, other = (
        pool[pool[JOB_NUMBER] == pool[JOB_NUMBER].iloc[0]].drop_duplicates("group").index[:2]
    )
    rows = held.rows.loc[[one, other]].drop(columns=[JOB_NUMBER, RUN_NUMBER])
    assert number_jobs(rows, held.statements)[JOB_NUMBER].nunique() == 1
    changed = 2.5 if column in ("delta", "noise_multiplier") else "another"
    rows.loc[other, column] = changed
    assert number_jobs(rows, held.statements)[JOB_NUMBER].nunique() == 2


def test_a_job_that_reads_artifacts_of_others_stays_alone():
    reading = {(name, key) for name in study_ids()
               for key, group in load_study(name, "demo").groups.items()
               if any(entry.needs for entry in group.jobs)}  # fmt: skip
    pooled = set(results().pool[["study", "group"]].itertuples(index=False, name=None))
    assert reading and not reading & pooled


def test_a_point_counts_the_runs_of_every_group_once():
    held = results()
    pool = held.pool[held.pool["study"] == "lrec2022"]
    same = pool[pool[JOB_NUMBER] == pool[JOB_NUMBER].iloc[0]]
    groups = list(same["group"].unique())
    assert len(groups) >= 2 and same["replica_id"].is_unique
    for group in groups:
        rows = held.rows[held.rows.index.isin(same.index[same["group"] == group])]
        [point] = held.with_rows(rows).points(["epsilon"]).to_dict("records")
        assert point["n"] == len(same) and point["mean"] == pytest.approx(same[SCORES[0]].mean())
        others = [f"lrec2022.{name}" for name in sorted(groups) if name != group]
        assert point[POOLED_WITH] == ", ".join(others)
        assert score(point).text.endswith(f" ({len(same)} runs)")
        seeds = held.with_rows(rows).points(["epsilon", "seed"])
        assert set(seeds["n"]) == {1} and POOLED_WITH not in seeds


def contradictions(held, blocks) -> tuple[list[str], int]:
    """Return where blocks show the score of one group's runs of a job that others make too, and how
    often they show that of all its runs. A statement of several jobs tells none of them."""
    alone, together = [], 0
    groups, shown = held.pool.groupby(JOB_NUMBER), []
    runs = held.runs[held.runs["selected"].fillna(True).astype(bool)]
    number_of = runs.groupby("statement_id")[JOB_NUMBER].agg(["min", "nunique"])
    number_of = number_of.loc[number_of["nunique"] == 1, "min"]
    for place, block in blocks:
        if isinstance(block, Table | Chart) and {"statement_id", "mean"} <= {*block.frame}:
            frame = block.frame.dropna(subset=["mean"])
            numbers = frame["statement_id"].map(number_of)
            shown += [(place, *each) for each in zip(numbers, frame["mean"], strict=True)]
    for place, number, mean in shown:
        if number not in groups.groups:
            continue
        runs = groups.get_group(number)
        for column in (name for name in SCORES if runs[name].notna().all()):
            parts = runs.groupby(["study", "group", "job"])[column].mean()
            if np.isclose(mean, runs[column].mean(), rtol=0, atol=1e-9):
                together += 1
            elif np.isclose(parts, mean, rtol=0, atol=1e-9).any():
                alone.append(f"{place}: {mean:.4f} of {runs['job'].iloc[0]}")
    return alone, together


@pytest.mark.long
def test_no_two_exhibits_show_different_numbers_for_one_job():
    blocks = [(f"{study}.{name}", block) for study in study_ids()
              for name in load_study(study, "demo").exhibits
              for block in blocks_of(study, name)]  # fmt: skip
    alone, together = contradictions(results(), blocks)
    assert not alone and together >= 100
    unpooled = [(place, block.__class__(**vars(block) | {"frame": block.frame.assign(
        mean=_of_one_group(block.frame))})) for place, block in blocks
        if isinstance(block, Chart) and POOLED_WITH in block.frame]  # fmt: skip
    assert contradictions(results(), unpooled)[0], "the test sees no contradiction"


def _of_one_group(frame: pd.DataFrame) -> pd.Series:
    """Return the score of the runs that a statement is of, in place of those of all groups."""
    pool = results().pool
    return frame["statement_id"].map(pool.groupby("statement_id")[SCORES[0]].mean())
