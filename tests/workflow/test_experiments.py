"""Experiments whose learning rate is chosen elsewhere, and the size of the shipped study."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from .conftest import UNREACHABLE, Project

CELL = "synthetic-planetoid/raw/gcn/adam/paper/s1"
B_OF_PAPER = ("--config", "experiments=B", "protocols=paper")


def test_the_choice_of_a_learning_rate_comes_along_on_a_fresh_folder(project: Project) -> None:
    jobs = project.jobs(*B_OF_PAPER)
    assert jobs == {"sources": 1, "dataset": 1, "train": 2, "tables": 1, "figures": 1, "site": 1}
    assert project.jobs("--config", "experiments=B")["train"] == 2 * 2


@pytest.fixture
def chosen(finished: Project) -> Project:
    """A project that has run experiment B of one protocol after its first run."""
    run = finished.snakemake(*B_OF_PAPER, **UNREACHABLE)
    assert run.returncode == 0, run.stdout
    assert run.stdout.index(f"trained selection/{CELL}") < run.stdout.index(f"trained B/{CELL}")
    return finished


def test_the_chosen_rate_is_used_and_paid_for_and_drawn_and_chosen_again_with_more_seeds(
    chosen: Project,
) -> None:
    searched = pd.read_parquet(chosen.runs / f"selection/{CELL}/f1/runs.parquet")
    assert sorted(searched["lr"].unique()) == [0.1, 1] and set(searched["epsilon"]) == {2}
    (rate,) = searched.loc[searched["selected"], "lr"].unique()
    folder = chosen.runs / f"B/{CELL}/f0.5"
    runs = pd.read_parquet(folder / "runs.parquet")
    assert set(runs["lr"]) == {rate} and set(runs["epsilon"]) == {2, 5}
    statements = json.loads((folder / "statement.json").read_text())
    assert {each["n_runs_released"] for each in statements.values()} == {2 + 2 * 2}
    assert json.loads((folder / "plan.json").read_text())["chosen_in"]["epsilon"] == 2
    results = chosen.path / "results" / "demo"
    points = pd.read_csv(results / "tables" / "lrec2022_figure2.csv")
    assert len(points) == 2 and set(points["lr"]) == {rate}
    for suffix in ("png", "pdf"):
        assert (results / f"figures/lrec2022_figure2_synthetic-planetoid.{suffix}").exists()
    assert (results / "tables" / "lrec2022_table1.csv").exists(), "made by the run before"

    assert chosen.jobs(*B_OF_PAPER) == {}
    assert "train" not in chosen.jobs(*B_OF_PAPER, "seeds=1"), "fewer seeds find all finished"
    assert chosen.jobs(*B_OF_PAPER, "seeds=3")["train"] == 2
    (chosen.runs / f"selection/{CELL}/f1/runs.parquet").unlink()
    assert chosen.jobs(*B_OF_PAPER)["train"] == 2, "what depends on a choice follows it"


@pytest.fixture
def searched(finished: Project) -> tuple[Project, Path]:
    """A project whose Table 1 chooses the rate of B, and an earlier cell of B of one protocol.

    One more rate is tried from now on: the cells of Table 1 are to be trained again.
    """

    def change(scale: dict) -> None:
        scale["training"]["private_learning_rates"]["sgd"] = [0.01, 1]
        scale["experiments"]["B"]["optimizers"] = ["sgd"]

    finished.edit_study(change)
    choice = finished.cell("paper")
    folder = finished.runs / "B" / choice.relative_to(finished.runs / "table1").with_name("f0.5")
    shutil.copytree(choice, folder)
    plan = json.loads((choice / "plan.json").read_text())
    plan["chosen_in"] = {"cell": dict(plan["cell"]), "epsilon": 2}
    plan["cell"] |= {"experiment": "B", "train_fraction": 0.5}
    plan |= {"epsilons": [2, 5], "private_learning_rates": [0.01, 1]}
    (folder / "plan.json").write_text(json.dumps(plan))
    return finished, folder


def dry_run(project: Project, *settings: str) -> str:
    """Return what a dry run prints."""
    done = project.snakemake("--dry-run", "--config", *settings)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_cells_whose_rate_is_chosen_anew_follow_and_both_exhibits_are_made(
    searched: tuple[Project, Path],
) -> None:
    project, _ = searched
    targets = [
        f"results/demo/{made}"
        for made in (
            "tables/lrec2022_table1.csv",
            "tables/lrec2022_figure2.csv",
            "figures/lrec2022_figure2_synthetic-planetoid.png",
        )
    ]
    (project.path / targets[0]).unlink()
    for asked in ("table1", "B"):
        settings = (f"experiments={asked}", "protocols=paper")
        jobs = project.jobs(*targets, "--config", *settings)
        assert jobs == {"train": 2, "tables": 1, "figures": 1}
    printed = dry_run(project, "experiments=table1")
    assert "Training: 3 jobs" in printed, "Table 1 of two protocols, B of one"
    assert "Among them: 1 job of B from earlier runs" in printed


def test_a_cell_that_is_older_than_its_choice_is_mentioned_with_what_mends_it(
    searched: tuple[Project, Path],
) -> None:
    project, folder = searched
    printed = dry_run(project, "experiments=table3")
    assert "Training:" not in printed and "Older than" not in printed
    os.utime(folder / "runs.parquet", (1, 1))
    printed = dry_run(project, "experiments=table3")
    assert "Older than the choice of their learning rate: 1 finished cell." in printed
    settings = "scale=demo datasets=synthetic-planetoid experiments=B protocols=paper"
    assert f"snakemake --config {settings}\n" in printed


def test_the_shipped_demo_is_small_and_has_every_table_and_figure(shipped: Project) -> None:
    jobs = shipped.jobs()
    assert jobs.pop("train") <= 110 and jobs.pop("method") == 13
    texts = dict.fromkeys(("texts", "features_bow", "features_fasttext", "features_bert"), 4)
    assert (
        jobs
        == {"sources": 1, "dataset": 2, "tables": 1, "figures": 1, "site": 1, "audit": 12} | texts
    )
    targets = [
        made.format(number)
        for made in (
            "tables/lrec2022_figure{}.csv",
            "figures/lrec2022_figure{}_synthetic-planetoid.png",
        )
        for number in (1, 2, 3, 4)
    ]
    assert shipped.jobs(*(f"results/demo/{each}" for each in targets))["figures"] == 1


def test_the_whole_grid_of_three_graphs_is_planned(shipped: Project) -> None:
    jobs = shipped.jobs("--config", "scale=full", "experiments=all,A,B,C")
    assert jobs["train"] == 3 * (12 + 60 + 24 + 36 + 12) and jobs["figures"] == 1
    assert shipped.jobs("--config", "scale=full")["train"] == 3 * 12
    assert shipped.jobs("--config", "scale=full", "datasets=cora", "experiments=A")["train"] == 60
