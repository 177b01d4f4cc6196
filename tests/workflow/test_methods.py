"""Proved methods in the workflow: the frontier of embedded data and of a user's own graph."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pandas as pd

from .conftest import Project

TABLES = ("frontier", "labels", "useful")
N_CELLS = 8
"""Methods of the tiny study, over its three settings."""
OWN = """\
datasets:
  - {name: my_graph, nodes: nodes.csv, edges: edges.csv, text: [title, body], label: topic}
"""
BOUNDED = OWN.replace("label: topic", "label: topic, max_edges: 9000")


def made(project: Project, dataset: str) -> list[dict[str, str]]:
    """Return the rows of the frontier, after checking that every table and picture is there."""
    demo = project.path / "results" / "demo"
    for name in TABLES:
        for suffix in ("csv", "md", "tex"):
            assert (demo / "tables" / f"lrec2022_{name}.{suffix}").stat().st_size > 0
    for name in ("frontier", "labels"):
        for suffix in ("png", "pdf"):
            assert (demo / "figures" / f"lrec2022_{name}_{dataset}.{suffix}").stat().st_size > 0
    assert (project.path / "results" / "index.html").is_file()
    assert dataset in (demo / "lrec2022_frontier.html").read_text(encoding="utf-8")
    with (demo / "tables" / "lrec2022_frontier.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["dataset"] for row in rows} == {dataset}
    return rows


def method_cells(project: Project) -> list[Path]:
    """Return the folders of the finished cells of proved methods."""
    folder = project.path / "results" / "demo" / "methods" / "lrec2022"
    cells = {path.parent for path in folder.rglob("runs.parquet")}
    return sorted(cell for cell in cells if cell.name != "without_dp")


def test_the_frontier_of_embedded_data_is_made_once_and_anew_for_a_changed_method(
    project: Project,
) -> None:
    asked = ("--config", "experiments=frontier,table1", "datasets=synthetic-npz", "seeds=2",
             "protocols=sound")  # fmt: skip
    run = project.snakemake("--cores", "2", *asked)
    assert run.returncode == 0, run.stdout
    assert f"Proved methods: {N_CELLS} jobs" in run.stdout
    rows = made(project, "synthetic-npz")
    assert {row["setting"] for row in rows} >= {"text", "graph", "edges"}
    cells = method_cells(project)
    assert len(cells) == N_CELLS
    times = project.path / "results" / "demo" / "benchmarks" / "method"
    assert len(list(times.rglob("*.tsv"))) == N_CELLS, "who has the seed has everything"
    for cell in cells:
        runs = pd.read_parquet(cell / "runs.parquet")
        assert set(runs["noise_source"]) == {"seeded"} and set(runs["seed"]) <= {0, 1}
        assert set(runs["statement_id"]) == set(json.loads((cell / "statement.json").read_text()))
        assert (cell / "plan.json").is_file()
    assert project.jobs(*asked) == {}
    project.append("src/private_graphs/methods/class_sums.py", "\n# a remark\n")
    assert project.jobs(*asked) == {"method": N_CELLS, "tables": 1, "figures": 1, "site": 1}


def test_the_frontier_of_a_users_own_graph_has_noise_that_nobody_can_rebuild(
    root: Path, project: Project
) -> None:
    for name in ("nodes.csv", "edges.csv"):
        shutil.copy2(root / "examples" / "my_graph" / name, project.path)
    (project.path / "my.yaml").write_text(OWN)
    methods = {
        "text": ["class_sums", "public_only"],
        "graph": ["dp_linear"],
        "edges": ["text_only"],
    }
    project.edit_study(lambda scale: scale["experiments"]["frontier"].update(methods=methods))
    declared = ("--configfile", "my.yaml", "--config", "experiments=frontier", "seeds=2",
                "protocols=sound")  # fmt: skip
    run = project.snakemake("--cores", "2", *declared)
    assert run.returncode == 0, run.stdout
    assert "Setting edges is left out for my_graph" in run.stdout and "max_edges" in run.stdout
    assert {row["features_kind"] for row in made(project, "my_graph")} == {"bow"}
    demo = project.path / "results" / "demo"
    assert not list((demo / "benchmarks" / "method").rglob("*.tsv")), "times are secret"
    for log in (demo / "logs" / "method").rglob("*.log"):
        assert log.read_text().endswith("\nfinished\n"), "no duration"
    for cell in method_cells(project):
        assert cell.relative_to(cell.parents[4]).parts[:3] == ("frontier", "my_graph", "bow")
        for each in json.loads((cell / "statement.json").read_text()).values():
            assert each["noise_source"] == "os_entropy"
            assert "vocabulary" in each["preprocessing"]
        runs = pd.read_parquet(cell / "runs.parquet")
        scores = runs.loc[runs["tuning_labels"] == runs["tuning_nodes"], "test_micro_f1"]
        assert scores.between(0.6, 1).all(), "three topics that texts tell apart"
    named = ("--config", "experiments=frontier", "datasets=my_graph", "seeds=2", "protocols=sound")
    assert project.jobs(*named) == {}, "once declared, its name is enough"
    (project.path / "my.yaml").write_text(BOUNDED)
    assert project.jobs(*declared)["method"] == 1, "a bound on the links adds setting edges"
    dense = project.snakemake("--cores", "2", *named, "features=fasttext")
    assert dense.returncode == 0, dense.stdout
    assert {path.parts[-3] for path in method_cells(project)} == {"bow", "fasttext"}


def test_proved_methods_asked_for_without_the_protocol_that_proves_are_refused(
    project: Project,
) -> None:
    refused = project.snakemake("--dry-run", "--config", "experiments=frontier", "protocols=paper")
    assert refused.returncode != 0
    assert "experiments: frontier has proved methods alone" in refused.stdout
    assert "add sound to protocols (now paper), or leave protocols out" in refused.stdout
