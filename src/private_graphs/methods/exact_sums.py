"""Sums of clipped residuals of a linear softmax model, exact in whole numbers."""

from __future__ import annotations

import math

import numpy as np

from private_graphs.methods.lattice import LatticeGaussian

CLIP_NORM = 0.5
"""Bound on the norm of one node's residual term."""
ROW_BITS, RESIDUAL_BITS = 20, 16
"""Rows are whole numbers in units of 2^-20, residuals of 2^-16."""
_LARGEST_WEIGHT = 2.0**20


def on_grid(rows: np.ndarray, bits: int) -> np.ndarray:
    """Return the numbers in units of 2^-bits, rounded towards zero, so that no norm grows."""
    return np.trunc(rows * 2.0**bits)


def to_lattice(total: np.ndarray, divisor: int, bits: int, lattice: LatticeGaussian) -> np.ndarray:
    """Return int64 ``total`` / ``divisor``, in units of 2^-bits, as the nearest whole spacings."""
    shift = -round(math.log2(lattice.spacing)) - bits
    if shift >= 0:
        total = total << shift
    else:
        divisor = divisor << -shift
    return (2 * total + divisor) // (2 * divisor)


def bounded(weights: np.ndarray) -> np.ndarray:
    """Return finite weights of at most 2^20."""
    return np.clip(np.nan_to_num(weights), -_LARGEST_WEIGHT, _LARGEST_WEIGHT)


def clipped_residuals(logits: np.ndarray, labels: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Return (nodes, R, K) residuals e_y - softmax(logits), scaled so that |residual| |z| <= C.

    ``norms`` (nodes,) are those of the rows z.
    """
    shares = np.exp(logits - logits.max(axis=2, keepdims=True))
    shares /= -shares.sum(axis=2, keepdims=True)
    shares[np.arange(len(labels)), :, labels] += 1
    sizes = np.sqrt((shares**2).sum(axis=2, keepdims=True)) * norms[:, None, None]
    return shares * np.minimum(1, CLIP_NORM / np.maximum(sizes, CLIP_NORM))
