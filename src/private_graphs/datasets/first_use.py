"""Trust on first use: a file without a published checksum is recorded and must stay the same.

The record lies beside the file as ``<file>.receipt.json``. Whoever could change the first download
is not found out by it; whatever changes afterwards is.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from private_graphs.errors import UserError
from private_graphs.files import sha256_of, write_text

BY_HAND = "found in its place"
"""Origin of a file that nobody fetched."""

_FIRST_BYTES = {".gz": b"\x1f\x8b", ".zip": b"PK\x03\x04", ".pt": b"PK\x03\x04"}
"""How files begin that a page of a login or of an error would otherwise be taken for."""


class Receipt(BaseModel):
    """What a file was at its first use."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    file: str
    """Path below the raw folder."""
    url: str | None
    """Public URL of the list of sources at that time; None: none is known."""
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    origin: str
    """Where it came from: a path in a mirror, a URL, or :data:`BY_HAND`."""


def receipt_path(path: Path) -> Path:
    """Return where the record of a file lies."""
    return path.with_name(path.name + ".receipt.json")


def confirm(
    target: Path, file: str, url: str | None, origin: str = BY_HAND, content: Path | None = None
) -> Receipt:
    """Record a file at its first use; at every later one compare it with the record.

    Of several processes that use a file first at the same time, one makes the record and the
    others are compared with it.

    Args:
        target: where the file has, or will have, its place; the record lies beside it.
        file: its path below the raw folder. url: its public URL. origin: where it comes from.
        content: where it lies now, if not yet at ``target``.

    Returns:
        The record, which the file matches.

    Raises:
        UserError: the file is empty or plainly no such file, differs from the record, or the record
            cannot be read or belongs to another URL.
    """
    content = content or target
    place = receipt_path(target)
    _plausible(content, file, origin)
    found = Receipt(
        file=file,
        url=url,
        bytes=content.stat().st_size,
        sha256=sha256_of(content),
        origin=origin,
    )
    if not place.exists():
        _claim(place, found)
    known = _read(place)
    if (known.file, known.url) != (file, url):
        raise UserError(
            f"{file}: {place} is the record of {known.file} from {known.url}, expected one of "
            f"{file} from {url}; remove both the file and its record to fetch it anew"
        )
    if (known.bytes, known.sha256) != (found.bytes, found.sha256):
        raise UserError(
            f"{file}: not what it was at its first use: found {found.bytes} bytes with sha256 "
            f"{found.sha256} ({origin}), recorded {known.bytes} bytes with sha256 {known.sha256} "
            f"({known.origin}); supply the recorded content, or, if the change is intended, "
            f"remove {place} and run again"
        )
    return known


def _plausible(content: Path, file: str, origin: str) -> None:
    """Refuse to trust what cannot be the file."""
    with open(content, "rb") as stream:
        beginning = stream.read(4)
    expected = _FIRST_BYTES.get(Path(file).suffix, b"")
    if not beginning or not beginning.startswith(expected):
        raise UserError(
            f"{file}: begins with {beginning!r}, expected "
            f"{'the beginning of a ' + Path(file).suffix + ' file' if expected else 'any content'} "
            f"({origin}); supply the published file"
        )


def _claim(place: Path, receipt: Receipt) -> None:
    """Write a record unless there is one; it appears whole, and the first stays."""
    text = receipt.model_dump_json(indent=2) + "\n"
    staged = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}.partial")
    write_text(staged, text)
    try:
        os.link(staged, place)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        write_text(place, text)
    finally:
        staged.unlink(missing_ok=True)


def _read(place: Path) -> Receipt:
    try:
        return Receipt.model_validate_json(place.read_bytes())
    except (OSError, ValidationError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise UserError(
            f"{place}: cannot be read as the record of a first use ({reason}); restore it, or "
            "remove it to record the file as it is now"
        ) from error
