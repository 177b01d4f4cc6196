"""Members of untrusted zip archives: found by name, bounded in size."""

from __future__ import annotations

import contextlib
import errno
import zipfile
from collections.abc import Iterator
from pathlib import Path

from private_graphs.core.errors import UserError
from private_graphs.datasets.arrays import require

MAX_MEMBER_BYTES = 2**32
"""Largest archive member, in bytes, that is unpacked or read."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; UserError if it is no archive or cannot be read."""
    try:
        archive = zipfile.ZipFile(path)
    except Exception as error:  # malformed names and versions raise errors of many kinds
        raise UserError(
            f"{path}: cannot be opened as a zip archive ({error}); supply the original file"
        ) from error
    with archive:
        yield archive


def member(archive: zipfile.ZipFile, name: str, where: str) -> zipfile.ZipInfo:
    """Return the only member with this name, bounded in size; UserError if there is none."""
    members = [member for member in archive.infolist() if member.filename == name]
    names = ", ".join(sorted(set(archive.namelist()))[:10]) or "nothing"
    require(len(members) == 1, where, f"{name} {len(members)} times among {names}", "it once")
    size = members[0].file_size
    fits = size <= MAX_MEMBER_BYTES
    require(fits, f"{where}: {name}", f"{size} bytes", f"at most {MAX_MEMBER_BYTES}")
    return members[0]


@contextlib.contextmanager
def readable(where: str) -> Iterator[None]:
    """Turn any error that a malformed archive causes into a UserError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # zlib, zip and header errors have no common base
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise UserError(f"{where}: cannot be read ({error}); supply the original file") from error
