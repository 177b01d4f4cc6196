"""Benchmarks in their smallest form: files and page are whole; nothing here judges speed."""

from __future__ import annotations

import argparse

import full_size
import pages
import pandas as pd
import pytest
import training as training_command
from batched import Batched, Training
from small_graphs import random_graph

from private_graphs.core.errors import UserError
from private_graphs.methods.gcn_protocols import PAPER, SOUND


def test_the_rows_have_every_case_with_its_floor_and_phases(tmp_path, monkeypatch) -> None:
    """Two cases; one of their baselines is measured in part."""
    monkeypatch.chdir(tmp_path)
    options = argparse.Namespace(
        replicas=2, longest=0.02, rounds=1, seconds=0.0, only="100 splits, paper", mirror=None,
        out=tmp_path,
    )  # fmt: skip
    pd.DataFrame([{"dataset": "cora", "rate": "a"}]).to_csv(tmp_path / "rates.csv", index=False)
    training_command.run("synthetic-planetoid", options)
    rows = pd.read_csv(tmp_path / "training_synthetic-planetoid.csv")
    assert len(rows) == 4 and rows["case"].nunique() == 2
    parts = rows[["products_ms", "noise_ms", "update_ms"]].sum(axis=1)
    assert parts.to_numpy() == pytest.approx(rows["floor_ms"].to_numpy(), rel=1e-3)
    assert (rows[["forward_ms", "validation_ms", "mflop"]] > 0).all(axis=None)
    assert set(pd.read_csv(tmp_path / "rates.csv")["dataset"]) == {"cora", "synthetic-planetoid"}
    shown = [line.split(" | ") for line in pages.training_table(tmp_path).splitlines()[2:4]]
    assert [cells[2] for cells in shown] == ["2", "2"]


@pytest.mark.parametrize("name", pages.TABLES)
def test_the_page_says_what_the_files_say(name: str) -> None:
    text = pages.PAGE.read_text(encoding="utf-8")
    made = pages.TABLES[name](pages.FOLDER)
    assert pages.with_part(text, name, made) == text, "run: python benchmarks/pages.py"


@pytest.mark.parametrize("name", full_size.PARTS)
def test_the_page_has_a_place_for_what_is_measured_at_full_size(name: str) -> None:
    text = pages.PAGE.read_text(encoding="utf-8")
    assert f"begin: {name} -->\nnew\n<!-- end: {name}" in pages.with_part(text, name, "new")
    with pytest.raises(UserError, match="once each"):
        pages.with_part(text.replace(f"<!-- end: {name} -->", ""), name, "")


@pytest.mark.parametrize(("protocol", "draws"), [(PAPER, 4), (SOUND, 1)])
def test_every_step_draws_noise_for_every_parameter(protocol, draws) -> None:
    ours = Batched(random_graph(nodes=60), Training(protocol, "adam", 1.0, 4), 1)
    assert ours.updates == draws * (20 * 32 + 32 + 32 * 3 + 3)


def test_noise_that_waits_is_counted_where_rows_are_read_and_once_at_the_end() -> None:
    ours = Batched(random_graph(nodes=60), Training(PAPER, "sgd", 4.0, 5), 1)
    parts, blocks = ours.structure.parts[0], ours.structure.blocks
    words = sum(int(blocks.words_start[b + 1] - blocks.words_start[b]) for b in parts)
    assert ours.updates == words * 32 + 5 * (32 + 32 * 3 + 3) + 20 * 32
