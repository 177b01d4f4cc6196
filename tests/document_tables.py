"""Made-up tables of documents, and their declaration."""

from __future__ import annotations

import csv
from pathlib import Path

import private_graphs
from private_graphs.documents.tables import keyed

CLASSES = ("bikes", "gardens", "radios")
WORDS = {"bikes": "chain pedal wheel", "gardens": "rose soil hedge", "radios": "dial tube coil"}


def rows_of(size: int, start: int = 0, label_every: int = 1) -> list[dict[str, str]]:
    """Documents of two per person, with words of their class."""
    rows = []
    for number in range(start, start + size):
        name = CLASSES[keyed("test", [str(number)])[0] % 3]
        words = WORDS[name].split()
        rows.append({
            "id": f"d{number}", "who": f"p{number // 2}", "body": f"the {' '.join(words)} again",
            "topic": name if number % label_every == 0 else "", "open": "",
        })  # fmt: skip
    return rows


def write(path: Path, rows: list[dict[str, str]], delimiter: str = ",") -> Path:
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def declared(name: str, nodes: Path, **more):
    given = {"text": "body", "label": "topic", "classes": CLASSES, "budget": 1.5} | more
    return private_graphs.declare(name, nodes=nodes, **given)


def linked(path: Path, rows: list[dict[str, str]], without: int = 0, more=()) -> Path:
    """Links between documents of one class that follow each other, less the first few."""
    kinds = {name: [row["id"] for row in rows if row["topic"] == name] for name in CLASSES}
    pairs = [pair for ids in kinds.values() for pair in zip(ids, ids[1:], strict=False)]
    ends = ("source", "target")
    return write(path, [dict(zip(ends, pair, strict=True)) for pair in [*pairs[without:], *more]])


def public_rows(size: int) -> list[dict[str, str]]:
    return [row | {"open": "yes"} for row in rows_of(size)]
