"""Scores of predictions and the two baselines of the LREC 2022 paper."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.metrics import accuracy_score, f1_score

from private_graphs.training.streams import Streams


def scores(labels: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Return micro-F1, macro-F1 and accuracy in 0..1 of (M,) predictions.

    With one label per node micro-F1 equals accuracy; both are reported, as in the paper. Macro-F1
    averages over the classes that occur in labels or predictions.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes never predicted count as 0
        return {
            "micro_f1": float(f1_score(labels, predictions, average="micro")),
            "macro_f1": float(f1_score(labels, predictions, average="macro", zero_division=0)),
            "accuracy": float(accuracy_score(labels, predictions)),
        }


def majority_score(labels: np.ndarray, majority: int) -> float:
    """Return the micro-F1 of always predicting ``majority``."""
    return float(np.mean(labels == majority))


def random_score(
    labels: np.ndarray, n_classes: int, without_last_class: bool, streams: Streams
) -> float:
    """Return the micro-F1 of uniform random predictions.

    ``without_last_class`` repeats the released code, which never draws the last class
    (docs/privacy.md §4.5).
    """
    drawn = n_classes - 1 if without_last_class and n_classes > 1 else n_classes
    guesses = streams.generator("random_baseline").integers(0, drawn, size=len(labels))
    return float(np.mean(labels == guesses))
