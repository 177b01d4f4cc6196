"""Synthetic digits: drawn strokes in MNIST's format.

A digit is a polyline. Its points are jittered; the whole is rotated, slanted, scaled and shifted;
the darkness of a pixel is the number of its four quarters that lie within a pen's width of the
line; finally some pixels are flipped. All arithmetic is on integers drawn from the legacy
``RandomState``, whose streams NumPy keeps unchanged (NEP 19): the bytes are the same on every
machine.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from private_graphs.datasets.idx import idx_bytes

SIDE = 12
"""Width and height of an image in pixels."""
_UNIT = 64
"""Length of a pixel in the integer coordinates of points."""
_STROKES = (
    "24 32 62 84 66 36 24", "33 24 34 44 64 74 84", "33 24 36 46 64 83 87", "23 26 44 56 66 85 73",
    "85 55 25 43 62 64 67", "26 23 43 46 66 85 73", "25 43 63 84 76 56 54", "23 25 27 46 55 74 84",
    "23 26 54 83 86 54 23", "46 43 24 26 46 65 85",
)  # fmt: skip
"""Row and column (1 to 9 each) of the points of each digit."""


def _lines(rng: np.random.RandomState, labels: np.ndarray) -> np.ndarray:
    """Draw (n, points, 2) integer coordinates of the polylines of digits."""
    points = np.array([[tuple(map(int, point)) for point in each.split()] for each in _STROKES])
    n, centre = len(labels), np.array([5, 4])
    lines = (points[labels] - centre) * _UNIT * 3 // 2
    lines = lines + rng.randint(-26, 27, size=lines.shape)
    turn, slant = rng.randint(-24, 25, size=(2, n, 1))  # in hundredths
    height, width = rng.randint(80, 116, size=(2, n, 1))
    rows, columns = lines[..., 0], lines[..., 1]
    turned = (height * (100 * rows + turn * columns), width * (100 * columns - turn * rows))
    moved = turned[0] // 10_000, (turned[1] + slant * turned[0] // 100) // 10_000
    shift = rng.randint(-_UNIT, _UNIT + 1, size=(n, 1, 2))
    return np.stack(moved, axis=-1) + shift + SIDE * _UNIT // 2


def _images(rng: np.random.RandomState, labels: np.ndarray) -> np.ndarray:
    """Draw (n, side, side) uint8 images of digits."""
    lines = _lines(rng, labels)
    pen = rng.randint(36, 60, size=(len(labels), 1, 1)) ** 2
    places = np.arange(2 * SIDE) * _UNIT // 2 + _UNIT // 4
    row, column = places[None, :, None], places[None, None, :]
    inked = np.zeros((len(labels), 2 * SIDE, 2 * SIDE), dtype=bool)
    for first, second in pairwise(lines.transpose(1, 0, 2)):
        start, along = first[:, :, None, None], (second - first)[:, :, None, None]
        down, right = row - start[:, 0], column - start[:, 1]
        length = np.maximum(1, (along**2).sum(axis=1))
        share = np.clip(down * along[:, 0] + right * along[:, 1], 0, length)
        off = (down - share * along[:, 0] // length) ** 2
        inked |= off + (right - share * along[:, 1] // length) ** 2 <= pen
    quarters = inked.reshape(len(labels), SIDE, 2, SIDE, 2).sum(axis=(2, 4))
    images = np.minimum(255, 64 * quarters)
    flipped = rng.randint(0, 100, size=images.shape) < 4
    return np.where(flipped, 255 - images, images).astype(np.uint8)


def digits(seed: int, n_test: int) -> dict[str, bytes]:
    """Return the four idx files, 6,000 training images and ``n_test`` test images."""
    rng = np.random.RandomState(seed)
    files = {}
    for side, count in (("train", 6_000), ("t10k", n_test)):
        labels = rng.randint(0, 10, size=count).astype(np.uint8)
        images = np.concatenate([_images(rng, part) for part in np.split(labels, count // 500)])
        files[f"{side}-images-idx3-ubyte"] = idx_bytes(images)
        files[f"{side}-labels-idx1-ubyte"] = idx_bytes(labels)
    return files
