"""Plain-language explanation of a privacy statement, for the person responsible for the data.

The sentences are in ``templates/statement.j2``. Every number is computed from the statement:
budgets are rounded up, lower bounds down, so that the words never promise more than the statement
(``docs/privacy.md`` §11).
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from private_graphs.privacy.assumptions import NOISE_GENERATORS, ONLY_THIS_FILE, SECRET_SEED
from private_graphs.privacy.rounding import at_least, at_most
from private_graphs.privacy.statements import VACUOUS_EPSILON, PrivacyStatement

_UNITS = {
    "graph": ("training graph as a whole", "training graphs as a whole", "a whole training graph"),
    "subgraph": (
        "part of the training graph",
        "parts of the training graph",
        "a part of the training graph, with all its nodes and the edges among them",
    ),
    "node": (
        "node", "nodes", "a node (such as one person or one document) with its features, its label "
        "and all its edges",
    ),
    "node_out_list": (
        "node", "nodes", "a node with its features, its label and the list of edges that it owns; "
        "edges that others own and that point to it are not covered",
    ),
    "edge_directed": (
        "directed edge", "directed edges",
        "the existence of one edge in one direction, not of all edges of a node together; "
        "features and labels are not covered",
    ),
    "edge_undirected": (
        "edge", "edges",
        "the existence of one edge between two nodes, not of all edges of a node together; "
        "features and labels are not covered",
    ),
    "record": ("record", "records", "one record"),
    "document": ("document", "documents", "one document with its text, its label and its links"),
    "person": (
        "person", "people", "one person with all documents of theirs: texts, labels and links",
    ),
    "class": (
        "class", "classes", "all records of one class together, replaced by as many others of that "
        "class; a record that changes its class changes two units",
    ),
    "subclass": (
        "subclass", "subclasses", "all records of one subclass together, replaced by as many "
        "others of that subclass; a record that changes its subclass changes two units",
    ),
}  # fmt: skip
"""Unit -> singular, plural and meaning."""

_CHANGES = {
    "add_remove": "is in the data or not",
    "zero_out": "contributes as it is or not at all",
    "replace": "is the true one or any other in its place",
}
"""Relation -> end of 'an attacker cannot tell whether it ...'."""

RELEASES = {
    "params_only": "Released are the trained parameters and whatever is computed from them without "
    "the private data; predictions that read the private data are not covered",
    "joint_dp_predictions": "Released are the trained parameters and each node's own prediction, "
    "which is covered towards everybody but the node itself",
    "inductive_disjoint": "Released are the trained parameters and predictions that read no "
    "training node, so that both are covered alike",
    "noisy_rows": "Released are noisy rows, parameters and predictions; every prediction is "
    "computed from noisy releases and public data, so that all of it is covered alike",
    "leaks": "Released are the trained parameters and predictions that read private nodes or "
    "edges; at most the parameters are covered: the predictions are a further query and leak",
}
"""``inference`` -> what is released, and how far it is covered."""

_PLAIN = {
    ONLY_THIS_FILE: "no other file of results from the same private data is released",
}

_OF_NOISE = {
    *(words for sources in NOISE_GENERATORS.values() for words in sources.values()),
    SECRET_SEED,
    ONLY_THIS_FILE,
}
"""Assumptions that concern noise only."""


def belief(epsilon: float) -> float:
    """Return the largest posterior of a prior belief of ½ under ε: e^ε / (1 + e^ε)."""
    return 1 / (1 + math.exp(-epsilon))


def belief_percent(epsilon: float) -> str:
    """Return :func:`belief` in percent, rounded up, with as many decimals as leading nines."""
    rest = 100 / (1 + Decimal(epsilon).exp())
    decimals = max(1, -rest.adjusted())
    floor = rest.quantize(Decimal(1).scaleb(-decimals), ROUND_FLOOR)
    return f"{100 - floor:f} %"


@dataclass(frozen=True)
class Sentence:
    """A sentence; with ``things``, its beginning and the listed items."""

    text: str
    things: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text} {'; '.join(self.things)}.".lstrip() if self.things else self.text


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _item(text: str) -> str:
    return _one_line(text).rstrip(" .")


def _reason(proof: str) -> str:
    """Return the reason in a proof, without the prefix ``none:``."""
    return _item(proof.partition("none: ")[2] or proof)


def _chance(delta: float) -> str:
    """Return a probability as a chance, rounded up: ``1 in 100,000``."""
    share = math.floor(1 / delta * (1 + 1e-12))
    return f"1 in {share:,}" if share <= 1e15 else "less than 1 in 1,000,000,000,000,000"


def _budget(epsilon: float | None) -> str:
    return "nothing is proved" if epsilon is None else f"ε = {at_most(epsilon)}"


@cache
def _templates() -> Environment:
    """Return the plain-text templates; writers of HTML or Markdown escape their output."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=False,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "at_most": at_most, "at_least": at_least, "belief_percent": belief_percent,
        "budget": _budget, "chance": _chance, "item": _item, "one_line": _one_line,
        "reason": _reason, "words": lambda name: name.replace("_", " "),
    }  # fmt: skip
    return environment


def noun_of(unit: str) -> str:
    """Return what one unit is called in a sentence."""
    return _UNITS[unit][0]


def supposed_by(statement: PrivacyStatement) -> list[str]:
    """Return the assumptions of a statement in plain words; the seed of the noise apart."""
    if statement.reads_nothing:
        return [key for key in statement.assumptions if key not in _OF_NOISE]
    return [_PLAIN.get(key, key) for key in statement.assumptions if key != SECRET_SEED]


class _Words:
    """Sentences about one statement."""

    def __init__(self, statement: PrivacyStatement, printed: float | None = None) -> None:
        chosen, supposed = statement.selection, supposed_by(statement)
        self._macros = _templates().get_template("statement.j2").make_module({
            "s": statement, "unit": dict(zip(("one", "many", "meaning"), _UNITS[statement.unit],
                                             strict=True)),
            "change": _CHANGES[statement.relation], "changes": _CHANGES,
            "released": RELEASES[statement.inference],
            "free": chosen.n_configs > 1 and chosen.cost.startswith("none:"),
            "total_delta": Decimal(repr(statement.delta)) * statement.n_units,
            "supposed": supposed, "vacuous": VACUOUS_EPSILON,
            "printed": None if printed is None else f"{printed:.10g}",
        })  # fmt: skip

    def of(self, question: str) -> list[Sentence]:
        """Return the sentences of a macro of the template."""
        return [_sentence(block) for block in getattr(self._macros, question)().split("\n\n")
                if block.strip()]  # fmt: skip


def _sentence(block: str) -> Sentence:
    """Parse a block of a template's text, between blank lines, into a sentence."""
    lines = block.strip().splitlines()
    things = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    return Sentence(_one_line(" ".join(lines[: len(lines) - len(things)])), tuple(things))


def sentences(statement: PrivacyStatement) -> dict[str, list[Sentence]]:
    """Return the sentences of each of ``TEXTS``; a list may be empty."""
    words = _Words(statement)
    return {question: words.of(question) for question in TEXTS}


def headline(statement: PrivacyStatement) -> str:
    """Return the proved, claimed and refuted guarantee in one line."""
    return " ".join(map(str, _Words(statement).of("headline")))


def explain(statement: PrivacyStatement) -> dict[str, Any]:
    """Return the statement in plain words: numbers, and one text per question.

    Keys: ``statement_id``, ``status``, ``epsilon`` (proved, for one run, or None),
    ``belief_at_most`` (the largest posterior of an attacker's 50 %, or None), ``epsilon_all_runs``,
    ``epsilon_of_file``, ``n_rows_not_counted``, ``delta``, and the texts ``who``, ``against``,
    ``strength``, ``delta_in_words``, ``all_runs_and_selection``, ``assumptions``, ``not_covered``;
    a text may be empty. Without private data the texts say so and do not mention noise.
    """
    private = statement.status != "not_private"
    proved = statement.epsilon_proved if private else None
    return {
        "statement_id": statement.statement_id,
        "status": statement.status,
        "epsilon": proved,
        "belief_at_most": None if proved is None else belief(proved),
        "epsilon_all_runs": statement.epsilon_all_runs,
        "epsilon_of_file": statement.epsilon_of_file,
        "n_rows_not_counted": statement.n_rows_not_counted,
        "delta": statement.delta,
        **{name: " ".join(map(str, texts)) for name, texts in sentences(statement).items()},
    }


TEXTS = (
    "who",
    "against",
    "strength",
    "delta_in_words",
    "all_runs_and_selection",
    "assumptions",
    "not_covered",
)
"""Texts of :func:`explain` in reading order."""


BRIEF = (
    "What is protected", "From whom", "How strongly", "How often it may fail", "What it rests on",
    "What is not covered",
)  # fmt: skip
"""Headings of :func:`brief`."""


def answers(statement: PrivacyStatement, printed: float | None = None) -> dict[str, list[str]]:
    """Return short texts for each heading of :data:`BRIEF`; a list may be empty.

    ``printed`` is the ε that the paper prints: its formula may give another one.
    """
    words, sections = _Words(statement, printed), {}
    for heading in BRIEF:
        texts = [str(sentence) for sentence in words.of(heading.lower().replace(" ", "_"))]
        sections[heading] = [text[:1].upper() + text[1:] for text in texts]
    return sections


def brief(statement: PrivacyStatement, printed: float | None = None, width: int = 80) -> list[str]:
    """Return :func:`answers` as headed lists for a terminal: lines of ``width``, nothing is cut."""
    form: dict[str, Any] = {"width": width, "initial_indent": "- ", "subsequent_indent": "  ",
            "break_long_words": True, "break_on_hyphens": False}  # fmt: skip
    lines = []
    for heading, texts in answers(statement, printed).items():
        lines += [heading] if texts else []
        lines += [line for text in texts for line in textwrap.wrap(text, **form)]
    return lines


def terminal(statement: PrivacyStatement, width: int = 88) -> str:
    """Return the statement as a few lines for a terminal, ``width`` characters at most."""
    texts = explain(statement)
    lines = [
        ("privacy", headline(statement)),
        ("because", statement.proof if statement.mechanisms else ""),
        ("together", texts["all_runs_and_selection"]),
        ("released", f"{RELEASES[statement.inference]}."),
        ("supposing", texts["assumptions"]),
        ("statement", statement.statement_id),
    ]
    if statement.status == "not_private":
        lines = [lines[0], lines[-1]]
    form: dict[str, Any] = {"width": width, "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(
        textwrap.fill(f"{name:<12}{text}", subsequent_indent=" " * 12, **form)
        for name, text in lines
        if text
    )
