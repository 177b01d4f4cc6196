"""Weights of scores: against a reference, of noise, and without nodes."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from private_graphs.methods.fusion import fit_weights


def test_weights_are_those_of_a_logistic_regression():
    """Two classes: the fit is a logistic regression on score differences (scikit-learn)."""
    rng = np.random.default_rng(1)
    labels = rng.integers(2, size=500)
    scores = rng.standard_normal((2, 500, 2))
    scores[:, np.arange(500), labels] += 0.5
    units = scores / np.sqrt((scores**2).mean(axis=(1, 2)))[:, None, None]
    differences = (units[:, :, 1] - units[:, :, 0]).T
    oracle = LogisticRegression(C=1 / (2 * 1e-3 * 500), fit_intercept=False, tol=1e-10)
    expected = oracle.fit(differences, labels).coef_[0]
    scale = np.sqrt((scores**2).mean(axis=(1, 2)))
    np.testing.assert_allclose(fit_weights(scores, labels) * scale, expected, rtol=1e-3)


def test_without_nodes_the_text_decides():
    weights = fit_weights(np.zeros((3, 0, 2)), np.zeros(0, dtype=np.int64))
    np.testing.assert_array_equal(weights, [1, 0, 0])
