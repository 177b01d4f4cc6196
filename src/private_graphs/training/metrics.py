"""Scores of predictions, and the two baselines of the LREC 2022 paper."""

from __future__ import annotations

import numpy as np

from private_graphs.core.streams import Streams


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
