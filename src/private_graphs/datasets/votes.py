"""Reader of published votes: ``.npy`` matrices of integers, never unpickled.

Papernot et al. (ICLR 2017, 2018) publish the answers of their teachers in two forms: the class that
each teacher votes for, (teachers, queries), or vote counts, (queries, classes).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.datasets.arrays import check_range, require


def read_integers(path: Path, n_dimensions: int) -> np.ndarray:
    """Return the memory-mapped integers in an ``.npy`` file; nothing is allocated before use.

    Raises:
        UserError: names the file, what was found and what was expected.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # malformed headers raise errors of many kinds
        raise UserError(
            f"{path}: cannot be read as an .npy file of numbers ({error}); supply the raw file "
            "again"
        ) from error
    fits = isinstance(array, np.ndarray) and array.dtype.kind in "iu"
    shape = f"{array.dtype} of shape {array.shape}" if hasattr(array, "dtype") else "an archive"
    require(fits and array.ndim == n_dimensions, path, shape,
            f"integers of {n_dimensions} dimensions")  # fmt: skip
    return array


def read_votes(path: Path, n_queries: int, n_classes: int) -> np.ndarray:
    """Return the (Q, K) int32 vote counts on Q queries from a file in either form.

    Raises:
        UserError: the file is malformed, has other queries, names an unknown class, or lacks votes
            of some teachers on a query.
    """
    array = read_integers(path, 2)
    if array.shape == (n_queries, n_classes):
        require(array.max() < 2**31, path, f"{array.max()} votes for a class", "less than 2^31")
        votes = np.asarray(array, np.int64)
        totals = votes.sum(axis=1)
        fits = votes.min() >= 0 and totals[0] >= 1 and (totals == totals[0]).all()
        actual = f"{totals.min()} to {totals.max()} votes on a query, {votes.min()} at least"
        require(fits, path, actual, "as many of every teacher on every query, none negative")
        return votes.astype(np.int32)
    require(array.shape[1] == n_queries and len(array), path, f"shape {array.shape}",
            f"({n_queries} queries, {n_classes} classes) or (teachers, {n_queries} "
            "queries)")  # fmt: skip
    check_range(array, n_classes, f"{path}: classes")
    votes = np.zeros((n_queries, n_classes), np.int32)
    for answers in array:
        votes[np.arange(n_queries), answers] += 1
    return votes
