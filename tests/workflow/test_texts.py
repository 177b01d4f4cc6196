"""Datasets with texts in the workflow: views, features, the label column, a user's own graph."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from .conftest import Project

TABLE2 = ("--config", "experiments=table2,leak", "protocols=paper,sound")
OWN = """\
datasets:
  - name: my_graph
    nodes: nodes.csv
    edges: edges.csv
    text: [title, body]
    label: topic
"""


def rows(project: Project, table: str) -> list[dict[str, str]]:
    """Return the rows of a table of the study."""
    path = project.path / "results" / "demo" / "tables" / f"lrec2022_{table}.csv"
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_profiles_become_features_and_scores_in_the_view_of_each_protocol(
    project: Project,
) -> None:
    run = project.snakemake("--cores", "2", *TABLE2)
    assert run.returncode == 0, run.stdout
    built = project.path / "data" / "processed" / "pokec_demo" / "bow"
    views = {path.name: json.loads((path / "dataset.json").read_text()) for path in built.iterdir()}
    assert set(views) == {"paper", "sound", "sound-with-label"}
    for name, info in views.items():
        told = " ".join(info["preprocessing"])
        assert info["view"] == name and "outside every guarantee" in told
        assert ("which is the label" in told) == (name != "sound")
    cell = project.runs / "table2/pokec_demo/bow/gcn/sgd/sound/s1/f1/statement.json"
    statements = json.loads(cell.read_text()).values()
    assert all("public nodes" in each["preprocessing"] for each in statements)
    scores = [
        row for row in rows(project, "table2") if row["setting"] in ("non_private", "dp_full")
    ]
    assert len(scores) == 2 and all(row["paper_mean"] and row["sound_mean"] for row in scores)
    assert all(row["published"] == "" for row in scores), "the paper has no synthetic profiles"
    worth = [row for row in rows(project, "leak") if row["setting"] == "non_private"]
    assert len(worth) == 1 and float(worth[0]["difference_points"]) == pytest.approx(
        100 * (float(worth[0]["with_mean"]) - float(worth[0]["without_mean"])), abs=0.02
    )
    assert project.jobs(*TABLE2) == {}
    # a further protocol reads the profiles in its own way and repeats nothing
    wider = ("--config", "experiments=table2,leak", "protocols=released,paper,sound")
    jobs = project.jobs(*wider)
    assert jobs == {
        "texts": 1, "features_bow": 1, "train": 1, "tables": 1, "figures": 1, "site": 1,
    }  # fmt: skip


def test_a_users_own_graph_runs_from_an_entry_of_the_configuration(
    root: Path, project: Project
) -> None:
    for name in ("nodes.csv", "edges.csv"):
        shutil.copy2(root / "examples" / "my_graph" / name, project.path)
    (project.path / "my.yaml").write_text(OWN)
    asked = ("--configfile", "my.yaml", "--config", "experiments=table1,table5", "protocols=sound")
    run = project.snakemake("--cores", "2", *asked)
    assert run.returncode == 0, run.stdout
    assert (project.runs / "table1/my_graph/bow/gcn/sgd/sound/s1/f1/runs.parquet").is_file()
    assert [row["dataset"] for row in rows(project, "table5")] == ["my_graph"]
    assert project.jobs(*asked) == {}
    cell = project.runs / "table1/my_graph/bow/gcn/sgd/sound/s1/f1/statement.json"
    sources = {each["noise_source"] for each in json.loads(cell.read_text()).values()}
    assert sources == {"os_entropy"}, "nobody can rebuild the noise of a private graph"
    named = ("--config", "experiments=table1,table5", "protocols=sound", "datasets=my_graph")
    assert project.jobs(*named) == {}, "once declared, its name is enough"
    with (project.path / "edges.csv").open("a") as stream:
        stream.write("no-such-post,neither\n")
    again = project.snakemake("--cores", "2", *named)
    assert again.returncode != 0 and "edges.csv" in again.stdout and "no-such-post" in again.stdout


def test_mistakes_in_a_users_graph_are_told_before_anything_runs(project: Project) -> None:
    (project.path / "my.yaml").write_text(OWN)
    asked = ("--configfile", "my.yaml", "--config", "experiments=table1,table5")
    project.edit_study(
        lambda scale: scale["experiments"]["table1"].update(grid=[{"splits": 10, "epsilons": [2]}])
    )
    gone = project.snakemake("--dry-run", *asked)
    assert gone.returncode != 0 and "nodes.csv: no such file" in gone.stdout
    assert not (project.path / "data" / "own").exists(), "a dry run declares nothing"
    rows = [f"p{number},a text,b text,{'xy'[number % 2]}" for number in range(5)]
    (project.path / "nodes.csv").write_text("\n".join(["id,title,body,topic", *rows]) + "\n")
    (project.path / "edges.csv").write_text("source,target\np0,p1\n")
    few = project.snakemake("--dry-run", *asked)
    assert few.returncode != 0
    assert "10 parts asked of the about 4 training nodes of my_graph" in few.stdout


def test_missing_profiles_and_models_are_one_message_that_says_how_to_supply_them(
    project: Project,
) -> None:
    refused = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy")}
    asked = ("--config", "scale=full", "datasets=pokec", "experiments=table2", "features=bert")
    run = project.snakemake(*asked, **refused, HF_HUB_OFFLINE="1")
    assert run.returncode != 0
    for part in ("soc-pokec-profiles.txt.gz", "model.safetensors", "HF_HUB_OFFLINE", "mirror=DIR"):
        assert part in run.stdout, part
