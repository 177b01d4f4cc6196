"""The workflow's own quality: lint, format, and files that must agree with each other."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import metadata, packages_distributions
from itertools import chain
from pathlib import Path

import yaml
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from private_graphs.core.imports import import_closure
from private_graphs.methods import all_methods, module_of
from private_graphs.running.catalog import modules_of
from private_graphs.workflow.rules import exhibit_modules, make_workflow, recorded_studies

from .conftest import Project

BIN = Path(sys.executable).parent


def pins(text: str) -> dict[str, str]:
    """Return name -> version of every ``name==version`` line, with hashes after it or without."""
    return dict(re.findall(r"^[\s-]*([A-Za-z0-9_.-]+)==(\S+)(?: \\)?$", text, flags=re.MULTILINE))


def test_snakemake_lint_finds_nothing(project: Project) -> None:
    run = project.snakemake("--lint")
    assert run.returncode == 0, run.stdout


def test_workflow_files_are_formatted(root: Path) -> None:
    run = subprocess.run(
        [BIN / "snakefmt", "--check", "Snakefile", "workflow"],
        cwd=root, text=True, capture_output=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_every_rule_has_a_script_of_its_name_a_log_and_an_environment(root: Path) -> None:
    rules = []
    for path in sorted((root / "workflow" / "rules").glob("*.smk")):
        text = path.read_text()
        assert not re.search(r"^    (run|shell|notebook|wrapper):", text, flags=re.MULTILINE)
        for name, body in re.findall(r"^rule (\w+):\n((?:    .*\n|\n)+)", text, flags=re.MULTILINE):
            rules.append(name)
            for directive in ("log:", "conda:", "threads: ", "resources:", "mem_mb=", "runtime="):
                assert f"    {directive}" in body, (name, directive)
            batch = name in ("splits", "run", "audit", "leaks")
            assert "    benchmark:" not in body, "times may be secret"
            assert f'"../scripts/{name}.py"' in body
            assert f'{"code_of_methods" if batch else "code"}("{name}.py"' in body
    assert rules == ["sources", "dataset", "texts", "features", "splits", "run", "audit",
                     "leaks", "exhibits", "site"]  # fmt: skip


DOCUMENTED = {
    "snakemake.utils": {"min_version"},
    "snakemake.exceptions": {"WorkflowError"},
    "workflow": {"basedir", "cores"},
}
"""What Snakemake documents and we use; in scripts also the object ``snakemake``, as ``snake``."""
SCRIPT = {"input", "output", "params", "wildcards", "threads", "log", "resources", "config"}


def test_only_what_snakemake_documents_is_used(root: Path) -> None:
    rules = [root / "Snakefile", *(root / "workflow").rglob("*.smk")]
    code = [*(root / "workflow").rglob("*.py"), *(root / "src").rglob("*.py")]
    for path in [*rules, *code]:
        text = path.read_text(encoding="utf-8")
        for line in re.findall(r"^ *(?:from|import) +snakemake.*$", text, flags=re.MULTILINE):
            found = re.fullmatch(r" *from (snakemake\.\w+) import (\w+)", line)
            assert found and found[2] in DOCUMENTED.get(found[1], ()), f"{path}: {line}"
        if path in rules:
            used = set(re.findall(r"(?<!\.)\bworkflow\.(\w+)", re.sub(r"#.*|\".*?\"", "", text)))
            assert used - {"flow"} <= DOCUMENTED["workflow"], path
        if path.parent.name == "scripts":
            used = set(re.findall(r"\b(?:snake|snakemake)\.(\w+)", text))
            assert used <= SCRIPT, (path, used)


def test_environments_have_the_versions_of_the_lock(root: Path) -> None:
    locked = pins((root / "requirements.lock").read_text())
    files = sorted((root / "envs").glob("*.yaml"))
    assert files
    for path in files:
        found = pins(path.read_text())
        assert found and found == {name: locked[name] for name in found}, path.name
        assert yaml.safe_load(path.read_text())["dependencies"]


DISTRIBUTIONS = cache(packages_distributions)
WITH_TORCH = ("triton",)
"""What torch brings on a machine with CUDA, and no lock names."""


@cache
def imported_names(path: Path) -> set[str]:
    """Return the first parts of the names that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


def imported_packages(script: Path, *modules: str) -> set[str]:
    """Return the distributions that a script of the workflow and its closure import, with modules
    that it finds by name."""
    closure = {path for start in (script, *modules) for path in import_closure(start)}
    names = {name for path in (script, *closure) for name in imported_names(path)}
    found = {DISTRIBUTIONS()[name][0] for name in names if name in DISTRIBUTIONS()}
    return {canonicalize_name(name) for name in found} - {"private-graphs"}


def by_name(rule: str) -> list[str]:
    """Return the modules that the script of a rule finds by name."""
    if rule in ("run", "audit"):
        return sorted({module_of(name) for name in all_methods()})
    if rule == "exhibits":
        return exhibit_modules(make_workflow({}).shown_exhibits())
    if rule == "site":  # studies of a run are recorded, but for a new one
        return modules_of(recorded_studies())
    return []


def test_environments_have_what_the_scripts_of_their_rules_import(root: Path) -> None:
    rules = re.compile(r"^rule (\w+):.*?/envs/(\w+)\.yaml", flags=re.MULTILINE | re.DOTALL)
    for path in sorted((root / "workflow" / "rules").glob("*.smk")):
        for name, environment in rules.findall(path.read_text()):
            script = root / "workflow" / "scripts" / f"{name}.py"
            there = pins((root / "envs" / f"{environment}.yaml").read_text())
            absent = imported_packages(script, *by_name(name)) - {*there, *WITH_TORCH}
            assert not absent, (name, environment)


def test_lock_pins_versions_and_hashes_and_nothing_else(root: Path) -> None:
    text = (root / "requirements.lock").read_text().replace("\\\n", "")
    entries = [line for line in text.splitlines() if not line.startswith("#")]
    for line in entries:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*( +--hash=sha256:[0-9a-f]{64})+", line)
    names = [line.partition("==")[0] for line in entries]
    assert names == sorted(set(names))
    for name in names:  # Debian 12 has Python 3.11.2
        needed = metadata(name)["Requires-Python"]
        assert not needed or SpecifierSet(needed).contains("3.11.2"), (name, needed)


def test_lock_has_everything_that_the_project_names(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    locked = pins((root / "requirements.lock").read_text())
    assert not [each for each in named if re.split(r"[><=]", each)[0] not in locked]


def test_the_package_needs_what_it_imports_and_nothing_else(root: Path) -> None:
    """Snakemake is an extra that no module imports; markupsafe comes with jinja2."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"],
              *chain(*(extras[name] for name in ("bert", "fasttext", "reference")))]  # fmt: skip
    names = {name for path in (root / "src").rglob("*.py") for name in imported_names(path)}
    found = {canonicalize_name(DISTRIBUTIONS()[name][0]) for name in names & {*DISTRIBUTIONS()}}
    assert found - {"private-graphs", "markupsafe", *WITH_TORCH} == {
        canonicalize_name(re.split(r"[><=;]", each)[0]) for each in needed
    }
