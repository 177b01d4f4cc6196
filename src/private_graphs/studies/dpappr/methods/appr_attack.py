"""Attacks on hidden layers of training nodes: their degrees, and a picture of their classes.

Zhang (2021), Section 5.4.2 and Figures 5.6-5.7, after Duddu et al. (2020). No ε covers the attacks'
input: a hidden layer is a function of a training node's own features, and degrees are those of the
private graph. The statements of such rows say that inference leaks.
"""

from __future__ import annotations

import json

import numpy as np

_FOLDS = 5
_PERPLEXITY = 30
SIDE = 96
"""Side length of a picture, in pixels."""


def layer_attack(
    layer: np.ndarray, degrees: np.ndarray, labels: np.ndarray, seed: int
) -> dict[str, float]:
    """Return how well ``layer`` (m, 32) predicts ``degrees`` by ridge regression, and silhouette.

    ``degree_rmse`` is the cross-validated root mean squared error divided by the standard deviation
    of the degrees: 1 or more is no better than a constant, and shows neither a leak nor protection.
    ``degree_auc`` is the area under the curve of degree > 0. Both are NaN if all degrees are equal.
    """
    from sklearn.linear_model import Ridge
    from sklearn.metrics import roc_auc_score, silhouette_score
    from sklearn.model_selection import KFold, cross_val_predict

    spread = degrees.std()
    several = 1 < len(np.unique(labels)) < len(labels)
    silhouette = {"silhouette": float(silhouette_score(layer, labels)) if several else np.nan}
    if not spread or len(degrees) < _FOLDS:
        return silhouette | {"degree_std": spread, "degree_rmse": np.nan, "degree_auc": np.nan}
    folds = KFold(_FOLDS, shuffle=True, random_state=seed)
    predictions = cross_val_predict(Ridge(1.0), layer, degrees, cv=folds)
    error = np.sqrt(np.square(predictions - degrees).mean())
    positives = degrees > 0
    area = roc_auc_score(positives, predictions) if 0 < positives.mean() < 1 else np.nan
    return silhouette | {
        "degree_std": float(spread),
        "degree_rmse": float(error / spread),
        "degree_auc": float(area),
    }


def picture(layer: np.ndarray, labels: np.ndarray, seed: int) -> str:
    """Return [[x, y, class], …] of the nodes as JSON: t-SNE positions, in pixels of ``SIDE``."""
    from sklearn.manifold import TSNE

    perplexity = min(_PERPLEXITY, (len(layer) - 1) / 3)
    places = TSNE(perplexity=perplexity, random_state=seed, n_jobs=1).fit_transform(layer)
    low, high = places.min(axis=0), places.max(axis=0)
    pixels = np.rint((places - low) / np.maximum(high - low, 1e-9) * (SIDE - 1)).astype(int)
    return json.dumps(np.c_[pixels, labels].tolist(), separators=(",", ":"))
