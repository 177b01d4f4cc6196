"""A privacy statement in sections of readable fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from private_graphs.privacy.explain import at_least
from private_graphs.reporting.formats import is_missing, number
from private_graphs.reporting.views import record_text

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
        "delta": "δ",
        "unit": "unit that is protected",
        "relation": "neighbouring relation",
        "n_units": "number of units",
        "vacuous": "vacuous (ε above 20)",
        "accountant": "accountant",
        "epsilon_second_route": "ε by a second route",
    },
    "Several runs together": {
        "n_runs_released": "runs released",
        "epsilon_all_runs": "ε proved for all of them together",
        "n_rows_counted": "private rows of this file",
        "epsilon_of_file": "ε proved for all rows of this file together",
        "proof_of_file": "how",
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
"""Fields of the statement by section, each with the words for it."""

_INFERENCE = {
    "params_only": "only the parameters are released",
    "joint_dp_predictions": "each node’s prediction is private towards all others",
    "inductive_disjoint": "predictions are made on a graph without training nodes, and are covered",
    "noisy_rows": "predictions are computed from noisy releases and public data, and are covered",
    "leaks": "leaks: the predictions are computed from private edges or features, and are not "
    "covered by the proved ε",
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """A named field: one text, or a list of texts."""

    name: str
    text: str
    items: tuple[str, ...] = ()


@dataclass(frozen=True)
class StatementView:
    """A statement as its page shows it."""

    headline: str
    tone: str
    sections: tuple[tuple[str, tuple[Field, ...]], ...]
    mechanism_columns: tuple[str, ...]
    mechanisms: tuple[tuple[str, ...], ...]


def statement_view(statement: Mapping[str, Any]) -> StatementView:
    """Return all fields of ``statement``, the JSON of a ``PrivacyStatement``, in sections."""
    headline, tone = _headline(statement)
    sections = []
    for title, names in SECTIONS.items():
        fields = (_field(label, name, statement[name]) for name, label in names.items())
        sections.append((title, tuple(fields)))
    mechanisms = list(statement["mechanisms"])
    columns = tuple(dict.fromkeys(name for each in mechanisms for name in each))
    return StatementView(
        headline=headline,
        tone=tone,
        sections=tuple(sections),
        mechanism_columns=tuple(_words(name) for name in columns),
        mechanisms=tuple(
            tuple(record_text(each.get(name)) for name in columns) for each in mechanisms
        ),
    )


def _headline(statement: Mapping[str, Any]) -> tuple[str, str]:
    delta = f"δ = {number(statement.get('delta'))}"
    claimed = statement["epsilon_published"]
    claim = "" if is_missing(claimed) else f" ε = {number(claimed, 4)} is claimed."
    status, proved = statement["status"], statement["epsilon_proved"]
    if status == "not_private":
        return "Trained without differential privacy: nothing is claimed or proved.", "plain"
    if status == "refuted":
        claim = f" The claim is refuted by an audit.{claim}{_shown(statement['audit'])}"
    if proved == 0:
        return f"Nothing private is read: ε = 0 per {_words(statement['unit'])}.", "proved"
    if is_missing(proved):
        return f"Nothing is proved: no finite ε holds.{claim}", "none"
    unit, relation = _words(statement["unit"]), _words(statement["relation"])
    vacuous = " That is vacuous: above 20." if statement["vacuous"] else ""
    leaks = statement["inference"] == "leaks"
    scope = " That covers the model, not the predictions that were scored." if leaks else ""
    count, all_runs = statement["n_runs_released"], statement["epsilon_all_runs"]
    if count > 1 and not is_missing(all_runs):
        scope += f" All {count} runs together: ε = {number(all_runs, 4)}."
    supposed = (
        " if the seed of the noise were secret" if statement["noise_source"] == "seeded" else ""
    )
    return (
        f"Proved{supposed}: ε = {number(proved, 4)} at {delta} per {unit} ({relation})."
        f"{vacuous}{scope}{claim}",
        "none" if status == "refuted" else "proved",
    )


def _shown(audit: Mapping[str, Any] | None) -> str:
    if audit is None:
        return ""
    lower, confidence = at_least(audit["epsilon_lower"]), at_least(100 * audit["confidence"])
    return (
        f" An attack on the same code at the same claim shows ε ≥ {lower} at {confidence} % "
        "confidence."
    )


def _field(label: str, name: str, value: Any) -> Field:
    if isinstance(value, list | tuple):
        items = tuple(record_text(each) for each in value)
        return Field(label, "" if items else "none", items)
    if name.startswith("epsilon") and is_missing(value):
        return Field(label, "none")
    if name in ("unit", "relation", "status", "noise_source"):
        return Field(label, _words(value))
    if name == "inference":
        return Field(label, _INFERENCE.get(value, record_text(value)))
    if isinstance(value, float) and "epsilon" in name:
        return Field(label, number(value, 4))
    return Field(label, record_text(value))


def _words(name: Any) -> str:
    return str(name).replace("_", " ")
