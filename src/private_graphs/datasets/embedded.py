"""Embedded datasets: raw files of synthetic data, which ship compressed in ``data/embedded``.

``examples/embedded`` draws them; ``SHA256SUMS`` beside the files has the sha256 of each raw file.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path

from private_graphs.core.errors import UserError
from private_graphs.core.files import atomic_path, resource


@cache
def checksums() -> dict[str, str]:
    """Return the sha256 of every embedded raw file by its path below a raw folder."""
    lines = resource("data/embedded/SHA256SUMS").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def unpack(folder: str, raw_dir: Path) -> list[Path]:
    """Unpack the embedded files of ``folder`` below a raw folder; return their paths.

    A file that has its sha256 already is not touched. Raises UserError for a packed file that has
    another content than is listed.
    """
    paths = []
    for name, digest in checksums().items():
        if not name.startswith(f"{folder}/"):
            continue
        path = raw_dir / name
        paths.append(path)
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
            continue
        packed = resource(f"data/embedded/{name}.gz")
        content = gzip.decompress(packed.read_bytes())
        if hashlib.sha256(content).hexdigest() != digest:
            raise UserError(f"{packed}: another content than data/embedded/SHA256SUMS lists; "
                            "reinstall the package or restore the file")  # fmt: skip
        with atomic_path(path) as temporary:
            temporary.write_bytes(content)
    return paths
