"""Reading of files from others, up to a largest size in bytes and depth of nesting."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from private_graphs.core.errors import UsageError, naming
from private_graphs.core.limits import MOST_DOCUMENT_BYTES, MOST_VALUES


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a named pipe that nobody writes into is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_bounded(
    path: str | os.PathLike[str], most: int = MOST_DOCUMENT_BYTES,
    remedy: str = "give a smaller file",
) -> bytes:  # fmt: skip
    """Return the content of a file; UsageError for more than ``most`` bytes, before they are read.

    A device or pipe, whose size nobody knows, may hold at most ``MOST_DOCUMENT_BYTES``.
    """
    if "\0" in os.fspath(path):  # a damaged declaration may say so; open has no OSError for it
        raise UsageError(f"{os.fspath(path)!r}: has a zero byte; expected the name of a file")
    with naming(path), open(path, "rb", opener=_open_at_once) as stream:
        os.set_blocking(stream.fileno(), True)
        status = os.fstat(stream.fileno())
        if stat.S_ISREG(status.st_mode):
            size, data = status.st_size, stream.read() if status.st_size <= most else b""
        else:
            most = min(most, MOST_DOCUMENT_BYTES)
            data = stream.read(most + 1)
            size = len(data)
            if not size and stat.S_ISFIFO(status.st_mode):
                raise UsageError(
                    f"{os.fspath(path)}: is a pipe that nobody writes into; expected a file"
                )
    if size > most:
        raise UsageError(
            f"{os.fspath(path)}: has {'more than ' if data else ''}{size - bool(data):,} bytes, "
            f"expected at most {most:,}; {remedy}"
        )
    return data


def read_kept(path: str | os.PathLike[str], most: int = MOST_DOCUMENT_BYTES) -> bytes:
    """As ``read_bounded``, of a file that a command has written: the remedy is a copy."""
    return read_bounded(path, most, "restore it from a copy")


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[io.BufferedReader]:
    """Open a file to read it; UsageError for a pipe or device, which may never end."""
    with naming(path), open(path, "rb", opener=_open_at_once) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise UsageError(f"{os.fspath(path)}: is a pipe or device, expected a file")
        yield stream


def unpacked_gzip(data: bytes, most: int = MOST_DOCUMENT_BYTES) -> bytes:
    """Return gzip ``data`` decompressed; ValueError for more than ``most`` bytes."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"unpacks to more than the {most:,} bytes that are accepted")
    return content


def parsed_json(content: bytes | str, most: int = MOST_VALUES) -> Any:
    """Return the value of a JSON text; ValueError where it is none, nested too deeply, has a name
    twice, or more than ``most`` values, each of which takes far more memory than its text."""
    if (content.count(b",") if isinstance(content, bytes) else content.count(",")) > most:
        raise ValueError(f"has more than {most:,} values")
    try:
        return json.loads(content, object_pairs_hook=unique_names)
    except RecursionError as error:  # of no kind that readers of damaged files expect
        raise ValueError("nested too deeply") from error


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; ValueError for a name that stands twice."""
    if len(row := dict(pairs)) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {twice[:40]!r} stands twice")
    return row
