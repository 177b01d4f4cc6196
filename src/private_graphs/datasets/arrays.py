"""Checks shared by all readers: CSR parts, edge lists, label vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from private_graphs.core.errors import UserError

MASKS = ("train_mask", "validation_mask", "test_mask")


def require(
    holds: Any, where: object, actual: object, expected: object,
    remedy: str = "supply the original file",
) -> None:  # fmt: skip
    """Raise UserError unless ``holds``: what was found where, what was expected, what to do."""
    if not holds:
        raise UserError(f"{where}: found {actual}, expected {expected}; {remedy}")


def checked_csr(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    shape: tuple[int, ...],
    where: str,
    canonical: bool = True,
) -> scipy.sparse.csr_matrix:
    """Build a CSR matrix from untrusted parts.

    Args:
        data: (entries,) numbers. indices: (entries,) column ids. indptr: (rows + 1,) offsets.
        shape: (rows, columns). where: file and key for the error message.
        canonical: sort the indices, add up duplicates and drop explicit zeros.

    Returns:
        (rows, columns) matrix.

    Raises:
        UserError: the parts contradict each other, or a value is not finite.
    """
    for name, part, kinds in (("data", data, "fiub"), ("indices", indices, "iu"),
                              ("indptr", indptr, "iu")):  # fmt: skip
        fits = part.ndim == 1 and part.dtype.kind in kinds
        expected = f"{'numbers' if name == 'data' else 'integers'} in 1 dimension"
        require(fits, f"{where}: {name}", f"{part.dtype} in {part.ndim} dimensions", expected)
    fits = len(shape) == 2 and min(shape) >= 1
    require(fits, f"{where}: shape", tuple(shape), "(rows, columns), both >= 1")
    rows, columns = (int(size) for size in shape)
    indptr, indices = indptr.astype(np.int64), indices.astype(np.int64)
    fits = len(indptr) == rows + 1
    require(fits, f"{where}: indptr", f"{len(indptr)} entries", f"rows + 1 = {rows + 1}")
    fits = indptr[0] == 0 and indptr[-1] == len(indices) == len(data)
    fits = fits and not np.any(np.diff(indptr) < 0)
    ends = f"{indptr[0]} to {indptr[-1]} for {len(data)} numbers"
    require(fits, f"{where}: indptr", ends, f"a rise from 0 to the {len(indices)} indices")
    check_range(indices, columns, f"{where}: indices")
    finite = np.all(np.isfinite(data))
    require(finite, f"{where}: data", "values that are not finite", "finite numbers")
    matrix = scipy.sparse.csr_matrix((data.copy(), indices, indptr), shape=(rows, columns))
    if canonical:
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return matrix


def check_range(numbers: np.ndarray, end: int, where: object, start: int = 0) -> None:
    """Raise UserError for integers, of any shape, below ``start`` or not below ``end``."""
    if numbers.size:
        low, high = numbers.min(), numbers.max()
        require(start <= low and high < end, where, f"numbers {low}..{high}", f"{start}..{end - 1}")


@dataclass(frozen=True, eq=False)
class UndirectedEdges:
    """Undirected edges, and the counts of dropped raw entries.

    Every entry is accounted for: entries = loops + duplicates + 2 E - one_way.
    """

    edge_index: np.ndarray
    """(2, E) int64 with i < j, each edge once, sorted lexicographically."""
    loops: int
    """Dropped entries that lead from a node to itself."""
    duplicates: int
    """Dropped entries that repeat the same directed entry; the two directions of one edge are not
    duplicates of each other."""
    one_way: int
    """Edges present in one direction only."""

    @property
    def entry_counts(self) -> dict[str, int]:
        """The counts as fields of a ``dataset.json``."""
        return {"loops_dropped": self.loops, "duplicates_dropped": self.duplicates,
                "one_way_edges": self.one_way}  # fmt: skip


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the sorted distinct values of (n,) integers.

    Equivalent to ``np.unique``, which hashes and takes a hundred times longer for millions of
    edges.
    """
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def undirected_edges(sources: np.ndarray, targets: np.ndarray, n_nodes: int) -> UndirectedEdges:
    """Convert directed entries to undirected edges, each once.

    ``sources`` and ``targets`` are (entries,) node ids in 0..n_nodes-1, in any order, with loops
    and repetitions.
    """
    straight = sources != targets
    low, high = (end(sources, targets).astype(np.int64) for end in (np.minimum, np.maximum))
    # One number per entry, with the direction in its last bit, so that one sort suffices.
    codes = (2 * (low * n_nodes + high) + (sources > targets))[straight]
    del low, high
    directed = distinct(codes)
    edges = distinct(directed >> 1)
    return UndirectedEdges(
        edge_index=np.stack(np.divmod(edges, n_nodes)),
        loops=len(straight) - len(codes),
        duplicates=len(codes) - len(directed),
        one_way=2 * len(edges) - len(directed),
    )


def keyed_order(ids: np.ndarray, key: bytes, digest_size: int = 16) -> np.ndarray:
    """Return the order of (n,) ids >= 0 by BLAKE2b(id) under a public key; ties by place.

    The place of an id depends on nothing but the ids.
    """
    digests = b"".join(
        hashlib.blake2b(number.to_bytes(8, "little"), key=key, digest_size=digest_size).digest()
        for number in ids.tolist()
    )
    return np.lexsort(np.frombuffer(digests, ">u8").reshape(len(ids), -1).T[::-1])


def masks_by_order(order: np.ndarray, n_validation: int, n_test: int) -> dict[str, np.ndarray]:
    """Return train, validation and test masks (n,) bool of an order: its first members validate,
    the next test, the others train."""
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    validation, public = ranks < n_validation, ranks < n_validation + n_test
    return dict(zip(MASKS, (~public, validation, public & ~validation), strict=True))


def kept_rows(blocks: Iterable[np.ndarray], keep: np.ndarray, width: int, where: str) -> np.ndarray:
    """Return the rows (kept, width) float32 of a mask (N,) from the consecutive blocks of a matrix
    of which no more than a block is in memory; UserError for one that is not finite."""
    rows = np.empty((np.count_nonzero(keep), width), np.float32)
    begin = end = 0
    for block in blocks:
        chosen = block[keep[begin : begin + len(block)]]
        begin += len(block)
        with np.errstate(over="ignore"):
            rows[end : end + len(chosen)] = chosen
        if not np.all(np.isfinite(rows[end : end + len(chosen)])):
            raise UserError(
                f"{where} has values among rows {begin - len(block)} to {begin - 1} that are not "
                "finite; supply the original file"
            )
        end += len(chosen)
    return rows


def fingerprint_of(name: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Return sha256 (64 hex digits) over a name and arrays, independent of the platform."""
    digest = hashlib.sha256(name.encode())
    for key, array in sorted(arrays.items()):
        canonical = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"\n{key} {canonical.dtype.str} {canonical.shape}\n".encode())
        digest.update(canonical.tobytes())
    return digest.hexdigest()
