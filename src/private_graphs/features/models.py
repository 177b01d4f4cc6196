"""Which models features need: downloaded ones, and those of users."""

from __future__ import annotations

from pathlib import Path

from private_graphs.datasets.registry import DatasetSpec

MAIN_FILES = {"bert": "config.json", "sbert": "modules.json"}
"""What is in the folder of every model of a kind."""


def models_of(spec: DatasetSpec, kind: str) -> list[str]:
    """Return the names of the downloaded models that features of this kind need."""
    return [spec.models[kind]] if kind in spec.models else []


def random_model(spec: DatasetSpec, kind: str) -> bool:
    """Whether features of this kind come from the tiny model with random weights (``tiny``)."""
    return kind in MAIN_FILES and not models_of(spec, kind) and own_model(spec, kind) is None


def own_model(spec: DatasetSpec, kind: str) -> Path | None:
    """Return the model that a user declared for features of this kind, if any."""
    own = spec.own
    if own is None:
        return None
    from private_graphs.datasets.own import EMBEDDED

    if own.model in (None, EMBEDDED):
        return None
    return Path(own.model).expanduser() if kind == own.features else None


def own_model_files(spec: DatasetSpec, kind: str | None = None) -> list[str]:
    """Return the files of the model that a user declared; ``kind`` None: of the declared features.

    Hidden files (those of version control and downloaders) are no part of a model. The list is
    empty where there is no such model, and where the path leads to something else.
    """
    kind = kind or spec.features[0]
    model = own_model(spec, kind)
    if model is None:
        return []
    if not model.is_dir():
        return [model.as_posix()] if model.is_file() else []
    if kind not in MAIN_FILES or not (model / MAIN_FILES[kind]).is_file():
        return []  # not to read through a folder that is no model
    return sorted(
        path.as_posix()
        for path in model.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(model).parts)
    )
