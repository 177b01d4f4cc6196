"""Points with further means, lookups for wide tables, and the GCNs of Table 1 for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from private_graphs.report.words import OPTIMIZERS, score, tone
from private_graphs.running.exhibit import Cell
from private_graphs.studies.lrec2022.scores import PRINTED_SPLITS


def scored(results: Any, groups: str, by: Sequence[str], **means: str) -> pd.DataFrame:
    """Return the points of run groups, ``A,B``, with further scores by new names."""
    rows = results.rows
    return results.with_rows(rows[rows["group"].isin(groups.split(","))]).points(by, **means)


def parts_words(count: float) -> str:
    """Return the words for a number of random parts of the training graph."""
    return "full graph" if count == 1 else f"{count:g} splits"


def score_cell(point: dict[str, Any], note: str = "", decimals: int = 3, times: float = 1) -> Cell:
    """Format the score of a point with its statement, followed by ``note``."""
    cell = score(point, decimals, times)
    return Cell(f"{cell.text}{note}", point["statement_id"], tone(point), cell.accuracy)


def printed_gcns(results: Any) -> pd.DataFrame:
    """Return Table 1's printed values of trainings: ``title``, ``splits`` and ``published``."""
    rows = results.published("table1")
    rows = rows[rows["setting"].isin(list(PRINTED_SPLITS))]
    rows = rows.assign(splits=rows["setting"].map(PRINTED_SPLITS).astype(float), train_fraction=1.0)
    return _titled(rows.rename(columns={"test_micro_f1": "published"}))


def trained_gcns(results: Any) -> pd.DataFrame:
    """Return our trainings of Table 1: a row per protocol, ε, optimizer and number of splits."""
    by = ["dataset", "features", "protocol", "epsilon", "optimizer", "splits"]
    rows = scored(results, "table1", by, validation="validation_micro_f1")
    return _titled(rows.astype({"epsilon": float}))  # no row: a run without a training


def _titled(rows: pd.DataFrame) -> pd.DataFrame:
    parts = pd.Series(map(parts_words, rows["splits"]), rows.index, dtype="object")
    return rows.assign(title=rows["optimizer"].map(OPTIMIZERS) + ", " + parts)
