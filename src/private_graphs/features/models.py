"""Models of users that features need; the tiny embedded one stands in for a missing model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from private_graphs.datasets.spec import DatasetSpec

MAIN_FILES = {"bert": "config.json", "sbert": "modules.json"}
"""File that every model folder of a kind contains."""


def random_model(spec: DatasetSpec, kind: str) -> bool:
    """Return whether a feature kind uses the tiny model with random weights (``tiny``)."""
    return kind in MAIN_FILES and not spec.models_of(kind) and own_model(spec, kind) is None


def own_model(spec: DatasetSpec, kind: str) -> Path | None:
    """Return the user's declared model for a feature kind, or None."""
    graph = spec.own
    if graph is None:
        return None
    from private_graphs.datasets.own import EMBEDDED

    if graph.model in (None, EMBEDDED):
        return None
    return Path(graph.model).expanduser() if kind == graph.features else None


def own_model_files(spec: DatasetSpec, kind: str | None = None) -> list[str]:
    """Return the files of the model that a user declared; ``kind`` None: of the declared features.

    Hidden files (of version control and downloaders) do not belong to a model. The list is empty
    without a model, and where the path leads to something else.
    """
    kind = kind or spec.features[0]
    model = own_model(spec, kind)
    if model is None:
        return []
    if not model.is_dir():
        return [model.as_posix()] if model.is_file() else []
    if kind not in MAIN_FILES or not (model / MAIN_FILES[kind]).is_file():
        return []  # avoids reading through a folder that is no model
    return sorted(
        path.as_posix()
        for path in model.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(model).parts)
    )
