"""Warnings about a user's graph: findings that are often mistakes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from private_graphs.core.errors import counted
from private_graphs.datasets.spelling import is_missing, looks

FEW_TEST_NODES = 20
"""Number of test nodes below which one of them moves the score by more than five points."""
_OF_NAMES = {
    "names_trimmed": "{:,} ids and labels had characters around them that nobody sees, such as a "
    "zero-width space: without them, what looks like one class is one class",
    "ids_alike": "{:,} ids look like another one: they differ in characters that nobody sees, or "
    "in how a letter is written: the same node?",
    "texts_missing": "{:,} texts look like a missing one, such as 'nan': leave the field empty "
    "where there is none",
}
_OF_TEXTS = {
    "texts_cut": "{:,} of {texts:,} texts are cut: the model reads the first {texts_longest:,} "
    "tokens, and the rest is not used",
    "texts_unknown": "{:,} of {texts:,} texts have characters or words that the model does not "
    "know: all of these are the same token to it",
    "texts_not_split": "{:,} of {nodes:,} nodes have text in a script without blanks between words "
    "(such as Chinese or Thai), where a whole sentence is one word of a bag: separate the words "
    "with blanks, or use features bert or sbert",
    "texts_replaced": "{:,} texts have the character U+FFFD, which stands for what could not be "
    "read when they were stored: read the original with its own encoding",
    "invalid_utf8_rows": "{:,} rows of the raw file are not UTF-8: read with replaced characters",
    "malformed_rows": "{:,} malformed rows of the raw file were left out",
}
"""Warnings by the name of the count that they begin with."""


def warnings_about(statistics: dict[str, Any]) -> list[str]:
    """Return warnings that follow from a built dataset's statistics (``GraphDataset.statistics``).

    They count training nodes, so they are for the owner of the graph alone.
    """
    warnings = [*warnings_about_texts(statistics), *_counted(_OF_NAMES, statistics)]
    untrained = statistics["classes_missing"]["train"]
    if untrained:
        warnings.append(f"no training node has the class {_some(untrained)}: it cannot be learnt")
    spellings = defaultdict(list)
    for name in statistics["train_class_counts"]:
        spellings[looks(name)].append(name)
    for same in spellings.values():
        if len(same) > 1:
            warnings.append(
                f"the classes {_some(same, alike=True)} differ in case, blanks, characters that "
                "nobody sees or another way to write the same alone: one class?"
            )
    for name in statistics["train_class_counts"]:
        if is_missing(name):
            warnings.append(
                f"the class {name!r} looks like a missing label: leave the field empty where there "
                "is none"
            )
    classes, nodes = statistics["classes"], statistics["nodes"]
    if 2 * classes > nodes:
        warnings.append(f"{classes:,} classes of {nodes:,} nodes: is this the label column?")
    tested = statistics["labelled"]["test"]
    if 0 < tested < FEW_TEST_NODES:
        warnings.append(
            f"only {counted(tested, 'labelled test node')}: each is {100 / tested:.0f} points of "
            "the score"
        )
    return warnings


def warnings_about_texts(statistics: dict[str, Any]) -> list[str]:
    """Return warnings about text that was lost, for a built-in or a user's dataset."""
    empty, nodes = statistics["nodes_without_features"], statistics["nodes"]
    words = f"{empty:,} of {nodes:,} nodes without features: no word of theirs is known"
    return [*([words] if empty else []), *_counted(_OF_TEXTS, statistics)]


def _counted(sentences: dict[str, str], statistics: dict[str, Any]) -> list[str]:
    """Return the sentences whose count is not zero, filled with the counts of a dataset."""
    counts, nodes = statistics["counts"], statistics["nodes"]
    return [text.format(counts[name], nodes=nodes, **counts)
            for name, text in sentences.items() if counts.get(name)]  # fmt: skip


def _some(names: list[str], alike: bool = False) -> str:
    suffix = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(ascii(name) if alike else repr(name) for name in names[:3]) + suffix
