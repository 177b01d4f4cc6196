"""Large tab-separated text files, plain or gzip, in blocks of whole lines as NumPy bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from private_graphs.core.errors import UserError

BLOCK_BYTES = 8 << 20
MAX_LINE_BYTES = 64 << 20
"""Longest accepted line in bytes, longer than any profile; a longer one is no text."""
MAX_DIGITS = 18
"""Most decimal digits that fit into int64 whatever they are."""
_TAB, _NEWLINE, _RETURN, _ZERO = 9, 10, 13, 48

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
            rest = b""
            while piece := following.result():
                done = min(file.tell(), total)
                following = pool.submit(stream.read, BLOCK_BYTES)
                cut = piece.rfind(b"\n") + 1
                if cut:
                    yield rest + piece[:cut]
                    rest = piece[cut:]
                else:
                    rest += piece
                if len(rest) > MAX_LINE_BYTES:
                    raise UserError(
                        f"{path}: found a line of more than {MAX_LINE_BYTES} bytes, expected "
                        "tab-separated text; supply the published file"
                    )
                progress(stage, done, total)
            if rest:
                yield rest + b"\n"
            progress(stage, total, total)
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"{path}: cannot be read to its end ({error}); it is missing, cut short or damaged: "
            "delete it and supply it again"
        ) from error


class FieldBlock:
    """Fields of one block of lines, located without a loop over lines."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, dtype=np.uint8)
        # Tab and newline are neighbours: one unsigned comparison finds both.
        self._separators = np.flatnonzero((self.bytes - np.uint8(_TAB)) <= 1)
        self._last = np.flatnonzero(self.bytes[self._separators] == _NEWLINE)
        self.n_fields = np.diff(self._last, prepend=-1)
        """(lines,) int64: number of tabs + 1."""

    @property
    def n_lines(self) -> int:
        """Number of lines in the block."""
        return len(self._last)

    def fields(self, lines: np.ndarray, n_fields: int) -> tuple[np.ndarray, np.ndarray]:
        """Return starts and ends, each (chosen lines, n_fields) int64 offsets into the block.

        ``lines`` is a mask (lines,) of lines that have exactly ``n_fields`` fields. A carriage
        return before the newline does not belong to the last field.
        """
        if lines.all():
            ends = self._separators.reshape(-1, n_fields).copy()
        else:
            ends = self._separators[self._last[lines][:, None] + np.arange(1 - n_fields, 1)]
        starts = np.empty_like(ends)
        starts[:, 1:] = ends[:, :-1] + 1
        line_ends = self._separators[self._last]
        line_starts = np.concatenate([[0], line_ends[:-1] + 1])
        starts[:, 0] = line_starts[lines]
        last = np.maximum(ends[:, -1] - 1, 0)
        ends[:, -1] -= (ends[:, -1] > starts[:, -1]) & (self.bytes[last] == _RETURN)
        return starts, ends

    def integers(self, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parse decimal digits: values (fields,) int64 and a mask (fields,) of the valid fields.

        Values are meaningless where the mask is False: no digit, another byte, or more than
        :data:`MAX_DIGITS` digits.
        """
        lengths = ends - starts
        valid = (lengths >= 1) & (lengths <= MAX_DIGITS)
        values = np.zeros(len(starts), dtype=np.int64)
        for offset in range(int(lengths[valid].max(initial=0))):
            inside = valid & (offset < lengths)
            digits = self.bytes[np.where(inside, starts + offset, 0)] - np.uint8(_ZERO)
            valid &= ~inside | (digits <= 9)
            values = np.where(inside, values * 10 + digits, values)
        return values, valid

    def equal_to(self, word: bytes, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return a mask, in the shape of ``starts``, of the fields that equal ``word``."""
        equal = ends - starts == len(word)
        at = starts[equal]
        same = np.ones(len(at), dtype=bool)
        for offset, byte in enumerate(word):
            same &= self.bytes[at + offset] == byte
        equal[equal] = same
        return equal

    def lines(self, numbers: np.ndarray) -> list[bytes]:
        """Return lines by their numbers in the block, without newlines."""
        line_ends = self._separators[self._last]
        line_starts = np.concatenate([[0], line_ends[:-1] + 1])
        return [
            self.data[start:end]
            for start, end in zip(
                line_starts[numbers].tolist(), line_ends[numbers].tolist(), strict=True
            )
        ]
