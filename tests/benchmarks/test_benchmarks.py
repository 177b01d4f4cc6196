"""Benchmarks in their smallest form: pages are whole; nothing here judges speed."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import pytest
import training as training_command
from batched import Batched, Training
from small_graphs import random_graph

from private_graphs.methods.gcn_protocols import PAPER, SOUND


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """Folder with the page of two cases; one of their baselines is measured in part."""
    folder = tmp_path_factory.mktemp("benchmarks")
    options = argparse.Namespace(
        replicas=2, longest=0.02, rounds=1, seconds=0.0, only="100 splits, paper", mirror=None,
        out=folder / "pages",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        training_command.run("synthetic-planetoid", "python benchmarks/training.py", options)
    return folder / "pages"


def table_rows(page: str, header: str) -> list[list[str]]:
    """Cells of the rows below the table header that starts with ``header``."""
    lines = page[page.index(header) :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_training_page_shows_every_case_with_its_floor_and_phases(pages: Path) -> None:
    page = (pages / "training_synthetic-planetoid.md").read_text()
    numbers = pd.read_csv(pages / "training_synthetic-planetoid.csv")
    names = numbers["case"].drop_duplicates().tolist()
    assert len(names) == 2 and len(numbers) == 4
    assert len(table_rows(page, "| case | ours |")) == len(numbers)
    for header in ("| case | MFLOP |", "| case | forward |"):
        assert [row[0] for row in table_rows(page, header)] == names


@pytest.mark.parametrize(("protocol", "draws"), [(PAPER, 4), (SOUND, 1)])
def test_every_step_draws_noise_for_every_parameter(protocol, draws) -> None:
    ours = Batched(random_graph(nodes=60), Training(protocol, "adam", 1.0, 4), 1)
    assert ours.updates == draws * (20 * 32 + 32 + 32 * 3 + 3)


def test_noise_that_waits_is_counted_where_rows_are_read_and_once_at_the_end() -> None:
    ours = Batched(random_graph(nodes=60), Training(PAPER, "sgd", 4.0, 5), 1)
    parts, blocks = ours.structure.parts[0], ours.structure.blocks
    words = sum(int(blocks.words_start[b + 1] - blocks.words_start[b]) for b in parts)
    assert ours.updates == words * 32 + 5 * (32 + 32 * 3 + 3) + 20 * 32
