"""Trust on first use: a file without a published checksum is recorded and must stay the same.

The record ``<file>.receipt.json`` lies beside the file. It cannot reveal a wrong first download,
but it reveals every later change.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of, write_json

if TYPE_CHECKING:
    from private_graphs.datasets.sources import SourceFile

RECEIPT = ".receipt.json"
"""End of the name of a file's record, which lies beside it."""
_FIRST_BYTES = {".gz": b"\x1f\x8b", ".zip": b"PK\x03\x04", ".pt": b"PK\x03\x04"}
"""First bytes of some file formats, which an HTML login or error page does not have."""

_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*(<!--.*?-->\s*)?<(!doctype\s+html|html)\b", re.I | re.S)


def receipt_path(path: Path) -> Path:
    """Return the path of a file's record."""
    return path.with_name(path.name + RECEIPT)


def recorded(path: Path, source: SourceFile) -> str | None:
    """Return the sha256 recorded at the first use of a file; None before the first use.

    ``path`` is the present or future path of the file.

    Raises:
        UserError: the record cannot be read, or belongs to another file or URL.
    """
    receipt = receipt_path(path)
    if not receipt.exists():
        return None
    try:
        known = parsed_json(receipt.read_bytes())
        sha256, of = re.fullmatch("[0-9a-f]{64}", known["sha256"])[0], (known["file"], known["url"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{receipt}: cannot be read as the record of a first use ({error!r}); restore it, or "
            "remove it to record the file as it is now"
        ) from error
    if of != (source.file, source.url):
        raise UserError(
            f"{receipt}: found the record of {of[0]} from {of[1]}, expected one of {source.file} "
            f"from {source.url}; remove both the file and its record to fetch it anew"
        )
    return sha256


def way_out(path: Path, source: SourceFile) -> str:
    """Return the advice for a file whose sha256 differs from the recorded one."""
    if source.sha256 is not None:
        return ""
    return f", that of its first use; if the change is intended, remove {receipt_path(path)}"


def record(path: Path, source: SourceFile, origin: str) -> str:
    """Record a file at its first use; return its sha256."""
    sha256 = sha256_of(path)
    known = {"file": source.file, "url": source.url, "bytes": path.stat().st_size}
    write_json(receipt_path(path), known | {"sha256": sha256, "origin": origin})
    return sha256


def refuse_page(beginning: bytes, source: SourceFile) -> None:
    """Raise UserError for a file that begins as an HTML page: of a login, a proxy, an error."""
    if _PAGE.match(beginning) and not source.file.endswith((".html", ".htm")):
        raise UserError(
            f"{source.file}: is a web page (HTML), such as of a login or an error, expected the "
            "published file; open the address in a browser to see what it says, or give a mirror"
        )


def check_beginning(path: Path, source: SourceFile) -> None:
    """Raise UserError for an empty file, or one whose first bytes do not fit its format."""
    expected = _FIRST_BYTES.get(Path(source.file).suffix, b"")
    with open(path, "rb") as stream:
        beginning = stream.read(4)
    if not beginning or not beginning.startswith(expected):
        raise UserError(
            f"{source.file}: begins with {beginning!r}, expected {expected or 'any content'!r}; "
            "supply the published file"
        )
