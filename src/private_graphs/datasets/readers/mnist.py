"""MNIST and Fashion-MNIST: 60,000 private training images, 10,000 public ones, 28 x 28 pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from private_graphs.datasets.arrays import require
from private_graphs.datasets.idx import read_idx
from private_graphs.datasets.image_dataset import ParsedImages
from private_graphs.datasets.spec import DatasetSpec, GraphSize

_EVERY = 10
_SPLIT = (
    "the training images are those of the published training file, all of them; every tenth image "
    "of the published test file is a validation image, the others are test images"
)


def read_mnist(folder: Path, suffix: str = ".gz") -> ParsedImages:
    """Read the four idx files of a folder.

    Raises:
        UserError: a file is malformed, or the numbers of images and labels differ.
    """
    sides = [_read_side(folder, side, suffix) for side in ("train", "t10k")]
    images, labels = zip(*sides, strict=True)
    first, second = (array.shape[1:] for array in images)
    require(first == second, folder, f"training images of {first} pixels, test images of {second}",
            "the same")  # fmt: skip
    n_train, n_test = map(len, labels)
    positions = np.arange(n_train + n_test) - n_train
    validation = (positions >= 0) & (positions % _EVERY == 0)
    return ParsedImages(
        images=np.concatenate(images)[:, None],
        labels=np.concatenate(labels).astype(np.int64),
        train_mask=positions < 0,
        validation_mask=validation,
        test_mask=(positions >= 0) & ~validation,
        preprocessing=(_SPLIT,),
    )


def _read_side(folder: Path, side: str, suffix: str) -> tuple[np.ndarray, np.ndarray]:
    images = read_idx(folder / f"{side}-images-idx3-ubyte{suffix}", 3)
    labels = read_idx(folder / f"{side}-labels-idx1-ubyte{suffix}", 1)
    actual = f"{len(images)} images and {len(labels)} labels"
    require(len(images) == len(labels), f"{folder}: {side}", actual, "as many of both")
    return images, labels


DIGITS = tuple(str(digit) for digit in range(10))
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip
_SIZE = GraphSize(70_000, 0, 70_000 * 784, 784, 10, 60_000)
DATASETS = tuple(
    DatasetSpec(name, title, name, classes, _SIZE, data="images", read=read_mnist)
    for name, title, classes in (
        ("mnist", "MNIST, handwritten digits", DIGITS),
        ("fashion-mnist", "Fashion-MNIST, pieces of clothing", CLOTHES),
    )
)
