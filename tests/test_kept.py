"""What cells of earlier runs mean for a run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from private_graphs.cells import CellPlan, RateChoice
from private_graphs.config import RunConfig, Study, load_study
from private_graphs.grids import plans
from private_graphs.kept import followers, outdated, widened


@pytest.fixture(scope="module")
def study() -> Study:
    """The LREC study."""
    return load_study("lrec2022")


def test_a_cell_never_loses_finished_seeds(study: Study, tmp_path: Path) -> None:
    plan = plans(study, RunConfig.parse({"seeds": 5}))[0]
    saved = tmp_path / "plan.json"
    assert widened(plan, saved) == plan
    saved.write_text(plan.model_dump_json())
    fewer = plan.model_copy(update={"seeds": (0, 1)})
    assert widened(fewer, saved) == plan
    other = plan.model_copy(update={"seeds": (0, 9)})
    assert widened(other, saved).seeds == (0, 1, 2, 3, 4, 9)
    shorter = fewer.model_copy(update={"epochs": 7})
    assert widened(shorter, saved) == shorter
    elsewhere = fewer.model_copy(update={"chosen_in": RateChoice(cell=plan.cell, epsilon=2)})
    assert widened(elsewhere, saved) == elsewhere
    saved.write_text(elsewhere.model_copy(update={"seeds": (0, 1, 5)}).model_dump_json())
    assert widened(elsewhere, saved).seeds == (0, 1, 5)
    saved.write_text("{}")
    assert widened(fewer, saved) == fewer


def full(**raw: object) -> RunConfig:
    return RunConfig.parse({"scale": "full"} | raw)


def left(runs: Path, plans: Iterable[CellPlan], time: int = 1) -> None:
    """Leave what this module reads of finished cells."""
    for plan in plans:
        folder = runs / plan.cell.cell_id
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(plan.model_dump_json())
        (folder / "runs.parquet").touch()
        os.utime(folder / "runs.parquet", (time, time))


def following(study: Study, run: RunConfig, runs: Path) -> list[CellPlan]:
    return followers(study, run, plans(study, run), runs)


@pytest.fixture
def runs(study: Study, tmp_path: Path) -> Path:
    """The cells that a run of B and C with 3 seeds has left on two graphs."""
    left(tmp_path, plans(study, full(experiments="B,C", datasets="cora,pubmed", seeds=3)))
    return tmp_path


def test_earlier_cells_follow_the_table_in_which_their_learning_rate_is_chosen(
    study: Study, runs: Path
) -> None:
    run = full(experiments="table1", seeds=8, datasets="cora,citeseer", protocols="paper")
    found = {(p.cell.experiment, p.cell.splits, p.cell.train_fraction): p for p in
             following(study, run, runs)}  # fmt: skip
    assert set(found) == {("B", 1, f) for f in (0.25, 0.5, 0.75, 1)} | {("C", 1, 1), ("C", 10, 1)}
    for plan in found.values():
        cell = plan.cell
        assert (cell.dataset, cell.optimizer, cell.protocol) == ("cora", "adam", "paper")
        assert plan.seeds == (0, 1, 2), "its own"
        assert plan.chosen_in.cell.experiment == "table1"


def test_cells_of_one_figure_follow_the_choice_that_another_makes_anew(
    study: Study, runs: Path
) -> None:
    found = following(study, full(experiments="B", datasets="cora", seeds=8), runs)
    assert {(p.cell.experiment, p.cell.splits) for p in found} == {("C", 1)}
    assert len(found) == 3, "one of each protocol"


def test_nothing_follows_where_nothing_is_chosen_asked_for_or_left(
    study: Study, runs: Path, tmp_path: Path
) -> None:
    assert following(study, full(experiments="A", datasets="cora"), runs) == []
    assert following(study, full(experiments="table3"), runs) == []
    assert following(study, full(experiments="table1", datasets="citeseer"), runs) == []
    assert following(study, full(experiments="B,C", datasets="cora"), runs) == []
    assert following(study, full(datasets="cora"), tmp_path / "none") == []


def test_a_dataset_that_the_study_does_not_name_follows_too(study: Study, tmp_path: Path) -> None:
    asked = RunConfig.parse({"experiments": "B", "datasets": "synthetic-npz"})
    left(tmp_path, plans(study, asked))
    found = following(study, RunConfig.parse({"experiments": "table1"}), tmp_path)
    assert {p.cell.dataset for p in found} == {"synthetic-npz"} and len(found) == 3 * 3


def test_a_cell_that_is_older_than_its_choice_is_outdated_unless_the_run_has_it(
    study: Study, runs: Path
) -> None:
    assert outdated(runs, ()) == []
    choice = "table1/cora/raw/gcn/adam/sound/s10/f1"
    os.utime(runs / choice / "runs.parquet", (2, 2))
    (stale,) = outdated(runs, ())
    assert stale.cell.cell_id == choice.replace("table1", "C")
    assert outdated(runs, {stale.cell.cell_id}) == []
    (runs / stale.cell.cell_id / "runs.parquet").unlink()
    assert outdated(runs, ()) == [], "an unfinished cell is not shown"
