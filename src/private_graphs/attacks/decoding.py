"""Joint decoding of coins from a noisy release that is linear in them."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp

_RIDGE = 1e-9
"""Least noise variance, relative to the mean diagonal of the Gram matrix."""


def decoded(terms: sp.csr_matrix, releases: np.ndarray, noise_std: float) -> np.ndarray:
    """Return (R, n) log-likelihood ratios, in against out, of independent fair coins.

    ``terms`` (n, D) are what each of n units adds if its coin shows heads; ``releases`` (R, D) are
    R noisy sums of those with heads. All coins are estimated together, as if their prior were
    Gaussian: then the estimate of a coin less 1/2 is g (coin - 1/2) plus an error of variance
    g (1 - g)/4, with its gain g.
    """
    gram = (terms @ terms.T).toarray() / 4  # (n, n)
    noise = max(noise_std**2, _RIDGE * gram.trace() / len(gram))
    gram[np.diag_indices_from(gram)] += noise
    factor = scipy.linalg.cholesky(gram, lower=True, overwrite_a=True)
    centred = releases - np.asarray(terms.sum(axis=0)).ravel() / 2
    estimates = scipy.linalg.cho_solve((factor, True), terms @ centred.T / 4).T
    inverse = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)
    lost = noise * np.square(inverse).sum(axis=0)  # 1 - g
    return 4 * estimates / lost
