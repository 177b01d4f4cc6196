"""What looks like a mistake in a user's graph, and may be none."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

FEW_TEST_NODES = 20
"""With fewer, one test node moves the score by more than five points."""


def warnings_about(statistics: dict[str, Any]) -> list[str]:
    """Return sentences about the statistics of a built dataset (``GraphDataset.statistics``).

    They count training nodes: they are for the owner of the graph alone.
    """
    found = []
    empty, nodes = statistics["nodes_without_features"], statistics["nodes"]
    if empty:
        found.append(f"{empty:,} of {nodes:,} nodes without features: no word of theirs is known")
    untrained = statistics["classes_missing"]["train"]
    if untrained:
        found.append(f"no training node has the class {_some(untrained)}: it cannot be learnt")
    spellings = defaultdict(list)
    for name in statistics["train_class_counts"]:
        spellings[" ".join(name.casefold().split())].append(name)
    for same in spellings.values():
        if len(same) > 1:
            found.append(f"the classes {_some(same)} differ in case or blanks alone: one class?")
    classes = statistics["classes"]
    if 2 * classes > nodes:
        found.append(f"{classes:,} classes of {nodes:,} nodes: is this the label column?")
    tested = statistics["labelled"]["test"]
    if 0 < tested < FEW_TEST_NODES:
        found.append(
            f"only {tested} labelled test node{'s' if tested > 1 else ''}: each is "
            f"{100 / tested:.0f} points of the score"
        )
    return found


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(repr(name) for name in names[:3]) + more
