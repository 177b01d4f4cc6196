"""Audits in the workflow: what they write, and the run that fails where a proof is broken."""

from __future__ import annotations

import json

import pandas as pd

from .conftest import UNREACHABLE, Project

PAPER = ("tables", "--config", "experiments=audit", "protocols=paper")


def test_an_audit_is_a_job_whose_bound_stands_in_the_table(finished: Project) -> None:
    assert finished.jobs(*PAPER) == {"audit": 1, "tables": 1}
    run = finished.snakemake("--cores", "1", *PAPER, **UNREACHABLE)
    assert run.returncode == 0, run.stdout
    assert "audited paper_s1_e2: epsilon > " in run.stdout
    folder = finished.path / "results" / "demo"
    found = json.loads((folder / "audits" / "lrec2022" / "paper_s1_e2.json").read_text())
    assert found["runs"] == 80 and found["epsilon_lower"] < found["epsilon_proved"]
    assert (
        "paper,1,full_graph,node,replace" in (folder / "tables" / "lrec2022_audit.csv").read_text()
    )
    table1 = pd.read_csv(folder / "tables" / "lrec2022_table1.csv")
    [row] = table1[table1["epsilon"] == 2].to_dict("records")
    assert row["paper_status"] == "proved_if_seed_secret"
    assert row["paper_audit_epsilon_lower"] >= 0
    assert pd.isna(row["sound_audit_epsilon_lower"])
    assert finished.jobs(*PAPER) == {}


def test_more_than_is_proved_fails_the_run_and_says_why(finished: Project) -> None:
    """A tenth of the noise reaches the parameters; the accounting knows nothing of it."""
    path = finished.path / "src" / "private_graphs" / "training" / "engine.py"
    honest = path.read_text()
    stated = "each.noise_multiplier * settings.clip_norm"
    bug = honest.replace(stated, f"{stated} / 10")
    assert bug != honest
    path.write_text(bug)
    run = finished.snakemake("--cores", "1", *PAPER, **UNREACHABLE)
    assert run.returncode != 0
    assert "breaks its proof; mend it before publishing any result" in run.stdout
    assert not (finished.path / "results/demo/tables/lrec2022_audit.csv").exists()
