"""Line numbers in pages: the place of every function, class or line that they name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from private_graphs.core.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
PLACE = re.compile(r"`([\w./]+):(\d+)`(\s+)`([^`]+)`")
"""A path, the number of a line, and what stands there."""


def with_lines(text: str) -> str:
    """Return the text with the present number of every line that it names."""
    return PLACE.sub(
        lambda found: f"`{found[1]}:{line_of(found[1], found[4])}`{found[3]}`{found[4]}`", text
    )


def line_of(path: str, name: str) -> int:
    """Return the line of a definition in a module, or the first line of another file that has the
    words ``name``; UserError where there is none."""
    lines = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".py"):
        found = _definitions(ast.parse(lines)).get(name)
    else:
        places = [number for number, line in enumerate(lines.splitlines(), 1) if name in line]
        found = places[0] if places else None
    if found is None:
        raise UserError(f"docs/: {path} has no {name!r}; expected a name that it has")
    return found


def _definitions(tree: ast.AST, prefix: str = "") -> dict[str, int]:
    found: dict[str, int] = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.setdefault(prefix + node.name, node.lineno)
            inner = f"{prefix}{node.name}." if isinstance(node, ast.ClassDef) else prefix
            for name, line in _definitions(node, inner).items():
                found.setdefault(name, line)
    return found
