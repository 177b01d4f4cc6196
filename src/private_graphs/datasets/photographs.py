"""Photographs of people: augmented copies, and the two ways to split the photographs."""

from __future__ import annotations

from typing import Any

import numpy as np

from private_graphs.datasets.image_dataset import ParsedImages
from private_graphs.datasets.spec import DatasetSpec, GraphSize
from private_graphs.datasets.views import DataView

_SEED = 20214
_SHIFT = 3
"""Largest shift in pixels."""
_DIMMEST, _BRIGHTEST = 850, 1150
"""Range of brightness factors, in thousandths."""
_TEST_SHARE = 30 / 220
"""Share of test images among a person's copies, where copies are split (Zhang 2021, §4.5.1)."""
_SPLIT = {
    "after": (
        "each person's photographs, with varied copies of each, are split at random: copies of "
        "one photograph are on both sides"
    ),
    "never": "each person's last photographs are validation and test images",
}


def varied(images: np.ndarray, copies: int) -> np.ndarray:
    """Return (n, copies, h, w) uint8: each of (n, h, w) images, then augmented copies of it.

    A copy may be mirrored, is shifted by up to three pixels (edges are repeated), and its
    brightness is multiplied by .85 to 1.15. The draws depend on the positions of the image and of
    its copy alone: no image influences the copies of another.
    """
    n, height, width = images.shape
    rng = np.random.RandomState(_SEED)
    mirrored = rng.randint(0, 2, size=(n, copies)).astype(bool)
    down, right = rng.randint(-_SHIFT, _SHIFT + 1, size=(2, n, copies))
    light = rng.randint(_DIMMEST, _BRIGHTEST + 1, size=(n, copies))
    mirrored[:, 0], down[:, 0], right[:, 0], light[:, 0] = False, 0, 0, 1000
    columns = np.where(mirrored[..., None], np.arange(width)[::-1], np.arange(width))
    rows = np.clip(np.arange(height) - down[..., None], 0, height - 1)
    columns = np.take_along_axis(
        columns, np.clip(np.arange(width) - right[..., None], 0, width - 1), axis=-1
    )
    moved = images[np.arange(n)[:, None, None, None], rows[..., None], columns[:, :, None, :]]
    brighter = moved.astype(np.uint32) * light[..., None, None].astype(np.uint32) // 1000
    return np.minimum(255, brighter).astype(np.uint8)


def split(photographs: np.ndarray, view: DataView, copies: int) -> ParsedImages:
    """Split (people, m, h, w) uint8 photographs into training, validation and test images.

    The view decides whether augmented copies (``copies`` of each, the original included) are made
    before the split. If not, a tenth of each person's photographs, at least one, are validation
    images, and as many are test images.
    """
    people, m, height, width = photographs.shape
    images = photographs
    if view.copies == "split":
        flat = photographs.reshape(-1, height, width)
        images = varied(flat, copies).reshape(people, m * copies, height, width)
        m *= copies
        order = np.random.RandomState(_SEED + 1).rand(people, m).argsort(axis=1, kind="stable")
        images = np.take_along_axis(images, order[..., None, None], axis=1)
        held_out = round(m * _TEST_SHARE)
        n_validation = max(1, held_out // 10)
        n_test = held_out - n_validation
    else:
        n_validation = n_test = max(1, m // 10)
    positions = np.tile(np.arange(m), people)
    test = positions >= m - n_test
    validation = (positions >= m - n_test - n_validation) & ~test
    return ParsedImages(
        images=images.reshape(-1, 1, height, width),
        labels=np.repeat(np.arange(people), m),
        train_mask=~test & ~validation,
        validation_mask=validation,
        test_mask=test,
        preprocessing=(_SPLIT["after" if view.copies == "split" else "never"],),
    )


def people_spec(
    name: str, title: str, raw: str, shape: tuple[int, int, int, int], **fields: Any
) -> DatasetSpec:
    """Return the dataset of photographs of ``shape`` (people, m, h, w); four fifths train."""
    people, m, height, width = shape
    n, pixels = people * m, height * width
    return DatasetSpec(
        name, title, raw, tuple(f"person {person}" for person in range(1, people + 1)),
        GraphSize(n, 0, n * pixels, pixels, people, 4 * n // 5),
        views=("released", "paper", "sound"), data="images", **fields,
    )  # fmt: skip
