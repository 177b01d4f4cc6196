"""What a finished job holds, and its files."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.numpy
from safetensors import SafetensorError

from private_graphs import __version__
from private_graphs.core.errors import UserError
from private_graphs.core.files import (
    MANIFEST,
    SCHEMA,
    WITHOUT_DP,
    atomic_path,
    sha256_of,
    write_json,
)
from private_graphs.privacy.assumptions import NoiseSource

ARTIFACTS = "artifacts.safetensors"
CURVE = "curve/"
"""Begin of the names of learning curves among the artifacts of a run."""
_MANIFEST_NOTE = (
    "The hashes find a file that was damaged or exchanged by mistake. They are no signature: who "
    "changes a file can change them too."
)


def new_secret(noise_source: NoiseSource) -> bytes | None:
    """Return 32 bytes of the operating system that nobody keeps; None for a seeded run."""
    return os.urandom(32) if noise_source == "os_entropy" else None


def told_fingerprint(fingerprint: str, secret: bytes | None) -> str:
    """Return what results tell of a dataset's hash: 64 hexadecimal digits (docs/privacy.md §5).

    A plain hash confirms a guess of all the data, so that one label can be found out by trying
    all classes. With ``secret`` it is HMAC-SHA256: equal within a run, and of no use to who does
    not know the secret.
    """
    if secret is None:
        return fingerprint
    return hmac.new(secret, fingerprint.encode(), hashlib.sha256).hexdigest()


def write_manifest(
    folder: Path, files: Iterable[str], statement_ids: Iterable[str], code_fingerprint: str
) -> None:
    """Write ``manifest.json``: the day, the sha256 of ``files`` of the folder, code, statements."""
    manifest = {
        "note": _MANIFEST_NOTE,
        "schema": SCHEMA,
        "version": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "code_fingerprint": code_fingerprint,
        "statement_ids": sorted(statement_ids),
        "sha256": {name: sha256_of(folder / name) for name in files},
    }
    write_json(folder / MANIFEST, manifest)


@dataclass(frozen=True)
class JobResult:
    """What a finished job holds; R replicas in the order of ``rows``, M test records."""

    rows: pd.DataFrame
    statements: dict[str, dict[str, Any]]
    test_records: np.ndarray
    """(M,), or (R, M) where every seed draws its own."""
    test_predictions: np.ndarray
    """(R, M) predicted classes."""
    artifacts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By ``<replica_id>/<name>``."""
    test_labels: np.ndarray | None = None
    """Of the test records, for exhibits that look at single ones; none of a user's data."""

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write predictions, statements, ``runs.parquet`` and manifest, each atomically.

        Under ``os_entropy`` rows without DP get a folder of their own inside, ``without_dp``,
        where other rows of the job are private: what protects these would be of no use beside
        them. A job that has no other rows keeps them in ``folder``. Raises UserError where the disk
        is full or the folder cannot be written; then there is no manifest.
        """
        folder = Path(folder)
        revealing = np.array(
            [
                source == "os_entropy" and status == "not_private"
                for source, status in zip(
                    self.rows["noise_source"], self.rows["status"], strict=True
                )
            ]
        )
        if (folder / WITHOUT_DP).is_dir():  # of an earlier result
            shutil.rmtree(folder / WITHOUT_DP)
        try:
            if revealing.all() or not revealing.any():
                self._write(folder)
                return
            self._of(revealing)._write(folder / WITHOUT_DP)
            self._of(~revealing)._write(folder, [f"{WITHOUT_DP}/{MANIFEST}"])
        except (OSError, SafetensorError) as error:
            raise UserError(
                f"{folder}: the results cannot be written ({error}); make room or change the "
                "permissions, then run again"
            ) from error

    def _of(self, rows: np.ndarray) -> JobResult:
        """The part with some rows (R,), a mask."""
        part = self.rows[rows].reset_index(drop=True)
        statements = {name: self.statements[name] for name in part["statement_id"].unique()}
        replicas = tuple(part["replica_id"])
        artifacts = {
            name: array for name, array in self.artifacts.items() if name.startswith(replicas)
        }
        return replace(
            self,
            rows=part,
            statements=statements,
            test_predictions=self.test_predictions[rows],
            test_records=_rows_of(self.test_records, rows),
            test_labels=None if self.test_labels is None else _rows_of(self.test_labels, rows),
            artifacts=artifacts,
        )

    def _write(self, folder: Path, more: Iterable[str] = ()) -> None:
        tensors: dict[str, np.ndarray] = {
            "test_records": self.test_records.astype(np.int64),
            "predictions": self.test_predictions.astype(np.int32),
        }
        if self.test_labels is not None:
            tensors["test_labels"] = self.test_labels.astype(np.int64)
        order = json.dumps(self.rows["replica_id"].tolist())
        files = ["runs.parquet", "predictions.safetensors", "statement.json"]
        with atomic_path(folder / "predictions.safetensors") as temporary:
            safetensors.numpy.save_file(tensors, temporary, metadata={"replica_ids": order})
        (folder / ARTIFACTS).unlink(missing_ok=True)
        if self.artifacts:
            with atomic_path(folder / ARTIFACTS) as temporary:
                safetensors.numpy.save_file(dict(self.artifacts), temporary)
            files.append(ARTIFACTS)
        write_json(folder / "statement.json", self.statements)
        with atomic_path(folder / "runs.parquet") as temporary:
            self.rows.to_parquet(temporary, index=False)
        code = self.rows["code_fingerprint"].iloc[0]
        write_manifest(folder, [*files, *more], self.statements, code)


def _rows_of(records: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return records[rows] if records.ndim == 2 else records


def read_rows(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the rows of a finished job, those of ``without_dp`` included."""
    paths = (Path(folder, part, "runs.parquet") for part in ("", WITHOUT_DP))
    return pd.concat([pd.read_parquet(path) for path in paths if path.is_file()], ignore_index=True)


def read_artifacts(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the artifacts of a finished job by ``<replica_id>/<name>``; none where it has none."""
    path = Path(folder, ARTIFACTS)
    return safetensors.numpy.load_file(path) if path.is_file() else {}
