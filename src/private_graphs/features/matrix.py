"""Result type of every kind of feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from private_graphs.datasets.graph_dataset import SparseFeatures
from private_graphs.datasets.labelled import RawFile


@dataclass(frozen=True, eq=False)
class FeatureMatrix:
    """Features of the N nodes of a text graph, and how they were made."""

    values: SparseFeatures | np.ndarray
    """CSR parts (N, F), or (N, F) float32."""
    preprocessing: tuple[str, ...]
    """Sentences for the privacy statement: what was fitted on which nodes."""
    models: tuple[RawFile, ...] = ()
    """Files of the model that made the features, with sha256; empty for counted words."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of lost text, such as ``texts_cut``; for the owner of the data."""
