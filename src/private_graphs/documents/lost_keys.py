"""Charged releases whose noise key is gone: nothing continues them."""

from __future__ import annotations

from private_graphs.core.errors import UsageError
from private_graphs.documents.ledger import BudgetLedger
from private_graphs.documents.noise import NoiseKey


def refuse_lost(
    noise: NoiseKey, name: str, method: str, epsilon: float, ledger: BudgetLedger
) -> None:
    """Raise UsageError where an interrupted release that may be this one has no noise key."""
    asked = (name, method, epsilon)
    for line in noise.lost:
        if (line["graph"], line["method"], line["epsilon"]) == asked:
            raise UsageError(
                f"the release of {line['date']} is charged and was interrupted, and its key "
                f"{ledger.folder / 'noise' / line['release']} is gone or damaged: without it this "
                "command cannot continue it. Nothing more was spent. Restore the file from a copy, "
                "or make another release, which is charged as well, with --force"
            )
