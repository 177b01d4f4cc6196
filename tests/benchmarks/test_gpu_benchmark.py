"""The benchmark of GPUs in its smallest form, on the CPU: its rows are whole."""

from __future__ import annotations

import json
import sys

import gpu


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
