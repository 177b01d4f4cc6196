"""Learning curves of a method: scores of its runs after every epoch.

They are kept only for seeded runs on built-in data (``run.execute``) and not recorded, so they are
those of the reader's own runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.report.results import Results
from private_graphs.running.exhibit import Chart
from private_graphs.running.result import CURVE

CURVES = {"validation_micro_f1": "validation micro-F1", "validation_loss": "validation loss"}
"""Curve names and their displayed names."""
_PLACE = ["dataset", "scenario", "protocol", "epsilon"]
_JOB = ["study", "group", "job", "settings", "validation_labels"]
_POINTS = 12
"""Maximum number of points of a line at this picture size."""
NOTES = (
    "Of several settings, those with the highest mean validation micro-F1. Networks that are "
    "trained one after the other stand one after the other.",
    "A run that stopped early keeps its last value.",
)


def learning_curves(results: Results, method: str) -> Iterator[Chart]:
    """Yield a chart for every kind of curve of ``method``'s runs, with one line per ε."""
    runs = results.runs
    runs = runs[(runs["method"] == method) & runs["selected"].fillna(True).astype(bool)]
    runs = runs[runs["validation_micro_f1"].notna()]
    best = []
    for _, rows in runs.groupby(_PLACE, sort=True):
        means = rows.groupby(_JOB, dropna=False)["validation_micro_f1"].transform("mean").round(12)
        first = rows.loc[means.idxmax()]
        best.append(rows[(rows[_JOB].astype(str) == first[_JOB].astype(str)).all(axis=1)])
    for name, words in CURVES.items():
        points = [point for rows in best for point in _points(results, rows, name)]
        if points:
            frame = pd.DataFrame(points)
            frame["protocol"] = pd.Categorical(frame["protocol"], [*PROTOCOLS])
            yield Chart(
                f"Learning curves: {words}", frame, x="epoch", line="epsilon",
                line_label="ε:", row="place", column="protocol", x_label="epoch", y_label=words,
                notes=NOTES,
            )  # fmt: skip


def _points(results: Results, rows: pd.DataFrame, name: str) -> Iterator[dict[str, object]]:
    """Yield mean and deviation over the seeds at some of the epochs."""
    arrays = results.artifacts(rows, f"{CURVE}{name}")
    curves = [curve for curve in arrays if curve is not None]
    if not curves:
        return
    first, values = rows.iloc[0], _whole(curves)
    most = len(values)
    for epoch in sorted({round(step) for step in np.linspace(1, most, min(most, _POINTS))}):
        at = values[epoch - 1]
        yield {
            "place": f"{first['dataset']}\n{first['scenario']}", "protocol": first["protocol"],
            "epsilon": first["epsilon"], "epoch": epoch, "mean": at.mean(),
            "std": at.std(ddof=1) if len(at) > 1 else np.nan,
        }  # fmt: skip


def _whole(curves: Sequence[np.ndarray]) -> np.ndarray:
    """Return (epochs, R) curves; the last value of a shorter one is repeated."""
    most = max(map(len, curves))
    return np.stack([np.pad(curve, (0, most - len(curve)), "edge") for curve in curves], axis=1)
