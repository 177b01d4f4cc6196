"""Datasets that are a file: a module here, or in a study's ``readers``, with ``DATASETS``."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from private_graphs.slices import modules_of

if TYPE_CHECKING:
    from private_graphs.datasets.spec import DatasetSpec


@cache
def readers() -> dict[str, tuple[DatasetSpec, str]]:
    """Return every dataset by name with the module that reads it, by module and in its order."""
    return {
        spec.name: (spec, module)
        for module in modules_of(__name__).values()
        for spec in import_module(module).DATASETS
    }
