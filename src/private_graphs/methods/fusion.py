"""Weights of several scores of the same nodes, fitted on nodes whose labels are public."""

from __future__ import annotations

import numpy as np
import scipy.optimize

_PENALTY = 1e-3


def fit_weights(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Fit one non-negative weight for each of F score matrices (F, m, K) by logistic regression.

    The class of node i has probability softmax(Σ_f w_f scores[f, i]). The penalty is 1e-3 times the
    squared weights of the scores in units of their root mean square, so that uninformative scores
    get a weight near 0. Without nodes the first score has weight 1, the others 0.
    """
    start = np.zeros(len(scores))
    start[0] = 1
    n = len(labels)
    if n == 0:
        return start
    scale = np.sqrt((scores**2).mean(axis=(1, 2)))
    scale[scale == 0] = 1
    units = scores / scale[:, None, None]
    truth = units[:, np.arange(n), labels]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        total = np.tensordot(weights, units, axes=1)
        total -= total.max(axis=1, keepdims=True)  # scipy's log_softmax takes as long as the rest
        total -= np.log(np.exp(total).sum(axis=1, keepdims=True))
        expected = (units * np.exp(total)).sum(axis=2)
        value = -total[np.arange(n), labels].mean() + _PENALTY * weights @ weights
        return value, (expected - truth).mean(axis=1) + 2 * _PENALTY * weights

    bounds = [(0, None)] * len(scores)
    fitted = scipy.optimize.minimize(loss, start * scale, jac=True, bounds=bounds)
    return fitted.x / scale
