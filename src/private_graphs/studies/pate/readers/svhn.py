"""SVHN as PATE divides it: 73,257 private house numbers, whose teachers' votes were published.

Netzer et al. 2011: two MATLAB files with images ``X`` (32, 32, 3, n) and labels ``y`` (n, 1), in
which 10 stands for the digit 0. The first 10,000 images of the test file are the student's pool
(here the validation images), the others test it (Zhang, Emory thesis 2021, Section 3.4.2; it does
not say which are the first: here the order of the file). The votes are those of the 250 teachers of
Papernot et al. (ICLR 2017) on the test file, in its order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.datasets.image_dataset import ParsedImages
from private_graphs.datasets.matlab import read_array
from private_graphs.datasets.readers.mnist import DIGITS
from private_graphs.datasets.spec import DatasetSpec, GraphSize
from private_graphs.datasets.votes import read_votes

POOL = 10_000
"""Number of first images of the test file that are the student's pool."""
_SIDE, _CHANNELS, _ZERO = 32, 3, 10
VOTES = "svhn_250_teachers_labels.npy"


def read_svhn(folder: Path) -> ParsedImages:
    """Read the two .mat files and the votes of a folder; UserError if one is malformed."""
    sides = [_read_side(folder / f"{side}_32x32.mat") for side in ("train", "test")]
    images, labels = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    offset = np.arange(len(labels)) - len(sides[0][1])
    n_asked = len(sides[1][1])
    votes = np.zeros((len(labels), len(DIGITS)), np.int32)
    votes[offset >= 0] = read_votes(folder / VOTES, n_asked, len(DIGITS))
    return ParsedImages(
        images=images,
        labels=labels,
        train_mask=offset < 0,
        validation_mask=(offset >= 0) & (offset < POOL),
        test_mask=offset >= POOL,
        votes=votes,
        preprocessing=(
            "the training images are those of the published training file, all of them; the first "
            f"{POOL:,} images of the published test file are validation images, the others test "
            "images",
            "the teachers are not trained here: their votes are the published ones; their authors' "
            "code trains them on the extra images of SVHN too, so that the private records are "
            "more than the training images that are counted here",
        ),
    )


def _read_side(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, 3, 32, 32) images and (n,) labels of a file."""
    images, labels = read_array(path, "X"), read_array(path, "y")
    for name, array, shape in (
        ("X", images, (_SIDE, _SIDE, _CHANNELS, -1)), ("y", labels, (-1, 1)),
    ):  # fmt: skip
        fits = isinstance(array, np.ndarray) and array.dtype == np.uint8
        fits = fits and array.ndim == len(shape)
        if not fits or any(
            size not in (-1, got) for size, got in zip(shape, array.shape, strict=True)
        ):
            got = "nothing" if array is None else f"{array.dtype} of shape {array.shape}"
            words = ", ".join("any" if size == -1 else str(size) for size in shape)
            raise UserError(f"{path}: {name}: found {got}, expected uint8 of shape ({words})")
    if len(labels) != images.shape[3] or not np.isin(labels, np.arange(1, _ZERO + 1)).all():
        raise UserError(
            f"{path}: y: found {len(labels)} labels of {images.shape[3]} images, among them "
            f"{', '.join(map(str, np.unique(labels)[:20]))}; expected one of each, 1 to {_ZERO}"
        )
    truth = labels[:, 0].astype(np.int64) % _ZERO
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), truth


_SIZE = GraphSize(99_289, 0, 99_289 * 3072, 3072, 10, 73_257)
DATASETS = (
    DatasetSpec(
        "svhn", "SVHN, house numbers, cut for PATE", "svhn", DIGITS, _SIZE,
        data="images", read=read_svhn,
    ),
)  # fmt: skip
