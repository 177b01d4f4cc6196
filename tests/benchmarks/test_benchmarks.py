"""Each benchmark command in its smallest form: the pages are whole; nothing here judges speed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_graphs import random_graph

from private_graphs.methods.gcn_protocols import PAPER, SOUND

CASES_WITH_ONE_BASELINE = 3  # the per-epoch sum, at 10 splits and, twice, at 100


@pytest.fixture(scope="module")
def pages(root: Path, tmp_path_factory) -> Path:
    """Folder that both commands have written to."""
    folder = tmp_path_factory.mktemp("benchmarks")
    quick = ("--rounds", "1", "--seconds", "0", "--out", "pages")
    training = ("--dataset", "synthetic-planetoid", "--replicas", "2", "--longest", "0.1")
    growth = ("--scale", "0.05", "--replicas", "1,2", "--factors", "1,2")
    for name, arguments in (("training", training), ("growth", growth)):
        done = run(root, folder, name, *arguments, *quick)
        assert done.returncode == 0, done.stderr
    return folder / "pages"


def run(root: Path, folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark command in ``folder``."""
    script = root / "benchmarks" / f"{name}.py"
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder, env=environment, text=True, capture_output=True, timeout=300,
    )  # fmt: skip


def sections(page: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", page, flags=re.MULTILINE)


def table_rows(page: str, header: str) -> list[list[str]]:
    """Cells of the rows below the table header that starts with ``header``."""
    lines = page[page.index(header) :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_training_page_compares_every_case_and_shows_floor_and_phases(pages: Path) -> None:
    page = (pages / "training_synthetic-planetoid.md").read_text()
    numbers = pd.read_csv(pages / "training_synthetic-planetoid.csv")
    names = numbers["case"].drop_duplicates().tolist()
    protocols = ("released", "paper", "sound")
    for setting, optimizers in (
        ("non-private", ["SGD"]), ("DP full graph", ["SGD"]), ("DP, 10 splits", ["Adam"]),
        ("DP, 100 splits", ["SGD", "Adam"]),
    ):  # fmt: skip
        for optimizer in optimizers:
            assert {f"{setting}, {name}, {optimizer}" for name in protocols} <= set(names)
    assert len(numbers) == 2 * len(names) - CASES_WITH_ONE_BASELINE
    assert sections(page)[1:] == ["The floor", "Where the time goes"]
    assert len(table_rows(page, "| case | ours |")) == len(numbers)
    for header in ("| case | MFLOP |", "| case | forward |"):
        assert [row[0] for row in table_rows(page, header)] == names
    assert "Closest to its floor: **" in page and "Farthest: **" in page


def test_numbers_of_a_page_belong_together(pages: Path) -> None:
    numbers = pd.read_csv(pages / "training_synthetic-planetoid.csv")
    assert np.allclose(numbers["ratio"], numbers["baseline_ms"] / numbers["ours_ms"], rtol=1e-3)
    assert np.allclose(numbers["over_floor"], numbers["ours_ms"] / numbers["floor_ms"], rtol=1e-3)
    assert (numbers[["ours_ms", "floor_ms", "baseline_ms"]] > 0).all(axis=None)
    assert numbers["aim"].isna().all()  # the aims are those of the real graphs


def test_a_long_baseline_is_measured_in_part_and_the_page_says_so(pages: Path) -> None:
    numbers = pd.read_csv(pages / "training_synthetic-planetoid.csv")
    full = numbers[(numbers["splits"] == 100) & numbers["baseline"].str.contains("full forward")]
    assert set(full["baseline_measured"]) == {"10 of 100 steps, scaled"}
    page = (pages / "training_synthetic-planetoid.md").read_text()
    assert "(10 of 100 steps, scaled)" in page and "validation was timed apart" in page


def test_growth_page_has_a_slope_for_every_axis_and_case(pages: Path) -> None:
    numbers = pd.read_csv(pages / "growth.csv")
    together = "nodes, edges and non-zeros"
    assert set(numbers["axis"]) == {"replicas", "nodes", "edges", "non-zeros", together}
    points = numbers.groupby(["axis", "case"]).size()
    assert (points == 2).all() and len(points) == 5 * 5
    for axis, column in (("nodes", "nodes"), ("edges", "edges"), ("non-zeros", "nonzeros")):
        varied = numbers[numbers["axis"] == axis]
        sizes = varied[["replicas", "nodes", "edges", "nonzeros"]].nunique()
        assert sizes[sizes > 1].index.tolist() == [column]
    assert (numbers["aim"].isna() == (numbers["axis"] == together)).all()
    page = (pages / "growth.md").read_text()
    assert len(table_rows(page, "| axis | case |")) == len(points)
    assert (pages / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_the_index_lists_every_page_and_pages_name_commands_without_folders(pages: Path) -> None:
    index = (pages / "README.md").read_text()
    listed = [row[0] for row in table_rows(index, "| page |")]
    assert [re.match(r"\[(\w[\w-]*)\]", cell)[1] for cell in listed] == [
        "growth", "training_synthetic-planetoid",
    ]  # fmt: skip
    assert sections(index)[1:] == ["What a ratio means", "Again"]
    page = (pages / "training_synthetic-planetoid.md").read_text()
    assert "Command: `python benchmarks/training.py --dataset synthetic-planetoid " in page
    assert "--mirror DIR" in page and "--out docs/benchmarks" in page
    assert str(pages.parent) not in page + index


def test_an_unknown_dataset_is_an_error_that_names_it(root, tmp_path) -> None:
    done = run(root, tmp_path, "training", "--dataset", "corra")
    assert done.returncode == 1
    assert "did you mean 'cora'" in done.stderr and "Traceback" not in done.stderr


@pytest.fixture
def modules(root: Path, monkeypatch):
    """The benchmarks' own modules."""
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    from batched import Batched, Training
    from floor import count_products

    return Batched, Training, count_products


def test_floor_counts_the_nonzeros_that_an_epoch_reads(modules) -> None:
    """On full-graph induced training: all features and edges of the training nodes, and the same
    of the validation nodes alone, forward only."""
    batched, training, count_products = modules
    dataset = random_graph(nodes=60, features=20, classes=3)
    ours = batched(dataset, training(PAPER, "sgd", 1.0, 1), 2)
    found = count_products(ours)
    x = dataset.features.to_scipy()
    edges = {
        mask: int(getattr(dataset, mask)[dataset.edge_index].all(axis=0).sum()) * 2
        + int(getattr(dataset, mask).sum())
        for mask in ("train_mask", "validation_mask")
    }
    trained, scored = x[dataset.train_mask].nnz, x[dataset.validation_mask].nnz
    both = edges["train_mask"] + edges["validation_mask"]
    assert found["X W1"].flops == 2 * 32 * (trained + scored)
    assert found["X' dZ"].flops == 2 * 32 * trained
    assert found["A (X W1)"].flops == 2 * 32 * both
    assert found["A' dH"].flops == 2 * 32 * edges["train_mask"]
    assert found["A (H W2)"].flops == 2 * 3 * both
    assert found["A' dY"].flops == 2 * 3 * edges["train_mask"]


@pytest.mark.parametrize(("protocol", "draws"), [(PAPER, 4), (SOUND, 1)])
def test_every_step_draws_noise_for_every_parameter(modules, protocol, draws) -> None:
    batched, training, _ = modules
    ours = batched(random_graph(nodes=60), training(protocol, "adam", 1.0, 4), 1)
    assert ours.updates == draws * (20 * 32 + 32 + 32 * 3 + 3)


def test_noise_that_waits_is_counted_where_rows_are_read_and_once_at_the_end(modules) -> None:
    batched, training, _ = modules
    ours = batched(random_graph(nodes=60), training(PAPER, "sgd", 4.0, 5), 1)
    parts, blocks = ours.structure.parts[0], ours.structure.blocks
    words = sum(int(blocks.words_start[b + 1] - blocks.words_start[b]) for b in parts)
    assert ours.updates == words * 32 + 5 * (32 + 32 * 3 + 3) + 20 * 32
