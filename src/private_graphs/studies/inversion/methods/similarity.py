"""Distances between pictures: Euclidean distance, and 1 - SSIM (Wang et al. 2004).

SSIM with a Gaussian window of 11 x 11 (σ = 1.5), K1 = .01, K2 = .03, pixels in [0, 1], over the
valid region, as ``skimage.metrics.structural_similarity`` with ``gaussian_weights=True,
use_sample_covariance=False`` away from the borders.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

Metric = Literal["euclidean", "ssim"]
_WINDOW, _SIGMA = 11, 1.5
_C1, _C2 = 0.01**2, 0.03**2
_TOGETHER = 16
"""Number of references that a picture is compared with at a time, so that they fit in the cache."""


@lru_cache(maxsize=8)
def _blur(side: int) -> np.ndarray:
    """Return the (side, side - 10) matrix of the valid part of a blur along one axis."""
    places = np.arange(_WINDOW) - _WINDOW // 2
    weights = np.exp(-(places**2) / (2 * _SIGMA**2))
    weights /= weights.sum()
    matrix = np.zeros((side, side - _WINDOW + 1))
    for column in range(matrix.shape[1]):
        matrix[column : column + _WINDOW, column] = weights
    return matrix


def _blurred(images: np.ndarray) -> np.ndarray:
    """Blur (…, h, w) images over windows that lie within them."""
    height, width = images.shape[-2:]
    return np.swapaxes(np.swapaxes(images @ _blur(width), -1, -2) @ _blur(height), -1, -2)


def ssim(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the mean SSIM of (…, h, w) images with pixels in [0, 1], pair by pair (broadcast)."""
    return _Seen(one).ssim(_Seen(other))


class _Seen:
    """Images with precomputed terms of SSIM."""

    def __init__(self, images: np.ndarray) -> None:
        self.images = np.asarray(images, np.float64)
        self.mean = _blurred(self.images)
        self.variance = _blurred(self.images**2) - self.mean**2

    def __getitem__(self, which) -> _Seen:
        part = object.__new__(_Seen)
        part.images, part.mean, part.variance = (
            array[which] for array in (self.images, self.mean, self.variance)
        )
        return part

    def ssim(self, other: _Seen) -> np.ndarray:
        means = self.mean * other.mean
        shared = _blurred(self.images * other.images) - means
        top = (2 * means + _C1) * (2 * shared + _C2)
        bottom = (self.mean**2 + other.mean**2 + _C1) * (self.variance + other.variance + _C2)
        return (top / bottom).mean(axis=(-1, -2))

    def distances(self, references: _Seen) -> np.ndarray:
        """Return (T, m) distances of T images to m others."""
        begins = range(0, len(references.images), _TOGETHER)
        parts = [references[begin : begin + _TOGETHER] for begin in begins]
        return np.array([
            np.concatenate([1 - self[index].ssim(part) for part in parts])
            for index in range(len(self.images))
        ])  # fmt: skip


class _Pixels:
    """Images as rows of pixels, with their squared norms."""

    def __init__(self, images: np.ndarray) -> None:
        self.rows = images.reshape(len(images), -1).astype(np.float64)
        self.squares = np.square(self.rows).sum(1)

    def distances(self, references: _Pixels) -> np.ndarray:
        """Return (T, m) distances of T images to m others."""
        squared = self.squares[:, None] + references.squares - 2 * self.rows @ references.rows.T
        return np.sqrt(np.maximum(squared, 0.0))


class References:
    """Pictures of each class with which reconstructions are compared."""

    def __init__(self, metric: Metric, pictures: np.ndarray, labels: np.ndarray) -> None:
        """Take (n, h, w) pictures in [0, 1] and their (n,) labels."""
        self._measured = _Seen if metric == "ssim" else _Pixels
        groups = [pictures[labels == label] for label in range(int(labels.max()) + 1)]
        self._own = [self._measured(group) for group in groups]
        self._first = self._measured(np.array([group[0] for group in groups]))

    def nearest(self, pictures: np.ndarray) -> np.ndarray:
        """Return (K,) smallest distance of picture k to the references of class k."""
        return np.array([
            self._measured(picture[None]).distances(group).min()
            for picture, group in zip(pictures, self._own, strict=True)
        ])  # fmt: skip

    def identified(self, pictures: np.ndarray) -> np.ndarray:
        """Return (K,) bool: whether the nearest of all classes' first references to picture k is
        that of class k. Ties count as wrong."""
        distances = self._measured(pictures).distances(self._first)
        diagonal = np.diagonal(distances)
        return (distances <= diagonal[:, None]).sum(axis=1) == 1
