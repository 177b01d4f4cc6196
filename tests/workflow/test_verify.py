"""Whether files of a result are what was written: edited, cut, exchanged, contradicting ones."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from small_jobs import job_of, small_dataset

from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of, write_json
from private_graphs.core.manifest import MANIFEST, WITHOUT_DP, changed_file
from private_graphs.report.rows import labels_in, read_job_folder
from private_graphs.running.jobs import Attack
from private_graphs.running.run import execute
from private_graphs.workflow.verify import (
    content_digest,
    finish,
    is_current,
    require_raw,
    require_whole,
    stale_input,
    write_hashes,
)

from .finished_jobs import accept, leave_job

JOB = job_of("class_sums", seeds=(0, 1), epsilons=(1.0, float("inf"))).model_copy(
    update={"name": "small/raw/class_sums", "validation_labels": (), "validation_epsilons": ()}
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a finished job."""
    folder = tmp_path / "jobs" / JOB.id
    execute(JOB, small_dataset("class_sums")).save(folder)
    finish(folder, JOB, [])
    return folder


@pytest.fixture
def processed(tmp_path: Path) -> Path:
    """The built datasets, with the one that its predictions are of."""
    dataset = small_dataset("class_sums")
    build = tmp_path / "data" / JOB.dataset
    dataset.save(build)
    write_json(build / "statistics.json", {"fingerprint": dataset.fingerprint})
    return tmp_path / "data"


def damage(folder: Path, name: str, processed: Path | None = None) -> str | None:
    """What a reader says of the files of a finished job; None where nothing is wrong."""
    try:
        read_job_folder(name, folder, labels_in(processed))
    except UserError as error:
        return str(error)
    return None


def edit_rows(folder: Path, **columns: object) -> None:
    """Change columns of the first row."""
    rows = pd.read_parquet(folder / "runs.parquet")
    for name, value in columns.items():
        rows.loc[0, name] = value
    rows.to_parquet(folder / "runs.parquet", index=False)


def test_what_was_written_is_whole_and_what_has_not_finished_is_not_damaged(
    folder: Path, processed: Path, tmp_path: Path
) -> None:
    assert damage(folder, JOB.id) is None and damage(folder, JOB.id, processed) is None
    require_whole(folder)
    with pytest.raises(UserError, match="nothing.*: is gone"):
        require_whole(tmp_path / "nothing")


@pytest.mark.parametrize(
    "name", ["runs.parquet", "statement.json", "predictions.safetensors", "job.json", MANIFEST]
)
@pytest.mark.parametrize("how", ["cut", "emptied", "removed"])
def test_a_cut_or_absent_file_is_named_whatever_its_date(folder: Path, name: str, how: str) -> None:
    path = folder / name
    status, content = path.stat(), path.read_bytes()
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2] if how == "cut" else b"")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(UserError, match=name):
        require_whole(folder)
    assert not (folder / MANIFEST).exists(), "nothing has finished any more"
    assert not is_current(folder, JOB, "code")


def test_an_edited_score_is_found_by_its_hash_and_by_its_predictions(
    folder: Path, processed: Path
) -> None:
    edit_rows(folder, test_macro_f1=0.99)
    assert "runs.parquet: is not the file that was written" in damage(folder, JOB.id)
    accept(folder)
    assert damage(folder, JOB.id) is None, "nothing to hold it against"
    assert "test_macro_f1 0.99" in damage(folder, JOB.id, processed)


def change_predictions(folder: Path) -> None:
    """Put the predictions in another order."""
    path = folder / "predictions.safetensors"
    tensors = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file(tensors, path, metadata={"replica_ids": json.dumps(["b", "a"])})


def drop_a_seed(folder: Path) -> None:
    """Leave out the rows of a seed, and their predictions."""
    rows = pd.read_parquet(folder / "runs.parquet")
    kept = (rows["seed"] == 0).to_numpy()
    path = folder / "predictions.safetensors"
    tensors = safetensors.numpy.load_file(path)
    tensors["predictions"] = np.ascontiguousarray(tensors["predictions"][kept])
    order = json.dumps(rows.loc[kept, "replica_id"].tolist())
    safetensors.numpy.save_file(tensors, path, metadata={"replica_ids": order})
    rows[kept].to_parquet(folder / "runs.parquet", index=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: edit_rows(folder, epsilon_proved=0.1), "epsilon_proved"),
        (lambda folder: edit_rows(folder, dataset="other"), "dataset"),
        (lambda folder: edit_rows(folder, statement_id="elsewhere"), "elsewhere"),
        (change_predictions, "predictions.safetensors"),
        (drop_a_seed, "budgets and seeds"),
    ],
)
def test_rows_that_contradict_what_lies_beside_them_are_named(
    folder: Path, change: Callable[[Path], None], words: str
) -> None:
    change(folder)
    accept(folder)
    assert words in damage(folder, JOB.id)


def test_the_folder_of_another_job_is_not_taken_for_its_own(folder: Path) -> None:
    other = folder.with_name("other")
    shutil.move(folder, other)
    assert JOB.id in damage(other, JOB.id.replace(JOB.name.split("/")[-1], "other"))


def test_rows_without_dp_that_lie_apart_are_vouched_for_too(tmp_path: Path) -> None:
    folder = tmp_path / JOB.id
    execute(JOB, small_dataset("class_sums"), noise_source="os_entropy").save(folder)
    finish(folder, JOB, [], secret=True)
    assert damage(folder, JOB.id) is None
    manifest = (folder / MANIFEST).read_text()
    assert json.loads(manifest)["made_from"] is None, "a hash of private data tells what they are"
    (folder / WITHOUT_DP / MANIFEST).unlink()
    assert WITHOUT_DP in damage(folder, JOB.id)
    shutil.rmtree(folder / WITHOUT_DP)
    assert WITHOUT_DP in damage(folder, JOB.id)


def test_unreadable_content_that_a_manifest_vouches_for_is_damage_too(folder: Path) -> None:
    (folder / "runs.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    accept(folder)
    assert "runs.parquet" in damage(folder, JOB.id)


def test_a_manifest_has_to_say_something_of_every_file(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["sha256"]["predictions.safetensors"]
    write_json(folder / MANIFEST, manifest)
    assert "says nothing of predictions.safetensors" in damage(folder, JOB.id)


def test_an_audit_has_other_files(tmp_path: Path) -> None:
    audit = JOB.model_copy(update={"attack": Attack(runs=10)})
    folder = leave_job(tmp_path, audit)
    (folder / "audit.json").write_text('{"epsilon_lower": 9}')
    assert "audit.json: is not the file that was written" in damage(folder, audit.id)


def test_contents_of_what_a_folder_was_made_from_decide(tmp_path: Path) -> None:
    source, made = tmp_path / "source", tmp_path / "made"
    for place in (source, made):
        place.mkdir()
        (place / "file.json").write_text("{}")
    write_hashes(source, ["file.json"], [])
    write_hashes(made, ["file.json"], [(source / MANIFEST).as_posix()])
    assert stale_input(made) is None and changed_file(made) is None
    write_hashes(source, ["file.json"], [])  # again: newer, but alike
    assert stale_input(made) is None
    (source / "file.json").write_text("[]")
    write_hashes(source, ["file.json"], [])
    assert f"was made of other contents of {source / MANIFEST}" in stale_input(made)
    (source / MANIFEST).unlink()
    assert stale_input(made) is None, "it is made again before anybody reads it"
    write_json(made / MANIFEST, {"sha256": {}})
    assert "does not say what the folder was made from" in stale_input(made)


def test_receipts_count_by_the_hashes_of_their_files(tmp_path: Path) -> None:
    receipt = tmp_path / "cora.json"

    def digest(**file: object) -> str | None:
        write_json(receipt, {"dataset": "cora", "files": [{"file": "ind.cora.x", **file}]})
        return content_digest(receipt)

    first = digest(sha256="a" * 64, mtime_ns=1)
    assert first == digest(sha256="a" * 64, mtime_ns=2) != digest(sha256="b" * 64, mtime_ns=1)
    receipt.write_text("{")
    assert content_digest(receipt) is None


def test_a_finished_job_is_current_with_its_plan_its_code_and_what_it_was_made_from(
    tmp_path: Path,
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file.json").write_text("{}")
    write_hashes(source, ["file.json"], [])
    made_from = ((source / MANIFEST).as_posix(),)
    folder = leave_job(tmp_path, JOB, made_from)
    assert not is_current(folder, JOB, "code"), "nobody knows what made it"
    finish(folder, JOB, made_from, code="code")
    assert is_current(folder, JOB, "code") and not is_current(folder, JOB, "other")
    assert not is_current(folder, JOB.model_copy(update={"seeds": (7,)}), "code")
    (source / "file.json").write_text("[]")
    write_hashes(source, ["file.json"], [])
    assert not is_current(folder, JOB, "code")
    finish(folder, JOB, made_from, code="code")
    assert is_current(folder, JOB, "code")
    (folder / "statement.json").write_text("{}")
    assert not is_current(folder, JOB, "code")


def test_a_raw_file_that_was_changed_is_named_and_its_receipt_removed(tmp_path: Path) -> None:
    raw, receipt = tmp_path / "ind.x", tmp_path / "cora.json"
    raw.write_bytes(b"raw")

    def leave_receipt() -> None:
        status = raw.stat()
        record = {"file": raw.name, "sha256": sha256_of(raw), "bytes": status.st_size,
                  "mtime_ns": status.st_mtime_ns}  # fmt: skip
        write_json(receipt, {"dataset": "cora", "files": [record]})

    leave_receipt()
    os.utime(raw, ns=(1, 1))
    require_raw(tmp_path, [receipt])
    for content in (b"raw and more", None):
        leave_receipt()
        raw.write_bytes(content) if content else raw.unlink()
        with pytest.raises(UserError, match="ind.x: is not the file"):
            require_raw(tmp_path, [receipt])
        assert not receipt.exists()
