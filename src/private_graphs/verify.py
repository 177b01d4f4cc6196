"""Checks that the files of a result are unchanged: by content, never by date.

The hashes in a manifest reveal files that were truncated, edited or exchanged; rows are compared
with their statements, and scores with the predictions that they were computed from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from private_graphs.files import MANIFEST, sha256_of, write_json, write_text
from private_graphs.jobs import JOB_FILE, Job

MADE_FROM = "made_from"
"""Manifest key: other manifests or receipts -> their content hash when the folder was made.

The value is null for a job with fresh noise: a plain hash of private data confirms a guess of them
(docs/privacy.md §5). The inputs of such a job are recorded with the data, in ``SOURCES``.
"""
SOURCES = Path("data/processed/.made_from")


def stale_input(folder: Path) -> str | None:
    """Return a message about an input of a folder that has changed since, or None.

    Missing inputs do not count: they are made again before anything reads them.
    """
    try:
        made_from = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))[MADE_FROM]
        if made_from is None:
            beside = _sources(folder)
            made_from = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
        for path, digest in made_from.items():
            if Path(path).is_file() and content_digest(path) != digest:
                return f"{folder}: was made of other contents of {path}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"{folder / MANIFEST}: does not say what the folder was made from"
    return None


def content_digest(path: str | Path) -> str | None:
    """Return one hash of all files that a manifest or a receipt names; None if it is damaged."""
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        hashes = told.get("sha256") or {file["file"]: file["sha256"] for file in told["files"]}
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


def finish(folder: Path, job: Job, made_from: Iterable[str], *, secret: bool = False) -> None:
    """Write a job next to its saved files, and its inputs into their manifest.

    ``secret``: the noise is fresh and the data may be private, so the manifest does not mention the
    inputs; their hashes are kept with the data.
    """
    write_text(folder / JOB_FILE, job.model_dump_json(indent=2) + "\n")
    vouch(folder, [JOB_FILE], None if secret else made_from)
    if secret:
        write_json(_sources(folder), {path: content_digest(path) for path in made_from})


def _sources(folder: Path) -> Path:
    """Return the path of the recorded inputs of a job with fresh noise."""
    return SOURCES / f"{hashlib.sha256(folder.as_posix().encode()).hexdigest()[:16]}.json"


def vouch(folder: Path, files: Iterable[str], made_from: Iterable[str] | None) -> None:
    """Add to the manifest of a folder the hashes of ``files`` and of its inputs.

    ``made_from`` None: the manifest does not mention the inputs.
    """
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["sha256"] |= {name: sha256_of(folder / name) for name in files}
    manifest[MADE_FROM] = (
        None if made_from is None else {path: content_digest(path) for path in made_from}
    )
    write_json(folder / MANIFEST, manifest)
