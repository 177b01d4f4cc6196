"""Which results of earlier runs are made again, and which are left out."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pandas as pd
import pytest

from private_graphs.files import MANIFEST, sha256_of, write_json
from private_graphs.repairs import (
    Repairs,
    changed_receipts,
    exhibit_modules,
    find_repairs,
    shown_exhibits,
    shown_jobs,
    wanted_receipts,
)
from private_graphs.verify import write_hashes
from private_graphs.workflow import Workflow, make_workflow, receipt_file

from .finished_jobs import leave_job

pytestmark = pytest.mark.usefixtures("hollow_results")

NAME = "synthetic-planetoid"
ASKED = {"exhibits": "lrec2022.table1", "protocols": "paper", "datasets": NAME}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    """A run after an earlier one with two protocols: raw file, dataset, jobs and exhibits."""
    monkeypatch.chdir(tmp_path)
    raw = Path("data/raw/planetoid/ind.x")
    raw.parent.mkdir(parents=True)
    raw.write_bytes(b"raw")
    leave_receipt(raw)
    build = Path("data/processed", NAME)
    build.mkdir(parents=True)
    (build / "dataset.json").write_text("{}")
    write_hashes(build, ["dataset.json"], [receipt_file(NAME)])
    earlier = make_workflow({**ASKED, "protocols": "paper,released"})
    for job in earlier.jobs.values():
        leave_job(earlier.folder, job, ((build / MANIFEST).as_posix(),))
    exhibits = earlier.results / "exhibits"
    (exhibits / "lrec2022").mkdir(parents=True)
    (exhibits / "lrec2022" / "table1.csv").write_text("rows\n")
    write_hashes(exhibits, ["lrec2022/table1.csv"], earlier.manifests())
    return make_workflow(ASKED)


def leave_receipt(raw: Path) -> None:
    """Write the receipt of a raw file."""
    status = raw.stat()
    record = {"file": raw.relative_to("data/raw").as_posix(), "sha256": sha256_of(raw),
              "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}  # fmt: skip
    write_json(receipt_file(NAME), {"dataset": NAME, "files": [record]})


def job_folder(work: Workflow, planned: bool = True) -> Path:
    """The folder of a finished job of the run, or of one that is not part of it."""
    name = next(name for name in work.finished if (name in work.jobs) == planned)
    return work.folder / name


def edit(path: Path) -> None:
    """Change a score of a finished job and keep the date of its file."""
    status = path.stat()
    rows = pd.read_parquet(path)
    rows.loc[0, "test_micro_f1"] = 0.99
    rows.to_parquet(path, index=False)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_whole_results_are_left_alone(work: Workflow) -> None:
    repairs = find_repairs(work)
    assert repairs.again == {} and repairs.left_out == {}
    assert set(shown_jobs(work, repairs)) == set(work.finished) > set(work.jobs)
    (job_folder(work) / "runs.parquet").touch()
    (Path("data/processed") / NAME / "dataset.json").touch()
    assert find_repairs(work).again == {}, "dates tell nothing"


def test_an_edited_score_of_a_job_of_the_run_is_made_again(work: Workflow) -> None:
    folder = job_folder(work)
    edit(folder / "runs.parquet")
    repairs = find_repairs(work)
    ((output, reason),) = repairs.again.items()
    assert output == (folder / MANIFEST).as_posix() and "runs.parquet" in reason
    assert set(shown_jobs(work, repairs)) == set(work.finished)


def test_a_damaged_job_of_an_earlier_run_is_left_out(work: Workflow) -> None:
    folder = job_folder(work, planned=False)
    (folder / "predictions.safetensors").write_bytes(b"")
    repairs = find_repairs(work)
    name = folder.relative_to(work.folder).as_posix()
    assert repairs.again == {} and set(repairs.left_out) == {name}
    assert set(shown_jobs(work, repairs)) == set(work.finished) - {name}


def test_edited_exhibits_and_exhibits_of_other_jobs_are_made_again(work: Workflow) -> None:
    table = work.results / "exhibits" / "lrec2022" / "table1.csv"
    good = table.read_text()
    table.write_text("")
    assert set(find_repairs(work).again) == {"results/demo/exhibits/manifest.json"}
    table.write_text(good)
    assert find_repairs(work).again == {}
    folder = job_folder(work, planned=False)
    (folder / "runs.parquet").write_bytes(b"another run")
    write_hashes(folder, ["runs.parquet"], [])
    assert "results/demo/exhibits/manifest.json" in find_repairs(work).again


def test_raw_files_that_changed_are_checked_again(work: Workflow) -> None:
    raw = Path("data/raw/planetoid/ind.x")
    raw.write_bytes(b"other")
    assert changed_receipts([NAME, "cora"]) == [receipt_file(NAME)], "cora has none yet"
    assert wanted_receipts([NAME, "cora"]) == [receipt_file(NAME), receipt_file("cora")]
    assert set(find_repairs(work).again) == {receipt_file(NAME)}, "Snakemake sees to the rest"
    raw.write_bytes(b"raw")
    assert find_repairs(work).again == {}, "newer, but with the same contents"
    assert find_repairs(work).again == {}
    raw.write_bytes(b"another version")
    leave_receipt(raw)
    assert set(find_repairs(work).again) == {f"data/processed/{NAME}/manifest.json"}
    raw.unlink()
    assert receipt_file(NAME) in find_repairs(work).again


def test_a_cut_receipt_is_made_again(work: Workflow) -> None:
    Path(receipt_file(NAME)).write_text('{"dataset": ')
    assert receipt_file(NAME) in find_repairs(work).again


def test_a_changed_dataset_is_built_again_and_its_jobs_follow_its_contents(
    work: Workflow,
) -> None:
    build = Path("data/processed", NAME)
    (build / "dataset.json").write_text("[]")
    assert set(find_repairs(work).again) == {(build / MANIFEST).as_posix()}
    write_hashes(build, ["dataset.json"], [receipt_file(NAME)])
    assert set(find_repairs(work).again) == set(work.manifests())


def test_exhibits_of_a_run_are_those_with_a_job_and_what_earlier_runs_made(
    work: Workflow,
) -> None:
    assert shown_exhibits(work, Repairs()) == [("lrec2022", "table1")]
    figure2 = make_workflow(ASKED | {"exhibits": "lrec2022.figure2"})
    for job in (job for job in figure2.jobs.values() if job.id not in work.jobs):
        leave_job(work.folder, job)
    for name in ("figure2", "table5"):
        (work.results / "exhibits" / "lrec2022" / f"{name}.md").write_text("made earlier")
    later = make_workflow(ASKED)
    shown = shown_exhibits(later, find_repairs(later))
    assert set(shown) == {("lrec2022", name) for name in ("table1", "figure2", "table5")}
    gone = Repairs(left_out={name: "cut" for name in later.finished if "/B/" in name})
    kept = shown_exhibits(dataclasses.replace(later, jobs=work.jobs), gone)
    assert set(kept) == {("lrec2022", name) for name in ("table1", "table5")}
    assert exhibit_modules(kept)[0].startswith("private_graphs.studies.lrec2022.table")
    nothing = make_workflow({"exhibits": "lrec2022.table3", "datasets": NAME, "scale": "full"})
    assert shown_exhibits(nothing, Repairs()) == [("lrec2022", "table3")]
