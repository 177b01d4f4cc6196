"""Checks that the files of a result are unchanged: by content, never by date.

The hashes in a manifest reveal files that were truncated, edited or exchanged; rows are compared
with their statements, and scores with the predictions that they were computed from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of, write_json, write_text
from private_graphs.core.manifest import MANIFEST, changed_file
from private_graphs.running.jobs import JOB_FILE, Job, read_job

MADE_FROM = "made_from"
"""Manifest key: other manifests or receipts -> their content hash when the folder was made.

Null in that of a job with fresh noise: a plain hash of private data confirms a guess of them
(docs/privacy.md §5). What such a job was made from lies with the data, in ``SOURCES``."""
CODE = "code"
"""In the manifest of a job: the hash of the code that made it."""
SOURCES = Path("data/processed/.made_from")
AGAIN = "What was damaged is removed: the same command makes it anew."


def stale_input(folder: Path) -> str | None:
    """Return a message about an input of a folder that has changed since, or None.

    Missing inputs do not count: they are made again before anything reads them.
    """
    try:
        made_from = parsed_json((folder / MANIFEST).read_text(encoding="utf-8"))[MADE_FROM]
        if made_from is None:
            source = _sources(folder)
            made_from = parsed_json(source.read_text(encoding="utf-8")) if source.is_file() else {}
        for path, digest in made_from.items():
            if Path(path).is_file() and content_digest(path) != digest:
                return f"{folder}: was made of other contents of {path}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"{folder / MANIFEST}: does not say what the folder was made from"
    return None


def content_digest(path: str | Path) -> str | None:
    """Return one hash of all files that a manifest or a receipt names; None if it is damaged."""
    try:
        record = parsed_json(Path(path).read_text(encoding="utf-8"))
        hashes = record.get("sha256") or {file["file"]: file["sha256"] for file in record["files"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def write_hashes(folder: Path, files: Iterable[str], made_from: Iterable[str]) -> None:
    """Write a manifest of ``files`` of a folder and of the manifests that it was ``made_from``."""
    write_json(folder / MANIFEST, {"sha256": {}})
    vouch(folder, sorted(files), made_from)


def write_build(folder: Path, made_from: Iterable[str]) -> None:
    """Write the manifest of a built dataset: its arrays, and the JSON files that describe them."""
    arrays = (path.name for path in folder.glob("*.safetensors"))
    write_hashes(folder, [*arrays, "dataset.json", "statistics.json"], made_from)


def is_current(folder: Path, job: Job, code: str) -> bool:
    """Whether a folder holds a finished job as it is planned now, whole, made by the same code of
    the same contents."""
    try:
        made_by = parsed_json((folder / MANIFEST).read_text(encoding="utf-8"))[CODE]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return (
        made_by == code
        and read_job(folder / JOB_FILE) == job
        and changed_file(folder) is None
        and stale_input(folder) is None
    )


def discarded(folder: Path) -> str | None:
    """Return which file of a folder is not the one that was written, if any.

    Its manifest is removed, so that the next run makes the folder anew.
    """
    reason = changed_file(folder)
    if reason is not None:
        (folder / MANIFEST).unlink()
    return reason


def require_whole(*folders: Path) -> None:
    """Raise UserError where a file is not the one that was written, or a manifest is gone."""
    reasons = [
        discarded(folder) if (folder / MANIFEST).is_file() else f"{folder / MANIFEST}: is gone"
        for folder in folders
    ]
    if reasons := list(filter(None, reasons)):
        raise UserError("\n".join(reasons) + f"\n{AGAIN}")


def require_raw(raw: Path, receipts: Iterable[str]) -> None:
    """Raise UserError where a raw file is not the one that a receipt names; the receipt is removed,
    so that the next run supplies the file again."""
    for receipt in map(Path, receipts):
        for record in parsed_json(receipt.read_text(encoding="utf-8"))["files"]:
            path = raw / record["file"]
            status = path.stat() if path.is_file() else None
            known = status and (status.st_size, status.st_mtime_ns)
            if status is None or (
                known != (record["bytes"], record["mtime_ns"])
                and sha256_of(path) != record["sha256"]
            ):
                receipt.unlink()
                raise UserError(f"{path}: is not the file that was checked before\n{AGAIN}")


def finish(
    folder: Path, job: Job, made_from: Iterable[str], *, code: str = "", secret: bool = False
) -> None:
    """Put a job beside its saved files, and what it was made from into their manifest.

    ``code`` is the hash of the code that made it, if any. ``secret``: its noise is fresh and its
    data may be private, so that the manifest says nothing of them; the hashes are kept with the
    data.
    """
    write_text(folder / JOB_FILE, job.model_dump_json(indent=2) + "\n")
    vouch(folder, [JOB_FILE], None if secret else made_from, code)
    if secret:
        write_json(_sources(folder), {path: content_digest(path) for path in made_from})


def _sources(folder: Path) -> Path:
    """Return the path of the recorded inputs of a job with fresh noise."""
    return SOURCES / f"{hashlib.sha256(folder.as_posix().encode()).hexdigest()[:16]}.json"


def vouch(
    folder: Path, files: Iterable[str], made_from: Iterable[str] | None, code: str = ""
) -> None:
    """Add to the manifest of a folder the hashes of ``files`` and what the folder was made from.

    ``made_from`` None: the manifest does not mention the inputs.
    """
    manifest = parsed_json((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["sha256"] |= {name: sha256_of(folder / name) for name in files}
    manifest[MADE_FROM] = (
        None if made_from is None else {path: content_digest(path) for path in made_from}
    )
    if code:
        manifest[CODE] = code
    write_json(folder / MANIFEST, manifest)
