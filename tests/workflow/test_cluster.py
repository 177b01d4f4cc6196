"""What a cluster needs of the workflow: names on command lines, bundles of short jobs, bounds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from snakemake.target_jobs import parse_target_jobs_cli_args
from snakemake_interface_executor_plugins.utils import TargetSpec, encode_target_jobs_cli_args

from private_graphs.workflow import SHORT_SECONDS, Workflow, make_workflow, rejoin

PROFILE = "profiles/slurm/config.yaml"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    """The demonstration, of which nothing has run."""
    monkeypatch.chdir(tmp_path)
    return make_workflow({})


def test_names_of_jobs_survive_the_command_line_of_a_remote_process(demo: Workflow) -> None:
    """Snakemake quotes a wildcard that has commas, and reads it back in pieces."""
    names = [*demo.jobs, "a/b", "a/b=1"]
    specs = [TargetSpec("run", {"job": name}) for name in names]
    read = parse_target_jobs_cli_args(encode_target_jobs_cli_args(specs))
    for spec in read:
        rejoin(spec.wildcards_dict)
    assert [spec.wildcards_dict for spec in read] == [{"job": name} for name in names]
    other = {"dataset": "a", "view": "b"}
    rejoin(other)
    assert other == {"dataset": "a", "view": "b"}


def test_only_short_jobs_are_bundled_and_none_with_one_that_it_needs(demo: Workflow) -> None:
    bundles = {name: demo.bundle(name) for name in demo.jobs}
    assert {"independent", "following"} <= set(bundles.values())
    for name, bundle in bundles.items():
        job = demo.jobs[name]
        needed = [*job.needs.values(), *([job.chosen.job.id] if job.chosen else [])]
        assert all(bundles[other] != bundle for other in needed) or bundle is None
        assert (bundle is None) >= (demo.costs.seconds(job) > SHORT_SECONDS)


def test_the_profile_names_the_bundles_that_there_are(root: Path, demo: Workflow) -> None:
    profile = yaml.safe_load((root / PROFILE).read_text(encoding="utf-8"))
    used = {demo.bundle(name) for name in demo.jobs} - {None}
    assert used < set(profile["group-components"])
    resources = profile.get("set-resources", {}).values()
    assert not any({"gpu", "gres"} <= set(each) for each in resources), "never both"


def test_names_of_audits_and_of_other_jobs_are_told_apart(demo: Workflow) -> None:
    for audits in (False, True):
        pattern = re.compile(demo.names_of(audits=audits))
        matched = {name for name in demo.jobs if pattern.fullmatch(name)}
        assert matched == {job.id for job in demo.made_by(audits=audits)}


def snakemake(root: Path, place: Path, *arguments: str) -> str:
    """Run Snakemake with the package of the repository; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1", *arguments],
        cwd=place, env={**os.environ, "PYTHONPATH": str(root / "src")}, text=True, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


OUTER = """
module private_graphs:
    snakefile: "{root}/Snakefile"
    config: {{"studies": "lrec2022", "exhibits": "table1", "datasets": "synthetic-planetoid"}}

use rule * from private_graphs as private_graphs_*

rule mine:
    input: "results/demo/rows.parquet"
    output: "mine.txt"
    shell: "cp {{input}} {{output}}"
"""


def test_the_workflow_is_a_module_of_another_one(root: Path, tmp_path: Path) -> None:
    """In another folder, which has none of the files of the project."""
    (tmp_path / "Snakefile").write_text(OUTER.format(root=root))
    plan = snakemake(root, tmp_path, "--dry-run", "mine")
    assert re.search(r"^private_graphs_run +12$", plan, flags=re.MULTILINE), plan
    dataset = tmp_path / "data" / "processed" / "synthetic-planetoid" / "dataset.json"
    snakemake(root, tmp_path, dataset.relative_to(tmp_path).as_posix())
    assert dataset.is_file()


def test_a_plan_of_thousands_of_jobs_costs_little_per_job(demo: Workflow) -> None:
    """What Snakemake asks of us for every job: no file is read for it, no name is searched for."""
    started = time.process_time()
    jobs = demo.made_by(audits=False)
    for job in jobs:
        demo.inputs(job.id), demo.modules(job.id), demo.megabytes(job.id), demo.minutes(job.id)
        demo.job(job.id).model_dump_json()
    assert (time.process_time() - started) / len(jobs) < 0.002


def test_the_container_has_what_the_lock_pins_and_nothing_else(root: Path) -> None:
    text = (root / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (base,) = re.findall(r"^FROM python:(3\.\d+)-", text, flags=re.MULTILINE)
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert SpecifierSet(project["requires-python"]).contains(f"{base}.1")
    copied = re.findall(r"^COPY (\S+) (\S+)$", text, flags=re.MULTILINE)
    assert copied == [("requirements.lock", "/tmp/requirements.lock")]
    installs = re.findall(r"pip install ([^&\n]*)", text)
    assert [line.split() for line in installs] == [
        ["--no-cache-dir", "--requirement", "/tmp/requirements.lock"]
    ]
    assert "PYTHONPATH=src" in text, "the code is that of the checkout"
