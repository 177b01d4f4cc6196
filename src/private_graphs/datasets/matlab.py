"""Reader of one array of a MATLAB 5 file: real numbers, dense or sparse.

SciPy's reader trusts the sizes and types that a file states, and a damaged file ends the
interpreter. Here every part is a slice of bytes that are there. Format: "MAT-File Format",
MathWorks, chapter 1.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse

from private_graphs.core.bounded_files import read_bounded
from private_graphs.core.errors import UserError
from private_graphs.core.limits import MOST_TABLE_BYTES
from private_graphs.datasets.arrays import checked_csr

_HEADER, _TAG = 128, 8
_MATRIX, _COMPRESSED = 14, 15
_TYPES = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
"""Types of stored numbers by their code."""
_SPARSE, _DENSE = 5, range(6, 16)
"""Classes of arrays of numbers; others hold text, structures or objects."""
_COMPLEX = 1 << 11
_START = 2**12
"""Bytes of a compressed array that are unpacked in search of its name."""


def read_array(path: Path, name: str) -> np.ndarray | scipy.sparse.spmatrix | None:
    """Return the first array of that name, with numbers of the type that is stored; None if absent.

    Raises:
        UserError: the file is malformed, or holds no real numbers under the name.
    """
    try:
        data = memoryview(read_bounded(path, MOST_TABLE_BYTES))
        order = {b"IM": "<", b"MI": ">"}.get(bytes(data[126:_HEADER]))
        if order is None:
            raise ValueError("its header is another one")
        for element in _elements(data[_HEADER:], order, padded=False):
            parts = _numbers(_content(element, order, start=True), order)
            if [next(parts) for _ in range(3)][2].tobytes() == name.encode():
                return _array(_numbers(_content(element, order), order), f"{path}: {name}")
    except (
        ArithmeticError, IndexError, OSError, StopIteration, ValueError, struct.error, zlib.error,
    ) as error:  # fmt: skip
        reason = str(error) or "a part of an array is absent"
        raise UserError(
            f"{path}: cannot be read as a MATLAB 5 file ({reason}); supply the published file"
        ) from None
    return None


def _elements(
    data: memoryview, order: str, padded: bool = True
) -> Iterator[tuple[int, memoryview]]:
    """Yield type and content of each element; ``padded`` ones begin at multiples of 8 bytes."""
    while data:
        kind, size = struct.unpack_from(order + "II", data)
        begin = _TAG
        if kind >> 16:  # up to four bytes, in the tag itself
            kind, size, begin = kind & 0xFFFF, kind >> 16, 4
        end = begin + size
        if end > (_TAG if begin == 4 else len(data)):
            raise ValueError(f"an element of {size:,} bytes has more than there are")
        yield kind, data[begin:end]
        data = data[end + (-end % 8 if padded else 0) :]


def _content(element: tuple[int, memoryview], order: str, start: bool = False) -> memoryview:
    """Return the parts of an array, unpacked; with ``start`` perhaps the first ones alone."""
    kind, content = element
    if kind == _COMPRESSED:
        packed, unpacking = content, zlib.decompressobj()
        content = memoryview(unpacking.decompress(packed, _START))
        kind, size = struct.unpack_from(order + "II", content)
        if not start:
            unpacking = zlib.decompressobj()
            content = memoryview(unpacking.decompress(packed, _TAG + size + _TAG))
            if not unpacking.eof or len(content) < _TAG + size:
                raise ValueError(f"an array does not unpack to the {size:,} bytes that it states")
        content = content[_TAG : _TAG + size]
    if kind != _MATRIX:
        raise ValueError(f"an element has type {kind}, expected an array")
    return content


def _numbers(content: memoryview, order: str) -> Iterator[np.ndarray]:
    """Yield the numbers of each part of an array."""
    for kind, part in _elements(content, order):
        if kind not in _TYPES:
            raise ValueError(f"a part of an array has type {kind}, expected numbers")
        stored = np.frombuffer(part, order + _TYPES[kind])
        yield stored.astype(stored.dtype.newbyteorder("="), copy=False)


def _array(parts: Iterator[np.ndarray], where: str) -> np.ndarray | scipy.sparse.spmatrix:
    """Return an array from all its parts."""
    flags, shape, _ = int(next(parts)[0]), tuple(map(int, next(parts))), next(parts)
    if flags & _COMPLEX or flags & 0xFF not in (_SPARSE, *_DENSE):
        raise ValueError(f"an array has flags {flags:#x}, expected those of real numbers")
    if flags & 0xFF == _SPARSE:
        rows, starts, data = next(parts), next(parts), next(parts)
        used = int(starts[-1])  # there may be room for more entries
        return checked_csr(data[:used], rows[:used], starts, shape[::-1], where, canonical=False).T
    values = next(parts)
    if math.prod(shape) != len(values):
        raise ValueError(f"an array has {len(values):,} numbers and shape {shape}")
    return values.reshape(shape, order="F")
