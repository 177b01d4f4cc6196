"""Datasets that are a file each: a module here ends with ``DATASETS``; no list names them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from private_graphs.datasets.spec import DatasetSpec


@cache
def reader_specs() -> tuple[DatasetSpec, ...]:
    """Return the datasets of all modules of this package, by module and in their order."""
    names = sorted(module.name for module in iter_modules(__path__))
    return tuple(spec for name in names for spec in import_module(f"{__name__}.{name}").DATASETS)
