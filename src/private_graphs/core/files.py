"""Writing of files such that an interrupted run leaves nothing that looks finished."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from private_graphs.core.errors import UsageError, UserError
from private_graphs.core.limits import MOST_DOCUMENT_BYTES

MANIFEST = "manifest.json"
SCHEMA = 1
"""Version of the files of results, as manifests and recorded rows say it; earlier ones say none.

It goes up when files of an earlier version would be read wrongly."""
WITHOUT_DP = "without_dp"
"""Subfolder of a finished job for rows without DP, which reveal the data."""

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOTS = (_PACKAGE.parents[1], _PACKAGE / "_resources")


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
    """Return ``path``, or where nothing is there what ships with the project under that name."""
    found = (root / path for root in _ROOTS if not path.exists() and (root / path).exists())
    return next(found, path)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder; rename it to ``path`` only on success."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def private_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path as ``atomic_path`` does, for a file that its owner alone may read."""
    with atomic_path(path) as temporary:
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o600))
        yield temporary


@contextmanager
def private_folder(folder: Path) -> Iterator[None]:
    """Make ``folder`` (0700), hidden from git; restrict files made in the block to their owner.

    Folders and files have these modes (0700 and 0600) from their creation on, so no moment remains
    in which others can read them.
    """
    before = os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            folder.chmod(0o700)  # an earlier run may have made it
        except OSError as error:
            raise UserError(
                f"{folder}: cannot be closed to others ({error.strerror or error}); expected a "
                "folder of your own: choose another --out"
            ) from error
        hide_from_git(folder)
        yield
    finally:
        os.umask(before)


def hide_from_git(folder: Path) -> None:
    """Keep a folder with private files out of every repository that it lies in."""
    if not (path := folder / ".gitignore").exists():
        write_text(path, "*\n")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` (UTF-8) atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write strict JSON (no NaN, no infinity) atomically, compressed if the name ends in .gz."""
    data = (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)


def read_bounded(path: str | os.PathLike[str], most: int = MOST_DOCUMENT_BYTES) -> bytes:
    """Return the content of a file; UsageError for more than ``most`` bytes, before they are read.

    A device or pipe, whose size nobody knows, may hold at most ``MOST_DOCUMENT_BYTES``.
    """
    with open(path, "rb") as stream:
        status = os.fstat(stream.fileno())
        if stat.S_ISREG(status.st_mode):
            size, data = status.st_size, stream.read() if status.st_size <= most else b""
        else:
            most = min(most, MOST_DOCUMENT_BYTES)
            data = stream.read(most + 1)
            size = len(data)
    if size > most:
        raise UsageError(
            f"{os.fspath(path)}: has {'more than ' if data else ''}{size - bool(data):,} bytes, "
            f"expected at most {most:,}; give a smaller file"
        )
    return data


def unpacked_gzip(data: bytes, most: int = MOST_DOCUMENT_BYTES) -> bytes:
    """Return what gzip packed; ValueError for more than ``most`` bytes."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"unpacks to more than the {most:,} bytes that are accepted")
    return content


def changed_file(folder: Path, needed: Iterable[str] = (), only: str | None = None) -> str | None:
    """Return the file of a folder that differs from its manifest; None without a manifest.

    ``needed`` files must be in the manifest; with ``only`` no other file is looked at. A forged
    file passes: whoever changes a file can change the manifest too.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        hashes, schema = dict(manifest["sha256"]), manifest.get("schema", SCHEMA)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return f"{path}: not a manifest"
    if reason := other_schema(schema):
        return f"{path}: {reason}"
    if silent := [name for name in needed if name not in hashes]:
        return f"{path}: says nothing of {', '.join(silent)}"
    for name, expected in hashes.items():
        if only not in (None, name):
            continue
        if not os.path.isfile(folder / name):  # False for a name that no file can have
            return f"{folder / name}: is gone"
        if sha256_of(folder / name) != expected:
            return f"{folder / name}: is not the file that was written ({MANIFEST})"
    return None


def other_schema(found: Any) -> str | None:
    """Say that results have another version than the present code reads, if they do."""
    if found == SCHEMA:
        return None
    return (
        f"found results of schema {found!r}, expected {SCHEMA}: another version of private-graphs "
        "wrote them; use that one"
    )


def check_manifest(folder: Path, needed: Iterable[str] = ()) -> None:
    """Raise UserError for a file of ``folder`` that differs from its ``manifest.json``."""
    if reason := changed_file(folder, needed):
        raise UserError(reason)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the sha256 of a file as 64 hexadecimal digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
