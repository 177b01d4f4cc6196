"""Results that hold a few rows made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from private_graphs.report.results import Results
from private_graphs.running.study import load_study


def results_with(
    study: str, runs: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]] | None = None
) -> Results:
    """Return the results of a study whose runs are these rows."""
    return Results(load_study(study), "demo", runs.assign(source="own"), statements or {})
