"""A graph in shards through Snakemake: the release of one machine, made once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sharded_graphs import in_shards
from small_graphs import random_graph

from private_graphs.cli.run import STUDY, named
from private_graphs.running.jobs import Job

DATA = random_graph(3, nodes=240, train=160)


def job_of(scenario: str, method: str) -> Job:
    """The job of ``private-graphs train --dataset small --seed 4``."""
    job = Job(
        study=STUDY, group="train", name="", dataset="small", scenario=scenario, method=method,
        epsilons=(2.0,), seeds=(4,), max_edges=900 if scenario == "edges" else None,
    )  # fmt: skip
    return named(job, "raw")


@pytest.fixture
def release(root: Path, tmp_path: Path, monkeypatch) -> Callable[..., subprocess.CompletedProcess]:
    """A function that runs the workflow to its end, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--snakefile",
               root / "workflow" / "shards.smk", "--config", "graph=graph", "epsilon=2",
               "out=out"]  # fmt: skip

    def run(*config: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*command, *config], env={**os.environ, "PYTHONPATH": str(root / "src")}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=600,
        )  # fmt: skip

    return run


@pytest.mark.long
def test_a_secret_release_is_made_once(release, tmp_path: Path) -> None:
    in_shards(DATA, job_of("text", "class_sums"), tmp_path / "graph", [0.3, 1.0])
    ended = release()
    assert ended.returncode == 0, ended.stdout
    out = tmp_path / "out"
    made = {path.name: path.read_bytes() for path in (out / "release").iterdir()}
    assert set(made) == {"predictions.csv", "statement.json", "README.md", "manifest.json"}
    (statement,) = json.loads(made["statement.json"]).values()
    assert statement["status"] == "proved" and 1.99 < statement["epsilon_proved"] <= 2
    (out / "private" / "manifest.json").unlink()  # as if it had been killed at the end
    again = release()
    assert again.returncode == 0, again.stdout
    assert (out / "release" / "predictions.csv").read_bytes() == made["predictions.csv"]
    (out / "private" / "manifest.json").unlink()
    with np.load(out / "private" / "sums" / "0" / "0" / "sum.npz") as stored:
        np.savez(out / "private/sums/0/0/sum.npz", total=stored["total"] + 1, count=stored["count"])
    refused = release()
    assert refused.returncode != 0
    assert "not the file that was written" in (out / "logs" / "release.log").read_text()
    assert (out / "release" / "predictions.csv").read_bytes() == made["predictions.csv"]


@pytest.mark.parametrize("config", [["method=dp_linear"], ["epsilon=-1"], ["graph=nowhere"]])
def test_what_cannot_be_done_is_said_at_once(release, tmp_path: Path, config) -> None:
    in_shards(DATA, job_of("text", "class_sums"), tmp_path / "graph", [1.0])
    ended = release(*config)
    assert ended.returncode != 0 and "expected" in ended.stdout or "not a graph" in ended.stdout
    assert not (tmp_path / "out").exists()
