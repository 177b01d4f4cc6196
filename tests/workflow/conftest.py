"""A copy of the repository with a tiny study, and Snakemake to run in it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import yaml
from lent_kernels import lend_kernels

PARTS = ("src", "workflow", "profiles", "envs", "recorded", "Snakefile", "config.yaml")
UNREACHABLE = {
    name: "http://127.0.0.1:9"
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
}
"""Proxies that refuse every connection: nothing can be had from the network."""
STUDY, RECORDED = "lrec2022", "pate"


@dataclass
class Project:
    """A folder that holds what a run needs of the repository."""

    path: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment in which the copy's own package is imported."""
        own = {"PYTHONPATH": str(self.path / "src"), "OMP_NUM_THREADS": "1"}
        return {**os.environ, **own, **variables}

    def snakemake(
        self, *arguments: str, limit: float | None = 900, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end; standard output and error come together."""
        return subprocess.run(
            [str(Path(sys.executable).parent / "snakemake"), *arguments],
            cwd=self.path, env=self.environment(**variables), text=True, timeout=limit,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def start(self) -> subprocess.Popen[str]:
        """Start a run as ``make reproduce`` does after the installation."""
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "snakemake")],
            cwd=self.path, env=self.environment(), text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            # a shell starts what runs in the background with Ctrl-C ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        self.started.append(process)
        return process

    def jobs(self, *arguments: str, **variables: str) -> dict[str, int]:
        """Return how many jobs of each rule a dry run announces."""
        done = self.snakemake(*arguments, "--dry-run", "--quiet", "rules", **variables)
        assert done.returncode == 0, done.stdout
        rows = re.findall(r"^(\w+) +(\d+)$", done.stdout, flags=re.MULTILINE)
        return {rule: int(count) for rule, count in rows if rule not in ("total", "all")}

    def append(self, file: str, text: str) -> None:
        """Add text to a file, as an editor would."""
        path = self.path / file
        path.write_text(path.read_text() + text)

    @property
    def demo(self) -> Path:
        """Folder of the results of the scale."""
        return self.path / "results" / "demo"

    def job(self, protocol: str, dataset: str = "synthetic-planetoid") -> Path:
        """Return the folder of a job of the tiny study."""
        name = f"{dataset}/raw/gcn/nodes/{protocol}/optimizer=sgd,splits=1,train_fraction=1"
        return self.demo / "jobs" / STUDY / "table1" / name

    def edit_study(self, change: Callable[[dict], object]) -> None:
        """Change the ``demo`` scale of the study."""
        path = self.path / "src/private_graphs/studies" / STUDY / "study.yaml"
        study = yaml.safe_load(path.read_text())
        change(study["scales"]["demo"])
        path.write_text(yaml.safe_dump(study))


def _tiny(demo: dict) -> None:
    """One dataset, three epochs; exhibits that need no audit."""
    demo["datasets"] = ["synthetic-planetoid"]
    demo["seeds"] = 2
    demo["exhibits"] = ["table1", "table3", "table5"]
    for configuration in demo["configurations"].values():
        configuration["settings"]["epochs"] = 3
    demo["groups"]["table1"] = {
        "jobs": [{"use": ["sgd"], "vary": {"splits": [1]}, "epsilons": [2]}]
    }
    demo["groups"]["audit"] = {
        "attack": {"runs": 40},
        "jobs": [
            {"use": ["sgd"], "vary": {"splits": [1]}, "settings": {"epochs": 100}, "epsilons": [2]}
        ],
    }
    demo["groups"]["frontier"] = {
        "datasets": ["synthetic-planetoid"],
        "jobs": [
            {
                "methods": ["class_sums", "public_only"],
                "scenario": "text",
                "epsilons": [1, float("inf")],
                "seeds": 2,
                "validation_labels": [20, 0],
                "validation_epsilons": [1],
            },
            {"methods": ["text_only"], "scenario": "edges", "epsilons": [1], "seeds": 2},
        ],
    }


def copy_of(root: Path, path: Path) -> Project:
    """Copy what a run needs of the repository."""
    path.mkdir(parents=True)
    for part in PARTS:
        if (root / part).is_dir():
            ignored = shutil.ignore_patterns("compiled-*", ".snakemake")  # bytecode stays valid
            shutil.copytree(root / part, path / part, ignore=ignored)
        else:
            shutil.copy2(root / part, path / part)
    lend_kernels(root / "src", path / "src")
    (path / "data").mkdir()
    shutil.copy2(root / "data" / "sources.yaml", path / "data")
    shutil.copytree(root / "data" / "embedded", path / "data" / "embedded")
    return Project(path)


def _make(root: Path, path: Path) -> Project:
    """Copy what a run needs, with a tiny study, and recorded results of one study alone: pages of
    all take longer than the tests."""
    project = copy_of(root, path)
    for study in (path / "recorded").iterdir():
        if study.is_dir() and study.name != RECORDED:
            shutil.rmtree(study)
    project.edit_study(_tiny)
    text = (path / "config.yaml").read_text()
    narrowed = text.replace("protocols: all", "protocols: released,paper")
    narrowed = narrowed.replace("studies: all", f"studies: {STUDY}")
    assert "protocols: released,paper" in narrowed and f"studies: {STUDY}" in narrowed
    (path / "config.yaml").write_text(narrowed)
    return project


def _end(project: Project) -> None:
    for process in project.started:
        if process.poll() is None:
            children = psutil.Process(process.pid).children(recursive=True)
            for child in [psutil.Process(process.pid), *children]:
                child.kill()
        process.communicate()


@dataclass
class FirstRun:
    """A project after its first run, with what that printed; not to be changed."""

    project: Project
    result: subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every project lies in turn: compiled kernels are looked up by the path of their source,
    and compiling them takes longer than the tests."""
    return tmp_path_factory.mktemp("workflow") / "project"


@pytest.fixture(scope="session")
def first_run(root: Path, place: Path) -> FirstRun:
    """The first run of a project without network."""
    shutil.rmtree(place, ignore_errors=True)
    made = _make(root, place)
    result = made.snakemake(**UNREACHABLE)
    first = place.with_name("first")
    made.path.rename(first)
    return FirstRun(Project(first), result)


@pytest.fixture
def finished(first_run: FirstRun, place: Path) -> Iterator[Project]:
    """A copy of the project after its first run, to be changed at will."""
    assert first_run.result.returncode == 0, first_run.result.stdout
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(first_run.project.path, place)  # keeps times
    made = Project(place)
    yield made
    _end(made)


@pytest.fixture
def shipped(root: Path, project: Project) -> Project:
    """A project in which nothing has run, with the studies and the configuration as they are."""
    studies = "src/private_graphs/studies"
    shutil.copytree(root / studies, project.path / studies, dirs_exist_ok=True)
    shutil.copy2(root / "config.yaml", project.path)
    return project


@pytest.fixture
def project(root: Path, place: Path) -> Iterator[Project]:
    """A project in which nothing has run; one dataset, two jobs of three epochs."""
    shutil.rmtree(place, ignore_errors=True)
    made = _make(root, place)
    yield made
    _end(made)
