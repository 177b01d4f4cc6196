"""Writing files so that an interrupted run leaves nothing that looks finished."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from private_graphs.errors import UserError

MANIFEST = "manifest.json"
WITHOUT_DP = "without_dp"
"""Folder in that of a finished cell for the rows that reveal the data, where others do not."""

_PACKAGE = Path(__file__).resolve().parent
_ROOTS = (_PACKAGE.parents[1], _PACKAGE / "_resources")


def resource(relative: str) -> Path:
    """Return the path of a file that ships with the project, such as ``data/sources.yaml``.

    Looks in the repository (source checkout, editable install), then in the installed package.
    """
    for root in _ROOTS:
        if (root / relative).exists():
            return root / relative
    raise UserError(
        f"{relative} is missing from this installation (looked in {_ROOTS[0]} and {_ROOTS[1]}); "
        "reinstall the package or run from a checkout of the repository"
    )


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


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` (UTF-8) atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write strict JSON (no NaN, no infinity) atomically."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def check_manifest(folder: str | os.PathLike[str]) -> None:
    """Raise UserError where a file of ``folder`` is not what its ``manifest.json`` says.

    A folder without one passes, and so does a forged one: who changes a file can change both.
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        return
    try:
        files = dict(json.loads(path.read_text(encoding="utf-8"))["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: not a readable manifest ({error!r}); expected an object with sha256: take "
            "the folder anew from who made it"
        ) from error
    for name, expected in files.items():
        file = path.parent / name
        found = sha256_of(file) if file.is_file() else "no such file"
        if found != expected:
            raise UserError(
                f"{file}: sha256 is {found}, {MANIFEST} says {expected}: the file was changed "
                "or belongs to another run; take the folder anew from who made it"
            )


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the sha256 of a file as 64 hexadecimal digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
