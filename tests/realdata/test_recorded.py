"""The recorded results of the repository: whole, small, with the scores of their predictions."""

from __future__ import annotations

import pytest
from private_graphs.config import RunConfig, load_study
from private_graphs.grids import method_plans, plans
from private_graphs.methods.names import METHOD_NAMES
from private_graphs.reporting.record import read_recorded

from private_graphs.datasets.registry import build
from private_graphs.datasets.sources import supply

STUDY = "lrec2022"
MADE_BY = (
    {"datasets": "cora,citeseer", "experiments": "all,A,B"},
    {"datasets": "pubmed", "experiments": "frontier"},
)
"""What ``snakemake --config scale=full`` was given; recorded/lrec2022/README.md names the rest."""


@pytest.fixture(scope="module")
def recorded(root):
    """What is recorded; reading it validates every statement and compares files with each other."""
    return read_recorded(root / "recorded" / STUDY)


def test_every_cell_of_the_commands_is_recorded_with_all_its_rows(recorded):
    study, planned = load_study(STUDY), {}
    for words in MADE_BY:
        run = RunConfig.parse({"scale": "full", **words}, [study])
        for kind, made in (("runs", plans(study, run)), ("methods", method_plans(study, run))):
            planned |= {f"{kind}/{STUDY}/{plan.cell.cell_id}": plan for plan in made}
    rows = recorded.rows.groupby("cell")
    assert set(rows.groups) == set(planned)
    for cell, group in rows:
        plan = planned[cell]
        if cell.startswith("runs/"):
            assert len(group) == plan.n_replicas
        elif METHOD_NAMES[plan.cell.method].reads_private:
            assert set(group["seed"]) == set(plan.seeds)
            assert set(group["epsilon"]) == {*plan.epsilons, *plan.tuning_epsilons}
        else:
            assert set(group["epsilon"]) == {0.0}
    assert recorded.rows["replica_id"].is_unique


def test_the_folder_is_small(root):
    size = sum(path.stat().st_size for path in (root / "recorded").rglob("*") if path.is_file())
    assert size <= 25_000_000


def test_predictions_give_the_scores_of_their_rows_on_the_real_labels(recorded, mirror, tmp_path):
    names = ["cora", "citeseer", "pubmed"]
    supply(names, tmp_path, mirror, progress=lambda *_: None)
    labels = {name: build(name, tmp_path).labels for name in names}
    assert recorded.check_scores(labels) == len(recorded.rows)
