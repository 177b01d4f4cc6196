"""Large tab-separated text files, plain or gzip, in blocks of whole lines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from private_graphs.core.errors import UserError

BLOCK_BYTES = 8 << 20
MAX_LINE_BYTES = 64 << 20
"""Longest accepted line in bytes, longer than any profile; a longer one is no text."""
MAX_DIGITS = 18
"""Most decimal digits that fit into int64 whatever they are."""

Progress = Callable[[str, int, int], None]
"""Callback (stage, bytes of the file read, bytes of the file)."""


def _opened(path: Path, stack: contextlib.ExitStack) -> tuple[Any, Any]:
    """Return the text stream and the underlying file, whose position measures progress."""
    import pyarrow as pa

    with open(path, "rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    file = stack.enter_context(pa.OSFile(str(path), "rb"))
    if not packed:
        return file, file
    return stack.enter_context(pa.CompressedInputStream(file, "gzip")), file


def line_blocks(path: Path, stage: str, progress: Progress) -> Iterator[bytes]:
    """Yield the file in blocks that end with a newline; an unfinished last line gets one.

    A thread reads and unpacks the next block while the caller processes this one. Only ``\\n`` ends
    a line.

    Raises:
        UserError: the file is missing, damaged or no text.
    """
    import pyarrow as pa

    try:
        with contextlib.ExitStack() as stack:
            total = path.stat().st_size
            stream, file = _opened(path, stack)
            pool = stack.enter_context(ThreadPoolExecutor(1))
            following = pool.submit(stream.read, BLOCK_BYTES)
            tail = b""
            while piece := following.result():
                done = min(file.tell(), total)
                following = pool.submit(stream.read, BLOCK_BYTES)
                cut = piece.rfind(b"\n") + 1
                if cut:
                    yield tail + piece[:cut]
                    tail = piece[cut:]
                else:
                    tail += piece
                if len(tail) > MAX_LINE_BYTES:
                    raise UserError(
                        f"{path}: found a line of more than {MAX_LINE_BYTES} bytes, expected "
                        "tab-separated text; supply the published file"
                    )
                progress(stage, done, total)
            if tail:
                yield tail + b"\n"
            progress(stage, total, total)
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"{path}: cannot be read to its end ({error}); it is missing, cut short or damaged: "
            "delete it and supply it again"
        ) from error


class FieldBlock:
    """Lines of a block of text that ends with a newline, and their fields between tabs."""

    def __init__(self, data: bytes) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self.lines = pc.split_pattern(pa.array([data[:-1]]), "\n").values
        """(lines,) bytes, without newlines."""

    @cached_property
    def _fields(self) -> Any:
        import pyarrow.compute as pc

        return pc.split_pattern(self.lines, "\t")

    @property
    def n_fields(self) -> np.ndarray:
        """(lines,): number of tabs + 1."""
        return self._fields.value_lengths().to_numpy()

    def fields(self, lines: np.ndarray) -> Any:
        """Return the fields, as bytes, of the lines in a mask (lines,), one line after another."""
        return self._fields.filter(lines).flatten()


def whole_numbers(fields: Any) -> tuple[np.ndarray, np.ndarray]:
    """Parse (n,) decimal digits: values int64, 0 where there is none, and a mask of the numbers.

    No number is what has no digit, another byte, or more than :data:`MAX_DIGITS` digits. A carriage
    return after the last field of a line does not belong to it.
    """
    import pyarrow.compute as pc

    valid = pc.match_substring_regex(fields, rf"^[0-9]{{1,{MAX_DIGITS}}}\r?$").to_numpy(False)
    digits = pc.ascii_rtrim(fields.filter(valid).cast("string"), "\r")
    values = np.zeros(len(fields), np.int64)
    values[valid] = digits.cast("int64")
    return values, valid
