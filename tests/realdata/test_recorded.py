"""The recorded results of the repository: whole, small, with the scores of their predictions."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from private_graphs.datasets.outline import sizes_of
from private_graphs.datasets.registry import build
from private_graphs.datasets.sources import supply
from private_graphs.datasets.views import VIEWS
from private_graphs.methods import method_named
from private_graphs.running.jobs import Job
from private_graphs.running.plan import Plan
from private_graphs.running.store import dataset_of
from private_graphs.running.study import Run
from private_graphs.site.record import read_recorded

FOLDER = Path(__file__).parents[2] / "recorded"
STUDIES = sorted(path.parent.name for path in FOLDER.glob("*/rows.parquet"))


@pytest.fixture(scope="module", params=STUDIES)
def recorded(request):
    """What is recorded; reading it validates every statement and compares files with each other."""
    return read_recorded(FOLDER / request.param)


def _asked(command: str) -> dict[str, Job]:
    """The jobs that a recorded ``snakemake`` command makes: all, or those that its comment names.

    Their names have the braces of the shell.
    """
    call, _, named = command.partition("  # of its jobs ")
    config = call.partition(" --config ")[2]
    words = [word.split("=", 1) for word in config.split() if "=" in word and "[" not in word]
    jobs = {job.id: job for job in Plan(Run.parse(dict(words))).jobs}
    return {name: jobs[name] for text in named.split() for name in _expanded(text)} or jobs


def _expanded(text: str) -> list[str]:
    """Return what a shell makes of braces: ``a{b,c}`` is ab and ac."""
    braces = re.search(r"\{([^{}]*)\}", text)
    if braces is None:
        return [text]
    parts = (text[: braces.start()] + each + text[braces.end() :] for each in braces[1].split(","))
    return [name for part in parts for name in _expanded(part)]


def test_every_job_of_the_commands_is_recorded_with_all_its_runs(recorded):
    planned, (study,) = {}, set(recorded.rows["study"])
    for command in recorded.made.commands:
        planned |= {name: job for name, job in _asked(command).items() if job.study == study}
    names = recorded.rows["study"] + "/" + recorded.rows["group"] + "/" + recorded.rows["job"]
    assert set(names) == set(planned)
    for name, group in recorded.rows.groupby(names):
        job = planned[name]
        if job.attack is not None:
            assert len(group) == 1 and group["epsilon"].tolist() == list(job.epsilons)
        elif job.leaks is not None:  # a row for each number that the attack measured
            assert set(group["source"]) == {"leaks"}
            assert set(group["epsilon"]) == set(job.epsilons)
        elif not method_named(job.method).reads_private:
            assert set(group["epsilon"]) == {0.0}
        else:
            assert set(group["seed"]) == set(job.seeds)
            assert set(group["epsilon"]) == {*job.epsilons, *job.validation_epsilons}
            assert len(group) == job.n_replicas
    assert recorded.runs["replica_id"].is_unique


def test_the_folder_is_small():
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    assert size <= 24_000_000


@pytest.fixture(scope="module")
def built(mirror, tmp_path_factory):
    """Build a dataset for all studies: its labels, its fingerprint and its sizes."""
    folder = tmp_path_factory.mktemp("raw")

    @cache
    def build_once(name, view):
        supply([name], folder, mirror, progress=lambda *_: None)
        dataset = build(name, folder, **({} if view is None else {"view": VIEWS[view]}))
        sizes = json.loads(json.dumps(sizes_of(dataset.statistics())))
        return dataset.labels, dataset.fingerprint, sizes

    return build_once


def test_predictions_give_the_scores_of_their_rows_on_the_real_labels(recorded, built):
    labels = {}
    for name, view in recorded.runs[["dataset", "view"]].drop_duplicates().itertuples(index=False):
        view = None if pd.isna(view) else view
        found, fingerprint, sizes = built(name, view)
        labels[dataset_of({"dataset": name, "view": view})] = found
        assert recorded.datasets[fingerprint] == sizes, "restate takes the recorded sizes"
    assert recorded.check_scores(lambda row: labels.get(dataset_of(row))) == len(recorded.runs)


def test_no_score_on_protected_nodes_is_recorded(recorded):
    """Under ``lists`` and ``sound`` validation nodes are protected, as all others are."""
    rows = recorded.runs
    rows = rows[(rows["scenario"] == "lists") & (rows["protocol"] == "sound")]
    assert rows[["validation_micro_f1", "validation_macro_f1"]].isna().all(axis=None)
