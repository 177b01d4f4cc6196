"""Result of a finished job; scores of predictions and of the baselines of the LREC 2022 paper."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.core.entropy import fresh_bytes
from private_graphs.core.streams import Streams
from private_graphs.privacy.assumptions import NoiseSource

CURVE = "curve/"
"""Prefix of the names of learning curves among the artifacts of a run."""


def new_secret(noise_source: NoiseSource) -> bytes | None:
    """Return 32 bytes of the operating system that nobody keeps; None for a seeded run."""
    return fresh_bytes() if noise_source == "os_entropy" else None


@dataclass(frozen=True)
class JobResult:
    """Result of a finished job: R replicas in the order of ``rows``, M test records."""

    rows: pd.DataFrame
    statements: dict[str, dict[str, Any]]
    test_records: np.ndarray
    """(M,), or (R, M) where every seed draws its own."""
    test_predictions: np.ndarray
    """(R, M) predicted classes."""
    artifacts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """``<replica_id>/<name>`` -> array."""
    test_labels: np.ndarray | None = None
    """Labels of the test records, for exhibits of single records; None for a user's data."""

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write predictions, statements, rows and manifest; see ``job_files.save``."""
        from private_graphs.running.job_files import save

        save(self, Path(folder))


def scores(labels: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Return micro-F1, macro-F1 and accuracy in 0..1 of (M,) predictions.

    With one label per node micro-F1 equals accuracy; both are reported, as in the paper. Macro-F1
    averages over the classes that occur in labels or predictions; F1 of a class is
    2 · hits / (its labels + its predictions).
    """
    n_classes = int(max(labels.max(initial=0), predictions.max(initial=0))) + 1
    hits = np.bincount(labels[labels == predictions], minlength=n_classes)
    named = np.bincount(labels, minlength=n_classes) + np.bincount(predictions, minlength=n_classes)
    occurs = named > 0
    accuracy = float(np.mean(labels == predictions))
    macro = float(np.mean(2 * hits[occurs] / named[occurs]))
    return {"micro_f1": accuracy, "macro_f1": macro, "accuracy": accuracy}


def majority_score(labels: np.ndarray, majority: int) -> float:
    """Return the micro-F1 of always predicting ``majority``."""
    return float(np.mean(labels == majority))


def random_score(
    labels: np.ndarray, n_classes: int, without_last_class: bool, streams: Streams
) -> float:
    """Return the micro-F1 of uniform random predictions.

    ``without_last_class`` reproduces the released code, which never draws the last class
    (docs/privacy.md §4.5).
    """
    drawn = n_classes - 1 if without_last_class and n_classes > 1 else n_classes
    guesses = streams.generator("random_baseline").integers(0, drawn, size=len(labels))
    return float(np.mean(labels == guesses))
