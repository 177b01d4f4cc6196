"""Keeping what a finished scale found: a folder per dataset, and the tables of all of them."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest

from private_graphs.config import load_study
from private_graphs.errors import UserError
from private_graphs.reporting.figures import write_figures
from private_graphs.reporting.holdings import Holdings
from private_graphs.reporting.publish import compose, main, publish
from private_graphs.reporting.runs import collect, find_runs
from private_graphs.reporting.tables import write_tables

DP = {1: {math.inf: [0.8, 0.9], 2.0: [0.5, 0.6]}, 10: {1.0: [0.3, 0.4], 2.0: [0.5, 0.7]}}


@pytest.fixture
def finish(cell, statistics):
    """A function that finishes the default run of a dataset in a scale."""

    def run(scale: Path, dataset: str, leave_out: str = "") -> None:
        for optimizer in ("sgd", "adam"):
            for protocol in ("released", "paper", "sound"):
                for splits, scores in DP.items():
                    if f"{optimizer}/{protocol}/s{splits}" == leave_out:
                        continue
                    rates = (0.1, 10.0) if optimizer == "adam" else (0.01,)
                    folder = cell(
                        scale, dataset=dataset, optimizer=optimizer, protocol=protocol,
                        splits=splits, scores=scores, rates=rates,
                    )  # fmt: skip
                    plan = {"hidden": 32, "cell": {"experiment": "table1"}}
                    (folder / "plan.json").write_text(json.dumps(plan))
        write_tables(
            scale, "lrec2022", statistics=[statistics(dataset)], epochs={"sgd": 9}, epsilons=[2]
        )

    return run


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_dataset_has_its_tables_picture_times_and_learning_rates(tmp_path, finish):
    scale, kept = tmp_path / "results" / "full", tmp_path / "kept"
    finish(scale, "cora")
    written = publish(scale, kept)
    assert all(path.stat().st_size for path in written)
    assert set(contents(kept / "cora")) == {
        "table1.csv", "table1.md", "table1.png", "table5.csv", "table5.md", "times.csv", "runs.md",
    }  # fmt: skip
    tables = scale / "tables"
    for suffix in ("csv", "md"):
        table = (tables / f"lrec2022_table1.{suffix}").read_bytes()
        assert (kept / "cora" / f"table1.{suffix}").read_bytes() == table
        assert (kept / f"lrec2022_table1.{suffix}").read_bytes() == table
        for name in ("table3", "table5"):
            table = (tables / f"lrec2022_{name}.{suffix}").read_bytes()
            assert (kept / f"lrec2022_{name}.{suffix}").read_bytes() == table
    page = (kept / "cora" / "runs.md").read_text()
    assert "snakemake --config scale=full datasets=cora seeds=2 [mirror=DIR]" in page
    assert "| table1 | adam | paper | 1 | 2 | 10 | 0.550 | 0.550 | yes |" in page
    assert "| table1 | adam | paper | 1 | 2 | 0.1 | 0.550 | 0.010 |  |" in page
    assert "| table1 | sgd |" not in page.partition("Learning rates")[2]
    assert "| all | | 12 | 72 | 144000 | 0.020 |" in page


def test_times_have_a_line_per_job(tmp_path, finish):
    scale, kept = tmp_path / "results" / "full", tmp_path / "kept"
    finish(scale, "cora")
    benchmark = scale / "benchmarks/train/lrec2022/table1/cora/raw/gcn/sgd/paper/s1/f1.tsv"
    benchmark.parent.mkdir(parents=True)
    benchmark.write_text("s\th:m:s\n9.5\t0:00:09\n")
    publish(scale, kept)
    times = pd.read_csv(kept / "cora" / "times.csv")
    assert len(times) == 12
    job = times[(times.optimizer == "sgd") & (times.protocol == "paper") & (times.splits == 1)]
    assert job.iloc[0][["private_epochs", "non_private_epochs"]].tolist() == [4000, 4000]
    assert job.iloc[0][["training_seconds", "job_seconds"]].tolist() == [4.0, 9.5]
    assert times["job_seconds"].notna().sum() == 1


def test_a_dataset_of_its_own_run_leaves_the_others_alone_and_joins_their_tables(tmp_path, finish):
    kept = tmp_path / "kept"
    finish(tmp_path / "first" / "full", "cora")
    publish(tmp_path / "first" / "full", kept)
    before = contents(kept / "cora")
    finish(tmp_path / "second" / "full", "citeseer")
    publish(tmp_path / "second" / "full", kept, ["citeseer"])
    assert contents(kept / "cora") == before
    both = tmp_path / "both" / "full"
    finish(both, "cora")
    finish(both, "citeseer")
    write_figures(both, "lrec2022", {"table1": ["citeseer", "cora"]})
    for name in ("table1.csv", "table1.md", "table5.csv", "table5.md"):
        whole = (both / "tables" / f"lrec2022_{name}").read_bytes()
        assert (kept / f"lrec2022_{name}").read_bytes() == whole
    picture = (both / "figures" / "lrec2022_table1.png").read_bytes()
    assert (kept / "lrec2022_table1.png").read_bytes() == picture


def test_of_several_datasets_the_named_one_is_published(tmp_path, finish, capsys):
    scale, kept = tmp_path / "results" / "full", tmp_path / "kept"
    finish(scale, "cora")
    finish(scale, "citeseer")
    main([str(scale), str(kept), "--datasets", "citeseer"])
    assert sorted(path.name for path in kept.iterdir() if path.is_dir()) == ["citeseer"]
    assert "cora" not in (kept / "lrec2022_table1.md").read_text()
    assert str(kept / "citeseer" / "table1.csv") in capsys.readouterr().out


SHARES = [share / 10 for share in range(1, 11)]


@pytest.fixture
def experiment(cell):
    """A function that finishes an experiment on Cora for some splits and protocols."""

    def run(scale, name, splits=(1,), protocols=("released", "paper", "sound"), seeds=2):
        private = {epsilon: [0.5] * seeds for epsilon in (2.0, 5.0)}
        scores = {math.inf: [0.8] * seeds} if name == "A" else private
        if name == "C":
            scores = {math.inf: [0.8] * seeds} | private
        axes = itertools.product(protocols, ("sgd", "adam"), splits, SHARES)
        for protocol, optimizer, number, share in axes:
            if name == "A" or share == 1:
                cell(
                    scale, experiment=name, protocol=protocol, optimizer=optimizer, splits=number,
                    fraction=share, scores=scores,
                )  # fmt: skip

    return run


def exhibit(scale, *figures):
    """Write the tables of figures, and a stand-in for the picture of each."""
    write_tables(scale, "lrec2022", tables=figures)
    (scale / "figures").mkdir(exist_ok=True)
    for name in figures:
        (scale / "figures" / f"lrec2022_{name}_cora.png").write_bytes(b"picture")


def commands(scale, study="lrec2022"):
    """The settings of the commands that make what there is of Cora."""
    runs, _ = collect(find_runs(scale, study))
    held = Holdings.of(scale, load_study(study), "cora", runs)
    held.check_whole()
    return held.settings(held.parts())


def test_figures_are_published_with_their_points_and_replaced_as_a_whole(
    tmp_path, finish, experiment
):
    scale, kept = tmp_path / "results" / "full", tmp_path / "kept"
    finish(scale, "cora")
    experiment(scale, "A")
    with pytest.raises(
        UserError, match=r"figure1\.csv is missing; .*figures --config .*=A seeds=2"
    ):
        publish(scale, kept)
    exhibit(scale, "figure1")
    picture = scale / "figures" / "lrec2022_figure1_cora.png"
    picture.unlink()
    with pytest.raises(UserError, match=r"lrec2022_figure1_cora\.png is missing; .*figures"):
        publish(scale, kept)
    exhibit(scale, "figure1")
    publish(scale, kept)
    assert (kept / "cora" / "figure1.png").read_bytes() == b"picture"
    assert (kept / "cora" / "figure1.csv").read_text().count("\n") == 1 + 60
    assert (kept / "cora" / "figure1.md").read_text().count("| cora |") == 6
    page = (kept / "cora" / "runs.md").read_text()
    assert "\nsnakemake --config scale=full datasets=cora experiments=all,A seeds=2 [" in page
    shutil.rmtree(scale / "runs/lrec2022/A")
    publish(scale, kept)
    assert not list((kept / "cora").glob("figure*"))


def test_what_is_older_than_what_it_shows_is_refused_with_the_command_that_mends_it(
    tmp_path, finish, experiment
):
    scale, kept = tmp_path / "results" / "full", tmp_path / "kept"
    finish(scale, "cora")
    experiment(scale, "A")
    exhibit(scale, "figure1")
    points, picture = scale / "tables/lrec2022_figure1.csv", "lrec2022_figure1_cora.png"
    later = time.time() + 5
    os.utime(points, (later, later))
    with pytest.raises(
        UserError, match=rf"{picture} is older than .*figure1\.csv; .*snakemake figures --config"
    ):
        publish(scale, kept)
    os.utime(find_runs(scale, "lrec2022")[0] / "runs.parquet", (later + 5, later + 5))
    with pytest.raises(
        UserError,
        match=r"figure1\.csv is older than .*runs\.parquet; .*snakemake figures --config ",
    ):
        publish(scale, kept)
    table1 = scale / "tables/lrec2022_table1.csv"
    os.utime(table1, (1, 1))
    with pytest.raises(UserError, match=r"table1\.csv is older than .*snakemake tables --config"):
        publish(scale, kept)
    assert not kept.exists()


def test_the_command_says_which_numbers_of_splits_are_there(tmp_path, finish, experiment):
    scale = tmp_path / "full"
    finish(scale, "cora")
    experiment(scale, "A")
    experiment(scale, "C", splits=(1, 4, 10))
    experiment(scale, "selection", splits=(4,))
    assert commands(scale) == [
        "--config scale=full datasets=cora experiments=all,A,C splits=1,4,10 seeds=2"
    ]
    experiment(scale, "C", splits=(6, 8, 100))
    experiment(scale, "selection", splits=(6, 8, 100))
    assert commands(scale) == ["--config scale=full datasets=cora experiments=all,A,C seeds=2"]


def test_experiments_that_differ_in_protocols_or_seeds_have_commands_of_their_own(
    tmp_path, finish, experiment
):
    scale = tmp_path / "full"
    finish(scale, "cora")
    experiment(scale, "A", protocols=("paper", "sound"), seeds=1)
    experiment(scale, "C", splits=(1, 10), protocols=("sound",))
    assert commands(scale) == [
        "--config scale=full datasets=cora seeds=2",
        "--config scale=full datasets=cora experiments=A protocols=paper,sound seeds=1",
        "--config scale=full datasets=cora experiments=C protocols=sound splits=1,10 seeds=2",
    ]


def test_an_experiment_that_was_interrupted_is_refused(tmp_path, finish, experiment):
    scale = tmp_path / "full"
    finish(scale, "cora")
    experiment(scale, "C", splits=(1,))
    experiment(scale, "C", splits=(10,), protocols=("released",))
    expected = (
        r"4 of 24 cells of cora are not finished \(C/cora/raw/gcn/sgd/paper/s10/f1, …\); .*"
        r"snakemake --config scale=full datasets=cora experiments=all,C splits=1,10 seeds=2"
    )
    with pytest.raises(UserError, match=expected):
        commands(scale)


def test_a_cell_that_lacks_a_seed_is_not_finished(tmp_path, finish, experiment):
    scale = tmp_path / "full"
    finish(scale, "cora")
    experiment(scale, "C", splits=(1,), protocols=("released",), seeds=1)
    experiment(scale, "C", splits=(1,), protocols=("paper", "sound"))
    with pytest.raises(UserError, match=r"2 of 18 cells .*\(C/cora/raw/gcn/sgd/released/s1/f1, …"):
        commands(scale)


def test_an_unfinished_scale_is_refused_with_the_file_that_lacks(tmp_path):
    with pytest.raises(UserError, match=r"lrec2022_table5\.csv is missing.*run snakemake"):
        publish(tmp_path / "full", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_run_that_lacks_a_cell_is_refused_with_the_command_that_finishes_it(tmp_path, finish):
    scale = tmp_path / "full"
    finish(scale, "cora", leave_out="adam/sound/s10")
    expected = (
        r"1 of 12 cells of cora are not finished \(table1/cora/raw/gcn/adam/sound/s10/f1\).*"
        r"snakemake --config scale=full datasets=cora"
    )
    with pytest.raises(UserError, match=expected):
        publish(scale, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_dataset_that_the_tables_do_not_have_yet_is_refused(tmp_path, finish):
    scale = tmp_path / "full"
    finish(scale, "cora")
    tables = {path: path.read_bytes() for path in (scale / "tables").iterdir()}
    finish(scale, "citeseer")
    for path, content in tables.items():
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"table1\.csv has no row of 'citeseer'.*snakemake tables"):
        publish(scale, tmp_path / "kept", ["citeseer"])


def test_folders_of_different_versions_are_not_mixed(tmp_path, finish):
    finish(tmp_path / "first" / "full", "cora")
    finish(tmp_path / "second" / "full", "citeseer")
    publish(tmp_path / "first" / "full", tmp_path / "kept")
    path = tmp_path / "kept" / "cora" / "table5.csv"
    path.write_text(path.read_text().replace("title", "old_title"))
    with pytest.raises(UserError, match="has other columns than .*publish their runs again"):
        publish(tmp_path / "second" / "full", tmp_path / "kept")


def test_folders_that_lack_later_columns_are_composed_with_newer_ones(tmp_path, finish):
    kept = tmp_path / "kept"
    finish(tmp_path / "first" / "full", "cora")
    publish(tmp_path / "first" / "full", kept)
    older = kept / "cora" / "table5.csv"
    frame = pd.read_csv(older).drop(columns=["view", "features_kind", "edge_entries"])
    frame.to_csv(older, index=False, lineterminator="\n")
    before = contents(kept / "cora")
    finish(tmp_path / "second" / "full", "citeseer")
    publish(tmp_path / "second" / "full", kept, ["citeseer"])
    assert contents(kept / "cora") == before
    whole = pd.read_csv(kept / "lrec2022_table5.csv")
    assert list(whole["dataset"]) == ["citeseer", "cora"] and whole["view"].isna().all()


def test_tables_of_scores_and_their_pictures_are_composed_of_all_folders(tmp_path, cell):
    kept = tmp_path / "kept"
    for name in ("my_graph", "pokec"):
        scale = tmp_path / name
        cell(scale, experiment="table2", dataset=name, features="bow", protocol="sound",
             view="sound", scores={2.0: [0.5]})  # fmt: skip
        write_tables(scale, "lrec2022", tables=["table2"])
        (kept / name).mkdir(parents=True)
        for suffix in ("csv", "md"):
            table = (scale / "tables" / f"lrec2022_table2.{suffix}").read_bytes()
            (kept / name / f"table2.{suffix}").write_bytes(table)
    names = [path.name for path in compose(kept)]
    assert names == ["lrec2022_table2.csv", "lrec2022_table2.md", "lrec2022_table2.png"]
    lines = (kept / "lrec2022_table2.md").read_text().splitlines()
    assert sum(line.startswith("| my\\_graph | bag of words") for line in lines) == 1
    assert sum(line.startswith("| pokec | bag of words") for line in lines) == 10
