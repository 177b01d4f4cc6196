"""How near pictures are to each other: Euclidean distance, and 1 - SSIM (Wang et al. 2004).

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


@lru_cache(maxsize=8)
def _blur(side: int) -> np.ndarray:
    """(side, side - 10) matrix of the valid part of a blur along one axis."""
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
    """Images with what SSIM needs of each alone."""

    def __init__(self, images: np.ndarray) -> None:
        self.images = np.asarray(images, np.float64)
        self.mean = _blurred(self.images)
        self.variance = _blurred(self.images**2) - self.mean**2

    def __getitem__(self, which) -> _Seen:
        part = object.__new__(_Seen)
        part.images, part.mean, part.variance = (
            each[which] for each in (self.images, self.mean, self.variance)
        )
        return part

    def ssim(self, other: _Seen) -> np.ndarray:
        means = self.mean * other.mean
        shared = _blurred(self.images * other.images) - means
        top = (2 * means + _C1) * (2 * shared + _C2)
        bottom = (self.mean**2 + other.mean**2 + _C1) * (self.variance + other.variance + _C2)
        return (top / bottom).mean(axis=(-1, -2))


class References:
    """Pictures of each class that reconstructions are compared with."""

    def __init__(self, metric: Metric, pictures: np.ndarray, labels: np.ndarray) -> None:
        """Take (n, h, w) pictures in [0, 1] and their (n,) labels."""
        self.metric, self.labels = metric, labels
        self.n_classes = int(labels.max()) + 1
        self._seen = _Seen(pictures) if metric == "ssim" else None
        self._flat = pictures.reshape(len(pictures), -1).astype(np.float64)
        self._first = np.array([np.flatnonzero(labels == k)[0] for k in range(self.n_classes)])

    def distances(self, pictures: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Return (T, m) distances of (T, h, w) pictures to the references numbered ``which``."""
        if self._seen is None:
            flat = pictures.reshape(len(pictures), -1).astype(np.float64)
            mine = self._flat[which]
            squared = np.square(flat).sum(1)[:, None] + np.square(mine).sum(1)
            return np.sqrt(np.maximum(squared - 2 * flat @ mine.T, 0.0))
        seen, others = _Seen(pictures), self._seen[which]
        return np.array([1 - seen[place].ssim(others) for place in range(len(pictures))])

    def nearest(self, pictures: np.ndarray) -> np.ndarray:
        """Return (K,) the least distance of picture k to a reference of class k."""
        return np.array([
            self.distances(picture[None], np.flatnonzero(self.labels == label)).min()
            for label, picture in enumerate(pictures)
        ])  # fmt: skip

    def identified(self, pictures: np.ndarray) -> np.ndarray:
        """Return (K,) bool: whether the first reference of class k is the nearest to picture k of
        the first ones of all classes. Ties count as wrong."""
        found = self.distances(pictures, self._first)
        own = np.diagonal(found)
        return (found <= own[:, None]).sum(axis=1) == 1
