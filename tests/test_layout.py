"""The layout of the project: what may name a study, which way imports run."""

from __future__ import annotations

import ast
from pathlib import Path

from private_graphs.studies import exhibits_by_name
from private_graphs.study import load_study, study_ids

ROOMS = ("studies", "methods", "datasets")
"""Where a study and what belongs to it may be named."""


def _words(path: Path) -> set[str]:
    """Names and strings of a module, docstrings apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    strings = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts
    }
    return strings | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_nothing_but_their_own_files_names_a_study_or_an_exhibit(root: Path) -> None:
    package = root / "src" / "private_graphs"
    named = set(study_ids())
    for study in study_ids():
        names = {*exhibits_by_name(study), *load_study(study).groups}
        named |= {name for name in names if len(name) > 1} - {
            "audit",
            "codes",
            "labels",
            "models",
            "steps",
            "teachers",
        }  # words
    assert "table1" in named
    for path in package.rglob("*.py"):
        if path.relative_to(package).parts[0] in ROOMS:
            continue
        assert not _words(path) & named, path
        assert not any(f"studies.{study}" in path.read_text() for study in study_ids()), path


FLOORS = (
    ("errors", "limits", "files", "imports", "devices", "slices"), ("datasets", "graphs"),
    ("features",), ("privacy",), ("protocols", "tasks", "jobs"), ("training", "mechanisms"),
    ("methods",), ("result", "run", "sharded", "study", "run_values", "attacks"), ("audit",),
    ("report",), ("studies", "plan"), ("documents",),
    ("cost", "verify", "kept", "workflow", "announce", "locks"), ("cli", "__main__"),
)  # fmt: skip


def test_imports_point_downwards(root: Path) -> None:
    package = root / "src" / "private_graphs"
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    upward = []
    for path in package.rglob("*.py"):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        own = floor.get(room)
        if own is None:
            assert room == "__init__", f"{room}: no floor"
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        skipped = {
            id(child)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for child in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and id(node) not in skipped and node.module:
                parts = node.module.split(".")
                # the package that finds exhibits imports none of them by name
                if parts[0] == "private_graphs" and len(parts) > 1 and parts[1:] != ["studies"]:
                    if floor.get(parts[1], 0) > own:
                        upward.append(f"{path.relative_to(package)} imports {node.module}")
    assert not upward


def test_a_class_name_has_one_meaning(root: Path) -> None:
    found: dict[str, list[str]] = {}
    for path in (root / "src" / "private_graphs").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(path.name)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
