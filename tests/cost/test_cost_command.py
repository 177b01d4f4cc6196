"""The commands: refit the shipped figures, estimate a grid, measure a graph."""

from __future__ import annotations

import re

import pytest

from private_graphs.cost import __main__ as command
from private_graphs.cost import model, reach
from private_graphs.cost.finished import TIMES_FILE, write_times
from private_graphs.errors import UserError


@pytest.fixture
def own_reference(tmp_path, monkeypatch):
    path = tmp_path / "reference.json"
    path.write_text(model.REFERENCE_FILE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(model, "REFERENCE_FILE", path)
    return path


def test_refit_prints_predicted_against_measured_and_writes(root, own_reference, capsys):
    before = own_reference.read_text(encoding="utf-8")
    command.main(["refit", str(root / "docs" / "results"), "--dry-run"])
    assert own_reference.read_text(encoding="utf-8") == before
    command.main(["refit", str(root / "docs" / "results")])
    printed = capsys.readouterr().out
    assert re.search(r"\d\.\d\d  table1 cora adam paper s10 f1\n", printed)
    for line in ("total", "half of the jobs from the other"):
        assert re.search(rf"^{line} +\d+\.\d\d", printed, flags=re.MULTILINE)
    assert model.read_reference().probe > 0


def test_figures_refitted_without_a_dataset_predict_its_runs(
    tmp_path, own_reference, hand_set, measured, foreseen
):
    held_out = "cora"
    model.write_reference(hand_set, "none", 1.0)
    others = [job for job in measured if job.task.dataset != held_out]
    write_times(others, tmp_path / "results" / "others" / TIMES_FILE)
    command.main(["refit", str(tmp_path / "results")])
    mine = [job for job in measured if job.task.dataset == held_out]
    assert 1 / 1.5 < foreseen(mine, model.read_reference().model) < 1.5


def test_refit_without_finished_jobs_says_what_it_expected(tmp_path, own_reference):
    with pytest.raises(UserError, match=r"no finished job below .*expected a results folder"):
        command.main(["refit", str(tmp_path)])


def test_estimate_lists_jobs_and_hours_of_every_dataset_and_experiment(tmp_path, capsys):
    command.main(
        ["estimate", "--datasets", "cora,pubmed", "--experiments", "all,C", "--cores", "2",
         "--results", str(tmp_path)]
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert "hours on 2 cores" in printed
    assert re.search(r"^\| cora \| C \| 100 \| 6 \| 180 \| [\d.]+ \|$", printed, re.MULTILINE)
    hours = dict(re.findall(r"^\| \*\*(\w+)\*\* .* \*\*([\d.]+)\*\* \|$", printed, re.MULTILINE))
    parts = float(hours["cora"]) + float(hours["pubmed"])
    assert float(hours["all"]) == pytest.approx(parts, abs=0.02)
    assert float(hours["pubmed"]) > float(hours["cora"])


def test_an_estimate_can_be_narrowed_to_some_numbers_of_splits(tmp_path, capsys):
    command.main(
        ["estimate", "--datasets", "cora", "--experiments", "C", "--splits", "4,10", "--results",
         str(tmp_path)]
    )  # fmt: skip
    rows = re.findall(r"^\| cora \| (\w+) \| (\d+) \|", capsys.readouterr().out, re.MULTILINE)
    assert sorted(rows) == [("C", "10"), ("C", "4"), ("selection", "4"), ("table1", "10")]


def test_measure_keeps_what_it_measures(tmp_path, monkeypatch, capsys):
    path = tmp_path / "reach.json"
    monkeypatch.setattr(reach, "REACH_FILE", path)
    command.main(["measure", "synthetic-npz", "--raw", str(tmp_path / "raw")])
    assert "synthetic-npz: Reach(train_edges=" in capsys.readouterr().out
    assert reach.known_reach("synthetic-npz") is not None
