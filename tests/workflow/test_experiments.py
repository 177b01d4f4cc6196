"""Experiments whose learning rate is chosen elsewhere, and the size of the shipped study."""

from __future__ import annotations

import json
import time

import pandas as pd
import pytest

from .conftest import UNREACHABLE, Project

CELL = "synthetic-planetoid/raw/gcn/adam/paper/s1"
B_OF_PAPER = ("--config", "experiments=B", "protocols=paper")


def test_the_choice_of_a_learning_rate_comes_along_on_a_fresh_folder(project: Project) -> None:
    jobs = project.jobs(*B_OF_PAPER)
    assert jobs == {"sources": 1, "dataset": 1, "train": 3, "tables": 1, "figures": 1, "site": 1}
    assert project.jobs("--config", "experiments=B")["train"] == 2 * 3


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
    for fraction in ("f0.5", "f1"):
        folder = chosen.runs / f"B/{CELL}/{fraction}"
        runs = pd.read_parquet(folder / "runs.parquet")
        assert set(runs["lr"]) == {rate} and set(runs["epsilon"]) == {2, 5}
        statements = json.loads((folder / "statement.json").read_text())
        assert {each["n_runs_released"] for each in statements.values()} == {2 + 2 * 2}
        assert json.loads((folder / "plan.json").read_text())["chosen_in"]["epsilon"] == 2
    results = chosen.path / "results" / "demo"
    points = pd.read_csv(results / "tables" / "lrec2022_figure2.csv")
    assert len(points) == 2 * 2 and set(points["lr"]) == {rate}
    for suffix in ("png", "pdf"):
        assert (results / f"figures/lrec2022_figure2_synthetic-planetoid.{suffix}").exists()
    assert (results / "tables" / "lrec2022_table1.csv").exists(), "made by the run before"

    assert chosen.jobs(*B_OF_PAPER) == {}
    assert "train" not in chosen.jobs(*B_OF_PAPER, "seeds=1"), "fewer seeds find all finished"
    assert chosen.jobs(*B_OF_PAPER, "seeds=3")["train"] == 3
    (chosen.runs / f"selection/{CELL}/f1/runs.parquet").unlink()
    assert chosen.jobs(*B_OF_PAPER)["train"] == 3, "what depends on a choice follows it"


def test_the_shipped_demo_is_small_and_has_every_table_and_figure(shipped: Project) -> None:
    jobs = shipped.jobs()
    assert jobs.pop("train") <= 100
    assert jobs == {"sources": 1, "dataset": 2, "tables": 1, "figures": 1, "site": 1}
    targets = [
        made.format(number)
        for made in (
            "tables/lrec2022_figure{}.csv",
            "figures/lrec2022_figure{}_synthetic-planetoid.png",
        )
        for number in (1, 2, 3, 4)
    ]
    assert shipped.jobs(*(f"results/demo/{each}" for each in targets))["figures"] == 1


def test_the_whole_grid_of_three_graphs_is_planned_in_seconds(shipped: Project) -> None:
    started = time.monotonic()
    jobs = shipped.jobs("--config", "scale=full", "experiments=all,A,B,C")
    assert time.monotonic() - started < 40  # 4 s on a free core
    assert jobs["train"] == 3 * (12 + 60 + 24 + 36 + 12) and jobs["figures"] == 1
    assert shipped.jobs("--config", "scale=full")["train"] == 3 * 12
    assert shipped.jobs("--config", "scale=full", "datasets=cora", "experiments=A")["train"] == 60
