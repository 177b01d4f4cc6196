"""A copy of the repository with a tiny study, and Snakemake to run in it."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import yaml

PARTS = ("src", "studies", "workflow", "profiles", "envs", "Snakefile", "config.yaml")
UNREACHABLE = {
    name: "http://127.0.0.1:9"
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
}
"""Proxies that refuse every connection: nothing can be had from the network."""


@dataclass
class Project:
    """A folder that holds what a run needs of the repository."""

    path: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment in which the copy's own package is imported."""
        own = {"PYTHONPATH": str(self.path / "src"), "OMP_NUM_THREADS": "1"}
        return {**os.environ, **own, **variables}

    def snakemake(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end; standard output and error come together."""
        return subprocess.run(
            [str(Path(sys.executable).parent / "snakemake"), *arguments],
            cwd=self.path, env=self.environment(**variables), text=True, timeout=200,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def reproduce(self) -> subprocess.Popen[str]:
        """Start what ``make reproduce`` starts after the installation."""
        process = subprocess.Popen(
            [sys.executable, "workflow/reproduce.py"],
            cwd=self.path, env=self.environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.started.append(process)
        return process

    def jobs(self, *arguments: str, **variables: str) -> dict[str, int]:
        """Return how many jobs of each rule a dry run announces."""
        done = self.snakemake("--dry-run", *arguments, **variables)
        assert done.returncode == 0, done.stdout
        rows = re.findall(r"^(\w+) +(\d+)$", done.stdout, flags=re.MULTILINE)
        return {rule: int(count) for rule, count in rows if rule not in ("total", "all")}

    def append(self, file: str, text: str) -> None:
        """Add text to a file, as an editor would."""
        path = self.path / file
        path.write_text(path.read_text() + text)

    @property
    def runs(self) -> Path:
        """Folder of all cells of the study."""
        return self.path / "results" / "demo" / "runs" / "lrec2022"

    def cell(self, protocol: str, dataset: str = "synthetic-planetoid") -> Path:
        """Return the folder of a cell of the tiny study."""
        return self.runs / f"table1/{dataset}/raw/gcn/sgd/{protocol}/s1/f1"

    def edit_study(self, change: Callable[[dict], object]) -> None:
        """Change the ``demo`` scale of the study."""
        path = self.path / "studies" / "lrec2022.yaml"
        study = yaml.safe_load(path.read_text())
        change(study["scales"]["demo"])
        path.write_text(yaml.safe_dump(study))


def _tiny(scale: dict) -> None:
    scale["datasets"] = ["synthetic-planetoid"]
    scale["seeds"] = 2
    scale["training"]["epochs"] = {"sgd": 3, "adam": 3}
    table1 = scale["experiments"]["table1"]
    table1["optimizers"] = ["sgd"]
    table1["grid"] = [{"splits": 1, "epsilons": [2]}]
    for name in ("table2", "leak", "A", "B", "C", "audit", "frontier"):
        scale["experiments"][name]["default"] = False
    scale["experiments"]["audit"] |= {"runs": 40, "splits": [1]}
    for name in ("table2", "leak"):
        scale["experiments"][name] |= {"features": ["bow"], "optimizers": ["sgd"]}
        scale["experiments"][name]["grid"] = [{"splits": 1, "epsilons": [math.inf, 2]}]
    scale["experiments"]["frontier"] |= {
        "methods": {
            "text": ["class_sums", "dp_linear", "public_only"],
            "graph": ["class_sums", "class_sums_text", "public_only"],
            "edges": ["edge_votes", "text_only"],
        },
        "epsilons": [1, 2, math.inf],
        "draws": 3,
        "tuning_labels": [20, 0],
        "tuning_epsilons": [2],
    }
    scale["experiments"]["table5"]["datasets"] = ["synthetic-planetoid"]
    # Table 1 has no Adam here: its learning rate is chosen in a cell of its own
    scale["training"]["private_learning_rates"]["adam"] = [0.1, 1]
    scale["experiments"]["B"] |= {
        "optimizers": ["adam"],
        "grid": [{"splits": 1, "epsilons": [2, 5]}],
        "train_fractions": [0.5],
    }


def _make(root: Path, path: Path) -> Project:
    path.mkdir(parents=True)
    for part in PARTS:
        if (root / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".snakemake")
            shutil.copytree(root / part, path / part, ignore=ignored)
        else:
            shutil.copy2(root / part, path / part)
    (path / "data").mkdir()
    shutil.copy2(root / "data" / "sources.yaml", path / "data")
    project = Project(path)
    project.edit_study(_tiny)
    text = (path / "config.yaml").read_text()
    narrowed = text.replace("protocols: all", "protocols: released,paper")
    assert narrowed != text
    (path / "config.yaml").write_text(narrowed)
    return project


def _end(project: Project) -> None:
    for process in project.started:
        if process.poll() is None:
            children = psutil.Process(process.pid).children(recursive=True)
            for each in [psutil.Process(process.pid), *children]:
                each.kill()
        process.communicate()


@dataclass
class FirstRun:
    """A project after its first run, with what that printed; not to be changed."""

    project: Project
    result: subprocess.CompletedProcess[str]
    place: Path
    """Where it ran. Every other project takes this place in turn: compiled kernels are looked up
    by the path of their source, and compiling them takes longer than the tests."""


@pytest.fixture(scope="session")
def first_run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> FirstRun:
    """The first run of a project without network."""
    base = tmp_path_factory.mktemp("workflow")
    made = _make(root, base / "project")
    result = made.snakemake(**UNREACHABLE)
    made.path.rename(base / "first")
    return FirstRun(Project(base / "first"), result, base / "project")


@pytest.fixture
def finished(first_run: FirstRun) -> Iterator[Project]:
    """A copy of the project after its first run, to be changed at will."""
    assert first_run.result.returncode == 0, first_run.result.stdout
    shutil.rmtree(first_run.place, ignore_errors=True)
    shutil.copytree(first_run.project.path, first_run.place)  # keeps times
    made = Project(first_run.place)
    yield made
    _end(made)


@pytest.fixture
def shipped(root: Path, project: Project) -> Project:
    """A project in which nothing has run, with the study and the configuration as they are."""
    shutil.copytree(root / "studies", project.path / "studies", dirs_exist_ok=True)
    shutil.copy2(root / "config.yaml", project.path)
    return project


@pytest.fixture
def project(root: Path, first_run: FirstRun) -> Iterator[Project]:
    """A project in which nothing has run; one dataset, two cells of three epochs."""
    shutil.rmtree(first_run.place, ignore_errors=True)
    made = _make(root, first_run.place)
    for compiled in first_run.project.path.glob("src/**/__pycache__/compiled-*"):
        shutil.copytree(compiled, made.path / compiled.relative_to(first_run.project.path))
    yield made
    _end(made)
