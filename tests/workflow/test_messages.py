"""What a user reads when something is wrong, and that nothing has run by then."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from .conftest import UNREACHABLE, Project


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("dataset=cora", "unknown key 'dataset'"),
        ("datasets=coral", "did you mean 'cora'"),
        ("scale=fulll", "did you mean 'full'"),
        ("mirror=no/such/folder", "'no/such/folder' is not a folder"),
    ],
)
def test_a_wrong_setting_is_an_error_before_the_jobs_are_planned(
    project: Project, setting: str, message: str
) -> None:
    run = project.snakemake("--config", setting)
    assert run.returncode != 0
    assert message in run.stdout
    assert "Traceback" not in run.stdout and "Building DAG" not in run.stdout


def test_missing_raw_files_are_one_message_and_no_other_job_runs(project: Project) -> None:
    started = time.monotonic()
    run = project.snakemake("--config", "datasets=cora,synthetic-planetoid", **UNREACHABLE)
    assert time.monotonic() - started < 60
    assert run.returncode != 0
    files = yaml.safe_load((project.path / "data" / "sources.yaml").read_text())
    for each in files["datasets"]["cora"]["files"]:
        assert run.stdout.count(f"{each['file']}  {each['url']}") == 1
    assert "mirror=DIR" in run.stdout and "by hand" in run.stdout
    assert "Traceback" not in run.stdout
    assert "dataset synthetic-planetoid" not in run.stdout and "trained" not in run.stdout
    assert not list((project.path / "data" / "raw").rglob("ind.cora.*"))


def test_a_dry_run_asks_nothing_of_the_network(project: Project) -> None:
    started = time.monotonic()
    jobs = project.jobs("--config", "scale=full", "datasets=cora,citeseer", **UNREACHABLE)
    assert jobs["sources"] == 1 and jobs["dataset"] == 2 and jobs["train"] == 16
    assert time.monotonic() - started < 15
    assert not (project.path / "data" / "raw").exists()


def test_a_raw_file_with_a_wrong_checksum_is_refused_and_named(
    project: Project, tmp_path: Path, mirror: Path
) -> None:
    broken = tmp_path / "mirror" / "planetoid"
    broken.mkdir(parents=True)
    for path in (mirror / "planetoid").glob("ind.cora.*"):
        (broken / path.name).symlink_to(path)
    (broken / "ind.cora.y").unlink()
    content = bytearray((mirror / "planetoid" / "ind.cora.y").read_bytes())
    content[-1] ^= 1
    (broken / "ind.cora.y").write_bytes(content)
    settings = ("--config", "datasets=cora", f"mirror={broken.parent}")
    run = project.snakemake("data/processed/cora/dataset.json", *settings, **UNREACHABLE)
    assert run.returncode != 0
    assert "planetoid/ind.cora.y: wrong sha256" in run.stdout
    assert "Traceback" not in run.stdout
    assert not (project.path / "data" / "raw" / "planetoid" / "ind.cora.y").exists()


def test_an_unexpected_error_keeps_its_traceback_in_the_log(finished: Project) -> None:
    script = finished.path / "workflow" / "scripts" / "tables.py"
    script.write_text(script.read_text().replace("statistics = [", "boom = 1 / 0\n        x = ["))
    run = finished.snakemake("tables")
    assert run.returncode != 0
    assert "ZeroDivisionError: division by zero" in run.stdout
    assert "(log: results/demo/logs/tables.log)" in run.stdout
    assert "Traceback" not in run.stdout
    assert "Traceback" in (finished.path / "results" / "demo" / "logs" / "tables.log").read_text()
