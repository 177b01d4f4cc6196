"""Manifests of folders of results, whose sha256 reveal damaged files; the jobs that have one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from private_graphs.core.bounded_files import parsed_json, read_kept
from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of, write_json
from private_graphs.core.limits import MOST_TABLE_BYTES
from private_graphs.core.version import __version__

MANIFEST = "manifest.json"
SCHEMA = 1
"""Version of the format of result files, stated in manifests and recorded rows; the oldest files
state none. It goes up when files of an earlier version would be read wrongly."""
WITHOUT_DP = "without_dp"
"""Subfolder of a finished job for rows without DP, which reveal the data."""
_MANIFEST_NOTE = (
    "The hashes find a file that was damaged or exchanged by mistake. They are no signature: who "
    "changes a file can change them too."
)


def changed_file(folder: Path, needed: Iterable[str] = (), only: str | None = None) -> str | None:
    """Return the file of a folder that differs from its manifest; None without a manifest.

    ``needed`` files must be in the manifest; with ``only`` no other file is looked at. A forged
    file passes: who changes a file can change the manifest too. An OSError means no damage.
    """
    path = folder / MANIFEST
    if not os.path.lexists(path):
        return None
    try:
        manifest = parsed_json(read_kept(path))
        hashes, schema = dict(manifest["sha256"]), manifest.get("schema", SCHEMA)
    except (ValueError, KeyError, TypeError):
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
        if (size := os.path.getsize(folder / name)) > MOST_TABLE_BYTES:
            return f"{folder / name}: has {size:,} bytes, expected at most {MOST_TABLE_BYTES:,}"
        if sha256_of(folder / name) != expected:
            return f"{folder / name}: is not the file that was written ({MANIFEST})"
    return None


def other_schema(number: Any) -> str | None:
    """Return why results of the schema ``number`` cannot be read; None if they can."""
    if number == SCHEMA:
        return None
    return (
        f"found results of schema {number!r}, expected {SCHEMA}: another version of private-graphs "
        "wrote them; use that one"
    )


def check_manifest(folder: Path, needed: Iterable[str] = ()) -> None:
    """Raise UserError for a file of ``folder`` that differs from its ``manifest.json``."""
    if reason := changed_file(folder, needed):
        raise UserError(reason)


def write_manifest(
    folder: Path, files: Iterable[str], statement_ids: Iterable[str], code_fingerprint: str,
    date: str | None = None,
) -> None:  # fmt: skip
    """Write ``manifest.json``: the date, the sha256 of ``files``, code version and statements.

    ``date`` None: today.
    """
    manifest = {
        "note": _MANIFEST_NOTE,
        "schema": SCHEMA,
        "version": __version__,
        "date": date or datetime.now(UTC).date().isoformat(),
        "code_fingerprint": code_fingerprint,
        "statement_ids": sorted(statement_ids),
        "sha256": {name: sha256_of(folder / name) for name in files},
    }
    write_json(folder / MANIFEST, manifest)


def finished_folders(folder: Path) -> dict[str, Path]:
    """Return the folders of finished jobs below ``results/<scale>/jobs`` by identifier.

    The manifest is written last: a killed job has none.
    """
    folders = (path.parent for path in folder.rglob(MANIFEST) if path.parent.name != WITHOUT_DP)
    return {path.relative_to(folder).as_posix(): path for path in sorted(folders)}
