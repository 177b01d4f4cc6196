"""A privacy statement in words, for a page, a file and the terminal.

The sentences are those of :mod:`private_graphs.privacy.explain`; this file puts them on a card, and
says which runs a statement stands for. Budgets are rounded up and lower bounds down, so that no
words promise more than the statement.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from private_graphs.privacy.explain import RELEASES, TEXTS, Sentence, answers, explain, sentences
from private_graphs.privacy.explain import headline as one_line
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.exhibit import NOTHING
from private_graphs.report.words import missing, strength

HEADINGS = dict(
    zip(
        TEXTS,
        ("Who is protected", "Against whom", "How strongly", "How often it may fail",
         "All runs together", "What it supposes", "What is not covered"),
        strict=True,
    )
)  # fmt: skip
"""What the texts of ``explain`` answer."""


@dataclass(frozen=True)
class Headline:
    """A statement in one line, and how it is to be taken (``Cell.tone``)."""

    text: str
    tone: str


def headline(statement: PrivacyStatement) -> Headline:
    """Return what is proved, claimed and refuted, in one line."""
    if statement.status == "not_private":
        tone = ""
    elif statement.status == "refuted":
        tone = "refuted"
    else:
        tone = strength(statement.epsilon_proved)
    return Headline(one_line(statement), tone)


def card(statement: PrivacyStatement) -> list[tuple[str, str]]:
    """Return (heading, text) for the lines of a card that statements about like runs share."""
    told = answers(statement)
    return [
        ("Protected", ". ".join(told["What is protected"])),
        ("From whom", ". ".join(told["From whom"])),
        ("Not covered", "; ".join(each.rstrip(".") for each in told["What is not covered"])),
    ]


def strongly(statement: PrivacyStatement) -> str:
    """Return what its ε mean, of one run and of several, with what is printed and shown."""
    return ". ".join(each.rstrip(".") for each in answers(statement)["How strongly"]) + "."


def reason(statement: PrivacyStatement) -> str:
    """Return the proof of a statement, or why there is none."""
    if statement.status == "not_private":
        return ""
    words = "no proof: " if statement.epsilon_proved is None else ""
    return f"{words}{statement.proof.removeprefix('none: ').rstrip('.')}."


def rests_on(statement: PrivacyStatement) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the assumptions, the public facts and the preprocessing of a statement."""
    return statement.assumptions, statement.public_facts, statement.preprocessing


def said(value: Any) -> str:
    """Return the value of a setting as text."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def paragraphs(statement: PrivacyStatement) -> list[tuple[str, list[Sentence]]]:
    """Return (heading, sentences) for every text of ``explain`` that has something to say."""
    told = sentences(statement)
    return [(heading, told[name]) for name, heading in HEADINGS.items() if told[name]]


def terminal(statement: PrivacyStatement, width: int = 88) -> str:
    """Return the statement as a few lines for a terminal, ``width`` characters at most."""
    texts = explain(statement)
    lines = [
        ("privacy", headline(statement).text),
        ("because", statement.proof if statement.mechanisms else ""),
        ("together", texts["all_runs_and_selection"]),
        ("released", f"{RELEASES[statement.inference]}."),
        ("supposing", texts["assumptions"]),
        ("statement", statement.statement_id),
    ]
    if statement.status == "not_private":
        lines = [lines[0], lines[-1]]
    form = {"width": width, "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(
        textwrap.fill(f"{name:<12}{text}", subsequent_indent=" " * 12, **form)
        for name, text in lines
        if text
    )


RUN_KEYS = ("dataset", "features", "view", "method", "scenario", "protocol", "settings", "epsilon",
            "validation_labels", "validation_nodes", "group")  # fmt: skip
"""Columns that tell runs of a statement apart."""


def runs_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return in words which runs ``rows`` (tidy rows of one statement) are, a line per group."""
    groups: dict[tuple[Any, ...], list[bool]] = {}
    for row in rows:
        values = [row.get(name) for name in RUN_KEYS]
        key = tuple((missing(value), None if missing(value) else value) for value in values)
        selected = row.get("selected")
        groups.setdefault(key, []).append(missing(selected) or bool(selected))
    lines = []
    for key, selected in sorted(groups.items(), key=lambda item: item[0]):
        row = {name: value for name, (none, value) in zip(RUN_KEYS, key, strict=True) if not none}
        lines.append(", ".join(part for part in _parts(row, selected) if part))
    return lines


def _parts(row: Mapping[str, Any], selected: list[bool]) -> list[str]:
    epsilon = row["epsilon"]
    labels, nodes = row.get("validation_labels"), row.get("validation_nodes")
    return [
        row["dataset"],
        "" if row.get("features", "raw") == "raw" else f"features {row['features']}",
        f"read as {row['view']}" if row.get("view", "protocol") != "protocol" else "",
        f"{row['method']} ({row['scenario']})" if "scenario" in row else row["method"],
        f"protocol {row['protocol']}",
        settings_words(row.get("settings", "")),
        "without DP" if math.isinf(epsilon) else f"ε = {epsilon:.10g}",
        "" if labels is None or labels == nodes else f"{labels:.0f} public validation labels",
        f"{len(selected)} run{'s' if len(selected) > 1 else ''} of {row['group']}",
        "" if any(selected) else "not selected",
    ]


def settings_words(settings: str) -> str:
    """Return the settings of a row, a JSON object, in words: ``optimizer adam, splits 10``."""
    if not settings:
        return ""
    values = json.loads(settings)
    return ", ".join(f"{words(name)} {said(value)}" for name, value in values.items())


def words(name: Any) -> str:
    """Return an identifier as words: ``add_remove`` is ``add remove``."""
    return str(name).replace("_", " ")
