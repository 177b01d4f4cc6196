"""Errors that a user can cause and fix."""

from __future__ import annotations

import difflib
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress


class UserError(Exception):
    """Wrong data, file or state; the message says what was found, what was expected and what to do.

    The command line exits with 1.
    """


class UsageError(UserError):
    """A wrong argument or configuration value. The command line exits with 2."""


_SYSTEM_CODE = re.compile(r"[([](?:os error|errno) (\d+)[])]", re.IGNORECASE)
"""Number of a system error in the text of a library that wraps it, such as safetensors."""
_READ_OR_WRITE = "read or written", "check path, permissions and disk, or choose another one"
_LOCK = "locked", (
    "its file system or kernel offers no locks (some NFS and Lustre mounts): choose a folder on a "
    "local disk with --data and --out, or have it mounted with locks"
)  # fmt: skip
_FULL = "written", "make room on its disk (df, df -i), or choose a folder on another one"
_CLOSED = "read or written", "change its permissions, or choose a folder of your own"
_OPEN = "opened", "raise the limit on open files (ulimit -n), or end other programs"
_OTHER_KIND = "used", ("a file or broken link stands in the place of a folder, or a folder in "
                       "that of a file: move it away")  # fmt: skip
_REMEDIES = {
    errno.ENOSPC: _FULL, errno.EDQUOT: _FULL,
    errno.EFBIG: ("written", "its file system, or a limit of this shell (ulimit -f), allows no "
                  "file of this size: raise the limit, or choose a folder on another disk"),
    errno.EMFILE: _OPEN, errno.ENFILE: _OPEN,
    errno.EISDIR: _OTHER_KIND, errno.ENOTDIR: _OTHER_KIND, errno.EEXIST: _OTHER_KIND,
    errno.ENOLCK: _LOCK, errno.ENOSYS: _LOCK, errno.EOPNOTSUPP: _LOCK,
    errno.ENOMEM: ("read into memory", "end other programs, raise the limit on memory (ulimit "
                   "-v), or take a machine with more"),
    errno.EIO: ("read or written", "its disk or network drive reports a fault: copy what is there "
                "to another disk, and work there"),
    errno.EACCES: _CLOSED, errno.EPERM: _CLOSED,
    errno.EROFS: ("written", "its disk is mounted read-only: choose a folder on another one"),
    errno.ENOENT: ("found", "check the path"), errno.ENODEV: ("written", "name a file"),
    errno.ENAMETOOLONG: ("used", "choose a shorter name"),
    errno.ELOOP: ("found", "its links lead in a circle: remove them"),
}  # fmt: skip
"""Number of a system error -> (operation, remedy)."""
_NO_MEMORY = ("cannot allocate memory", "failed to map segment", "bad_alloc")
"""Parts of messages of libraries that lack memory."""


def system_code(error: BaseException) -> int | None:
    """Return the number of the system error that an error of a library is or wraps, if any."""
    if isinstance(error, UserError):
        return None
    if isinstance(error, OSError):
        return error.errno
    if match := _SYSTEM_CODE.search(str(error)):
        return int(match[1])
    return None if error.__cause__ is None else system_code(error.__cause__)


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error, of a library too or within CPython, means that memory is missing."""
    wrapped = isinstance(error, ImportError | RuntimeError | OSError)
    return isinstance(error, MemoryError | SystemError) or system_code(error) == errno.ENOMEM or (
        wrapped and any(phrase in str(error).lower() for phrase in _NO_MEMORY)
    )  # fmt: skip


def require_system(error: BaseException, path: str | os.PathLike[str]) -> None:
    """Raise OSError if a library's ``error`` is the machine's: the file ``path`` may be whole."""
    code = errno.ENOMEM if lacks_memory(error) else system_code(error)
    if code in (errno.ENOMEM, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE, errno.ENFILE):
        raise OSError(code, os.strerror(code), getattr(error, "filename", None) or path) from error


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a system error without a file, or a library's that wraps one, into one about a file."""
    try:
        yield
    except Exception as error:
        code = system_code(error)
        if not code or (isinstance(error, OSError) and error.filename is not None):
            raise
        raise OSError(code, os.strerror(code), os.fspath(path)) from error


def system_error_text(error: BaseException, path: str | os.PathLike[str] = "") -> str:
    """Return file, operation, reason and remedy of a system error, or of one that wraps it."""
    code = system_code(error) or 0
    operation, remedy = _REMEDIES.get(code, _READ_OR_WRITE)
    file = getattr(error, "filename", None) or path or "a file that the system does not name"
    reason = getattr(error, "strerror", None) or (os.strerror(code) if code else error)
    return f"{file}: cannot be {operation} ({reason}); {remedy}"


def why_no_text(value: str) -> str | None:
    """Return why a word of the command line cannot be stored as text, and the remedy; None if it
    can."""
    with suppress(UnicodeError):
        value.encode()
        return None
    try:
        os.fsencode(value).decode()
    except UnicodeError:
        return "has bytes that are not UTF-8; write it in UTF-8"
    return (
        f"is UTF-8, and the locale of this shell reads {sys.getfilesystemencoding()} alone; set "
        "PYTHONUTF8=1 or a locale such as LC_ALL=C.UTF-8"
    )


def require_text(**options: str | None) -> None:
    """Raise UsageError for the value of an option that is no text: it would fail to be written, and
    no id or column could equal it."""
    for name, value in options.items():
        if value is not None and (reason := why_no_text(value)):
            raise UsageError(f"--{name}: found {value!r}, which {reason}")


def refuse_idle(reason: str, **options: object) -> None:
    """Raise UsageError for options that are given, and have no effect for this reason."""
    if idle := [f"--{name.replace('_', '-')}" for name, value in options.items() if value]:
        raise UsageError(f"{listed(idle)}: has no effect: {reason}; leave it out")


@contextmanager
def from_extra(extra: str) -> Iterator[None]:
    """Turn an ImportError into a UserError that says how to install the optional part ``extra``."""
    try:
        yield
    except ImportError as error:
        if lacks_memory(error):
            raise MemoryError(str(error)) from error
        raise UserError(
            f"a library of the optional part {extra!r} cannot be imported ({error}); install it: "
            f'pip install ".[{extra}]" in a checkout, or pip install "WHEEL[{extra}]" with its file'
        ) from error


def counted(number: int, noun: str, rest: str = "") -> str:
    """Return ``1 job``, ``2,000 jobs``, ``2 batches``, ``3 links to unknown ids``."""
    plural = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{plural}{' ' if rest else ''}{rest}"


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names between commas; of more than ``most`` the first, and how many follow."""
    known = list(names)
    suffix = f" and {len(known) - most:,} more" if len(known) > most else ""
    return ", ".join(known[:most]) + suffix


def suggest(name: str, choices: Iterable[str]) -> str:
    """Return ``"; did you mean 'cora'?"`` for the nearest choice, or ``""`` if none is near."""
    names = [str(choice) for choice in choices]
    begun = sorted(choice for choice in names if choice.startswith(f"{name}-"))
    matches = difflib.get_close_matches(str(name), names, n=1, cutoff=0.65) or begun
    return f"; did you mean {matches[0]!r}?" if matches else ""
