"""Results of earlier runs that have to be made again: damaged, or made of other contents.

Contents decide, not dates: Snakemake sees to what is missing or older than what it is made of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from private_graphs.errors import UserError
from private_graphs.files import MANIFEST, changed_file, sha256_of
from private_graphs.jobs import JOB_FILE, Job, finished_folders, read_job
from private_graphs.report.rows import labels_in, read_job_folder
from private_graphs.studies import claims_module, exhibits_by_name
from private_graphs.study import load_study, study_ids
from private_graphs.verify import stale_input
from private_graphs.workflow import (
    PROCESSED,
    RAW,
    RECORDED_CLAIMS,
    Workflow,
    build_of,
    receipt_file,
    recorded_files,
)


@dataclass(frozen=True)
class Repairs:
    """What is wrong with results of earlier runs, in words."""

    again: dict[str, str] = field(default_factory=dict)
    """By the output (a receipt or manifest) that is made again."""
    left_out: dict[str, str] = field(default_factory=dict)
    """By the identifier of a job that is not part of the run: exhibits do not show it."""


def find_repairs(work: Workflow) -> Repairs:
    """Hold every result of earlier runs that a run reads against its manifest."""
    repairs = Repairs()
    again = repairs.again
    changed = changed_receipts(work.receipted())
    again |= {path: f"{RAW}: files are not those of {path}" for path in changed}
    for folder in map(Path, work.data_folders()):
        if (folder / MANIFEST).is_file():
            if reason := changed_file(folder) or stale_input(folder):
                again[(folder / MANIFEST).as_posix()] = reason
    for name, folder in finished_folders(work.folder).items():
        job = work.jobs.get(name)
        if job is None:
            if reason := damage(folder, name, PROCESSED):
                repairs.left_out[name] = reason
        elif reason := (
            damage(folder, name, _processed(job, again))
            or stale_input(folder)
            or _other_plan(folder, job)
        ):
            again[(folder / MANIFEST).as_posix()] = reason
    for folder in (work.results / "exhibits", *([RECORDED_CLAIMS] if recorded_files() else [])):
        if (folder / MANIFEST).is_file():
            if reason := changed_file(folder) or stale_input(folder):
                again[(folder / MANIFEST).as_posix()] = reason
    return repairs


def damage(folder: Path, name: str, processed: Path | None = None) -> str | None:
    """Return what is wrong with the files of the finished job ``name``; None where nothing is.

    A folder without a manifest holds nothing finished, so nothing in it can be damaged. With the
    folder of built datasets scores are computed again where that of the job is there.
    """
    if not (folder / MANIFEST).is_file():
        return None
    try:
        read_job_folder(name, folder, labels_in(processed))
    except UserError as error:
        return str(error)
    except Exception as error:  # whatever a reader makes of bytes that are something else
        return f"{folder}: not readable ({type(error).__name__}: {error})"
    return None


def shown_jobs(work: Workflow, repairs: Repairs) -> list[str]:
    """Return the identifiers of the jobs that exhibits show: planned ones, and all others that
    have finished and are not damaged."""
    return sorted({*work.jobs, *work.finished} - set(repairs.left_out))


def shown_exhibits(work: Workflow, repairs: Repairs) -> list[tuple[str, str]]:
    """Return (study, name) of the exhibits to write, those that read jobs where one is shown, or
    where all are made on request alone.

    Beside those asked for these are the ones that earlier runs have made: a run may repeat a job
    that they read, and they may not keep its old scores.
    """
    groups = {tuple(name.split("/", 2)[:2]) for name in shown_jobs(work, repairs)}
    shown = []
    for study_id in study_ids():
        asked = {exhibit.name for exhibit in work.plan.exhibits.get(study_id, ())}
        for name, exhibit in exhibits_by_name(study_id).items():
            made = work.results / "exhibits" / study_id / f"{name}.md"
            any_run = groups & set(exhibit.reads(study_id))
            if (name in asked or made.is_file()) and (
                any_run or load_study(study_id).on_request(exhibit.groups)
            ):
                shown.append((study_id, name))
    return shown


def exhibit_modules(exhibits: Iterable[tuple[str, str]]) -> list[str]:
    """Return the modules of exhibits, and those of the claims of their studies."""
    exhibits = list(exhibits)
    claims = map(claims_module, dict.fromkeys(study_id for study_id, _ in exhibits))
    modules = [f"private_graphs.studies.{study_id}.{name}" for study_id, name in exhibits]
    return [*modules, *filter(None, claims)]


def _processed(job: Job | None, again: Mapping[str, str]) -> Path | None:
    """The folder of built datasets; None where that of a job is about to be made again."""
    if job is None or job.attack:
        return PROCESSED
    return None if (PROCESSED / build_of(job) / MANIFEST).as_posix() in again else PROCESSED


def _other_plan(folder: Path, job: Job) -> str | None:
    """Why a finished job is made again that was planned otherwise."""
    made = read_job(folder / JOB_FILE)
    return None if made == job else f"{folder}: was made with another plan ({JOB_FILE})"


def wanted_receipts(names: Iterable[str]) -> list[str]:
    """Return the receipts that are absent, that no longer fit their raw files or cannot be read.

    Others are no output of any rule: a new dataset is no reason to read the raw files of another.
    """
    return [path for path in map(receipt_file, names) if not _fits(Path(path))]


def changed_receipts(names: Iterable[str]) -> list[str]:
    """Return those of ``wanted_receipts`` that are there."""
    return [path for path in wanted_receipts(names) if Path(path).is_file()]


def _fits(receipt: Path) -> bool:
    try:
        records = json.loads(receipt.read_text(encoding="utf-8"))["files"]
        return all(map(_is_unchanged, records))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _is_unchanged(record: Mapping[str, Any]) -> bool:
    """Whether a raw file is the one of its receipt: by size and time, else by its contents."""
    path = RAW / record["file"]
    status = path.stat()
    if (status.st_size, status.st_mtime_ns) == (record["bytes"], record["mtime_ns"]):
        return True
    return status.st_size == record["bytes"] and sha256_of(path) == record["sha256"]
