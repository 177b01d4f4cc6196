"""Small results on disk, as finished jobs leave them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.numpy

from private_graphs.core.files import sha256_of, write_json
from private_graphs.core.manifest import MANIFEST
from private_graphs.running.jobs import FILES, Job
from private_graphs.workflow.verify import finish

LABELS = np.array([0, 1, 1, 0, 1])
RECORDS = np.array([2, 3, 4])
STATEMENT = {
    "epsilon_proved": 2.5, "epsilon_published": 2.0, "status": "proved", "unit": "node",
    "relation": "replace", "inference": "leaks",
}  # fmt: skip


def leave_job(jobs: Path, job: Job, made_from: tuple[str, ...] = ()) -> Path:
    """Write the files of a finished job below ``jobs``; two rows, one of them without DP."""
    folder = jobs / job.id
    folder.mkdir(parents=True)
    if job.attack:
        write_json(folder / "audit.json", {"epsilon_lower": 0.5})
        names = ["audit.json"]
    else:
        names = list(FILES)
        predictions = np.array([[1, 0, 1], [1, 1, 1]], dtype=np.int32)
        rows = pd.DataFrame(
            {
                "replica_id": ["a", "b"],
                "statement_id": ["private", "open"],
                "epsilon_claimed": [2.0, np.nan],
                "epsilon_proved": [2.5, np.nan],
                "status": ["proved", "not_private"],
                "unit": ["node", None],
                "test_micro_f1": (predictions == LABELS[RECORDS]).mean(axis=1),
            }
        )
        rows.to_parquet(folder / "runs.parquet", index=False)
        statements = {"private": STATEMENT, "open": {**STATEMENT, "status": "not_private"}}
        write_json(folder / "statement.json", statements)
        save_predictions(folder, predictions, ["a", "b"])
    write_json(folder / MANIFEST, {"sha256": {name: sha256_of(folder / name) for name in names}})
    finish(folder, job, made_from)
    return folder


def save_predictions(folder: Path, predictions: np.ndarray, replicas: list[str]) -> None:
    """Write the predictions of a job."""
    safetensors.numpy.save_file(
        {"predictions": predictions, "test_records": RECORDS},
        folder / "predictions.safetensors",
        metadata={"replica_ids": json.dumps(replicas)},
    )


def accept(folder: Path) -> None:
    """Write new hashes into the manifest of a folder, as somebody who edits files might."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["sha256"] = {name: sha256_of(folder / name) for name in manifest["sha256"]}
    write_json(folder / MANIFEST, manifest)
