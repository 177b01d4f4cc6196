"""Image sets as PATE divides them: private teachers, a public pool, few test images.

Zhang, Emory thesis 2021, Sections 3.4.1 and 3.4.2: the published training file is private, the
first images of the published test file are the public pool (here the validation images), its last
ones are for testing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from private_graphs.datasets.embedded import unpack
from private_graphs.datasets.image_dataset import ParsedImages
from private_graphs.datasets.readers.digits import N_TRAIN, SIDE
from private_graphs.datasets.readers.mnist import CLOTHES, DIGITS, read_mnist
from private_graphs.datasets.spec import DatasetSpec, GraphSize

_TEST, _DEMO_TEST = 1_000, 500
"""Number of last images of the test file that test the student."""
_DEMO_POOL = 1_500


def _reader(suffix: str, n_test: int) -> Callable[[Path], ParsedImages]:
    def read(folder: Path) -> ParsedImages:
        """Read the four idx files of a folder; UserError as ``read_mnist`` raises."""
        parsed = read_mnist(folder, suffix)
        test = np.arange(len(parsed.labels)) >= len(parsed.labels) - n_test
        return replace(
            parsed,
            validation_mask=~parsed.train_mask & ~test,
            test_mask=~parsed.train_mask & test,
            preprocessing=(
                "the training images are those of the published training file, all of them; the "
                f"last {n_test:,} images of the published test file are test images, the others "
                "validation images",
            ),
        )

    return read


_SIZE = GraphSize(70_000, 0, 70_000 * 784, 784, 10, 60_000, _TEST)
_DEMO = N_TRAIN + _DEMO_POOL + _DEMO_TEST
DATASETS = (
    *(
        DatasetSpec(
            f"{raw}-students", f"{title}, cut for PATE", raw, classes, _SIZE,
            data="images", read=_reader(".gz", _TEST),
        )
        for raw, title, classes in (
            ("fashion-mnist", "Fashion-MNIST", CLOTHES), ("mnist", "MNIST", DIGITS),
        )
    ),
    DatasetSpec(
        "digits-students", "Synthetic digits, cut for PATE", "digits-students", DIGITS,
        GraphSize(_DEMO, 0, _DEMO * SIDE**2, SIDE**2, 10, N_TRAIN, _DEMO_TEST),
        synthetic=True, data="images", read=_reader("", _DEMO_TEST),
        write=partial(unpack, "digits-students"),
    ),
)  # fmt: skip
