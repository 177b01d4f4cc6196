"""The layout of the project: what may name a study, which way imports run."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.study import load_study, study_ids

ROOMS = ("studies", "methods", "datasets")
"""Where a study and what belongs to it may be named."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(path)))


def _words(path: Path) -> set[str]:
    """Names and strings of a module, docstrings apart."""
    texts, strings, names = set(), {}, set()
    for node in nodes_of(path):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings[id(node)] = node.value
        elif isinstance(node, ast.Expr):
            texts.add(id(node.value))
    return names | {text for node, text in strings.items() if node not in texts}


def test_nothing_but_their_own_files_names_a_study_or_an_exhibit(root: Path) -> None:
    package = root / "src" / "private_graphs"
    named = set(study_ids())
    for study in study_ids():
        names = {*exhibits_by_name(study), *load_study(study).groups}
        named |= {name for name in names if len(name) > 1} - {
            "audit",
            "codes",
            "edges",
            "labels",
            "leak",
            "long",
            "models",
            "neighbours",
            "nodes",
            "steps",
            "teachers",
        }  # words
    assert "table1" in named
    for path in package.rglob("*.py"):
        if path.relative_to(package).parts[0] in ROOMS:
            continue
        assert not _words(path) & named, path
        text = path.read_text(encoding="utf-8")
        assert not any(f"studies.{study}" in text for study in study_ids()), path


FLOORS = (
    "core", "graphs", "privacy", "mechanisms", "datasets", "tasks", "features", "training",
    "methods", "running", "attacks", "report", "studies", "documents", "site", "workflow", "cli",
)  # fmt: skip
"""Rooms, from the ground up: none imports from one further on, types included."""
ENTRANCES = ("", "__main__", "audit")
"""Modules beside the rooms: what a user imports or starts, on the top floor."""


def module_name(path: Path, package: Path) -> str:
    """Dotted name of a module below the project; "" for the package itself."""
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@cache
def imports_of(package: Path) -> dict[str, frozenset[str]]:
    """Module -> the modules of the project that it names in an import, wherever it stands."""
    modules = {module_name(path, package): path for path in package.rglob("*.py")}
    targets = {}
    for name, path in modules.items():
        found = set()
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("private_graphs"):
                base = str(node.module).removeprefix("private_graphs").removeprefix(".")
                longer = (f"{base}.{alias.name}".removeprefix(".") for alias in node.names)
                found |= {target if target in modules else base for target in longer}
        targets[name] = frozenset(found - {name})
    return targets


def floor(name: str) -> int:
    """Number of the floor that a module stands on."""
    return len(FLOORS) if name in ENTRANCES else FLOORS.index(name.partition(".")[0])


def test_the_map_for_developers_lists_the_rooms_from_the_ground_up(root: Path) -> None:
    package = root / "src" / "private_graphs"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    assert folders == set(FLOORS)
    text = (root / "docs" / "extending.md").read_text(encoding="utf-8")
    listed = re.findall(r"^  ([a-z]+)/", text[text.index("src/private_graphs/\n") :], re.MULTILINE)
    assert tuple(listed) == FLOORS


def test_no_import_runs_up(root: Path) -> None:
    imports = imports_of(root / "src" / "private_graphs")
    upward = [f"{name} imports {target}" for name, targets in imports.items() for target in targets
              if floor(target) > floor(name)]  # fmt: skip
    assert not upward


def test_a_class_name_has_one_meaning(root: Path) -> None:
    found: dict[str, list[str]] = {}
    for path in (root / "src" / "private_graphs").rglob("*.py"):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(path.name)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


PRIVATE = {"bert_cpu.py": {"_linear_pointwise", "_reorder_linear_weight"}}
"""Private names of libraries, by the module that uses them: PyTorch has no public name for a linear
map with a packed weight."""


def test_private_names_of_libraries_are_those_that_are_listed(root: Path) -> None:
    """What begins with one underscore and is not defined where it is used belongs to others."""
    folders = ("src", "workflow", "docs", "envs", "examples")
    found: dict[str, set[str]] = {}
    for path in (path for folder in folders for path in (root / folder).rglob("*.py")):
        nodes = nodes_of(path)
        defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        defined |= {getattr(node, "attr", "") or getattr(node, "id", "") for node in nodes
                    if isinstance(getattr(node, "ctx", None), ast.Store)}  # fmt: skip
        used = [node.attr for node in nodes if isinstance(node, ast.Attribute)]
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and not str(node.module).startswith("private_gr"):
                used += [*str(node.module).split("."), *(each.name for each in node.names)]
            elif isinstance(node, ast.Import):
                used += [part for each in node.names for part in each.name.split(".")]
        private = {name for name in used if name.startswith("_") and not name.endswith("__")}
        if private - defined:
            found[path.name] = private - defined
    assert found == PRIVATE
