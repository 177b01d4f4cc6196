"""Finished jobs and audits of a scale as tidy rows, held against their plans."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors

from private_graphs.core.errors import UserError
from private_graphs.core.manifest import MANIFEST, WITHOUT_DP, check_manifest, finished_folders
from private_graphs.methods import method_named
from private_graphs.report.audits import audit_row
from private_graphs.report.leaks import leak_rows
from private_graphs.report.words import missing
from private_graphs.running.jobs import AUDIT_FILE, FILES, JOB_FILE, LEAK_FILE, Job
from private_graphs.running.store import (
    Answers,
    Labels,
    read_json,
    read_store,
    read_unchecked,
    readable,
    remedy,
    tidy,
)

_ATTACKS = {
    "audit": (AUDIT_FILE, lambda job, document: [audit_row(job, document)]),
    "leaks": (LEAK_FILE, leak_rows),
}
"""File of an attack, and the rows that it holds."""


def answers_in(scale_folder: Path) -> Callable[[str], Answers]:
    """Return what reads the answers of a finished job, ``<study>/<group>/<job>``, of a scale."""
    return lambda job: read_unchecked(Path(scale_folder) / "jobs" / job)[0].answers(job)


def with_settings(rows: pd.DataFrame) -> pd.DataFrame:
    """Return ``rows`` with a column for every setting.

    A setting whose name is already a column is called ``<name>_setting``: ``epochs`` is the trained
    number, ``epochs_setting`` the allowed maximum.
    """
    texts = rows["settings"].fillna("{}")
    values = {text: json.loads(text) for text in texts.unique()}
    names = sorted({name for settings in values.values() for name in settings})
    columns = {
        f"{name}_setting" if name in rows else name: pd.Series(
            [values[text].get(name) for text in texts], index=rows.index, dtype="object"
        ).infer_objects()
        for name in names
    }
    return pd.concat([rows, pd.DataFrame(columns, index=rows.index)], axis=1)


# --- finished jobs ----------------------------------------------------------------------------


def collect(
    scale_folder: Path, processed: Path | None = None, jobs: Collection[str] | None = None
) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """Read the finished jobs below a folder such as ``results/full``: tidy rows, and statements.

    ``jobs`` are the identifiers of the jobs to read, by default all. Runs (``source`` is own) come
    before audits and leaks. Statements are as written, without audits (``audits.audited``). With
    the folder of built datasets, ``data/processed``, scores are recomputed if the dataset is there.

    Raises:
        UserError: a file is damaged: which one, what is wrong, what to do.
    """
    runs, attacks, statements = [], [], {}
    labels = labels_in(processed)
    for name, folder in finished_folders(Path(scale_folder) / "jobs").items():
        if jobs is not None and name not in jobs:
            continue
        with remedy(f"delete {folder} and run the job again"):
            rows, documents = read_job_folder(name, folder, labels)
        statements |= documents
        if "source" in rows:
            attacks.append(rows)
        else:
            runs.append(rows.assign(source="own"))
    attacks.sort(key=lambda rows: rows["source"].iloc[0])  # audits, then leaks
    return tidy([*runs, *attacks]), statements


def read_job_folder(
    name: str, folder: Path, labels: Labels
) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """Return rows and statements of the finished job ``name`` after all checks; those of an attack
    have a ``source``.

    Raises:
        UserError: a file is damaged or belongs to another job, or rows differ from the plan.
    """
    with readable(folder / JOB_FILE) as path:
        job = Job.model_validate_json(path.read_text(encoding="utf-8"))
    if job.id != name:
        raise UserError(f"{path}: the plan of {job.id}; expected that of {name}")
    if job.kind != "run":
        file, rows_of = _ATTACKS[job.kind]
        check_manifest(folder, (JOB_FILE, file))
        return pd.DataFrame(rows_of(job, read_json(folder / file))), {}
    subfolder = folder / WITHOUT_DP
    parts = [read_store(folder, labels, (JOB_FILE, *FILES))]
    if subfolder.is_dir():
        check_manifest(folder, (f"{WITHOUT_DP}/{MANIFEST}",))
        parts.append(read_store(subfolder, labels, FILES))
    rows = pd.concat([part.rows for part in parts], ignore_index=True)
    _check_plan(folder, job, rows)
    return rows, {name: one for part in parts for name, one in part.statements.items()}


def labels_in(processed: Path | None) -> Labels:
    """Return the labels of built datasets, only of those with which the rows were made."""

    @cache
    def read(folder: Path) -> tuple[str, np.ndarray] | None:
        for path in folder.glob("*.safetensors"):
            fingerprint = read_json(folder / "statistics.json")["fingerprint"]
            with safetensors.safe_open(path, "numpy") as stored:
                return fingerprint, stored.get_tensor("labels")
        return None

    def labels(row: Mapping[str, Any]) -> np.ndarray | None:
        if processed is None:
            return None
        folder = Path(processed) / row["dataset"]
        if not missing(row["view"]):
            folder = folder / row["features"] / row["view"]
        fingerprint, values = read(folder) or (None, None)
        # under fresh noise a row has a keyed hash of its data, which cannot be compared
        same_data = row["noise_source"] == "os_entropy" or fingerprint == row["data_fingerprint"]
        return values if same_data else None

    return labels


def _check_plan(folder: Path, job: Job, rows: pd.DataFrame) -> None:
    plan = job.model_dump() | {"job": job.name}
    for name in ("study", "group", "job", "dataset", "method", "scenario", "protocol"):
        strays = set(rows[name]) - {plan[name]}
        if strays:
            raise UserError(
                f"{folder / 'runs.parquet'}: {name} is {', '.join(map(str, strays))}; its "
                f"{JOB_FILE} says {plan[name]}"
            )
    if not rows["replica_id"].is_unique:
        raise UserError(f"{folder / 'runs.parquet'}: two rows of one run; expected each run once")
    if not method_named(job.method).reads_private:
        return  # public data with all labels: nothing is random, one seed
    budgets = {*job.epsilons, *(job.validation_epsilons if job.validation_labels else ())}
    pairs = set(zip(rows["epsilon"], rows["seed"], strict=True))
    if pairs - set(product(budgets, job.seeds)) or set(product(job.epsilons, job.seeds)) - pairs:
        raise UserError(
            f"{folder / 'runs.parquet'}: the budgets and seeds of its rows are not those of "
            f"{JOB_FILE}"
        )


def read_statistics(scale_folder: Path) -> list[dict[str, Any]]:
    """Return the statistics of the datasets that exhibits of a scale were made with, sorted."""
    values = [read_json(path) for path in (Path(scale_folder) / "datasets").glob("*.json")]
    return sorted(values, key=lambda value: (value["name"], value.get("view") or ""))
