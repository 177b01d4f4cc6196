"""Warnings about a user's graph: findings that are often mistakes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from private_graphs.core.errors import counted
from private_graphs.datasets.spelling import is_missing, looks

FEW_TEST_NODES = 20
"""Number of test nodes below which one of them moves the score by more than five points."""


def warnings_about(statistics: dict[str, Any]) -> list[str]:
    """Return warnings that follow from a built dataset's statistics (``GraphDataset.statistics``).

    They count training nodes, so they are for the owner of the graph alone.
    """
    found = warnings_about_texts(statistics)
    counts = statistics["counts"]
    if counts.get("names_trimmed"):
        found.append(
            f"{counts['names_trimmed']:,} ids and labels had characters around them that nobody "
            "sees, such as a zero-width space: without them, what looks like one class is one class"
        )
    if counts.get("ids_alike"):
        found.append(
            f"{counts['ids_alike']:,} ids look like another one: they differ in characters that "
            "nobody sees, or in how a letter is written: the same node?"
        )
    if counts.get("texts_missing"):
        found.append(
            f"{counts['texts_missing']:,} texts look like a missing one, such as 'nan': leave the "
            "field empty where there is none"
        )
    untrained = statistics["classes_missing"]["train"]
    if untrained:
        found.append(f"no training node has the class {_some(untrained)}: it cannot be learnt")
    spellings = defaultdict(list)
    for name in statistics["train_class_counts"]:
        spellings[looks(name)].append(name)
    for same in spellings.values():
        if len(same) > 1:
            found.append(
                f"the classes {_some(same, alike=True)} differ in case, blanks, characters that "
                "nobody sees or another way to write the same alone: one class?"
            )
    for name in statistics["train_class_counts"]:
        if is_missing(name):
            found.append(
                f"the class {name!r} looks like a missing label: leave the field empty where there "
                "is none"
            )
    classes, nodes = statistics["classes"], statistics["nodes"]
    if 2 * classes > nodes:
        found.append(f"{classes:,} classes of {nodes:,} nodes: is this the label column?")
    tested = statistics["labelled"]["test"]
    if 0 < tested < FEW_TEST_NODES:
        found.append(
            f"only {counted(tested, 'labelled test node')}: each is {100 / tested:.0f} points of "
            "the score"
        )
    return found


def warnings_about_texts(statistics: dict[str, Any]) -> list[str]:
    """Return warnings about text that was lost, for a built-in or a user's dataset."""
    found = []
    counts = statistics["counts"]
    empty, nodes = statistics["nodes_without_features"], statistics["nodes"]
    if empty:
        found.append(f"{empty:,} of {nodes:,} nodes without features: no word of theirs is known")
    if counts.get("texts_cut"):
        found.append(
            f"{counts['texts_cut']:,} of {counts['texts']:,} texts are cut: the model reads the "
            f"first {counts['texts_longest']:,} tokens, and the rest is not used"
        )
    if counts.get("texts_unknown"):
        found.append(
            f"{counts['texts_unknown']:,} of {counts['texts']:,} texts have characters or words "
            "that the model does not know: all of these are the same token to it"
        )
    if counts.get("texts_not_split"):
        found.append(
            f"{counts['texts_not_split']:,} of {nodes:,} nodes have text in a script without "
            "blanks between words (such as Chinese or Thai), where a whole sentence is one word of "
            "a bag: separate the words with blanks, or use features bert or sbert"
        )
    if counts.get("texts_replaced"):
        found.append(
            f"{counts['texts_replaced']:,} texts have the character U+FFFD, which stands for what "
            "could not be read when they were stored: read the original with its own encoding"
        )
    if counts.get("invalid_utf8_rows"):
        found.append(
            f"{counts['invalid_utf8_rows']:,} rows of the raw file are not UTF-8: read with "
            "replaced characters"
        )
    if counts.get("malformed_rows"):
        found.append(f"{counts['malformed_rows']:,} malformed rows of the raw file were left out")
    return found


def _some(names: list[str], alike: bool = False) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(ascii(name) if alike else repr(name) for name in names[:3]) + more
