"""Audits beside finished runs: which statement an audit speaks of, and what it says there.

An audit of a protocol (``attacks/audit.py``; those of proved methods are shown in the table of
audits alone) trains a graph of its own: SGD at its own number of epochs, with the
noise that the protocol calibrates for the claimed ε there. What it shows holds for that training.
It may be set against the claim of another run where both claims are one: the same code (protocol,
visits, splits), the same ε asked for, the same unit and δ, and an equal or stronger relation. A
claim is about every graph and about all noisy gradients, which an optimizer only processes further,
so that dataset, train fraction and optimizer may differ; another number of steps, and with it
another noise, is another mechanism under the same rule, so that the ``design`` in the statement
names the training that was attacked (``docs/privacy.md`` §11).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.errors import UserError
from private_graphs.privacy.statements import Audit, PrivacyStatement, with_audit
from private_graphs.reporting.audits import GCN, VISIT_TITLES, audit_documents

_SAME = ("protocol", "visits", "n_splits")


def audits_beside(
    run_folder: Path, known: MutableMapping[Path, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the audits of the study that a finished cell belongs to; [] where there are none.

    Those of ``<scale>/runs/<study>/<cell>`` are in ``<scale>/audits/<study>``; ``known`` keeps what
    was read.
    """
    for study in Path(run_folder).resolve().parents:
        if study.parent.name == "runs":
            folder = study.parent.parent / "audits" / study.name
            if folder not in known:
                known[folder] = audit_documents(folder)
            return known[folder]
    return []


def audited(
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
    audits: Sequence[Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Return the statements of one cell with the audits that speak of their claims.

    ``statements`` are checked ones by identifier, which an audit leaves as it is. Raises UserError
    where an audit breaks a proof.
    """
    found = dict(statements)
    if not audits:
        return found
    for name, rows in runs.groupby("statement_id"):
        statement = PrivacyStatement.model_validate(statements[name])
        audit = _audit_of(rows.iloc[0], statement, audits)
        if audit is None or statement.audit is not None:
            continue
        found[name] = with_audit(statement, audit).model_dump(mode="json")
    return found


def _audit_of(
    run: pd.Series, statement: PrivacyStatement, audits: Sequence[Mapping[str, Any]]
) -> Audit | None:
    """Return the strongest audit of the claim of ``run``, None where there is none."""
    if run["method"] != GCN or statement.epsilon_target is None:
        return None
    found = [_as_audit(each) for each in audits if _comparable(each, run, statement)]
    return max(found, key=lambda each: each.epsilon_lower, default=None)


def _comparable(document: Mapping[str, Any], run: pd.Series, statement: PrivacyStatement) -> bool:
    return (
        document.get("method", GCN) == GCN
        and all(document[name] == run[name] for name in _SAME)
        and document["epsilon_claimed"] == run["epsilon"]
        and (document["unit"], document["delta"]) == (statement.unit, statement.delta)
        and statement.relation in ("replace", document["relation"])
        and all(
            _falls_alike(document, name, getattr(statement, name))
            for name in ("epsilon_published", "epsilon_proved")
        )
    )


def _falls_alike(document: Mapping[str, Any], name: str, ours: float | None) -> bool:
    """Return whether the bound is on one side of both values of a budget.

    The same ε asked for gives slightly different budgets at different steps: between the two an
    audit would refute a claim that was not attacked.
    """
    theirs, lower = document[name], document["verdict_epsilon_lower"]
    return ours is None or theirs is None or (lower > theirs) == (lower > ours)


def _as_audit(document: Mapping[str, Any]) -> Audit:
    splits, visits = document["n_splits"], VISIT_TITLES[document["visits"]]
    graph = visits if splits == 1 else f"{splits} splits, {visits}"
    try:
        return Audit(
            design=(
                f"{document['design']} of the same training code at the same claim, not of these "
                f"runs: {graph}, SGD, {document['epochs']} epochs, noise multiplier "
                f"{document['noise_multiplier']:g}"
            ),
            unit=document["unit"],
            relation=document["relation"],
            delta=document["delta"],
            runs=document["runs"],
            epsilon_lower=document["verdict_epsilon_lower"],
            confidence=document["verdict_confidence"],
        )
    except KeyError as error:
        raise UserError(f"an audit without {error}; delete results/*/audits and audit again") from (
            error
        )
