"""Whether files of a result are what was written: edited, cut, exchanged, contradicting ones."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from private_graphs.files import MANIFEST, write_json
from private_graphs.jobs import Attack, Job
from private_graphs.verify import changed_file, content_digest, damage, stale_input, write_hashes

from .finished_jobs import accept, leave_dataset, leave_job, save_predictions

JOB = Job(study="s", group="g", name="d/raw/m", dataset="d", method="m", scenario="nodes",
          epsilons=(2,))  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a finished job."""
    return leave_job(tmp_path / "jobs", JOB)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """The dataset that its predictions are of."""
    return leave_dataset(tmp_path / "data")


def edit_rows(folder: Path, **columns: object) -> None:
    """Change columns of the first row."""
    rows = pd.read_parquet(folder / "runs.parquet")
    for name, value in columns.items():
        rows.loc[0, name] = value
    rows.to_parquet(folder / "runs.parquet", index=False)


def test_what_was_written_is_whole_and_what_has_not_finished_is_not_damaged(
    folder: Path, dataset: Path, tmp_path: Path
) -> None:
    assert damage(folder) is None and damage(folder, dataset) is None
    assert damage(tmp_path / "jobs" / "nothing") is None
    (folder / MANIFEST).unlink()
    assert damage(folder) is None


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
    reason = damage(folder)
    if (name, how) == (MANIFEST, "removed"):
        assert reason is None, "without it nothing has finished"
    else:
        assert name in reason
    path.write_bytes(content)
    assert damage(folder) is None, "the good file counts again"


def test_an_edited_score_is_found_by_its_hash_and_by_its_predictions(
    folder: Path, dataset: Path
) -> None:
    edit_rows(folder, test_micro_f1=0.99)
    assert "runs.parquet: is not the file that was written" in damage(folder)
    accept(folder)
    assert damage(folder) is None, "nothing to hold it against"
    assert "test_micro_f1 is 0.99 where its predictions score 1" in damage(folder, dataset)


def change_epsilon(folder: Path) -> None:
    edit_rows(folder, epsilon_proved=0.1)


def change_claim(folder: Path) -> None:
    edit_rows(folder, epsilon_claimed=1.0)


def change_statement(folder: Path) -> None:
    edit_rows(folder, statement_id="elsewhere")


def change_predictions(folder: Path) -> None:
    save_predictions(folder, np.zeros((2, 3), dtype=np.int32), ["b", "a"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (change_epsilon, "epsilon_proved is 0.1, its statement says 2.5"),
        (change_claim, "epsilon_claimed is 1.0, its statement says 2.0"),
        (change_statement, "statement elsewhere is not in statement.json"),
        (change_predictions, "the rows are not those of predictions.safetensors"),
    ],
)
def test_rows_that_contradict_what_lies_beside_them_are_named(
    folder: Path, change: Callable[[Path], None], words: str
) -> None:
    change(folder)
    accept(folder)
    assert words in damage(folder)


def test_unreadable_content_that_a_manifest_vouches_for_is_damage_too(folder: Path) -> None:
    (folder / "runs.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    accept(folder)
    assert "not readable" in damage(folder)


def test_a_manifest_has_to_say_something_of_every_file(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["sha256"]["predictions.safetensors"]
    write_json(folder / MANIFEST, manifest)
    assert "says nothing of predictions.safetensors" in damage(folder)


def test_an_audit_has_other_files(tmp_path: Path) -> None:
    audit = JOB.model_copy(update={"attack": Attack(runs=10)})
    folder = leave_job(tmp_path, audit)
    assert damage(folder) is None
    (folder / "audit.json").write_text('{"epsilon_lower": 9}')
    assert "audit.json: is not the file that was written" in damage(folder)


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
