"""The benchmark of GPUs in its smallest form, on the CPU: its rows are whole."""

from __future__ import annotations

import json
import sys

import gpu
import gpu_grid
import pytest


def test_without_a_gpu_small_cases_are_measured_and_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--json", "--seconds", "0"])
    monkeypatch.setattr(gpu, "SMALL", ("tiny",))
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    gpu.main()
    printed = capsys.readouterr()
    assert "no GPU" in printed.err
    (row,) = json.loads(printed.out)
    assert row.pop("case").startswith("tiny") and row.pop("device") == "torch-cpu"
    assert set(row) == {"replica_epochs_per_second", "plain_ratio", "bandwidth_share"}
    assert all(value > 0 for value in row.values())


def test_a_row_of_per_record_training_is_compared_with_opacus():
    row = gpu.mnist_row("torch-cpu", 0.0, replicas=2, records=600)
    assert row["replica_epochs_per_second"] > 0 and row["plain_ratio"] > 0


@pytest.mark.parametrize("more", [["--device", "cuda"], ["--cases", "corra"]])
def test_what_cannot_be_measured_is_an_error(more, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu.py", *more])
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="expected"):
        gpu.main()


def test_hours_of_the_grid_are_those_of_all_its_jobs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu_grid.py", "--device", "torch-cpu", "--datasets", "cora"])
    monkeypatch.setattr(gpu_grid.sources, "supply", lambda *_: None)
    monkeypatch.setattr(gpu_grid.registry, "build", lambda *_: None)
    monkeypatch.setattr(gpu_grid, "seconds_of", lambda job, *_: (0.01, 3.0))
    gpu_grid.main()
    (row,) = json.loads(capsys.readouterr().out)
    asked = gpu_grid.Run(
        scale="full", studies=("lrec2022",), exhibits=gpu_grid.EXHIBITS, datasets=("cora",)
    )
    jobs = [job for job in gpu_grid.Plan(asked).jobs if job.method == "gcn"]
    assert row["jobs"] == row["measured"] == len(jobs) > 100
    seconds = sum(3.0 + 0.01 * job.settings["epochs"] for job in jobs)
    assert row["hours"] == pytest.approx(seconds / 3600)
    kinds = {gpu_grid.kind_of(job) for job in jobs}
    assert 1 < len(kinds) < len(jobs)
