"""A privacy statement in words, for a page, a file and the terminal.

The sentences are those of :mod:`private_graphs.privacy.explain`; this file says the statement field
by field, and which runs it stands for. Budgets are rounded up and lower bounds down, so that no
words promise more than the statement.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.privacy.explain import (
    RELEASES,
    TEXTS,
    Sentence,
    at_least,
    at_most,
    explain,
    sentences,
)
from private_graphs.privacy.explain import headline as one_line
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.exhibit import NOTHING
from private_graphs.report.words import missing, strength

SECTIONS: dict[str, dict[str, str]] = {
    "What it is about": {
        "study": "study",
        "dataset": "dataset",
        "features": "features",
        "method": "method",
        "scenario": "scenario",
        "protocol": "protocol",
        "package_version": "version of the package",
        "data_fingerprint": "fingerprint of the dataset",
    },
    "What is claimed": {
        "epsilon_published": "ε published",
        "published_formula": "formula of the published ε",
        "authors_accountant_epsilon": "ε of the authors’ own accountant",
        "epsilon_target": "ε aimed at",
    },
    "What is proved": {
        "status": "status",
        "epsilon_proved": "ε proved, one run with settings fixed in advance",
        "also_proved": "ε proved for other relations",
        "proof": "proof",
        "proof_of_file": "proof for all rows of this file",
        "delta": "δ",
        "unit": "unit that is protected",
        "relation": "neighbouring relation",
        "n_units": "number of units",
        "vacuous": "too large to mean anything (ε above 20)",
        "accountant": "accountant",
        "epsilon_second_route": "ε by a second route",
    },
    "Several runs together": {
        "n_runs_released": "runs released",
        "epsilon_all_runs": "ε proved for all of them together",
        "n_rows_counted": "private rows of this file",
        "epsilon_of_file": "ε proved for all rows of this file together",
        "n_rows_not_counted": "rows without DP in this file, which reveal the data",
    },
    "What it rests on": {
        "assumptions": "assumptions",
        "public_facts": "public by declaration",
        "preprocessing": "preprocessing",
        "noise_source": "source of the noise",
    },
    "What else could leak": {
        "inference": "inference",
        "selection": "selection",
        "audit": "audit",
    },
}
"""Fields of a statement by section, with the words for them; mechanisms have a table."""

HEADINGS = dict(
    zip(
        TEXTS,
        ("Who is protected", "Against whom", "How strongly", "How often it may fail",
         "All runs together", "What it supposes", "What is not covered"),
        strict=True,
    )
)  # fmt: skip
"""What the texts of ``explain`` answer."""

_EXACT = ("epsilon_target", "authors_accountant_epsilon", "epsilon_second_route", "delta")
"""Numbers that are shown as they are: they promise nothing by themselves."""
_FALLING = ("epsilon_lower", "confidence")
"""Numbers that say more the larger they are: rounded down."""


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


def sections(
    statement: PrivacyStatement,
) -> list[tuple[str, list[tuple[str, str | list[str]]]]]:
    """Return every field but the mechanisms: (section, [(name, text or texts), …])."""
    values = statement.model_dump(mode="json")
    return [
        (title, [(label, _field(name, values[name])) for name, label in names.items()])
        for title, names in SECTIONS.items()
    ]


def _field(name: str, value: Any) -> str | list[str]:
    if isinstance(value, list):
        return [said(name, item) for item in value] or "none"
    if name == "inference":
        return RELEASES[value]
    if name in ("unit", "relation", "status", "noise_source"):
        return words(value)
    if value is None:
        return "none" if name.startswith("epsilon") else NOTHING
    return said(name, value)


def said(name: str, value: Any) -> str:
    """Return a field of a statement, or a record in it, as text: ``runs: 2000; unit: node``."""
    if isinstance(value, Mapping):
        parts = (f"{words(key)}: {said(key, item)}" for key, item in value.items())
        return "; ".join(parts)
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if name in _FALLING:
            return at_least(value)
        return at_most(value) if "epsilon" in name and name not in _EXACT else f"{value:.10g}"
    return str(value)


def mechanisms(statement: PrivacyStatement) -> list[str]:
    """Return what was released under noise, a line per mechanism: what it has, in words."""
    return [
        f"{words(each.type)}: "
        + ", ".join(
            f"{words(name)} {said(name, value)}"
            for name, value in each.model_dump(mode="json", exclude={"type"}).items()
            if value not in (None, "none") and (name, value) != ("parts", 1)
        )
        for each in statement.mechanisms
    ]


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


def runs_of(rows: pd.DataFrame) -> list[str]:
    """Return in words which runs ``rows`` (tidy rows of one statement) are, a line per group."""
    keys = [name for name in RUN_KEYS if name in rows]
    groups: dict[tuple[Any, ...], list[bool]] = {}
    chosen = rows["selected"].tolist() if "selected" in rows else [True] * len(rows)
    for values, selected in zip(rows[keys].to_numpy(dtype=object), chosen, strict=True):
        key = tuple((missing(value), None if missing(value) else value) for value in values)
        groups.setdefault(key, []).append(missing(selected) or bool(selected))
    lines = []
    for key, selected in sorted(groups.items(), key=lambda item: item[0]):
        row = {name: value for name, (none, value) in zip(keys, key, strict=True) if not none}
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
    return ", ".join(f"{words(name)} {said(name, value)}" for name, value in values.items())


def words(name: Any) -> str:
    """Return an identifier as words: ``add_remove`` is ``add remove``."""
    return str(name).replace("_", " ")
