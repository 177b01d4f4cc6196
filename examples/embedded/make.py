"""Draws the embedded datasets and writes them to ``data/embedded``, compressed, with their sha256.

    python examples/embedded/make.py [FOLDER]

The same bytes come out on every machine; only the compressed ones depend on the version of zlib.
"""

from __future__ import annotations

import gzip
import hashlib
import sys
from pathlib import Path

from campus import campus
from citations import MODELS, npz_bytes
from digits import digits
from planetoid import planetoid_bytes


def raw_files() -> dict[str, bytes]:
    """Return the content of every raw file by its path below a raw folder."""
    folders = {
        "planetoid": planetoid_bytes(MODELS["synthetic-planetoid"]),
        "citation-npz": npz_bytes(MODELS["synthetic-npz"]),
        "synthetic-campus": {"Synthetic1.mat": campus()},
        "digits": digits(20224, 1_000),
        "digits-students": digits(2021, 2_000),
    }
    return {f"{folder}/{name}": data for folder, files in folders.items()
            for name, data in files.items()}  # fmt: skip


def main(target: Path) -> None:
    files = raw_files()
    for name, data in files.items():
        path = target / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data, 9, mtime=0))
    sums = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    (target / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main(Path(*sys.argv[1:] or [Path(__file__).parents[2] / "data" / "embedded"]))
