"""Whatever is printed can be made, and every command that we print plans something."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_graphs import four_nodes

from private_graphs.core.errors import UsageError
from private_graphs.datasets.graph_files import keep_graph
from private_graphs.methods import method_named
from private_graphs.report.published import published_rows
from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.jobs import Job
from private_graphs.running.plan import Plan
from private_graphs.running.study import Run, load_study, study_ids
from private_graphs.studies.progap.scores import PRINTED_AS

ROOT = Path(__file__).parents[1]
_RULES = "\n".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
RULES = re.findall(r"^rule (\w+):", _RULES, flags=re.MULTILINE)


@cache
def planned(**keys: str) -> Plan:
    """The plan of a run; UsageError where the workflow would refuse it."""
    plan = Plan(Run.parse(keys))
    _ = plan.jobs
    return plan


def makes_something(plan: Plan) -> bool:
    """Whether each exhibit has jobs, shows the sizes of a dataset, or is computed from formulas."""
    shows = any(each.statistics for exhibits in plan.exhibits.values() for each in exhibits)
    formulas = all(not each.groups for exhibits in plan.exhibits.values() for each in exhibits)
    return bool(plan.jobs) or shows or formulas


# --- what is printed ---------------------------------------------------------------------------

SPLITS = {"non_private": 1, "dp_full": 1, "dp_split": 10}
OPTIMIZERS = {"sgd": "sgd", "adam": "adam", "adam_untuned": "adam"}
SCENARIOS = {"edge": {"links", "edges"}, "node": {"lists", "text", "graph"}}


def wanted(row: dict[str, Any]) -> dict[str, Any]:
    """What a job of a printed row has: dataset, method, budget, kind of features, settings."""
    told = {name: value for name, value in row.items() if not pd.isna(value)}
    settings = json.loads(told.get("settings", "{}"))
    if told.get("setting") in SPLITS:
        settings |= {"splits": SPLITS[told["setting"]]}
    if "configuration" in told:
        settings |= {"optimizer": OPTIMIZERS[told["configuration"]], "train_fraction": 1}
    if told.get("configuration") == "adam_untuned":
        settings |= {"learning_rate": 0.01}
    level, method = told.get("level"), told.get("method")
    own_names = {ours for (at, ours), name in PRINTED_AS.items() if (at, name) == (level, method)}
    return {
        "dataset": told.get("dataset", told.get("pictures")),
        "methods": {method, *own_names} if method else None,
        "features": told.get("features"),
        "epsilon": None if told.get("epsilon") == 0 else told.get("epsilon"),
        "scenarios": SCENARIOS.get(level),
        "settings": settings,
        "noise": told.get("noise_multiplier") if "unit" in told else None,
    }


def answers(job: Job, row: dict[str, Any]) -> bool:
    """Whether a job computes a printed row."""
    if job.dataset != row["dataset"]:
        return False
    settings = method_named(job.method).settings.model_validate(job.settings).model_dump()
    epsilon, noise = row["epsilon"], row["noise"]
    return (
        (row["methods"] is None or job.method in row["methods"])
        and row["features"] in (None, job.features)
        and (epsilon is None or any(math.isclose(epsilon, each) for each in job.epsilons))
        and (row["scenarios"] is None or job.scenario in row["scenarios"])
        and (noise is None or settings["printed"].get(f"{epsilon:g}", [0])[0] == noise)
        and all(
            name in job.choose or settings.get(name) == value
            for name, value in row["settings"].items()
        )
    )


def printed_rows() -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Every printed file that is the paper's own, without the claims of its text."""
    for study_id in study_ids():
        study = load_study(study_id)
        rows = published_rows(study)
        for name, printed in study.published.items():
            if name != "claims" and not printed.by_others:
                yield study_id, name, rows[rows["group"] == name].dropna(axis=1, how="all")


UNREAD = {"squirrel", "chameleon", "amazon-computers", "amazon-photo"}
"""Graphs of printed rows that no reader here takes, as docs/studies/dpdgc.md says."""
NOT_RUN = {("dpdgc", rival) for rival in ("mlp", "sage", "dp_mlp", "dp_sage", "edge_rand")}
"""Rivals of a paper that its study shows as printed and does not run; that page says so too."""
SHOWN_BY = {"models": "trained_models"}
"""Exhibit that shows a printed file of another name."""


@cache
def jobs_for(study: str, exhibit: str, dataset: str | None) -> tuple[Job, ...] | None:
    """The jobs of an exhibit on a dataset at the scale of the study's records; None if refused."""
    keys = {"datasets": dataset} if dataset else {}
    scale = load_study(study).recorded_scale
    try:
        return tuple(planned(scale=scale, exhibits=f"{study}.{exhibit}", **keys).jobs)
    except UsageError:
        return None


FIGURES = tuple(f"lrec2022.figure{number}" for number in range(1, 7))
OF_FIGURES = ("cora", "citeseer", "pubmed", "pokec", "reddit")


@pytest.mark.parametrize(
    ("study", "name", "rows"),
    [pytest.param(*each, id=".".join(each[:2])) for each in printed_rows()],
)
def test_every_printed_row_has_a_command_that_makes_it(study, name, rows) -> None:
    shown = exhibits_by_name(study)[SHOWN_BY.get(name, name)]
    for row in rows.to_dict("records"):
        needed = wanted(row)
        if needed["dataset"] in UNREAD or (study, row.get("method")) in NOT_RUN:
            continue
        jobs = jobs_for(study, shown.name, needed["dataset"])
        assert jobs is not None, f"{study}: {name}: no command makes {needed}"
        if shown.statistics or not shown.groups:
            continue  # sizes of a dataset, or a formula
        if row.get("setting") in ("majority", "random"):
            assert {job.dataset for job in jobs} == {needed["dataset"]}
        else:
            assert any(answers(job, needed) for job in jobs), f"{study}: {name}: no job of {needed}"


@pytest.mark.parametrize("exhibit", FIGURES)
def test_every_graph_of_the_paper_can_enter_its_figures(exhibit: str) -> None:
    for dataset in OF_FIGURES:
        jobs = planned(scale="full", exhibits=exhibit, datasets=dataset).jobs
        assert {job.dataset for job in jobs} == {dataset}


# --- commands ----------------------------------------------------------------------------------

VALUES = {"--cores": 1, "-c": 1, "--workflow-profile": 1, "--snakefile": 1, "--quiet": 1,
          "--slurm-array-jobs": 1}  # fmt: skip
"""Options of Snakemake in our texts -> the number of their values."""


def checked(command: str) -> None:
    """Assert that a command plans something, and that its targets are rules."""
    words = shlex.split(command.partition("  # ")[0].partition(" # ")[0])[1:]
    keys: dict[str, str] = {}
    targets, skip = [], 0
    in_config = False
    for word in words:
        if skip:
            skip -= 1
        elif word.startswith("-"):
            in_config = word == "--config"
            skip = VALUES.get(word, 0)
        elif in_config and "=" in word:
            name, _, value = word.partition("=")
            keys[name.strip("[")] = value.strip("]")
        else:
            targets.append(word)
    assert set(targets) <= set(RULES), f"{command}: no rule {targets}"
    keys.pop("mirror", None)
    if "workflow/shards.smk" not in words:
        assert makes_something(planned(**keys)), f"{command}: plans nothing"


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"),
            *(ROOT / "recorded").glob("*/README.md")]  # fmt: skip


def commands_of(path: Path) -> list[str]:
    """The complete commands of a text."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.findall(r"snakemake [^`\n|<\"]*(?:\"[^`\n|<\"]*\"[^`\n|<\"]*)*", text)
    return [
        each.strip().rstrip(".,;:)") for each in found if "--config" in each and "..." not in each
    ]


@pytest.mark.parametrize(
    "path", [path for path in documents() if commands_of(path)],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)  # fmt: skip
def test_every_command_of_a_document_plans_something(path: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    keep_graph(four_nodes(), Path("data/own/my_campus"), 100_000)  # as docs/data.md makes it
    for command in commands_of(path):
        checked(command)


@pytest.mark.parametrize("study", study_ids())
def test_every_command_of_a_recorded_claim_plans_something(study: str) -> None:
    for command in pd.read_csv(ROOT / "recorded" / study / "claims.csv")["command"].unique():
        checked(command)
