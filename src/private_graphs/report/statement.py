"""A privacy statement in words, for a page and a file.

The sentences are those of :mod:`private_graphs.privacy.explain`; this file puts them on a card, and
says which runs a statement stands for. Budgets are rounded up and lower bounds down, so that no
words promise more than the statement.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.privacy.explain import TEXTS, Sentence, sentences
from private_graphs.privacy.explain import headline as one_line
from private_graphs.privacy.rounding import at_least, at_most
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.words import NOT_REPLAYED, OPTIMIZERS, missing, strength
from private_graphs.running.exhibit import NOTHING

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


def tone(statement: PrivacyStatement) -> str:
    """Return how a statement is to be taken (``Cell.tone``)."""
    if statement.status == "not_private":
        return ""
    return "refuted" if statement.status == "refuted" else strength(statement.epsilon_proved)


def headline(statement: PrivacyStatement) -> Headline:
    """Return what is proved, claimed and refuted, in one line."""
    return Headline(one_line(statement), tone(statement))


def card(texts: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return (heading, text) for the lines of a card that statements about like runs share.

    ``texts`` are the ``answers`` of a statement.
    """
    lines = [
        ("Protected", ". ".join(texts["What is protected"])),
        ("From whom", ". ".join(texts["From whom"])),
        ("May fail", ". ".join(texts["How often it may fail"])),
        ("Not covered", "; ".join(texts["What is not covered"]).replace("; The ", "; the ")),
    ]
    return [(heading, f"{text.rstrip('.')}.") for heading, text in lines if text]


def shortly(statement: PrivacyStatement, printed: float) -> str:
    """Return the ε of one run in a few words, beside the one that is ``printed`` for it."""
    if statement.status == "not_private":
        return "no DP"
    proved = statement.epsilon_proved
    text = "nothing proved" if proved is None else f"ε = {at_most(proved)}"
    if statement.not_replayed:
        text = f"{text}, {NOT_REPLAYED}"
    if statement.status == "refuted" and statement.audit:
        text = f"refuted: ε > {at_least(statement.audit.epsilon_lower)}"
    return text if statement.epsilon_published is None else f"{text}, claimed {printed:.10g}"


def strongly(texts: Mapping[str, Sequence[str]]) -> str:
    """Return what the ε of a statement with these ``answers`` mean, of one run and of several, with
    what is printed and shown."""
    return ". ".join(text.rstrip(".") for text in texts["How strongly"]) + "."


def reason(statement: PrivacyStatement) -> str:
    """Return the proof of a statement, or why there is none."""
    if statement.status == "not_private":
        return ""
    words = "no proof: " if statement.epsilon_proved is None else ""
    tested = f"; {NOT_REPLAYED}: {statement.not_replayed}" if statement.not_replayed else ""
    return f"{words}{statement.proof.removeprefix('none: ').rstrip('.')}{tested}."


def rests_on(statement: PrivacyStatement) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the assumptions, the public facts and the preprocessing of a statement."""
    return statement.assumptions, statement.public_facts, statement.preprocessing


def said(value: Any) -> str:
    """Return the value of a setting as text, without a comma."""
    if value in (None, "", {}):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " · ".join(f"{words(name)} {said(part)}" for name, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"({'; '.join(map(said, _without_common(value)))})"
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    return OPTIMIZERS.get(text, text.replace("_", "-"))


def _without_common(values: Sequence[Any]) -> list[Any]:
    """Return values; of several objects first what they have in common, then the rest of each."""
    if len(values) < 2 or not all(isinstance(value, Mapping) for value in values):
        return list(values)
    common = {name: part for name, part in values[0].items()
              if all(name in value and value[name] == part for value in values)}  # fmt: skip
    rest = [{name: part for name, part in value.items() if name not in common} for value in values]
    return [f"all {said(common)}", *rest] if common else rest


def paragraphs(statement: PrivacyStatement) -> list[tuple[str, list[Sentence]]]:
    """Return (heading, sentences) for every text of ``explain`` that has something to say."""
    texts = sentences(statement)
    return [(heading, texts[name]) for name, heading in HEADINGS.items() if texts[name]]


RUN_KEYS = ("dataset", "features", "view", "method", "scenario", "protocol", "settings", "epsilon",
            "validation_labels", "validation_nodes", "group")  # fmt: skip
"""Columns that tell runs of a statement apart."""
_NOT_SELECTED = "not selected"


def runs_of(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return in words the runs of every statement among tidy ``rows``, by its identifier.

    Runs that differ in one value share a line, which lists the values: ``learning rate 0.1 / 1``.
    """
    names = [name for name in RUN_KEYS if name in rows]
    selected = rows["selected"].fillna(True).astype(bool) if "selected" in rows else True
    keys = ["statement_id", *names]
    groups = rows[keys].assign(selected=selected).groupby(keys, dropna=False)["selected"]
    runs: dict[str, list[tuple[str, ...]]] = {}
    for (name, *values), count, chosen in groups.agg(["size", "any"]).itertuples(name=None):
        row = {key: value for key, value in zip(names, values, strict=True) if not missing(value)}
        parts = (part for text in _parts(row, count, chosen) if text for part in text.split(", "))
        runs.setdefault(name, []).append(tuple(parts))
    for name, lines in runs.items():
        for index in range(max(map(len, lines))):
            lines = _joined(lines, index)
        runs[name] = _chosen(lines)
    return {name: [", ".join(parts) for parts in lines] for name, lines in runs.items()}


def _joined(lines: Iterable[tuple[str, ...]], index: int) -> list[tuple[str, ...]]:
    """Join lines that differ in the value of one part alone: ``splits 1``, ``splits 10``."""
    groups: dict[tuple[tuple[str, ...], str, tuple[str, ...]], list[str]] = {}
    for parts in lines:
        name, _, value = "".join(parts[index : index + 1]).rpartition(" ")
        groups.setdefault((parts[:index], name, parts[index + 1 :]), []).append(value)
    joined = ((before, f"{name} {_listed(values)}".strip(), after)
              for (before, name, after), values in groups.items())  # fmt: skip
    return [(*before, told, *after) if told else before for before, told, after in joined]


def _chosen(lines: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Join lines of selected runs and of those that were not, which differ in one value alone:
    ``learning rate 10 (of 0.1 / 1 / 10)``."""
    left = list(lines)
    for candidate in [parts for parts in lines if parts[-1] == _NOT_SELECTED]:
        for parts in [line for line in left if len(line) == len(candidate) - 1]:
            [*places] = (i for i, part in enumerate(parts) if part != candidate[i])
            names = {text.rpartition(" ")[0] for line in (parts, candidate) for text in
                     (line[i].partition(" / ")[0] for i in places)}  # fmt: skip
            if len(places) == len(names) == 1:
                (index,), (name,) = places, names
                values = [line[index].removeprefix(name).strip() for line in (parts, candidate)]
                of = _listed([value for text in values for value in text.split(" / ")])
                joined = (*parts[:index], f"{parts[index]} (of {of})", *parts[index + 1 :])
                left[left.index(parts)] = joined
                left.remove(candidate)
                break
    return left


def _listed(values: Sequence[str]) -> str:
    """Return values in a line, numbers by size."""
    try:
        return " / ".join(sorted(values, key=float))
    except ValueError:
        return " / ".join(values)


def _parts(row: Mapping[str, Any], count: int, selected: bool) -> list[str]:
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
        f"{count} run{'s' if count > 1 else ''} of group {row['group']}",
        "" if selected else _NOT_SELECTED,
    ]


def settings_words(settings: str) -> str:
    """Return the settings of a row, a JSON object, in words: ``optimizer adam, splits 10``."""
    if not settings:
        return ""
    values = json.loads(settings)
    return ", ".join(f"{words(name)} {said(value)}" for name, value in values.items())


_SETTINGS = {
    "alpha": "α", "attacked": "degrees attacked", "beta": "β", "clip": "clip norm",
    "drawn": "hidden layers drawn", "dtype": "precision", "entry_clip": "clip of an entry",
    "hidden": "hidden units", "lot": "lot size", "rate": "sampling rate",
    "row_clip": "clip of a row", "sample": "share of nodes", "tau": "τ", "top": "K",
    "training_epsilon": "ε of training", "unit_rows": "rows of length 1", "visits": "batching",
}  # fmt: skip
"""Names of settings, where the key itself is not one."""


def words(name: Any) -> str:
    """Return an identifier as words: ``add_remove`` is ``add remove``."""
    return _SETTINGS.get(name) or str(name).replace("_", " ")
