"""Snakemake itself, on a tiny study: what a run leaves, and what makes a job run again."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

from .conftest import UNREACHABLE, FirstRun, Project

TABLES = [f"lrec2022_table{n}.{kind}" for n in (1, 3, 5) for kind in ("csv", "md", "tex")]


def trained(folder: Path) -> dict[str, int]:
    """Return the time of every file of a cell."""
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_a_first_run_without_network_leaves_tables_figures_and_page(
    first_run: FirstRun,
) -> None:
    project, run = first_run.project, first_run.result
    assert run.returncode == 0, run.stdout
    results = project.path / "results"
    assert sorted(path.name for path in (results / "demo" / "tables").iterdir()) == TABLES
    assert (results / "index.html").stat().st_size > 1000
    assert (results / "demo" / "figures" / "lrec2022_table1.png").exists()
    for name in ("runs.parquet", "predictions.safetensors", "statement.json", "plan.json"):
        assert (project.cell("paper") / name).exists()
    assert list((results / "demo" / "logs").rglob("*.log"))
    assert list((results / "demo" / "benchmarks").rglob("*.tsv"))


def test_number_of_jobs_and_time_are_said_before_training_and_the_place_at_the_end(
    first_run: FirstRun,
) -> None:
    run = first_run.result
    announced = run.stdout.index("Training: 2 jobs with 4 runs, about")
    first = run.stdout.index("trained table1/synthetic-planetoid")
    last = run.stdout.index("Results: results/index.html")
    assert announced < first < last
    assert run.stdout.count("trained table1/") == 2


def test_a_finished_run_has_nothing_left_to_do(finished: Project) -> None:
    assert finished.jobs() == {}


def test_a_narrowed_run_adds_its_cells_and_keeps_the_others(finished: Project) -> None:
    before = {name: trained(finished.cell(name)) for name in ("released", "paper")}
    run = finished.snakemake("--config", "protocols=sound")
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("trained table1/") == 1
    assert {name: trained(finished.cell(name)) for name in before} == before
    with open(finished.path / "results" / "demo" / "tables" / "lrec2022_table1.csv") as stream:
        rows = list(csv.DictReader(stream))
    scores = [row for row in rows if row["setting"] == "dp_full"]
    for protocol in ("released", "paper", "sound"):
        assert any(row[f"{protocol}_mean"] for row in scores)


def test_fewer_seeds_find_the_cell_finished_and_more_train_it_again(finished: Project) -> None:
    assert "train" not in finished.jobs("--config", "seeds=1")
    assert finished.jobs("--config", "seeds=3")["train"] == 2


def test_another_dataset_reruns_nothing_of_the_first(finished: Project) -> None:
    jobs = finished.jobs("--config", "datasets=synthetic-planetoid,synthetic-npz")
    assert jobs == {"sources": 1, "dataset": 1, "train": 2, "tables": 1, "figures": 1, "site": 1}


def test_a_changed_grid_trains_again(finished: Project) -> None:
    finished.edit_study(lambda scale: scale["training"].update(epochs={"sgd": 4, "adam": 4}))
    assert finished.jobs()["train"] == 2


def test_editing_a_reporting_module_trains_nothing(finished: Project) -> None:
    finished.append("src/private_graphs/reporting/tables.py", "\n# edited\n")
    jobs = finished.jobs()
    assert jobs["tables"] == 1 and jobs["site"] == 1
    assert not {"train", "dataset", "sources"} & set(jobs)


def test_editing_a_template_writes_the_page_alone(finished: Project) -> None:
    template = next((finished.path / "src/private_graphs/reporting/templates").glob("index*"))
    finished.append(str(template.relative_to(finished.path)), "\n")
    jobs = finished.jobs()
    assert jobs["site"] == 1 and "train" not in jobs


def test_editing_training_code_trains_again_and_builds_no_dataset(finished: Project) -> None:
    finished.append("src/private_graphs/methods/gcn.py", "\n# edited\n")
    jobs = finished.jobs()
    assert jobs["train"] == 2 and jobs["tables"] == 1
    assert not {"dataset", "sources"} & set(jobs)


def test_touching_a_module_without_a_change_reruns_nothing(finished: Project) -> None:
    time.sleep(0.05)
    (finished.path / "src/private_graphs/methods/gcn.py").touch()
    assert finished.jobs() == {}


def test_tables_from_finished_runs_take_seconds(finished: Project) -> None:
    for path in (finished.path / "results" / "demo" / "tables").iterdir():
        path.unlink()
    started = time.monotonic()
    run = finished.snakemake("tables", "--config", "scale=demo")
    assert run.returncode == 0, run.stdout
    assert time.monotonic() - started < 20
    assert "trained" not in run.stdout
    tables = finished.path / "results" / "demo" / "tables"
    assert sorted(path.name for path in tables.iterdir()) == TABLES


def test_one_table_alone_trains_nothing(project: Project) -> None:
    jobs = project.jobs("tables", "--config", "experiments=table3")
    assert jobs == {"tables": 1}


def test_a_receipt_whose_raw_files_are_gone_is_withdrawn(finished: Project) -> None:
    receipt = finished.path / "data" / "raw" / "receipts" / "cora.json"
    receipt.write_text(json.dumps({"dataset": "cora", "files": [{"file": "planetoid/absent"}]}))
    assert finished.jobs("--config", "datasets=cora")["sources"] == 1
    assert not receipt.exists()


def test_a_raw_file_that_changed_in_place_is_checked_again(finished: Project) -> None:
    (receipt,) = (finished.path / "data" / "raw" / "receipts").glob("*.json")
    record = json.loads(receipt.read_text())["files"][0]
    assert finished.jobs() == {}
    raw = finished.path / "data" / "raw" / record["file"]
    raw.write_bytes(raw.read_bytes() + b" ")
    assert finished.jobs()["sources"] == 1 and not receipt.exists()


def test_adding_a_dataset_keeps_raw_files_that_are_there(finished: Project, mirror: Path) -> None:
    first = finished.snakemake(
        "data/processed/cora/dataset.json", "--config", "datasets=cora", f"mirror={mirror}",
        **UNREACHABLE,
    )  # fmt: skip
    assert first.returncode == 0, first.stdout
    raw = finished.path / "data" / "raw" / "planetoid"
    before = {path: path.stat().st_mtime_ns for path in raw.glob("ind.cora.*")}
    second = finished.snakemake(
        "data/processed/citeseer/dataset.json", "--config", "datasets=cora,citeseer",
        f"mirror={mirror}", **UNREACHABLE,
    )  # fmt: skip
    assert second.returncode == 0, second.stdout
    assert len(before) == 8
    assert {path: path.stat().st_mtime_ns for path in raw.glob("ind.cora.*")} == before
    assert len(list(raw.glob("ind.citeseer.*"))) == 8
