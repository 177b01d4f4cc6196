"""What a finished cell holds, and its files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import safetensors.numpy

from private_graphs.files import atomic_path, write_json

NoiseSource = Literal["seeded", "os_entropy"]


@dataclass(frozen=True)
class CellResult:
    """What a finished cell holds; R replicas in the order of ``runs``, M test nodes."""

    runs: pd.DataFrame
    statements: dict[str, dict]
    test_nodes: np.ndarray
    test_predictions: np.ndarray
    """(R, M) predicted classes."""

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write predictions, statements and, last, ``runs.parquet``, each atomically."""
        folder = Path(folder)
        tensors = {
            "test_nodes": self.test_nodes.astype(np.int64),
            "predictions": self.test_predictions.astype(np.int32),
        }
        order = json.dumps(self.runs["replica_id"].tolist())
        with atomic_path(folder / "predictions.safetensors") as temporary:
            safetensors.numpy.save_file(tensors, temporary, metadata={"replica_ids": order})
        write_json(folder / "statement.json", self.statements)
        with atomic_path(folder / "runs.parquet") as temporary:
            self.runs.to_parquet(temporary, index=False)
