"""Names say what a thing is: pronouns, adverbs and participles are no names."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

NO_NAMES = frozenset(
    "own other others found each some told said says kept asked theirs ours mine every many more "
    "rest near far there beside alone alike both wanted made shown place".split()
)
MOST = 0.005
"""Largest share of bound names; ``other`` stands in comparisons of two."""


def bound_names(text: str) -> list[str]:
    """Return the names that a module binds: of variables, fields and arguments."""
    nodes = list(ast.walk(ast.parse(text)))
    return [node.id for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)] + [
        node.arg for node in nodes if isinstance(node, ast.arg)
    ]  # fmt: skip


def test_almost_no_name_is_a_pronoun_an_adverb_or_a_participle(root: Path) -> None:
    names = Counter(
        name for path in sorted((root / "src").rglob("*.py"))
        for name in bound_names(path.read_text(encoding="utf-8"))
    )  # fmt: skip
    wrong = {name: count for name, count in names.items() if name in NO_NAMES}
    assert sum(wrong.values()) <= MOST * names.total(), wrong
