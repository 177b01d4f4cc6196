"""Files and folders that their owner alone may read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from private_graphs.core.errors import UserError
from private_graphs.core.files import atomic_path, sync, write_text


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


def make_folder(folder: Path) -> None:
    """Make a folder that its owner alone may read, and force its name to the disk."""
    if not folder.is_dir():
        if folder.is_symlink():
            target = os.readlink(folder)
            raise UserError(f"{folder}: is a link to {target}, which is missing; connect its disk")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        sync(folder.parent)


def hide_from_git(folder: Path) -> None:
    """Keep a folder with private files out of every repository that it lies in."""
    if not (path := folder / ".gitignore").exists():
        write_text(path, "*\n")
