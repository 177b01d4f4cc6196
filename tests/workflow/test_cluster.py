"""What a cluster needs of the workflow: names on command lines, bundles of short jobs, bounds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from snakemake_executor_plugin_slurm.utils import set_gres_string

from private_graphs.workflow.rules import Workflow, make_workflow

PROFILE = "profiles/slurm/config.yaml"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    """The demonstration, of which nothing has run."""
    monkeypatch.chdir(tmp_path)
    return make_workflow({})


@pytest.mark.long
def test_device_cuda_asks_slurm_for_a_gpu_by_its_profile(root: Path, tmp_path: Path) -> None:
    """The rules ask for ``gpu=1``, which the executor of the profile passes on to sbatch."""
    profile = yaml.safe_load((root / PROFILE).read_text(encoding="utf-8"))
    assert profile["executor"] == "slurm"
    assert not {"gpu", "gres"} & {*profile.get("default-resources", {})}, "asked for once"
    for device, words in (("cuda", "resources:.* gpu=1"), ("cpu", "resources:.* gpu=0")):
        config = CONFIG | {"device": device}
        (tmp_path / "Snakefile").write_text(OUTER.format(root=root, config=config))
        told = snakemake(root, tmp_path, "--dry-run", "mine")
        (rule,) = re.findall(r"rule private_graphs_run:\n((?:    .*\n)+)", told)
        assert re.search(words, rule), rule
    asked = types.SimpleNamespace(resources={"gpu": 1})
    assert set_gres_string(asked) == " --gpus=1"
    assert set_gres_string(types.SimpleNamespace(resources={"gpu": 0})) == ""


def test_names_of_audits_leaks_and_other_batches_are_told_apart(demo: Workflow) -> None:
    found: dict[str, set[str]] = {}
    for kind in ("run", "audit", "leaks"):
        pattern = re.compile(demo.names_of(kind))
        found[kind] = {name for name in demo.batches if pattern.fullmatch(name)}
    for name, batch in demo.batches.items():
        job = batch.jobs[0]
        kind = "audit" if job.attack else "leaks" if job.leaks else "run"
        assert [each for each, names in found.items() if name in names] == [kind]
    assert all(found.values())


def snakemake(root: Path, place: Path, *arguments: str) -> str:
    """Run Snakemake with the package of the repository; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1", *arguments],
        cwd=place, env={**os.environ, "PYTHONPATH": str(root / "src")}, text=True, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


CONFIG = {"studies": "lrec2022", "exhibits": "table1", "datasets": "synthetic-planetoid"}
OUTER = """
module private_graphs:
    snakefile: "{root}/Snakefile"
    config: {config}

use rule * from private_graphs as private_graphs_*

rule mine:
    input: "results/demo/rows.parquet"
    output: "mine.txt"
    shell: "cp {{input}} {{output}}"
"""


@pytest.mark.long
def test_the_workflow_is_a_module_of_another_one(root: Path, tmp_path: Path) -> None:
    """In another folder, which has none of the files of the project."""
    (tmp_path / "Snakefile").write_text(OUTER.format(root=root, config=CONFIG))
    plan = snakemake(root, tmp_path, "--dry-run", "mine")
    assert re.search(r"^private_graphs_run +1$", plan, flags=re.MULTILINE), plan
    dataset = tmp_path / "data" / "processed" / "synthetic-planetoid" / "dataset.json"
    snakemake(root, tmp_path, dataset.relative_to(tmp_path).as_posix())
    assert dataset.is_file()


@pytest.mark.long
def test_a_folder_without_a_configuration_gets_the_results_of_the_one_here(
    root: Path, tmp_path: Path
) -> None:
    sources = tmp_path / "data" / "sources.yaml"
    sources.parent.mkdir()
    sources.write_bytes((root / "data" / "sources.yaml").read_bytes())
    flags = ("--snakefile", str(root / "Snakefile"), "--directory", str(tmp_path))
    plan = snakemake(root, tmp_path, *flags, "--dry-run")
    assert re.search(r"^To run: [1-9]", plan, flags=re.MULTILINE), plan


def test_what_snakemake_asks_of_a_batch_reads_no_file(demo: Workflow, monkeypatch) -> None:
    """It asks for each of thousands of batches, in every process that it starts."""
    for name in demo.batches:  # modules are imported at their first use
        demo.inputs(name), demo.modules(name), demo.megabytes(name), demo.minutes(name)
    opened: list[str] = []
    monkeypatch.setattr("io.open", lambda path, *_, **__: opened.append(str(path)))
    monkeypatch.setattr("builtins.open", lambda path, *_, **__: opened.append(str(path)))
    for name in demo.batches:
        demo.inputs(name), demo.modules(name), demo.megabytes(name), demo.minutes(name)
        [job.model_dump_json() for job in demo.batch(name).jobs]
    assert not opened


def test_the_container_has_what_the_lock_pins_and_nothing_else(root: Path) -> None:
    text = (root / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (base,) = re.findall(
        r"^FROM python:(3\.\d+)-slim-[a-z]+@sha256:[0-9a-f]{64}$", text, flags=re.MULTILINE
    )
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert SpecifierSet(project["requires-python"]).contains(f"{base}.1")
    copied = re.findall(r"^COPY (\S+) (\S+)$", text, flags=re.MULTILINE)
    assert copied == [("requirements.lock", "/tmp/requirements.lock")]
    installs = re.findall(r"pip install ([^&\n]*)", text)
    assert [line.split() for line in installs] == [
        ["--no-cache-dir", "--no-deps", "--require-hashes", "--requirement",
         "/tmp/requirements.lock"],
        ["--no-cache-dir", "torch"],
    ]  # fmt: skip
    assert "PYTHONPATH=src" in text, "the code is that of the checkout"
