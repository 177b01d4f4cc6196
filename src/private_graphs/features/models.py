"""Which downloaded models features need."""

from __future__ import annotations

from private_graphs.datasets.registry import DatasetSpec


def models_of(spec: DatasetSpec, kind: str) -> list[str]:
    """Return the names of the downloaded models that features of this kind need."""
    return [spec.models[kind]] if kind in spec.models else []
