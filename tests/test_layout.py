"""The layout of the project: what may name a study, which way imports run."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from private_graphs.core.study import load_study, study_ids
from private_graphs.studies import exhibits_by_name

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
            "labels",
            "leak",
            "long",
            "models",
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
    ("errors", "entropy", "limits", "files", "private_files", "bounded_files", "imports",
     "devices", "manifest"),
    ("datasets", "graphs"),
    ("features",), ("privacy",),
    ("protocols", "tasks", "masks", "graph_task", "image_task", "jobs", "streams"),
    ("training", "mechanisms"), ("method",), ("methods",),
    ("memory", "result", "job_files", "settings_search", "run", "splits", "study",
     "config_values", "store", "attacks"), ("audit",),
    ("report",), ("studies", "plan"), ("documents",), ("workflow",), ("cli", "__main__"),
)  # fmt: skip
"""Packages, and modules of ``core``: none imports from a floor further on."""


def _room(parts: tuple[str, ...]) -> str:
    """Return the package of a dotted name below the project, of ``core`` the module."""
    return parts[1] if parts[0] == "core" and len(parts) > 1 else parts[0]


def test_imports_point_downwards(root: Path) -> None:
    package = root / "src" / "private_graphs"
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    upward = []
    for path in package.rglob("*.py"):
        room = _room(path.relative_to(package).with_suffix("").parts)
        own = floor.get(room)
        if own is None:
            assert path.name == "__init__.py", f"{room}: no floor"
            continue
        skipped = {
            id(child)
            for node in nodes_of(path)
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
            for child in ast.walk(node)
        }
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and id(node) not in skipped and node.module:
                parts = node.module.split(".")
                # the package that finds exhibits imports none of them by name
                if parts[0] == "private_graphs" and len(parts) > 1 and parts[1:] != ["studies"]:
                    if floor.get(_room(tuple(parts[1:])), 0) > own:
                        upward.append(f"{path.relative_to(package)} imports {node.module}")
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
