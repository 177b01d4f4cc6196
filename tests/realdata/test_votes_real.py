"""The labels of MNIST that PATE's authors published: already aggregated, by Laplace noise of 20."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from private_graphs.core.errors import UserError
from private_graphs.datasets.idx import read_idx
from private_graphs.datasets.votes import read_integers, read_votes

LABELS = "mnist_250_student_labels_lap_20.npy"
INDICES = "mnist_250_teachers_100_indices_used_by_student.npy"


def test_the_published_labels_are_as_right_as_they_are_known_to_be(mirror: Path) -> None:
    if not (mirror / "pate" / LABELS).is_file() or not (mirror / "mnist").is_dir():
        pytest.skip("the mirror has no pate or no mnist")
    truth = read_idx(mirror / "mnist" / "t10k-labels-idx1-ubyte.gz", 1)[:9000]
    labels = read_integers(mirror / "pate" / LABELS, 1)
    used = read_integers(mirror / "pate" / INDICES, 1)
    assert labels.dtype == np.int32 and len(labels) == 9000 and set(labels) == set(range(10))
    right = labels == truth
    assert round(float(right.mean()), 4) == 0.9343
    assert round(float(right[:2200].mean()), 4) == 0.9164
    assert len(set(used)) == 100 and right[used].mean() == 0.98
    with pytest.raises(UserError, match="2 dimensions"):  # a class for each image, no votes
        read_votes(mirror / "pate" / LABELS, 9000, 10)
