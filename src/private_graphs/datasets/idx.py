"""Reader of idx files, the format of MNIST: bytes of any shape, plain or gzipped.

Two zero bytes, the element type (8: unsigned bytes, the only one accepted here), the number of
dimensions, one big-endian uint32 per dimension, then the numbers. Sizes are checked against the
file and a limit before memory is allocated.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

from private_graphs.core.errors import UserError

MAX_BYTES = 1 << 30
"""Largest accepted content in bytes."""
_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTES = 8
_LARGEST_RATIO = 1032
"""Largest expansion of a deflate stream: bytes of output per byte of input."""


def read_idx(path: Path, n_dimensions: int, max_bytes: int = MAX_BYTES) -> np.ndarray:
    """Return the uint8 array of an idx file with ``n_dimensions`` dimensions.

    Raises:
        UserError: names the file, what was found and what was expected.
    """
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if zipped else raw
            most = path.stat().st_size * (_LARGEST_RATIO if zipped else 1)
            return _read(stream, n_dimensions, min(most, max_bytes), path)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error}); supply the raw file again") from error


def _read(stream: BinaryIO, n_dimensions: int, limit: int, path: Path) -> np.ndarray:
    head = stream.read(4)
    expected = bytes([0, 0, _UNSIGNED_BYTES, n_dimensions])
    if head != expected:
        raise _wrong(path, f"it starts with {head.hex() or 'nothing'}", expected.hex())
    sizes = stream.read(4 * n_dimensions)
    if len(sizes) < 4 * n_dimensions:
        raise _wrong(path, f"its header ends after {4 + len(sizes)} bytes", f"{n_dimensions} sizes")
    shape = tuple(int(size) for size in np.frombuffer(sizes, dtype=">u4"))
    n_bytes = math.prod(shape)
    if not 0 < n_bytes <= limit:
        raise _wrong(path, f"sizes {shape}, {n_bytes} bytes", f"1 to {limit} bytes")
    content = stream.read(n_bytes + 1)
    if len(content) != n_bytes:
        raise _wrong(
            path,
            "more bytes" if len(content) > n_bytes else f"{len(content)} bytes",
            f"the {n_bytes} bytes of sizes {shape}",
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _wrong(path: Path, actual: str, expected: str) -> UserError:
    return UserError(
        f"{path}: not the idx file that is expected here: found {actual}, expected {expected}; "
        "supply the raw file again"
    )


def idx_bytes(array: np.ndarray) -> bytes:
    """Encode a uint8 array in the idx format."""
    sizes = np.array(array.shape, dtype=">u4").tobytes()
    return bytes([0, 0, _UNSIGNED_BYTES, array.ndim]) + sizes + array.tobytes()
