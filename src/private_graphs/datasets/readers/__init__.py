"""Readers of built-in datasets: modules with ``DATASETS``, here or in a study's ``readers``."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING

from private_graphs.core.imports import PACKAGE, modules_of

if TYPE_CHECKING:
    from private_graphs.datasets.spec import DatasetSpec


class BuiltIn(MutableMapping[str, "DatasetSpec"]):
    """Every built-in dataset by name, by module and in its order.

    A look-up imports the modules whose source text contains the name, and all others only if none
    of these defines it. A module with a function ``named`` (name → spec or None) has further ones,
    which are found by name and not listed.
    """

    def __init__(self) -> None:
        self._specs: dict[str, DatasetSpec] = {}
        self._module: dict[str, str] = {}
        self._waiting = modules_of(__name__).copy()

    def module(self, name: str) -> str:
        """Return the dotted name of the module that reads a dataset; KeyError if there is none."""
        _ = self[name]
        return self._module[name]

    def _read(self, modules: dict[str, str]) -> None:
        for stem, module in modules.items():
            del self._waiting[stem]
            for spec in import_module(module).DATASETS:
                self._specs.setdefault(spec.name, spec)
                self._module[spec.name] = module

    def __getitem__(self, name: str) -> DatasetSpec:
        if name not in self._specs:
            self._read({stem: module for stem, module in self._waiting.items()
                        if f'"{name}"' in _text(module)})  # fmt: skip
        if name not in self._specs:  # a name that a module composes at import
            self._read(self._waiting.copy())
        return self._specs[name] if name in self._specs else self._unlisted(name)

    def _unlisted(self, name: str) -> DatasetSpec:
        for module in modules_of(__name__).values():
            spec = getattr(import_module(module), "named", lambda _: None)(name)
            if spec is not None:
                self._module[name] = module
                return spec
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        self._read(self._waiting.copy())
        order = {module: place for place, module in enumerate(modules_of(__name__).values())}
        return iter(sorted(self._specs, key=lambda name: order.get(self._module.get(name), -1)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __setitem__(self, name: str, spec: DatasetSpec) -> None:
        self._specs[name] = spec

    def __delitem__(self, name: str) -> None:
        del self._specs[name]


def _text(module: str) -> str:
    """Return the source of a module without importing it."""
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")


DATASETS = BuiltIn()
