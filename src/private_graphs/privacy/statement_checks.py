"""Checks of a row of a run table against its statement, and of a statement against an audit.

Fields and rules: ``docs/privacy.md`` §11.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from private_graphs.core.errors import UserError
from private_graphs.privacy.statements import About, Audit, PrivacyStatement, status_of

_OF_ROW = {
    **{name: name for name in About.model_fields},
    "inference": "inference",
    "noise_source": "noise_source",
    "epsilon_proved": "epsilon_proved",
}
"""Row column -> statement field that it repeats."""
_OF_PRIVATE_ROW = ("unit", "relation", "delta")
"""Further repeated columns, under the same name; null without DP."""


def _repeated(row: Mapping[str, Any], statement: PrivacyStatement) -> dict[str, Any]:
    """Return the statement's values for the columns of ``row`` that repeat it."""
    values = {column: getattr(statement, field) for column, field in _OF_ROW.items()}
    if statement.status == "not_private":
        return values | {"epsilon": math.inf}
    values |= {name: getattr(statement, name) for name in _OF_PRIVATE_ROW}
    target = 0.0 if not statement.mechanisms else statement.epsilon_target
    # papers round an epsilon: 137 for 136.51
    if target is not None and not math.isclose(row["epsilon"], target, rel_tol=0.005):
        values["epsilon"] = target
    inside = {
        "n_configurations": statement.selection.n_configs,
        "epsilon_claimed": statement.epsilon_published,
    }
    return values | {name: value for name, value in inside.items() if name in row}


def check_row(row: Mapping[str, Any], statement: PrivacyStatement) -> None:
    """Raise UserError if a row of a run table contradicts its statement (§11).

    ``row`` is one of ``runs.parquet``. The message names the row, the statement and every column
    that differs.
    """
    differing = []
    for column, expected in _repeated(row, statement).items():
        value = row.get(column)
        if isinstance(value, float) and math.isnan(value):
            value = None
        if value != expected:
            differing.append(f"{column} {value!r} in the row, {expected!r} in the statement")
    if differing:
        raise UserError(
            f"row {row.get('replica_id')} contradicts its statement {statement.statement_id}: "
            f"{'; '.join(differing)}; one of the two was changed after they were written"
        )


def with_audit(statement: PrivacyStatement, audit: Audit) -> PrivacyStatement:
    """Return ``statement`` with ``audit`` and the resulting status; its claim stays (§11).

    Raises UserError if the statement claims nothing, if audit and claim cannot be compared (another
    unit or δ, a stronger relation, less than ``AUDIT_CONFIDENCE``), and if the audit exceeds the
    proof.
    """
    if statement.status == "not_private":
        raise UserError(
            f"statement {statement.statement_id} is of a run without noise; expected a claim that "
            f"the audit '{audit.design}' can be compared with"
        )
    return _changed(statement, audit=audit)


def with_replay(statement: PrivacyStatement, not_replayed: str) -> PrivacyStatement:
    """Return ``statement`` with the reason why no replay tests its proof; where there is no proof
    or no reason, as it is (§11)."""
    if not (not_replayed and statement.mechanisms and statement.epsilon_proved is not None):
        return statement
    return _changed(statement, not_replayed=not_replayed, statement_id="")


def _changed(statement: PrivacyStatement, **changes: Any) -> PrivacyStatement:
    """Return a statement with other fields, and the status that follows."""
    fields = {"not_replayed": "", **statement.model_dump(), **changes}
    status = status_of(
        bool(statement.mechanisms), *(fields[name] for name in (
            "noise_source", "epsilon_published", "epsilon_proved", "audit", "not_replayed")),
    )  # fmt: skip
    return PrivacyStatement.model_validate(fields | {"status": status})
