"""The score of one setting: mean and deviation over seeds, with the privacy of its runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.errors import UserError

SCORE_COLUMNS = (
    "mean", "std", "seeds", "epsilon_published", "epsilon_proved", "epsilon_all_runs",
    "runs_released", "vacuous", "unit", "relation", "inference", "status", "lr", "epochs",
    "noise_multiplier", "statement_id", "audit_epsilon_lower",
)  # fmt: skip
"""What a table says of a setting under one protocol.

``epsilon_proved`` is of one run whose settings are fixed in advance, ``epsilon_all_runs`` of the
``runs_released`` runs together: all seeds and learning rates. ``audit_epsilon_lower`` is what an
attack on the same code at the same claim shows at 99.9 %, where one was made (docs/privacy.md §11).
"""


def score_values(
    group: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]], place: str
) -> dict[str, Any]:
    """Return ``SCORE_COLUMNS`` and ``authors_epsilon`` of the selected replicas of one setting.

    ``place`` names the setting in messages. Mean and standard deviation (ddof 1, NaN for one seed)
    are of test micro-F1 in 0…1. Raises UserError where several cells, learning rates or noises
    claim the place, or a seed is there twice.
    """
    for name in ("cell", "n_splits", "lr", "noise_multiplier", "statement_id", "max_epochs"):
        found = sorted(map(str, group[name].unique()))
        if len(found) > 1:
            raise UserError(
                f"{place}, but the selected runs have several values of {name}: "
                f"{', '.join(found)} (in {', '.join(sorted(group['cell'].unique()))}); remove the "
                "cells that do not belong there"
            )
    if group["seed"].duplicated().any():
        raise UserError(f"{group['cell'].iloc[0]}: the same seed is selected twice; expected one")
    first = group.iloc[0]
    statement = statements[first["statement_id"]]
    private = not math.isinf(first["epsilon"])
    values = {
        "mean": group["test_micro_f1"].mean(),
        "std": group["test_micro_f1"].std(ddof=1),
        "seeds": len(group),
        "epochs": int(first["max_epochs"]),
        "status": statement["status"],
        "vacuous": statement["vacuous"],
        "authors_epsilon": statement["authors_accountant_epsilon"],
        "epsilon_all_runs": statement["epsilon_all_runs"],
        "runs_released": statement["n_runs_released"] if private else None,
        "audit_epsilon_lower": statement["audit"] and statement["audit"]["epsilon_lower"],
    }
    same = ("inference", "lr", "statement_id")
    values |= {name: first[name] for name in same}
    only_private = ("epsilon_published", "epsilon_proved", "unit", "relation", "noise_multiplier")
    return values | {name: first[name] if private else None for name in only_private}
