"""Files of a finished job: writing and reading."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.numpy
from safetensors import SafetensorError

from private_graphs.core.errors import UserError
from private_graphs.core.files import atomic_path, write_json
from private_graphs.core.manifest import MANIFEST, WITHOUT_DP, write_manifest
from private_graphs.running.result import JobResult

ARTIFACTS = "artifacts.safetensors"


def _rows_of(records: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return records[rows] if records.ndim == 2 else records


def read_rows(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the rows of a finished job, those of ``without_dp`` included."""
    paths = (Path(folder, part, "runs.parquet") for part in ("", WITHOUT_DP))
    return pd.concat(
        [pd.read_parquet(path.absolute()) for path in paths if path.is_file()], ignore_index=True
    )


def read_artifacts(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the artifacts of a finished job by ``<replica_id>/<name>``; none where it has none."""
    path = Path(folder, ARTIFACTS)
    return safetensors.numpy.load_file(path) if path.is_file() else {}


def save(result: JobResult, folder: Path) -> None:
    """Write predictions, statements, ``runs.parquet`` and manifest, each atomically.

    Under ``os_entropy`` rows without DP go to a subfolder, ``without_dp``, if other rows of the
    job are private: published together, the exact rows would reveal what the noise hides. A job
    that has no other rows keeps them in ``folder``. Raises UserError where the disk is full or the
    folder cannot be written; then there is no manifest.
    """
    revealing = np.array(
        [
            source == "os_entropy" and status == "not_private"
            for source, status in zip(
                result.rows["noise_source"], result.rows["status"], strict=True
            )
        ]
    )
    if (folder / WITHOUT_DP).is_dir():  # of an earlier result
        shutil.rmtree(folder / WITHOUT_DP)
    try:
        if revealing.all() or not revealing.any():
            _write(result, folder)
            return
        _write(_part_of(result, revealing), folder / WITHOUT_DP)
        _write(_part_of(result, ~revealing), folder, [f"{WITHOUT_DP}/{MANIFEST}"])
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{folder}: the results cannot be written ({error}); make room or change the "
            "permissions, then run again"
        ) from error


def _part_of(result: JobResult, rows: np.ndarray) -> JobResult:
    """Return the result of the runs in ``rows``, an (R,) mask."""
    part = result.rows[rows].reset_index(drop=True)
    statements = {name: result.statements[name] for name in part["statement_id"].unique()}
    replicas = tuple(part["replica_id"])
    artifacts = {
        name: array for name, array in result.artifacts.items() if name.startswith(replicas)
    }
    return replace(
        result,
        rows=part,
        statements=statements,
        test_predictions=result.test_predictions[rows],
        test_records=_rows_of(result.test_records, rows),
        test_labels=None if result.test_labels is None else _rows_of(result.test_labels, rows),
        artifacts=artifacts,
    )


def _write(result: JobResult, folder: Path, extra: Iterable[str] = ()) -> None:
    tensors: dict[str, np.ndarray] = {
        "test_records": result.test_records.astype(np.int64),
        "predictions": result.test_predictions.astype(np.int32),
    }
    if result.test_labels is not None:
        tensors["test_labels"] = result.test_labels.astype(np.int64)
    order = json.dumps(result.rows["replica_id"].tolist())
    files = ["runs.parquet", "predictions.safetensors", "statement.json"]
    with atomic_path(folder / "predictions.safetensors") as temporary:
        safetensors.numpy.save_file(tensors, temporary, metadata={"replica_ids": order})
    (folder / ARTIFACTS).unlink(missing_ok=True)
    if result.artifacts:
        with atomic_path(folder / ARTIFACTS) as temporary:
            safetensors.numpy.save_file(dict(result.artifacts), temporary)
        files.append(ARTIFACTS)
    write_json(folder / "statement.json", result.statements)
    with atomic_path(folder / "runs.parquet") as temporary:
        result.rows.to_parquet(temporary.absolute(), index=False)  # pandas expands ~
    code = result.rows["code_fingerprint"].iloc[0]
    write_manifest(folder, [*files, *extra], result.statements, code)
