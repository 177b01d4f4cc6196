"""Datasets that are a file each: a module here ends with ``DATASETS``; no list names them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from private_graphs.datasets.spec import DatasetSpec


@cache
def readers() -> dict[str, tuple[DatasetSpec, str]]:
    """Return every dataset by name with the module that reads it, by module and in its order."""
    modules = sorted(f"{__name__}.{module.name}" for module in iter_modules(__path__))
    return {
        spec.name: (spec, module) for module in modules for spec in import_module(module).DATASETS
    }
