"""Snakemake itself, on a tiny study: what a run leaves, and what makes a job run again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import zipfile
from pathlib import Path

import pandas as pd
import pytest
import yaml

from private_graphs.running.study import study_ids

from .conftest import RECORDED, STUDY, UNREACHABLE, FirstRun, Project

BUILD = "data/processed/synthetic-planetoid"
OWN = """\
datasets:
  - {name: my_graph, nodes: nodes.csv, edges: edges.csv, text: [title, body], label: topic}
"""


def edit_score(path: Path) -> None:
    """Write a better score into the rows of a job; the date of the file stays."""
    status = path.stat()
    rows = pd.read_parquet(path)
    rows.loc[0, "test_micro_f1"] = 0.99
    rows.to_parquet(path, index=False)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def rows_of(project: Project) -> pd.DataFrame:
    """The tidy rows that exhibits are made of, but for printed numbers."""
    rows = pd.read_parquet(project.demo / "rows.parquet")
    return rows[rows["source"] != "published"].reset_index(drop=True)


def test_a_first_run_without_network_leaves_rows_exhibits_and_pages(first_run: FirstRun) -> None:
    project, run = first_run.project, first_run.result
    assert run.returncode == 0, run.stdout
    announced = run.stdout.index("To run: 2 jobs with 4 runs in 1 batch, about")
    assert announced < run.stdout.index("Results: results/index.html")
    assert (project.path / "results" / "index.html").stat().st_size > 1000
    exhibits = project.demo / "exhibits"
    told = json.loads((exhibits / "manifest.json").read_text())["sha256"]
    assert {f"{STUDY}/table1.csv", f"{STUDY}/table1.md", f"{STUDY}/table1.tex"} <= set(told)
    assert all((exhibits / name).stat().st_size > 0 for name in told)
    assert set(rows_of(project)["protocol"]) == {"released", "paper"}
    for protocol in ("released", "paper"):
        names = {path.name for path in project.job(protocol).iterdir()}
        assert names == {"job.json", "runs.parquet", "statement.json", "predictions.safetensors",
                         "manifest.json"}  # fmt: skip
    said = (r"^\[  1/  1, \d+ of about \d+ min\] Table 1, lrec2022: synthetic-planetoid; "
            r"released, paper; gcn \(2 jobs")  # fmt: skip
    assert re.search(said, run.stdout, flags=re.MULTILINE)
    assert not re.search(r"^(Select|Execute \d+) jobs", run.stdout, flags=re.MULTILINE)
    assert re.search(r"^Finished: 2 jobs on synthetic data, which say nothing", run.stdout, re.M)


@pytest.mark.long
def test_the_report_of_snakemake_holds_each_table_and_picture(first_run: FirstRun) -> None:
    project = first_run.project
    written = project.snakemake("--report", "report.zip")
    assert written.returncode == 0, written.stdout
    hashes = json.loads((project.demo / "exhibits" / "manifest.json").read_text())["sha256"]
    shown = {value for name, value in hashes.items()
             if name.startswith(STUDY) and name.endswith((".csv", ".svg"))}  # fmt: skip
    with zipfile.ZipFile(project.path / "report.zip") as archive:
        embedded = {hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
    assert shown and shown <= embedded


def test_the_crate_names_each_file_with_its_hash_and_each_run(first_run: FirstRun) -> None:
    demo = first_run.project.demo
    crate = json.loads((demo / "ro-crate-metadata.json").read_text())
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert len(entities) == len(crate["@graph"])
    runs = [entity for entity in entities.values() if entity["@type"] == "CreateAction"]
    parts = [part["@id"] for part in entities["./"]["hasPart"]]
    made = [result["@id"] for run in runs for result in run["result"]]
    assert sorted(made) == sorted(parts) and len(runs) == 3  # two jobs and the exhibits
    for name in parts:
        assert hashlib.sha256((demo / name).read_bytes()).hexdigest() == entities[name]["sha256"]
    on_disk = {path.relative_to(demo).as_posix() for folder in ("jobs", "exhibits", "claims")
               for path in (demo / folder).rglob("*") if path.is_file()}  # fmt: skip
    assert on_disk | {"rows.parquet"} == set(parts)
    assert all(thing["@id"] in entities for run in runs for thing in run["object"])
    jobs = [run for run in runs if run["@id"] != "#run/exhibits"]
    assert all(entities[thing["@id"]]["sha256"] for run in jobs for thing in run["object"])
    assert all(run["object"] and run["endTime"] and run["description"] for run in jobs)


@pytest.mark.parametrize("scale", ["demo", "full"])
def test_every_study_can_be_planned_without_network_or_files(shipped: Project, scale: str) -> None:
    jobs = shipped.jobs("--config", f"scale={scale}", f"studies={','.join(study_ids())}",
                        **UNREACHABLE)  # fmt: skip
    assert jobs["sources"] == jobs["exhibits"] == jobs["site"] == 1 and jobs["run"] > 1
    assert not (shipped.path / "results").exists()
    assert sorted(path.name for path in (shipped.path / "data").iterdir()) == [
        "embedded",
        "sources.yaml",
    ]


def test_damage_is_found_by_its_reader_and_healed_by_the_same_command(finished: Project) -> None:
    before = rows_of(finished).drop(columns="seconds")
    edit_score(finished.job("paper") / "runs.parquet")
    kept = finished.job("released") / "runs.parquet"
    made = kept.stat().st_mtime_ns
    (finished.demo / "rows.parquet").unlink()
    run = finished.snakemake("exhibits")
    assert run.returncode != 0 and "Traceback" not in run.stdout
    assert "runs.parquet: is not the file that was written" in run.stdout
    assert "the same command makes it anew" in run.stdout
    run = finished.snakemake("exhibits")
    assert run.returncode == 0, run.stdout
    assert "To run: 1 job with 2 runs" in run.stdout and "1 finished job kept" in run.stdout
    pd.testing.assert_frame_equal(rows_of(finished).drop(columns="seconds"), before)
    assert kept.stat().st_mtime_ns == made
    shutil.rmtree(finished.job("released"))
    assert finished.jobs() == {"run": 1, "exhibits": 1, "site": 1}


@pytest.mark.long
def test_a_job_that_fails_loses_none_of_its_batch(finished: Project) -> None:
    package = finished.path / "src" / "private_graphs"
    runner = package / "running" / "run.py"
    text = runner.read_text()
    start = "    runner = Runner.of(job, dataset, chosen, noise_source, unlabelled, secret)\n"
    assert text.count(start) == 1
    bug = '    if job.protocol == "released":\n        raise UserError("no luck today")\n'
    runner.write_text(text.replace(start, bug + start))
    run = finished.snakemake("exhibits")
    assert run.returncode != 0
    said = f"^{STUDY}/table1/.*released.*: no luck today$"
    assert re.search(said, run.stdout, flags=re.MULTILINE)
    made = finished.job("paper") / "manifest.json"
    before = made.stat().st_mtime_ns
    assert not (finished.job("released") / "manifest.json").exists()
    assert "To run: 1 job" in finished.snakemake("exhibits").stdout
    assert made.stat().st_mtime_ns == before


@pytest.mark.long
def test_edits_of_code_and_grids_rerun_what_depends_on_them_and_nothing_else(
    finished: Project,
) -> None:
    package = "src/private_graphs"
    time.sleep(0.05)
    method = finished.path / package / "methods" / "gcn.py"
    method.touch()
    finished.append(f"{package}/methods/class_sums.py", "\n# of another method\n")
    assert finished.jobs() == {}, "a date alone, or another method, changes nothing"
    for name, own in (
        (f"studies/{STUDY}/table1.py", ["exhibits"]),
        (f"studies/{RECORDED}/table3_1.py", []),
        ("site/templates/site.css", ["exhibits"]),
    ):
        edited = finished.path / package / name
        text = edited.read_text()
        edited.write_text(f"{text}\n")
        assert finished.jobs() == {**dict.fromkeys(own, 1), "site": 1}, name
        edited.write_text(text)
    before = method.read_text()
    finished.append(f"{package}/methods/gcn.py", "\n# edited\n")
    assert finished.jobs() == {"run": 1, "exhibits": 1, "site": 1}
    method.write_text(before)
    finished.edit_study(lambda demo: demo["configurations"]["sgd"]["settings"].update(epochs=4))
    assert finished.jobs() == {"run": 1, "exhibits": 1, "site": 1}


@pytest.mark.long
def test_a_broken_proof_fails_the_run_and_a_mended_one_adds_its_jobs_to_the_others(
    finished: Project,
) -> None:
    folders = [finished.job(name) for name in ("released", "paper")]
    before = [path.stat().st_mtime_ns for folder in folders for path in sorted(folder.iterdir())]
    path = finished.path / "src" / "private_graphs" / "mechanisms" / "door.py"
    honest = path.read_text()
    stated = "return query.noise_multiplier * query.clip_norm"
    bug = honest.replace(stated, f"{stated} / 10")  # the accounting knows nothing of it
    assert bug != honest
    path.write_text(bug)
    asked = ("exhibits", "--cores", "1", "--config", "protocols=sound")
    run = finished.snakemake(*asked, "exhibits=audit", **UNREACHABLE)
    assert run.returncode != 0
    assert "breaks its proof; mend it before publishing any result" in run.stdout
    assert not list((finished.demo / "jobs" / STUDY / "audit").rglob("manifest.json"))
    path.write_text(honest)
    run = finished.snakemake(*asked, "exhibits=lrec2022.table1,audit", **UNREACHABLE)
    assert run.returncode == 0, run.stdout
    assert "To run: 1 job with 2 runs and 1 audit" in run.stdout
    after = [path.stat().st_mtime_ns for folder in folders for path in sorted(folder.iterdir())]
    assert after == before
    rows = rows_of(finished)
    assert set(rows.query("source == 'own'")["protocol"]) == {"released", "paper", "sound"}
    audits = rows.query("source == 'audit'")
    assert len(audits) == 1 and (audits["epsilon_lower"] < audits["epsilon_proved"]).all()
    assert finished.jobs(*asked, "exhibits=lrec2022.table1,audit") == {}


@pytest.mark.long
def test_a_users_own_graph_has_noise_that_nobody_can_rebuild_and_no_times(
    root: Path, project: Project
) -> None:
    for name in ("nodes.csv", "edges.csv"):
        shutil.copy2(root / "examples" / "my_graph" / name, project.path)
    (project.path / "my.yaml").write_text(OWN)
    wanted = ("exhibits=lrec2022.table1,frontier", "protocols=sound", "seeds=2")
    asked = ("exhibits", "--configfile", "my.yaml", "--config", *wanted)
    run = project.snakemake("--cores", "2", *asked)
    assert run.returncode == 0, run.stdout
    assert "Scenario edges is left out for my_graph" in run.stdout
    rows = rows_of(project).query("source == 'own'")
    assert set(rows["dataset"]) == {"my_graph"} and set(rows["features"]) == {"bow"}
    assert set(rows["noise_source"]) == {"os_entropy"} and rows["seconds"].isna().all()
    for log in (project.demo / "logs" / "batches").rglob("*.log"):
        text = log.read_text()
        assert text.endswith("\nfinished\n") and "progress" not in text, "no duration"
    named = ("exhibits", "--config", *wanted, "datasets=my_graph")
    assert project.jobs(*named) == {}, "once declared, its name is enough"
    with (project.path / "edges.csv").open("a") as stream:
        stream.write("no-such-post,neither\n")
    again = project.snakemake("--cores", "2", *named)
    assert again.returncode != 0 and "edges.csv" in again.stdout and "no-such-post" in again.stdout


@pytest.mark.long
def test_profiles_become_features_in_the_view_of_each_protocol(project: Project) -> None:
    asked = ("--config", "exhibits=lrec2022.table2,leak", "protocols=paper,sound", "features=bow")
    wanted = [f"data/processed/pokec_demo/bow/{view}/manifest.json"
              for view in ("paper", "sound", "sound-with-label")]  # fmt: skip
    run = project.snakemake("--cores", "2", *wanted, *asked)
    assert run.returncode == 0, run.stdout
    wider = (
        "--config",
        "exhibits=lrec2022.table2,leak",
        "protocols=released,paper,sound",
        "features=bow",
    )
    jobs = project.jobs(*wider)
    assert (jobs["texts"], jobs["features"]) == (1, 1), "the other views are there"


def test_a_wrong_setting_is_an_error_before_the_jobs_are_planned(project: Project) -> None:
    run = project.snakemake("--config", "datasets=coral")
    assert run.returncode != 0 and "did you mean 'cora'" in run.stdout
    assert "Traceback" not in run.stdout and "To run" not in run.stdout


def test_a_checkout_without_the_package_says_in_one_line_what_to_do(project: Project) -> None:
    shutil.rmtree(project.path / "src" / "private_graphs")
    (project.path / "src" / "private_graphs.py").write_text("raise ModuleNotFoundError")
    run = project.snakemake()
    assert run.returncode != 0
    (line,) = [each for each in run.stdout.splitlines() if "make install" in each]
    assert "pip install -e ." in line and "Traceback" not in run.stdout


def test_missing_raw_files_are_one_message_and_no_other_job_runs(project: Project) -> None:
    run = project.snakemake("--config", "datasets=cora,synthetic-planetoid", **UNREACHABLE)
    assert run.returncode != 0
    files = yaml.safe_load((project.path / "data" / "sources.yaml").read_text())
    for file in files["datasets"]["cora"]["files"]:
        assert run.stdout.count(f"{file['file']}  {file['url']}") == 1
    assert "mirror=DIR" in run.stdout and "by hand" in run.stdout
    assert "(log: results/demo/logs/sources.log)" in run.stdout
    assert "Traceback" not in run.stdout
    assert not (project.path / BUILD).exists() and not project.job("paper").exists()
    assert not list((project.path / "data" / "raw").rglob("ind.cora.*"))


@pytest.mark.long
def test_an_unexpected_error_keeps_its_traceback_in_the_log(finished: Project) -> None:
    script = finished.path / "workflow" / "scripts" / "exhibits.py"
    text = script.read_text()
    broken = text.replace("        written = ", "        1 / 0\n        written = ")
    assert broken != text
    script.write_text(broken)
    run = finished.snakemake("exhibits")
    assert run.returncode != 0
    assert "ZeroDivisionError: division by zero" in run.stdout
    assert "(log: results/demo/logs/exhibits.log)" in run.stdout
    assert "Traceback" not in run.stdout
    assert "Traceback" in (finished.demo / "logs" / "exhibits.log").read_text()
