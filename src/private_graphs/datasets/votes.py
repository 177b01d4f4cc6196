"""Reader of published votes: ``.npy`` matrices of integers, never unpickled.

Papernot et al. (ICLR 2017, 2018) publish the answers of their teachers in two forms: the class that
each teacher votes for, (teachers, queries), or vote counts, (queries, classes).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from private_graphs.core.errors import UserError


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
    if not fits or array.ndim != n_dimensions:
        shape = f"{array.dtype} of shape {array.shape}" if hasattr(array, "dtype") else "an archive"
        raise _wrong(path, shape, f"integers of {n_dimensions} dimensions")
    return array


def read_votes(path: Path, n_queries: int, n_classes: int) -> np.ndarray:
    """Return the (Q, K) int32 vote counts on Q queries from a file in either form.

    Raises:
        UserError: the file is malformed, has other queries, names an unknown class, or lacks votes
            of some teachers on a query.
    """
    array = read_integers(path, 2)
    if array.shape == (n_queries, n_classes):
        if array.max() >= 2**31:
            raise _wrong(path, f"{array.max()} votes for a class", "less than 2^31")
        votes = np.asarray(array, np.int64)
        totals = votes.sum(axis=1)
        if votes.min() < 0 or totals[0] < 1 or (totals != totals[0]).any():
            raise _wrong(
                path, f"{totals.min()} to {totals.max()} votes on a query, {votes.min()} at least",
                "as many of every teacher on every query, none negative",
            )  # fmt: skip
        return votes.astype(np.int32)
    if array.shape[1] != n_queries or not len(array):
        raise _wrong(
            path, f"shape {array.shape}",
            f"({n_queries} queries, {n_classes} classes) or (teachers, {n_queries} queries)",
        )  # fmt: skip
    if array.min() < 0 or array.max() >= n_classes:
        raise _wrong(path, f"classes {array.min()} to {array.max()}", f"0 to {n_classes - 1}")
    votes = np.zeros((n_queries, n_classes), np.int32)
    for answers in array:
        votes[np.arange(n_queries), answers] += 1
    return votes


def _wrong(path: Path, actual: str, expected: str) -> UserError:
    return UserError(f"{path}: found {actual}, expected {expected}; supply the raw file again")
