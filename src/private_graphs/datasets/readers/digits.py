"""Synthetic digits in MNIST's format, so that everything runs without a download."""

from __future__ import annotations

from functools import partial

from private_graphs.datasets.embedded import unpack
from private_graphs.datasets.readers.mnist import DIGITS, read_mnist
from private_graphs.datasets.spec import DatasetSpec, GraphSize

N_TRAIN, _N_TEST = 6_000, 1_000
SIDE = 12
"""Width and height of an image in pixels."""
DATASETS = (
    DatasetSpec(
        "digits",
        "Synthetic digits in MNIST's format",
        "digits",
        DIGITS,
        GraphSize(N_TRAIN + _N_TEST, 0, (N_TRAIN + _N_TEST) * SIDE**2, SIDE**2, 10, N_TRAIN),
        synthetic=True,
        data="images",
        read=lambda folder: read_mnist(folder, suffix=""),
        write=partial(unpack, "digits"),
    ),
)
