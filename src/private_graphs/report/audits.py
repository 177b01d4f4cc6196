"""Audits as rows, joined by their claim to the statements of all runs that make it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.core.errors import UserError
from private_graphs.core.models import fields_of
from private_graphs.methods import method_named
from private_graphs.privacy.statement_checks import with_audit
from private_graphs.privacy.statements import Audit, PrivacyStatement
from private_graphs.running.jobs import Job


def audit_row(job: Job, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a finished audit (``attacks.audit.Audit.document``).

    Raises:
        UserError: the document lacks a field.
    """
    try:
        settings = {**job.settings, "epochs": document["epochs"]}
        if "splits" in method_named(job.method).settings.model_fields:
            settings |= {"splits": document["n_splits"], "visits": document["visits"]}
        one_run = document["one_run"] and document["one_run"]["epsilon_lower"]
        copied = ("delta", "seed", "unit", "relation", "noise_multiplier", "epsilon_proved",
                  "epsilon_lower", "epsilon_lower_gaussian", "confidence", "runs", "errors",
                  "verdict", "verdict_epsilon_lower", "verdict_confidence", "design")  # fmt: skip
        return {
            "source": "audit", **fields_of(job, "study", "group"), "job": job.name,
            **fields_of(job, "method", "scenario", "protocol"),
            "settings": json.dumps(settings, sort_keys=True),
            "epsilon": document["epsilon_claimed"],
            "epsilon_claimed": document["epsilon_published"],
            "one_run_epsilon_lower": one_run, "n_classes": document.get("n_classes"),
            **{name: document[name] for name in copied},
        }  # fmt: skip
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{job.id}/audit.json: an audit without {error}; expected what audits write: delete "
            "its folder and run the job again"
        ) from None


def audited(
    rows: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the statements with those audits among ``rows`` that test their claims.

    An audit attacks a tiny task of its own. Its result can be compared with the claim of another
    run if both claims are the same: the same code (method, scenario, protocol, visits, splits), the
    same requested ε, the same unit and δ, and an equal or stronger relation. A claim is about every
    dataset and about all noisy gradients, which an optimizer only post-processes, so dataset, train
    fraction and optimizer may differ; another number of steps, and with it another noise, is
    another mechanism under the same rule, so ``design`` names what was attacked (docs/privacy.md
    §10). Identifiers do not change.

    Raises:
        UserError: an audit breaks a proof.
    """
    audits = rows[rows["source"] == "audit"].to_dict("records")
    joined = dict(statements)
    if not audits:
        return joined
    runs = rows[rows["statement_id"].isin(list(statements))].drop_duplicates("statement_id")
    for row in runs.to_dict("records"):
        statement = PrivacyStatement.model_validate(statements[row["statement_id"]])
        if statement.epsilon_target is None or statement.audit is not None:
            continue
        bounds = [_as_audit(audit) for audit in audits if _same_claim(audit, row, statement)]
        strongest = max(bounds, key=lambda audit: audit.epsilon_lower, default=None)
        if strongest is not None:
            document = with_audit(statement, strongest).model_dump(mode="json")
            joined[statement.statement_id] = document
    return joined


def _same_claim(
    audit: Mapping[str, Any], row: Mapping[str, Any], statement: PrivacyStatement
) -> bool:
    same = ("method", "scenario", "protocol", "epsilon")
    if any(audit[name] != row[name] for name in same):
        return False
    attacked, settings = json.loads(audit["settings"]), json.loads(row["settings"])
    return (
        all(
            attacked[name] == settings[name]
            for name in ("visits", "splits")
            if name in attacked and name in settings
        )
        and (audit["unit"], audit["delta"]) == (statement.unit, statement.delta)
        and statement.relation in ("replace", audit["relation"])
        and _falls_alike(audit, audit["epsilon_claimed"], statement.epsilon_published)
        and _falls_alike(audit, audit["epsilon_proved"], statement.epsilon_proved)
    )


def _falls_alike(audit: Mapping[str, Any], attacked: float, budget: float | None) -> bool:
    """Return whether the bound is on the same side of both values of a budget.

    The same requested ε gives slightly different budgets for different steps: between the two, an
    audit would refute a claim that was not attacked.
    """
    lower = audit["verdict_epsilon_lower"]
    return budget is None or np.isnan(attacked) or (lower > attacked) == (lower > budget)


def _as_audit(audit: Mapping[str, Any]) -> Audit:
    attacked = json.loads(audit["settings"])
    named = [f"{name.replace('_', ' ')} {value}" for name, value in attacked.items()]
    return Audit(
        design=(
            f"{audit['design']} of the same code at the same claim, not of these runs: "
            f"{', '.join(named)}, noise multiplier {audit['noise_multiplier']:g}"
        ),
        unit=audit["unit"],
        relation=audit["relation"],
        delta=audit["delta"],
        runs=int(audit["runs"]),
        epsilon_lower=audit["verdict_epsilon_lower"],
        confidence=audit["verdict_confidence"],
    )
