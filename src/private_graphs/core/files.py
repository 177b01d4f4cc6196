"""Writing of files such that an interrupted run leaves nothing that looks finished."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from private_graphs.core.bounded_files import opened
from private_graphs.core.errors import UserError, naming

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOTS = (_PACKAGE.parents[1], _PACKAGE / "_resources")
_MOST_LEVELS = 2_000
"""Levels of nesting that the compiled reader of YAML survives, with room to spare."""


def resource(relative: str) -> Path:
    """Return the path of a file that ships with the project, such as ``data/sources.yaml``.

    The repository is searched first (source checkout, editable install), then the installed
    package.
    """
    for root in _ROOTS:
        if (root / relative).exists():
            return root / relative
    raise UserError(
        f"{relative} is missing from this installation (looked in {_ROOTS[0]} and {_ROOTS[1]}); "
        "reinstall the package or run from a checkout of the repository"
    )


def shipped(path: Path) -> Path:
    """Return ``path`` if it exists or nothing ships under that name, else the shipped file."""
    files = (root / path for root in _ROOTS if not path.exists() and (root / path).exists())
    return next(files, path)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder; rename it to ``path`` only on success."""
    target = Path(path)
    if not target.name or target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if target.parent == Path("/dev") or (target.exists() and not target.is_file()):
        # renaming over /dev/null, as root can, would take the device away from the whole machine
        raise OSError(errno.ENODEV, "a device or pipe, expected a file", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with naming(target):
            yield temporary
            os.replace(temporary, target)
    except OSError as error:
        if error.filename == str(temporary):  # which the user has never heard of
            error.filename = str(target)
        raise
    finally:
        with suppress(OSError):  # what went wrong before is said, and nothing of this file
            temporary.unlink()


def make_writable(folder: Path) -> None:
    """Make a folder where there is none; raise OSError where nothing can be written into it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        code = errno.EROFS if read_only else errno.EACCES
        raise OSError(code, os.strerror(code), str(folder))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` (UTF-8) atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sync(path: str | os.PathLike[str]) -> None:
    """Force a file, or the names in a folder, to the disk."""
    with naming(path):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def names_in(folder: str | os.PathLike[str]) -> list[str]:
    """Return the sorted names in a folder, if it exists; ``Path.glob`` hides that it is closed."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def parsed_yaml(text: str) -> Any:
    """Return what YAML says; the compiled reader, where there is one, takes a tenth of the time.

    That reader ends the interpreter on deep nesting. Each level takes a bracket, or a place in a
    line: a text with many goes to the other reader, which raises RecursionError.
    """
    import yaml

    longest = max(map(len, text.splitlines()), default=0)
    if max(longest, text.count("[") + text.count("{")) > _MOST_LEVELS:
        return yaml.safe_load(text)
    try:
        from yaml import CSafeLoader as SafeLoader
    except ImportError:
        from yaml import SafeLoader
    return yaml.load(text, Loader=SafeLoader)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write strict JSON (no NaN, no infinity) atomically, compressed if the name ends in .gz."""
    data = (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the sha256 of a file as 64 hexadecimal digits."""
    with opened(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
