"""Runs of equal jobs: what several run groups compute alike, each with random streams of its own.

Two runs are of equal jobs if they agree in all that decides what a run does and what is proved of
it: data, features and view, method, scenario, protocol, settings, ε, δ, public labels, how test
nodes are drawn, who chose the settings among how many, noise, and the statement's releases and
assumptions. They may differ in what names a job and thereby its streams (study, run group, name),
in the seed, and in what a statement says of the other runs of its job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.running.study import load_study, study_ids

JOB_NUMBER, RUN_NUMBER = "job_number", "run_number"
"""Columns of rows: a number that runs of equal jobs share, and one of the run."""
_DECIDING = (
    "dataset", "data_fingerprint", "features", "view", "method", "scenario", "protocol", "settings",
    "epsilon", "delta", "validation_labels", "validation_nodes", "n_configurations", "test_share",
    "mask_seed", "metis_parts", "noise_multiplier", "noise_source", "source",
)  # fmt: skip
_OF_OTHER_RUNS = frozenset((
    "statement_id", "study", "package_version", "status", "audit", "n_runs_released",
    "epsilon_all_runs", "n_rows_counted", "n_rows_not_counted", "epsilon_of_file", "proof_of_file",
    "epsilon_second_route",
))  # fmt: skip
"""Fields of a statement about the other runs of its job, or that others decide."""


def number_jobs(rows: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return tidy ``rows`` with the number of each run and of its job; others have none."""
    runs = rows[rows["source"].isin(["own", "recorded"])]
    texts = {
        name: json.dumps(
            {key: value for key, value in statements[name].items() if key not in _OF_OTHER_RUNS},
            sort_keys=True,
        )
        for name in runs["statement_id"].dropna().unique()
    }
    keys = runs[[name for name in _DECIDING if name in runs]].assign(
        said=runs["statement_id"].map(texts), place=_reading(runs)
    )
    jobs = keys.groupby([*keys], dropna=False, sort=False).ngroup()
    numbers = pd.DataFrame({JOB_NUMBER: jobs, RUN_NUMBER: range(len(runs))}, index=runs.index)
    return pd.concat([rows, numbers.reindex(rows.index)], axis=1)


def _reading(runs: pd.DataFrame) -> pd.Series:
    """Return the place of every run whose job reads artifacts of others: these are its data too."""
    reading = {
        f"{study.id}.{name}"
        for study in (load_study(name) for name in runs["study"].unique() if name in study_ids())
        for name, group in study.groups.items()
        if any(entry.needs for entry in group.jobs)
    }
    places = runs["study"] + "." + runs["group"]
    return places.where(places.isin(reading), "")


def select_shared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the selected runs of jobs that several run groups made."""
    runs = rows[rows[JOB_NUMBER].notna() & rows["selected"].fillna(True).astype(bool)]
    places = runs["study"] + "." + runs["group"]
    return runs[places.groupby(runs[JOB_NUMBER]).transform("nunique") > 1]
