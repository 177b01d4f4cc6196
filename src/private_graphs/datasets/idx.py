"""Reader of idx files, the format of MNIST: bytes of any shape, plain or gzipped.

Two zero bytes, the element type (8: unsigned bytes, the only one accepted here), the number of
dimensions, one big-endian uint32 per dimension, then the numbers.
"""

from __future__ import annotations

import math
import zlib
from pathlib import Path

import numpy as np

from private_graphs.core.bounded_files import read_bounded, unpacked_gzip
from private_graphs.core.errors import UserError
from private_graphs.datasets.arrays import require

MAX_BYTES = 1 << 30
"""Largest accepted content in bytes."""
_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTES = 8


def read_idx(path: Path, n_dimensions: int, max_bytes: int = MAX_BYTES) -> np.ndarray:
    """Return the uint8 array of an idx file with ``n_dimensions`` dimensions.

    Raises:
        UserError: names the file, what was found and what was expected.
    """
    try:
        content = read_bounded(path, max_bytes)
        if content[:2] == _GZIP_MAGIC:
            content = unpacked_gzip(content, max_bytes)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error}); supply the raw file again") from error
    expected, end = bytes([0, 0, _UNSIGNED_BYTES, n_dimensions]), 4 + 4 * n_dimensions
    head = content[:4].hex() or "nothing"
    require(head == expected.hex(), path, head, f"the head of an idx file, {expected.hex()}")
    size = len(content) - end
    require(size >= 0, path, f"a header of {len(content)} bytes", f"{n_dimensions} sizes")
    shape = tuple(np.frombuffer(content[4:end], ">u4").tolist())
    actual = f"sizes {shape}, {math.prod(shape)} bytes"
    require(0 < math.prod(shape) == size, path, actual, f"those of the {size} bytes after them")
    return np.frombuffer(content, np.uint8, offset=end).reshape(shape)


def idx_bytes(array: np.ndarray) -> bytes:
    """Encode a uint8 array in the idx format."""
    sizes = np.array(array.shape, dtype=">u4").tobytes()
    return bytes([0, 0, _UNSIGNED_BYTES, array.ndim]) + sizes + array.tobytes()
