"""Provenance of a scale of results as an RO-Crate (version 1.1), written from its manifests.

``results/<scale>/ro-crate-metadata.json`` names every file with its sha256, the run that made it,
the version and code of the program, and the raw files behind it with address, sha256 and licence
(https://w3id.org/ro/crate/1.1; the shape of a run: Process Run Crate 0.5). All of it stands in the
manifests, which check the files by the same hashes. Raw files of a graph of a user are not named:
their plain sha256 would confirm a guess of what is private (docs/privacy.md §5).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.files import sha256_of, write_json
from private_graphs.core.manifest import MANIFEST, finished_folders
from private_graphs.core.version import __version__
from private_graphs.datasets.registry import declared_graphs
from private_graphs.running.jobs import JOB_FILE

CRATE = "ro-crate-metadata.json"
_PROGRAM = "#private-graphs"
_KINDS = {
    ".csv": "text/csv", ".json": "application/json", ".md": "text/markdown", ".png": "image/png",
    ".svg": "image/svg+xml", ".tex": "application/x-tex",
    ".parquet": "application/vnd.apache.parquet", ".safetensors": "application/octet-stream",
}  # fmt: skip
_KEEP = "a graph of your own. This folder holds scores and counts on private data: keep it."

Entity = dict[str, Any]


def write_crate(scale: Path) -> Path:
    """Write the crate of ``results/<scale>`` and return its path.

    ``exhibits/manifest.json`` and the finished jobs must be there. Raises OSError, KeyError or
    ValueError for a manifest that is no manifest; ``verify.require_whole`` finds these before.
    """
    folders = {"exhibits": scale / "exhibits"}
    folders |= {f"jobs/{name}": path for name, path in finished_folders(scale / "jobs").items()}
    manifests = {name: _json(path / MANIFEST) for name, path in folders.items()}
    datasets = [_json(path) for path in sorted((scale / "datasets").glob("*.json"))]
    private = declared_graphs(about["name"] for about in datasets)
    sources = {about["name"]: _raw_files(about) for about in datasets
               if about["name"] not in private}  # fmt: skip
    raw = {entity["@id"]: entity for entities in sources.values() for entity in entities}
    files = {entity["@id"]: entity for name, manifest in manifests.items()
             for entity in _files(name, manifest, folders[name])}  # fmt: skip
    runs = [_run(name, manifest, _objects(folders[name], sources, manifests))
            for name, manifest in manifests.items()]  # fmt: skip
    graph = [
        {
            "@id": CRATE,
            "@type": "CreativeWork",
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
            "about": {"@id": "./"},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"Results of private-graphs, scale {scale.name}",
            "description": " ".join(
                [
                    *(f"{name}: {_KEEP}" for name in private),
                    "Recomputed tables and figures with the privacy statement of each run.",
                ]
            ),
            "datePublished": max(str(manifest.get("date", "")) for manifest in manifests.values()),
            "license": "Apache-2.0 for what private-graphs wrote; raw files state their own",
            "conformsTo": {"@id": "https://w3id.org/ro/wfrun/process/0.5"},
            "hasPart": _references(files),
            "mentions": _references(run["@id"] for run in runs),
        },
        {
            "@id": _PROGRAM,
            "@type": "SoftwareApplication",
            "name": "private-graphs",
            "softwareVersion": __version__,
            "license": "Apache-2.0",
        },
    ]
    context = ["https://w3id.org/ro/crate/1.1/context", {"sha256": "https://schema.org/sha256"}]
    path = scale / CRATE
    write_json(
        path, {"@context": context, "@graph": [*graph, *raw.values(), *files.values(), *runs]}
    )
    return path


def _json(path: Path) -> Any:
    return parsed_json(path.read_text(encoding="utf-8"))


def _references(names: Any) -> list[dict[str, str]]:
    return [{"@id": name} for name in names]


def _raw_files(about: Mapping[str, Any]) -> list[Entity]:
    """Return the raw files of a dataset, of which ``about`` are the statistics."""
    return [
        {
            "@id": source["url"] or f"#raw/{source['file']}",
            "@type": "File",
            "name": source["file"],
            "sha256": source["sha256"],
            "license": about["licence"],
            "citation": about["citation"],
        }
        for source in about["sources"]
    ]


def _objects(
    folder: Path, sources: Mapping[str, list[Entity]], manifests: Mapping[str, Any]
) -> list[str]:
    """Return what a folder was made from: raw files of a job's dataset; for exhibits, all jobs."""
    if not (folder / JOB_FILE).is_file():
        return [f"{name}/{MANIFEST}" for name in manifests if name.startswith("jobs/")]
    return [entity["@id"] for entity in sources.get(_json(folder / JOB_FILE)["dataset"], ())]


def _files(name: str, manifest: Mapping[str, Any], folder: Path) -> Iterator[Entity]:
    """Yield the files of a folder of results, with the hashes that its manifest states."""
    hashes = {**manifest["sha256"], MANIFEST: sha256_of(folder / MANIFEST)}
    for file, value in hashes.items():
        yield {
            "@id": _place(name, file),
            "@type": "File",
            "encodingFormat": _KINDS.get(Path(file).suffix, "application/octet-stream"),
            "sha256": value,
        }


def _place(name: str, file: str) -> str:
    """Return the path below the scale of a file: exhibits vouch for rows above their folder."""
    return file.removeprefix("../") if file.startswith("../") else f"{name}/{file}"


def _run(name: str, manifest: Mapping[str, Any], objects: list[str]) -> Entity:
    """Return the run that made a folder of results."""
    results = [_place(name, file) for file in (*manifest["sha256"], MANIFEST)]
    entity = {
        "@id": f"#run/{name}",
        "@type": "CreateAction",
        "name": name,
        "instrument": {"@id": _PROGRAM},
        "result": _references(results),
        "object": _references(objects),
    }
    if "code_fingerprint" in manifest:
        entity["description"] = f"code {manifest['code_fingerprint']}"
    if "date" in manifest:
        entity["endTime"] = manifest["date"]
    return entity


def link_files(source: Path, target: Path, suffixes: Collection[str]) -> None:
    """Link the files below ``source`` that have one of ``suffixes`` into the folder ``target``.

    What was in ``target`` before goes. Both names then hold one copy of the bytes; where the disk
    knows no links, files are copied.
    """
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted(file for file in source.rglob("*") if file.suffix in suffixes):
        link = target / path.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, link)
        except OSError:
            shutil.copyfile(path, link)
